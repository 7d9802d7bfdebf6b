"""Every pod on a known node as two integers, its kind and its row.

This is what a new `CountColumn` is built from: a count over all pods is one array look-up and one
scatter, however many pods there are.  Also kept here: which affinity terms are in use, and which
claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.state.pod_info import PodInfo, PodKind, Term
from stowplan.state.pod_sorts import (
    TERM_SORTS,
    Place,
    filed_for,
    filing_places,
    is_label_place,
    is_wide,
    term_counts,
    term_places,
)

Slots = NDArray[np.int32]
Serials = NDArray[np.int64]


class TermUse:
    """The distinct terms of one sort (say, required anti-affinity) that running pods carry.

    Which of them match a pod is asked for every new kind of pod, so they are found by place: of a
    thousand terms one or two are looked at.
    """

    __slots__ = ("_at", "terms", "version")

    def __init__(self) -> None:
        self.terms: dict[Term, int] = {}
        """Term -> number of kinds (not pods) that carry it."""
        self.version = 0
        """Grows when a term appears or disappears."""
        self._at: dict[Place, dict[Term, None]] = {}

    def fork(self) -> TermUse:
        fork = TermUse()
        fork.terms, fork.version = self.terms.copy(), self.version
        fork._at = {place: terms.copy() for place, terms in self._at.items()}
        return fork

    def add(self, term: Term, amount: int) -> None:
        known = self.terms.get(term, 0)
        count = known + amount
        if count > 0:
            self.terms[term] = count
            if known == 0:
                self.version += 1
                for place in term_places(term):
                    self._at.setdefault(place, {})[term] = None
        elif known:
            del self.terms[term]
            self.version += 1
            for place in term_places(term):
                _discard(self._at, place, term)

    def matching(self, kind: PodKind, namespace_labels: dict[str, str]) -> list[Term]:
        """The terms that match this kind of pod; the labels are those of its namespace."""
        at = self._at
        if not at:
            return []
        return [
            term
            for term in filed_for(kind, at)
            if term.matches(kind.namespace, kind.labels, namespace_labels)
        ]


def _discard(at: dict[Place, dict[Any, None]], place: Place, item: Any) -> None:
    items = at[place]
    del items[item]
    if not items:
        del at[place]


class PodTable:
    def __init__(self) -> None:
        self.kinds: list[PodKind | None] = []
        """By kind slot; None where a slot is free."""
        self._kind_serials: Serials = np.zeros(64, np.int64)
        self._kinds_taken = 0
        self._slot_of_kind: dict[PodKind, int] = {}
        self._kinds_at: dict[Place, dict[PodKind, None]] = {}
        self._wide_kinds: dict[PodKind, None] = {}
        self._kind_refs: list[int] = []
        self._priorities: dict[int, int] = {}
        """How many kinds have each; none that nobody has."""
        self._free_kinds: list[int] = []
        self._kind_slots: Slots = np.full(256, -1, np.int32)
        self._rows: Slots = np.full(256, -1, np.int32)
        self._look()
        self._free: list[int] = []
        self._slot_of: dict[str, int] = {}
        self.required_anti_affinity = TermUse()
        self.required_affinity = TermUse()
        self.preferred_affinity = TermUse()
        self.preferred_anti_affinity = TermUse()
        self.terms_version = 0
        """Grows when a pod that carries terms comes or goes."""
        self.claims: dict[str, int] = {}
        """`namespace/claim` -> pods on nodes that mount it."""

    def fork(self) -> PodTable:
        fork = PodTable()
        fork.kinds, fork._kind_refs = self.kinds.copy(), self._kind_refs.copy()
        fork._kind_serials, fork._kinds_taken = self._kind_serials.copy(), self._kinds_taken
        fork._slot_of_kind, fork._priorities = self._slot_of_kind.copy(), self._priorities.copy()
        fork._kinds_at = {place: kinds.copy() for place, kinds in self._kinds_at.items()}
        fork._wide_kinds = self._wide_kinds.copy()
        fork._free_kinds, fork._free = self._free_kinds.copy(), self._free.copy()
        fork._kind_slots, fork._rows = self._kind_slots.copy(), self._rows.copy()
        fork._look()
        fork._slot_of = self._slot_of.copy()
        fork.terms_version = self.terms_version
        fork.claims = self.claims.copy()
        for sort in TERM_SORTS:
            setattr(fork, sort, getattr(self, sort).fork())
        return fork

    def emptied(self) -> PodTable:
        """One without pods, for those who know this one: what they saw of it is out of date."""
        empty = PodTable()
        empty._kinds_taken = self._kinds_taken
        empty.terms_version = self.terms_version + 1
        for sort in TERM_SORTS:
            getattr(empty, sort).version = getattr(self, sort).version + 1
        return empty

    def __len__(self) -> int:
        return len(self._slot_of)

    @property
    def kind_slots(self) -> Slots:
        """Per pod slot the slot of its kind, -1 where the slot is free."""
        return self._kind_slots

    @property
    def kind_serials(self) -> Serials:
        """Per kind slot a number that no other kind has had there."""
        return self._kind_serials[: len(self.kinds)]

    @property
    def rows(self) -> Slots:
        return self._rows

    def has_below(self, priority: int) -> bool:
        """Whether a pod on any node has a lower priority."""
        return min(self._priorities, default=priority) < priority

    def kinds_at(self, places: Iterable[Place]) -> Iterator[tuple[int, PodKind]]:
        """The kinds, with their slots, that have one of these places among their own."""
        for place in places:
            for kind in self._kinds_at.get(place, ()):
                yield self._slot_of_kind[kind], kind
            for kind in self._wide_kinds:
                if is_label_place(place, kind):
                    yield self._slot_of_kind[kind], kind

    def add(self, pod: PodInfo, row: int) -> None:
        slot = self._free.pop() if self._free else len(self._slot_of)
        if slot >= len(self._rows):
            self._kind_slots = np.concatenate([self._kind_slots, np.full(slot, -1, np.int32)])
            self._rows = np.concatenate([self._rows, np.full(slot, -1, np.int32)])
            self._look()
        self._slot_of[pod.uid] = slot
        self._row_at[slot] = row
        kind = pod.kind
        self._kind_slot_at[slot] = self._take_kind(kind)
        if kind.has_pod_affinity:
            self.terms_version += 1
        if kind.has_claims:
            for key in pod.claim_keys:
                self.claims[key] = self.claims.get(key, 0) + 1

    def remove(self, pod: PodInfo) -> bool:
        slot = self._slot_of.pop(pod.uid, None)
        if slot is None:
            return False
        self._kind_slot_at[slot] = self._row_at[slot] = -1
        self._free.append(slot)
        kind = pod.kind
        self._drop_kind(kind)
        if kind.has_pod_affinity:
            self.terms_version += 1
        if kind.has_claims:
            for key in pod.claim_keys:
                count = self.claims.get(key, 0) - 1
                if count > 0:
                    self.claims[key] = count
                else:
                    self.claims.pop(key, None)
        return True

    def change_kind(self, old: PodInfo, new: PodInfo) -> None:
        """The pod is of another kind now; where it is and what it claims is as before."""
        self._kind_slot_at[self._slot_of[new.uid]] = self._take_kind(new.kind)
        self._drop_kind(old.kind)
        if old.kind.has_pod_affinity or new.kind.has_pod_affinity:
            self.terms_version += 1

    def _look(self) -> None:
        """Views of the columns for single cells: an array takes twice as long for one."""
        self._kind_slot_at, self._row_at = self._kind_slots.data, self._rows.data

    def _take_kind(self, kind: PodKind) -> int:
        slot = self._slot_of_kind.get(kind)
        if slot is not None:
            self._kind_refs[slot] += 1
            return slot
        if self._free_kinds:
            slot = self._free_kinds.pop()
            self.kinds[slot], self._kind_refs[slot] = kind, 1
        else:
            slot = len(self.kinds)
            self.kinds.append(kind)
            self._kind_refs.append(1)
            if slot == len(self._kind_serials):
                self._kind_serials = np.concatenate([self._kind_serials, np.zeros(slot, np.int64)])
        self._kinds_taken += 1
        self._kind_serials[slot] = self._kinds_taken
        self._slot_of_kind[kind] = slot
        self._priorities[kind.priority] = self._priorities.get(kind.priority, 0) + 1
        for place in filing_places(kind):
            self._kinds_at.setdefault(place, {})[kind] = None
        if is_wide(kind):
            self._wide_kinds[kind] = None
        if kind.has_pod_affinity:
            self._count_terms(kind, 1)
        return slot

    def _drop_kind(self, kind: PodKind) -> None:
        slot = self._slot_of_kind[kind]
        self._kind_refs[slot] -= 1
        if self._kind_refs[slot] == 0:
            self.kinds[slot] = None
            del self._slot_of_kind[kind]
            self._free_kinds.append(slot)
            left = self._priorities.pop(kind.priority) - 1
            if left:
                self._priorities[kind.priority] = left
            for place in filing_places(kind):
                _discard(self._kinds_at, place, kind)
            self._wide_kinds.pop(kind, None)
            if kind.has_pod_affinity:
                self._count_terms(kind, -1)

    def _count_terms(self, kind: PodKind, amount: int) -> None:
        for sort in TERM_SORTS:
            use: TermUse = getattr(self, sort)
            for term in term_counts(kind, sort):
                use.add(term, amount)
