"""Why a pod fits nowhere: arrays while scheduling, words when somebody reads them.

Mirrors kube-scheduler's FitError and Diagnosis: per node the first plugin that turned it down and
its reasons, counted into the sentence that `kubectl describe pod` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from stowplan.framework.status import Code, NodeMask, Rows, Status, row_numbers
from stowplan.state.node_table import NodeTable

NO_NODES = "no nodes available to schedule pods"

Counted = tuple[NDArray[np.uint8], list[int]]
"""Per row 1 + the number of the plugin that turned the node down, or 0; how often each number."""


class Rejections(Struct):
    """Per row of the table: who turned the node down first, and why.  Row n of each array."""

    plugins: tuple[str, ...]
    """The Filter plugins in order; `first` holds 1 + an index into it, 0 for a passed node."""
    reasons: Mapping[int, Sequence[str]]
    """Per number in `first`, what the bits of `why` mean."""
    first: NDArray[np.uint8]
    why: NDArray[np.uint32]
    final: NodeMask
    """Unresolvable: preemption cannot help."""

    def status(self, row: int) -> Status | None:
        number = int(self.first[row])
        if number == 0:
            return None
        bits = int(self.why[row])
        texts = self.reasons[number]
        reasons = tuple(text for n, text in enumerate(texts) if bits >> n & 1)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if self.final[row] else Code.UNSCHEDULABLE
        return Status(code, reasons, self.plugins[number - 1])

    def reasons_of(self, number: int, first: NDArray[np.uint8]) -> Iterator[tuple[str, int]]:
        """How often each reason of one plugin applies, where `first` says that it was the first."""
        bits = self.why[first == number]
        present = int(np.bitwise_or.reduce(bits))
        for n, text in enumerate(self.reasons[number]):
            bit = 1 << n
            if present == bit:
                yield text, len(bits)
            elif present & bit:
                yield text, int(np.count_nonzero(bits & np.uint32(bit)))


class Diagnosis(Struct):
    """Everything known about an attempt that found no node."""

    table: NodeTable
    node_count: int
    rejections: Rejections | None = None
    candidates: NodeMask | None = None
    """Rows the filters looked at, all with a node; None when PreFilter ended the attempt before."""
    overrides: dict[int, Status] = field(default_factory=dict)
    """Rows whose status came from elsewhere: nominated pods counted in, extenders."""
    absent: Status | None = None
    """The status of every node the filters did not look at."""
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    _counted: Counted | None = None
    _overridden: Mapping[Status, int] | None = None

    def status(self, row: int) -> Status | None:
        """Why this node was turned down; None if it was not."""
        if row in self.overrides:
            return self.overrides[row]
        looked_at = self.candidates is not None and bool(self.candidates[row])
        if looked_at and self.rejections is not None:
            return self.rejections.status(row)
        return self.absent

    def _count(self, rejections: Rejections, candidates: NodeMask) -> Counted:
        """Which plugin turned each node down, where no override says otherwise, and how many each.

        Made once: by then, all is known.
        """
        if self._counted is None:
            first = rejections.first * candidates.view(np.uint8)
            if self.overrides:
                first[row_numbers(self.overrides)] = 0
            self._counted = first, np.bincount(first).tolist()
        return self._counted

    def _count_overrides(self) -> Mapping[Status, int]:
        """How many rows were given each status; most are given the same."""
        if self._overridden is None:
            self._overridden = Counter(self.overrides.values()) if self.overrides else {}
        return self._overridden

    def add_plugins(self) -> None:
        """Fill `unschedulable_plugins` from the statuses, as upstream does status by status."""
        if self.rejections is not None and self.candidates is not None:
            _, counts = self._count(self.rejections, self.candidates)
            for number, count in enumerate(counts):
                if number and count:
                    self.unschedulable_plugins.add(self.rejections.plugins[number - 1])
        for status in self._count_overrides():
            self.add_status(status)

    def add_status(self, status: Status) -> None:
        if status.plugin and status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.plugin and status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def resolvable_rows(self) -> Rows:
        """Nodes where evicting pods might help: those with a plain Unschedulable."""
        rejections, candidates = self.rejections, self.candidates
        anywhere = self.absent is not None and self.absent.code is Code.UNSCHEDULABLE
        if rejections is not None and candidates is not None:
            first, _ = self._count(rejections, candidates)
            helps = (first != 0) & ~rejections.final
            if anywhere:
                helps |= ~candidates & self.table.alive
        else:
            helps = self.table.alive & anywhere
        if self.overrides:
            hopeful = [row for row, s in self.overrides.items() if s.code is Code.UNSCHEDULABLE]
            helps[row_numbers(self.overrides)] = False
            helps[row_numbers(hopeful)] = True
        found: Rows = helps.nonzero()[0]
        return found

    def histogram(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        if self.rejections is not None and self.candidates is not None:
            first, counts = self._count(self.rejections, self.candidates)
            for number, count in enumerate(counts):
                if number and count:
                    for text, found in self.rejections.reasons_of(number, first):
                        _add(totals, (text,), found)
        for status, count in self._count_overrides().items():
            _add(totals, status.reasons, count)
        if self.absent is not None:
            rest = self.node_count - self._explicit_count()
            _add(totals, self.absent.reasons if rest > 0 else (), rest)
        return totals

    def _explicit_count(self) -> int:
        """How many nodes have a status of their own."""
        if self.rejections is None or self.candidates is None:
            return len(self.overrides)
        explicit = self.candidates.copy()
        explicit[row_numbers(self.overrides)] = True
        return int(np.count_nonzero(explicit))

    def message(self, reasons: Mapping[str, int] | None = None) -> str:
        """The FitError's text; `reasons` is what `histogram` said, if it was asked already."""
        counts = self.histogram() if reasons is None else reasons
        message = fit_message(self.node_count, counts, self.pre_filter_message)
        return f"{message} {self.post_filter_message}" if self.post_filter_message else message


def _add(totals: dict[str, int], texts: Iterable[str], count: int) -> None:
    for text in texts:
        totals[text] = totals.get(text, 0) + count


def fit_message(node_count: int, counts: Mapping[str, int], pre_filter_message: str = "") -> str:
    """The line `kubectl describe pod` shows when nothing fits.

    >>> fit_message(3, {"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 1})
    '0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.'
    """
    head = f"0/{node_count} nodes are available:"
    if pre_filter_message:
        return f"{head} {pre_filter_message}."
    # Sorted as text, so "10 x" comes before "9 x": odd, but it is what upstream prints.
    parts = sorted(f"{count} {text}" for text, count in counts.items())
    return f"{head} {', '.join(parts)}." if parts else head


def status_histogram(statuses: Iterable[Status]) -> dict[str, int]:
    counts: dict[str, int] = {}
    # Most nodes say the same.
    for status, count in Counter(statuses).items():
        _add(counts, status.reasons, count)
    return counts
