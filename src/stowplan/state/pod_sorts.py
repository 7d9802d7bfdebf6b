"""Sorts of pods that can be counted: those a selector matches, those that carry a term.

A sort is hashable and equal to another that means the same: it is the key under which counts are
kept.  Sorts and terms are found by *place*, a namespace together with a label that the selector
asks for, so that of thousands only the few that can concern a kind of pod are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from stowplan.objects.labels import IN, NOTHING, Selector
from stowplan.state.pod_info import PodKind, Term, fact

Place = tuple[Any, Any]
"""(namespace, (label, value)), None standing for any; or (sort of term, term)."""

Condition = tuple[frozenset[str] | None, Selector]
"""Namespaces (None: all) and a selector."""

TERM_SORTS = (
    "required_affinity",
    "required_anti_affinity",
    "preferred_affinity",
    "preferred_anti_affinity",
)
"""The attributes of `PodKind` that hold terms."""


class PodSort(Protocol):
    """What can be counted; a plugin may bring its own.  Hashable, equal if it means the same."""

    def weigh(self, kind: PodKind) -> int:
        """How often a pod of this kind counts."""

    @property
    def places(self) -> list[Place]:
        """Every pod that counts has exactly one of these among its own."""


@dataclass(frozen=True, slots=True)
class PodsMatching:
    """Pods that meet all the conditions."""

    conditions: frozenset[Condition]
    with_terminating: bool = True

    def weigh(self, kind: PodKind) -> int:
        if kind.terminating and not self.with_terminating:
            return 0
        for namespaces, selector in self.conditions:
            if namespaces is not None and kind.namespace not in namespaces:
                return 0
            if not selector.matches(kind.labels):
                return 0
        return 1

    @property
    def places(self) -> list[Place]:
        return min((selector_places(*each) for each in self.conditions), key=len)


@dataclass(frozen=True, slots=True)
class PodsCarrying:
    """Pods with this term, counted as often as they have it."""

    term_sort: str
    term: Term

    def weigh(self, kind: PodKind) -> int:
        if not kind.has_pod_affinity:
            return 0
        terms: tuple[Term, ...] = getattr(kind, self.term_sort)
        return terms.count(self.term)

    @property
    def places(self) -> list[Place]:
        return [(self.term_sort, self.term)]


EVERY_POD: Place = (None, None)
"""A place of every pod, for sorts that go by something else."""

NO_PODS = PodsMatching(frozenset({(None, NOTHING)}))


def selector_places(namespaces: Iterable[str] | None, selector: Selector) -> list[Place]:
    """Where pods in these namespaces that the selector matches are to be found."""
    if selector.is_nothing:
        return []
    where = [None] if namespaces is None else list(namespaces)
    accepting = [r for r in selector.requirements if r.operator == IN]
    if not accepting:
        return [(namespace, None) for namespace in where]
    narrowest = min(accepting, key=lambda requirement: len(requirement.values))
    return [(namespace, (narrowest.key, v)) for namespace in where for v in narrowest.values]


def term_places(term: Term) -> list[Place]:
    """Where pods that the term matches are to be found."""
    by_selector = not term.namespace_selector.is_nothing
    return selector_places(None if by_selector else term.namespaces, term.selector)


@fact
def places_of(kind: PodKind) -> list[Place]:
    """Where sorts and terms that concern this kind may be filed."""
    pairs: list[Any] = [None, *kind.labels.items()]
    places: list[Place]
    places = [(namespace, pair) for namespace in (kind.namespace, None) for pair in pairs]
    if kind.has_pod_affinity:
        for sort in TERM_SORTS:
            places += [(sort, term) for term in dict.fromkeys(getattr(kind, sort))]
    return places
