"""Pod affinity against the counts: which nodes the terms of a pod and of running pods leave.

All goes by the value a node has of a topology key.  Where there are few values, the verdict is one
of a few; where each node has its own, it is kept and follows the rows that changed.  Mirrors
kube-scheduler's `interpodaffinity/filtering.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Rows, Status, Verdict, unresolvable, unschedulable
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins._shared.kept_verdicts import VALUES_MAX, KeptVerdicts
from stowplan.plugins._shared.rows import all_passed
from stowplan.plugins.inter_pod_affinity.affinity_terms import PairCounts
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind
from stowplan.state.row_follower import FEW, RowFollower

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_REASONS = (AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3
"""Reasons by number, from 1 on."""
_BITS = (0, 1, 2, 4)
"""What stands for a reason in a verdict, by its number."""
_STATUS_AFFINITY = unresolvable(AFFINITY)
_STATUS_ANTI_AFFINITY = unschedulable(ANTI_AFFINITY)
_STATUS_EXISTING = unschedulable(EXISTING_ANTI_AFFINITY)

_Bits = NDArray[np.uint8]


@dataclass(slots=True)
class AffinityCounts:
    """What PreFilter found for one pod.

    True until the node table is refreshed; a clone costs no more than its changes.
    """

    affinity: PairCounts
    """Pods that match all of the pod's affinity terms."""
    anti_affinity: PairCounts
    """Pods that match one of its anti-affinity terms."""
    existing: PairCounts
    """Pods with an anti-affinity term that matches the pod."""
    matches_itself: bool
    """Whether the pod matches its own affinity terms."""
    sources: tuple[object, ...]
    """What `anti_affinity` and `existing` were counted by: equal as long as it is the same."""

    def clone(self) -> AffinityCounts:
        return AffinityCounts(
            self.affinity.clone(),
            self.anti_affinity.clone(),
            self.existing.clone(),
            self.matches_itself,
            self.sources,
        )

    @property
    def is_first_of_its_sort(self) -> bool:
        """Nobody matches the affinity terms yet but the pod itself, so any domain will do."""
        return self.matches_itself and self.affinity.is_empty

    def status(self, labels: Mapping[str, str]) -> Status | None:
        """The verdict on a node with these labels."""
        if self.affinity.by_key and not self._affinity_holds(labels):
            return _STATUS_AFFINITY
        if self.anti_affinity.any_in(labels):
            return _STATUS_ANTI_AFFINITY
        return _STATUS_EXISTING if self.existing.any_in(labels) else None

    def _affinity_holds(self, labels: Mapping[str, str]) -> bool:
        keys = self.affinity.by_key.keys()
        if not all(key in labels for key in keys):
            return False
        return all(self.affinity.at(key, labels[key]) > 0 for key in keys) or (
            self.is_first_of_its_sort
        )

    def verdict(self, nodes: NodeTable, rows: Rows | slice) -> Verdict:
        """A bit per reason and value of each topology key, spread over the nodes, keys ORed."""
        by_key: dict[str, tuple[LabelColumn, _Bits]] = {}
        alone = self.is_first_of_its_sort
        for key in self.affinity.by_key:
            label, counts = self.affinity.per_value(nodes, key)
            nobody = counts <= 0 if not alone else np.zeros(len(counts), np.bool_)
            nobody[-1] = True
            by_key[key] = label, nobody.view(np.uint8)
        for pairs, reason in ((self.anti_affinity, _ANTI_AFFINITY), (self.existing, _EXISTING)):
            for key in pairs.by_key:
                label, counts = pairs.per_value(nodes, key)
                bits = (counts > 0).view(np.uint8) * np.uint8(_BITS[reason])
                by_key[key] = label, (by_key[key][1] | bits if key in by_key else bits)
        if not any(_concerns_a_node(bits, label, nodes) for label, bits in by_key.values()):
            return all_passed(_REASONS, nodes, rows)
        why: _Bits | None = None
        for label, bits in by_key.values():
            found = bits.take(label.ids[rows])
            why = found if why is None else why | found
        assert why is not None, "nothing to say, yet it concerns a node"
        # Of several reasons only the first is given: the lowest bit.
        why &= -why
        return Verdict(_REASONS, why.astype(np.uint32), why == _BITS[_AFFINITY])

    def by_value(self, key: str, nodes: NodeTable, label: LabelColumn) -> bytes:
        """The first reason against each value of the only key, and against having none."""
        why = [0] * (len(label.values) + 1)
        for pairs, reason in ((self.existing, _EXISTING), (self.anti_affinity, _ANTI_AFFINITY)):
            if pairs.by_key:
                counts = pairs.per_value(nodes, key)[1].tolist()
                why = [reason if count > 0 else w for count, w in zip(counts, why, strict=True)]
        if self.affinity.by_key:
            if not self.is_first_of_its_sort:
                counts = self.affinity.per_value(nodes, key)[1].tolist()
                why = [w if count > 0 else _AFFINITY for count, w in zip(counts, why, strict=True)]
            why[-1] = _AFFINITY
        return bytes(why)


class HostVerdict:
    """The verdict by a key of which no two nodes have the same value, without affinity terms."""

    __slots__ = (
        "_cells",
        "_final",
        "_follower",
        "_refused",
        "_why",
        "used",
    )

    def __init__(self) -> None:
        self.used = 0
        self._why: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._final: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._cells = self._why.data
        self._refused = 0
        """How many rows are turned down."""
        self._follower = RowFollower()

    def of(self, counts: AffinityCounts, key: str, nodes: NodeTable, label: LabelColumn) -> Verdict:
        """On all rows; true until the next call."""
        few = self._follower.changed(nodes, (nodes.node_version, counts.sources), FEW)
        if few is None:
            found = counts.verdict(nodes, slice(0, nodes.size))
            self._why, self._final = found.why.copy(), found.unresolvable
            self._cells = self._why.data
            self._refused = int(np.count_nonzero(self._why))
        for row in few or ():
            number = label.number_at(row)
            reason = 0
            if counts.anti_affinity.of_number(key, number) > 0:
                reason = _ANTI_AFFINITY
            elif counts.existing.of_number(key, number) > 0:
                reason = _EXISTING
            self._refused += (reason > 0) - (self._cells[row] > 0)
            self._cells[row] = _BITS[reason]
        return Verdict(_REASONS, self._why, self._final, all_passed=not self._refused)


class AffinityVerdicts:
    """The ways to a verdict on all rows, the shortest first."""

    def __init__(self) -> None:
        self._by_value = KeptVerdicts(_REASONS, unresolvable=_AFFINITY)
        self._by_host = KeptColumns(HostVerdict, bytes_per_row=5)

    def of(self, counts: AffinityCounts, kind: PodKind, nodes: NodeTable) -> Verdict:
        affinity, anti_affinity, existing = counts.affinity, counts.anti_affinity, counts.existing
        keys = affinity.by_key.keys() | anti_affinity.by_key.keys() | existing.by_key.keys()
        if len(keys) == 1:
            [key] = keys
            label = nodes.label(key)
            if len(label.values) <= VALUES_MAX:
                return self._by_value.of(nodes, label, counts.by_value(key, nodes, label))
            if not affinity.by_key and anti_affinity.is_by_host and existing.is_by_host:
                return self._by_host.of(kind, nodes).of(counts, key, nodes, label)
        return counts.verdict(nodes, slice(0, nodes.size))


def _concerns_a_node(bits: _Bits, label: LabelColumn, nodes: NodeTable) -> bool:
    """Whether a bit is set for a value that a node has, or for lacking one."""
    return bool(bits[label.present(nodes.alive, nodes.node_version)].any())
