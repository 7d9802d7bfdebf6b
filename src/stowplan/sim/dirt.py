"""Rows that make no sense, counted by what is wrong with them, a few kept as examples.

Real traces have such rows.  A reader leaves them out or repairs them, and says so here: what it
counted becomes `Trace.remarks`, which every command prints.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.sim.trace import Remark

EXAMPLES_MAX = 3
EXAMPLE_LENGTH_MAX = 200
SORTS_MAX = 1000
"""Sorts of dirt that are told apart; the texts are ours, but may quote a column of the source."""


class Dirt:
    """Counts what is wrong.  The order is the order in which each sort was met first."""

    def __init__(self, known: Iterable[Remark] = ()) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}
        self.merge(known)

    def add(self, text: str, example: str = "", count: int = 1) -> None:
        if text not in self._counts and len(self._counts) >= SORTS_MAX:
            text = "other rows that make no sense"
        self._counts[text] = self._counts.get(text, 0) + count
        examples = self._examples.setdefault(text, [])
        if example and len(examples) < EXAMPLES_MAX:
            examples.append(example[:EXAMPLE_LENGTH_MAX])

    def merge(self, remarks: Iterable[Remark]) -> None:
        for remark in remarks:
            self.add(remark.text, count=remark.count)
            room = EXAMPLES_MAX - len(self._examples[remark.text])
            self._examples[remark.text] += remark.examples[:room]

    def remarks(self) -> tuple[Remark, ...]:
        return tuple(
            Remark(text, count, tuple(self._examples[text])) for text, count in self._counts.items()
        )
