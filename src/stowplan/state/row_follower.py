"""Following changed rows: the one way in which whatever is kept per row catches up with the table.

The owner has a `RowFollower` and asks it which rows to look at again.  Its answer is None where
the owner must look at all of them: the first time, after the table got more rows, when what it
worked with (`basis`) is not the same any more, and when more has changed than the table remembers.

Kept answers, counts, row sets, scores and verdicts by host, rooms, nominations, diagnoses and
attached volumes follow the table like this.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable

LOG_MAX = 4096
"""Changes that the table remembers: who has not looked for longer has to look at all rows."""

FEW = 8
"""Up to so many changes are followed one by one: cheaper than arrays."""

ROWS_PER_CHANGE = 64
"""One more change may be followed, in arrays, for so many rows there are: else it is cheaper to
look at all of them."""


class RowFollower(Struct, eq=False):
    of_nodes: bool = False
    """Only node objects matter; pods may come and go."""
    _seen: int = -1
    _size: int = -1
    _basis: Any = None

    def changed(
        self, table: NodeTable, basis: object = None, at_most: int = LOG_MAX
    ) -> Collection[int] | None:
        """The rows that changed since the last call, each once; None: look at all.

        With `at_most=FEW`, for one who would rather look at all rows than at more than a few.
        """
        if self.of_nodes:
            latest, log = table.node_version, table.node_log
        else:
            latest, log = table.version, table.log
        count = latest - self._seen
        self._seen = latest
        if table.size != self._size or basis != self._basis:
            self._size, self._basis = table.size, basis
            return None
        if count == 1:
            return (log[latest % LOG_MAX],)
        if not count:
            return ()
        if count > at_most:
            return None
        return {log[at % LOG_MAX] for at in range(latest - count + 1, latest + 1)}
