"""Why a pod fits nowhere: arrays while scheduling, words when somebody reads them.

Mirrors kube-scheduler's FitError and Diagnosis: per node the first plugin that turned it down and
its reasons, counted into the sentence that `kubectl describe pod` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Code, NodeMask, Rows, Status
from stowplan.state.node_table import NodeTable

NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Rejections:
    """Per row of the table: who turned the node down first, and why.  Row n of each array."""

    plugins: tuple[str, ...]
    """The Filter plugins in order; `first` holds 1 + an index into it, 0 for a passed node."""
    reasons: list[list[str]]
    """Per plugin, what the bits of `why` mean."""
    first: NDArray[np.uint8]
    why: NDArray[np.uint32]
    final: NodeMask
    """Unresolvable: preemption cannot help."""

    def status(self, row: int) -> Status | None:
        number = int(self.first[row])
        if number == 0:
            return None
        bits = int(self.why[row])
        texts = self.reasons[number - 1]
        reasons = tuple(text for n, text in enumerate(texts) if bits >> n & 1)
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if self.final[row] else Code.UNSCHEDULABLE
        return Status(code, reasons, self.plugins[number - 1])

    def histogram(self, rows: Rows) -> dict[str, int]:
        counts: dict[str, int] = {}
        first, why = self.first[rows], self.why[rows]
        for number in np.bincount(first).nonzero()[0].tolist():
            if number == 0:
                continue
            bits = why[first == number]
            present = int(np.bitwise_or.reduce(bits))
            for n, text in enumerate(self.reasons[number - 1]):
                if present >> n & 1:
                    found = int(np.count_nonzero(bits & np.uint32(1 << n)))
                    counts[text] = counts.get(text, 0) + found
        return counts


@dataclass(slots=True)
class Diagnosis:
    """Everything known about an attempt that found no node."""

    table: NodeTable
    node_count: int
    rejections: Rejections | None = None
    candidates: NodeMask | None = None
    """Rows the filters looked at; None when PreFilter ended the attempt before any."""
    overrides: dict[int, Status] = field(default_factory=dict)
    """Rows whose status came from elsewhere: nominated pods counted in, extenders."""
    absent: Status | None = None
    """The status of every node the filters did not look at."""
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)

    def status(self, row: int) -> Status | None:
        """Why this node was turned down; None if it was not."""
        if row in self.overrides:
            return self.overrides[row]
        looked_at = self.candidates is not None and bool(self.candidates[row])
        if looked_at and self.rejections is not None:
            return self.rejections.status(row)
        return self.absent

    def add_plugins(self) -> None:
        """Fill `unschedulable_plugins` from the statuses, as upstream does status by status."""
        if self.rejections is not None and self.candidates is not None:
            looked_at = self.candidates.copy()
            looked_at[list(self.overrides)] = False
            for number in np.bincount(self.rejections.first[looked_at]).nonzero()[0].tolist():
                if number:
                    self.unschedulable_plugins.add(self.rejections.plugins[number - 1])
        for status in set(self.overrides.values()):
            self.add_status(status)

    def add_status(self, status: Status) -> None:
        if status.plugin and status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.plugin and status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def resolvable_rows(self) -> Rows:
        """Nodes where evicting pods might help: those with a plain Unschedulable."""
        anywhere = self.absent is not None and self.absent.code is Code.UNSCHEDULABLE
        helps = np.full(self.table.size, anywhere)
        if self.candidates is not None and self.rejections is not None:
            rejections = self.rejections
            resolvable = (rejections.first != 0) & ~rejections.final
            helps = np.where(self.candidates, resolvable, helps)
        if self.overrides:
            helps[list(self.overrides)] = [
                status.code is Code.UNSCHEDULABLE for status in self.overrides.values()
            ]
        return np.flatnonzero(helps & self.table.alive)

    def histogram(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        explicit = 0
        if self.rejections is not None and self.candidates is not None:
            looked_at = self.candidates & self.table.alive
            looked_at[list(self.overrides)] = False
            rows = np.flatnonzero(looked_at)
            counts = self.rejections.histogram(rows)
            explicit = len(rows)
        explicit += len(self.overrides)
        for text, count in status_histogram(self.overrides.values()).items():
            counts[text] = counts.get(text, 0) + count
        if self.absent is not None:
            rest = self.node_count - explicit
            for text in self.absent.reasons if rest > 0 else ():
                counts[text] = counts.get(text, 0) + rest
        return counts

    def message(self, reasons: Mapping[str, int] | None = None) -> str:
        """The FitError's text; `reasons` is what `histogram` said, if it was asked already."""
        counts = self.histogram() if reasons is None else reasons
        message = fit_message(self.node_count, counts, self.pre_filter_message)
        return f"{message} {self.post_filter_message}" if self.post_filter_message else message


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
            counts[text] = counts.get(text, 0) + count
    return counts
