"""Why a pod fits nowhere: arrays while scheduling, words when somebody reads them.

Mirrors kube-scheduler's FitError and Diagnosis: per node the first plugin that turned it down and
its reasons, counted into the sentence that `kubectl describe pod` shows.  Replicas that fit
nowhere come one after another, so `Diagnoses` counts on from the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from stowplan.framework.findings import Feasible
from stowplan.framework.kept import LocalAnswers
from stowplan.framework.status import Code, NodeMask, Rows, Status, row_numbers
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import FEW, RowFollower

NO_NODES = "no nodes available to schedule pods"

LATEST_MAX = 4
"""Diagnoses to count on from: one for each of so many kinds of pods."""


class Rejections(Struct):
    """Per row of the table: who turned the node down first, and why.  Row n of each array."""

    plugins: tuple[str, ...]
    """The Filter plugins in order; `first` holds 1 + an index into it, 0 for a passed node."""
    reasons: Mapping[int, Sequence[str]]
    """Per number in `first`, what the bits of `why` mean; "" stands for no reason at all."""
    first: NDArray[np.uint8]
    why: NDArray[np.uint32]
    final: NodeMask
    """Unresolvable: preemption cannot help."""
    statuses: dict[tuple[int, int, bool], Status] = field(default_factory=dict)
    """Those asked for so far: by number, bits, and whether it is final."""

    def status(self, row: int) -> Status | None:
        number = int(self.first[row])
        if number == 0:
            return None
        key = number, int(self.why[row]), bool(self.final[row])
        known = self.statuses.get(key)
        if known is None:
            known = self.statuses[key] = self._make(*key)
        return known

    def _make(self, number: int, bits: int, final: bool) -> Status:
        texts = enumerate(self.reasons[number])
        reasons = tuple(text for n, text in texts if bits >> n & 1 and text)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if final else Code.UNSCHEDULABLE
        return Status(code, reasons, self.plugins[number - 1])

    def reasons_of(self, number: int, first: NDArray[np.uint8]) -> list[tuple[str, int]]:
        """How often each reason of one plugin applies, where `first` says that it was the first."""
        bits = self.why[first == number]
        present = int(np.bitwise_or.reduce(bits))
        texts = self.reasons[number]
        if present and present & (present - 1) == 0:
            text = texts[present.bit_length() - 1]
            return [(text, len(bits))] if text else []
        return [
            (text, int(np.count_nonzero(bits & np.uint32(1 << n))))
            for n, text in enumerate(texts)
            if present >> n & 1 and text
        ]


class StatusCounts(Struct):
    """The statuses that nodes were given, counted."""

    plugins: dict[str, int] = field(default_factory=dict)
    """Plugin -> nodes that it was the first to turn down."""
    pending: dict[str, int] = field(default_factory=dict)
    """The same of those that answered Pending."""
    reasons: dict[str, int] = field(default_factory=dict)
    resolvable: Rows | None = None
    """Nodes where evicting pods might help: those with a plain Unschedulable."""

    def add(self, status: Status, count: int) -> None:
        if status.plugin and status.is_rejected:
            _add(self.plugins, status.plugin, count)
            if status.code is Code.PENDING:
                _add(self.pending, status.plugin, count)
        for text in status.reasons:
            _add(self.reasons, text, count)

    def change(self, before: Status | None, after: Status | None) -> None:
        """One node was given another status."""
        if before == after:
            return
        if before is not None:
            self.add(before, -1)
        if after is not None:
            self.add(after, 1)
        if _is_resolvable(before) != _is_resolvable(after):
            self.resolvable = None


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
    _tally: StatusCounts | None = None
    """Of nodes with a status of their own."""

    def status(self, row: int) -> Status | None:
        """Why this node was turned down; None if it was not."""
        if row in self.overrides:
            return self.overrides[row]
        if self.rejections is not None and self.candidates is not None and self.candidates[row]:
            return self.rejections.status(row)
        return self.absent

    def first_filter(self, row: int) -> int:
        """The first filter that turned this node down, by its number; 0: none did, or unknown."""
        return int(self.rejections.first[row]) if self.rejections is not None else 0

    def _first(self, rejections: Rejections, candidates: NodeMask) -> NDArray[np.uint8]:
        """Which plugin turned each node down, where no override says otherwise."""
        first: NDArray[np.uint8] = rejections.first * candidates.view(np.uint8)
        if self.overrides:
            first[row_numbers(self.overrides)] = 0
        return first

    def tally(self) -> StatusCounts:
        """Made once: by then, all is known."""
        tally = self._tally
        if tally is None:
            tally = self._tally = StatusCounts()
            rejections = self.rejections
            if rejections is not None and self.candidates is not None:
                first = self._first(rejections, self.candidates)
                for number, count in enumerate(np.bincount(first).tolist()):
                    if number and count:
                        tally.plugins[rejections.plugins[number - 1]] = count
                        for text, found in rejections.reasons_of(number, first):
                            _add(tally.reasons, text, found)
            if self.overrides:
                # Most are given the same.
                for status, count in Counter(self.overrides.values()).items():
                    tally.add(status, count)
        return tally

    def count_on(self, before: Diagnosis, changed: Iterable[int]) -> None:
        """Take over the tally of one from which this differs in these rows, and in overrides.

        To be called before this one is counted; the filters must number their reasons alike.
        """
        tally, before._tally = before.tally(), None
        if self.rejections is not None and before.rejections is not None:
            self.rejections.statuses = before.rejections.statuses
        moved = {row for row, _ in before.overrides.items() ^ self.overrides.items()}
        for row in moved.union(changed):
            tally.change(before.status(row), self.status(row))
        self._tally = tally

    def add_plugins(self) -> None:
        """Fill in the rejectors from the statuses, as upstream does status by status."""
        tally = self.tally()
        self.unschedulable_plugins.update(tally.plugins)
        self.pending_plugins.update(tally.pending)

    def add_status(self, status: Status) -> None:
        if status.plugin and status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.plugin and status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def resolvable_rows(self) -> Rows:
        """Nodes where evicting pods might help: those with a plain Unschedulable."""
        tally = self.tally()
        if tally.resolvable is None:
            tally.resolvable = self._resolvable().nonzero()[0]
        return tally.resolvable

    def _resolvable(self) -> NodeMask:
        rejections, candidates = self.rejections, self.candidates
        anywhere = _is_resolvable(self.absent)
        helps: NodeMask
        if rejections is not None and candidates is not None:
            helps = (self._first(rejections, candidates) != 0) & ~rejections.final
            if anywhere:
                helps |= ~candidates & self.table.alive
        else:
            helps = self.table.alive & anywhere
        for row, status in self.overrides.items():
            helps[row] = _is_resolvable(status)
        return helps

    def histogram(self) -> dict[str, int]:
        totals = dict(self.tally().reasons)
        if self.absent is not None:
            rest = self.node_count - self._explicit_count()
            for text in self.absent.reasons if rest > 0 else ():
                _add(totals, text, rest)
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


class Diagnoses:
    """Makes diagnoses for one profile."""

    __slots__ = ("_latest", "_plugins")

    def __init__(self, plugins: tuple[str, ...]) -> None:
        self._plugins = plugins
        self._latest: dict[LocalAnswers, tuple[RowFollower, Diagnosis, NodeMask | None]] = {}
        """For answers that alone decided: which rows changed since, what was found, and among which
        candidates."""

    def make(self, table: NodeTable, found: Feasible) -> Diagnosis:
        diagnosis = _merged(self._plugins, table, found)
        if not found.verdicts and found.absent is None:
            self._count_on(table, found, diagnosis)
        diagnosis.add_plugins()
        diagnosis.unschedulable_plugins |= found.rejected_by
        diagnosis.pending_plugins |= found.pending
        return diagnosis

    def _count_on(self, table: NodeTable, found: Feasible, diagnosis: Diagnosis) -> None:
        answers, among = found.answers, found.candidates
        follower, before, among_before = self._latest.pop(
            answers, (RowFollower(), diagnosis, among)
        )
        changed = follower.changed(table, at_most=FEW)
        # The very same: those of a group's placement are, for all members.
        if changed is not None and among is among_before:
            diagnosis.count_on(before, changed)
        self._latest[answers] = follower, diagnosis, among
        if len(self._latest) > LATEST_MAX:
            self._latest.pop(next(iter(self._latest)))


def _merged(plugins: tuple[str, ...], table: NodeTable, found: Feasible) -> Diagnosis:
    """Kept answers, verdicts and overrides as "the first that turned it down"."""
    answers = found.answers
    first, why, final = answers.first.copy(), answers.why.copy(), answers.final.copy()
    reasons: dict[int, Sequence[str]] = {**answers.reasons}
    for number, verdict in found.verdicts:
        reasons[number] = verdict.reasons
        earlier = (verdict.why != 0) & ((first == 0) | (first > number))
        first[earlier] = number
        why[earlier] = verdict.why[earlier]
        final[earlier] = verdict.unresolvable[earlier]
    alive = table.alive
    return Diagnosis(
        table,
        table.node_count,
        Rejections(plugins, reasons, first, why, final),
        alive.copy() if found.candidates is None else found.candidates & alive,
        dict(found.overrides),
        found.absent,
    )


def _is_resolvable(status: Status | None) -> bool:
    return status is not None and status.code is Code.UNSCHEDULABLE


def _add(totals: dict[str, int], key: str, count: int) -> None:
    total = totals.get(key, 0) + count
    if total:
        totals[key] = total
    else:
        del totals[key]


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
        for text in status.reasons:
            _add(counts, text, count)
    return counts
