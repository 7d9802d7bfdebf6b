"""Hard spread constraints against the counts: how many pods a domain has, how many it may have.

Preemption and nominated pods change the counts of one domain at a time, on a clone: the changes
lie beside the table's counts, and only the two lowest domains must be known to tell the new
minimum.  Mirrors kube-scheduler's `podtopologyspread/filtering.go`, preFilterState.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from stowplan.plugins.pod_topology_spread.spread_constraint import Tracked
from stowplan.state.counts import Counts, DomainCounts


class Counted:
    """A hard constraint and its counts, as PreFilter finds them.

    `changes` are the pods that preemption or a nomination moves, per value of the topology key.
    """

    __slots__ = ("_lowest", "_two_lowest", "counts", "topology_key", "tracked")

    def __init__(self, tracked: Tracked, counts: DomainCounts) -> None:
        self.tracked = tracked
        self.counts = counts
        self.topology_key = tracked.constraint.topology_key
        self._lowest = counts.lowest()
        self._two_lowest: tuple[int, int | None] | None = None

    def of(self, value: str, changes: Mapping[str, int]) -> int:
        """Matching pods in the domain."""
        counts = self.counts
        return int(counts.sums[counts.label.id_of(value)]) + changes.get(value, 0)

    def limit(self, changes: Mapping[str, int]) -> int:
        """The most pods a domain may have now for one more to go there."""
        constraint = self.tracked.constraint
        lowest = 0
        if self.counts.domains.domain_count >= constraint.min_domains:
            lowest = self._lowest_with(changes) if changes else self._lowest
        return constraint.max_skew - self.tracked.self_match + lowest

    def sums(self, changes: Mapping[str, int]) -> Counts:
        counts = self.counts
        if not changes:
            return counts.sums
        sums = counts.sums.copy()
        for value, delta in changes.items():
            number = counts.label.id_of(value)
            if number >= 0:
                sums[number] += delta
        return sums

    def _lowest_with(self, changes: Mapping[str, int]) -> int:
        if len(changes) > 1:
            return int(self.sums(changes)[self.counts.domains.present].min())
        ((value, delta),) = changes.items()
        now = self.of(value, {})
        lowest, next_lowest = self._lowest_two()
        # The changed domain may be the lowest itself: then the next one is what it compares to.
        others = next_lowest if now == lowest else lowest
        return now + delta if others is None else min(others, now + delta)

    def _lowest_two(self) -> tuple[int, int | None]:
        """The two smallest sums, equal ones counted twice; None for lack of a second domain."""
        if self._two_lowest is None:
            sums = self.counts.sums[self.counts.domains.present]
            if len(sums) > 1:
                lowest, next_lowest = np.partition(sums, 1)[:2].tolist()
                self._two_lowest = lowest, next_lowest
            else:
                self._two_lowest = int(sums[0]), None
        return self._two_lowest


@dataclass(slots=True)
class SpreadCounts:
    """True until the node table is refreshed; a clone costs no more than its changes."""

    counted: tuple[Counted, ...]
    changes: dict[Counted, dict[str, int]] = field(default_factory=dict)
    """Of those that have any."""

    def with_changes(self) -> Iterator[tuple[Counted, Mapping[str, int]]]:
        changes = self.changes
        return ((counted, changes.get(counted, _NO_CHANGES)) for counted in self.counted)

    def change(self, counted: Counted, value: str, delta: int) -> None:
        changes = self.changes.setdefault(counted, {})
        changes[value] = changes.get(value, 0) + delta

    def clone(self) -> SpreadCounts:
        changes = {counted: of_one.copy() for counted, of_one in self.changes.items()}
        return SpreadCounts(self.counted, changes)


_NO_CHANGES: Mapping[str, int] = {}
