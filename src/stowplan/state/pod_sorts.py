"""Sorts of pods that can be counted: those a selector matches, those that carry a term.

A sort is hashable and equal to another that means the same: it is the key under which counts are
kept.  Sorts and terms are found by *place*, a namespace together with a label that the selector
asks for, so that of thousands only the few that can concern a kind of pod are looked at.  Kinds
with very many labels are not filed under those: they are looked at whenever a label is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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

_WEIGHTED_SORTS = frozenset({"preferred_affinity", "preferred_anti_affinity"})

_PLACES_MAX = 64
"""Namespaces times values, for one selector; with more, it is found by one of the two alone."""

_LABELS_MAX = 64
"""A kind of pod with more is not filed under each of them."""


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
        return term_counts(kind, self.term_sort).get(self.term, 0)

    @property
    def places(self) -> list[Place]:
        return [(self.term_sort, self.term)]


class PodsCarryingSome:
    """Pods with any of these terms, counted with their weights, as often as they have them."""

    __slots__ = ("_term_sort", "_terms")

    def __init__(self, term_sort: str, terms: Iterable[Term]) -> None:
        self._term_sort = term_sort
        self._terms = frozenset(terms)

    def weigh(self, kind: PodKind) -> int:
        sort, terms = self._term_sort, self._terms
        counts = term_counts(kind, sort)
        return sum(weight_of(sort, term) * counts[term] for term in counts if term in terms)


class PodsMatchingSome:
    """Pods that meet any of some conditions, counted with the weights of all that they meet."""

    __slots__ = ("_at",)

    def __init__(self, conditions: Iterable[tuple[int, Condition]]) -> None:
        self._at: dict[Place, list[tuple[int, Condition]]] = {}
        for weighted in conditions:
            for place in selector_places(*weighted[1]):
                self._at.setdefault(place, []).append(weighted)

    def weigh(self, kind: PodKind) -> int:
        return sum(
            weight
            for weight, (namespaces, selector) in filed_for(kind, self._at)
            if (namespaces is None or kind.namespace in namespaces)
            and selector.matches(kind.labels)
        )


EVERY_POD: Place = (None, None)
"""A place of every pod, for sorts that go by something else."""

NO_PODS = PodsMatching(frozenset({(None, NOTHING)}))


def selector_places(namespaces: Iterable[str] | None, selector: Selector) -> list[Place]:
    """Where pods in these namespaces that the selector matches are to be found."""
    if selector.is_nothing:
        return []
    where = [None] if namespaces is None else list(namespaces)
    narrowest = None
    for requirement in selector.requirements:
        if requirement.operator == IN and (
            narrowest is None or len(requirement.values) < len(narrowest.values)
        ):
            narrowest = requirement
    if narrowest is None:
        return [(namespace, None) for namespace in where]
    pairs = [(narrowest.key, value) for value in narrowest.values]
    if len(where) * len(pairs) <= _PLACES_MAX or None in where:
        return [(namespace, pair) for namespace in where for pair in pairs]
    if len(where) <= len(pairs):
        return [(namespace, None) for namespace in where]
    return [(None, pair) for pair in pairs]


def weight_of(term_sort: str, term: Term) -> int:
    """Of a preferred term what it says; a required one counts once."""
    return term.weight if term_sort in _WEIGHTED_SORTS else 1


def term_counts(kind: PodKind, term_sort: str) -> dict[Term, int]:
    """How often the kind has each of its terms of that sort."""
    return _term_counts(kind)[term_sort] if kind.has_pod_affinity else {}


@fact
def _term_counts(kind: PodKind) -> dict[str, dict[Term, int]]:
    return {sort: dict(Counter(getattr(kind, sort))) for sort in TERM_SORTS}


def term_places(term: Term) -> list[Place]:
    """Where pods that the term matches are to be found."""
    by_selector = not term.namespace_selector.is_nothing
    return selector_places(None if by_selector else term.namespaces, term.selector)


def filed_for(kind: PodKind, at: Mapping[Place, Iterable[Any]]) -> list[Any]:
    """What is filed under selectors that may match this kind: the fewer are gone through, places
    or labels."""
    places: Iterable[Place]
    if not is_wide(kind):
        places = _places(kind)
    elif len(at) < len(kind.labels):
        places = [*_open_places(kind), *(it for it in at if is_label_place(it, kind))]
    else:
        places = [*_open_places(kind), *_label_places(kind)]
    return [item for place in places for item in at.get(place, ())]


def filed_for_terms(kind: PodKind, at: Mapping[Place, Iterable[Any]]) -> list[Any]:
    """What is filed under terms that pods of this kind carry."""
    if not kind.has_pod_affinity:
        return []
    return [item for place in _term_places(kind) for item in at.get(place, ())]


def filing_places(kind: PodKind) -> list[Place]:
    """Where the kind itself is filed; a wide one is not under its labels."""
    places = _open_places(kind) if is_wide(kind) else _places(kind)
    return [*places, *_term_places(kind)] if kind.has_pod_affinity else places


def is_wide(kind: PodKind) -> bool:
    """Whether it has so many labels that filing it under each takes long."""
    return len(kind.labels) > _LABELS_MAX


def is_label_place(place: Place, kind: PodKind) -> bool:
    """Whether the place asks for a label that this kind has."""
    namespace, pair = place
    return (
        type(pair) is tuple
        and (namespace is None or namespace == kind.namespace)
        and kind.labels.get(pair[0]) == pair[1]
    )


@fact
def _places(kind: PodKind) -> list[Place]:
    """Where selectors that may match this kind are filed."""
    return [*_open_places(kind), *_label_places(kind)]


def _open_places(kind: PodKind) -> list[Place]:
    return [(kind.namespace, None), (None, None)]


def _label_places(kind: PodKind) -> list[Place]:
    return [
        (namespace, pair) for namespace in (kind.namespace, None) for pair in kind.labels.items()
    ]


@fact
def _term_places(kind: PodKind) -> list[Place]:
    return [(sort, term) for sort in TERM_SORTS for term in term_counts(kind, sort)]
