"""Pod affinity terms as questions to the node table: who matches a term, who carries it.

The incoming pod's terms have their namespace selector expanded to the names of namespaces; running
pods' terms are taken as they are.  Used by InterPodAffinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from stowplan.objects.labels import Selector
from stowplan.objects.workloads import Namespace
from stowplan.state.count_index import CountQuery, DomainQuery
from stowplan.state.count_sums import SumQuery
from stowplan.state.counts import Counts, DomainCounts
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import NO_LABELS, PodKind, Term
from stowplan.state.pod_sorts import (
    PodsCarrying,
    PodsCarryingSome,
    PodsMatching,
    PodsMatchingSome,
    weight_of,
)

Query = DomainQuery | SumQuery

Weighted = tuple[int, Query]
"""What each counted pod adds to the score of its domain."""

_TERMS_MAX = 16
"""So many terms with the same topology key are counted each by itself; more are counted as one."""


@dataclass(frozen=True, slots=True)
class IncomingTerm:
    """A term of the pod to be scheduled."""

    topology_key: str
    namespaces: frozenset[str] | None
    """None: all of them."""
    selector: Selector

    def matches(self, kind: PodKind) -> bool:
        in_namespace = self.namespaces is None or kind.namespace in self.namespaces
        return in_namespace and self.selector.matches(kind.labels)


def matches_all(terms: Sequence[IncomingTerm], kind: PodKind) -> bool:
    """False without terms."""
    return bool(terms) and all(term.matches(kind) for term in terms)


class Namespaces:
    """Namespaces as affinity terms see them."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects

    def labels(self, name: str) -> dict[str, str]:
        """Empty for a namespace that is not known."""
        namespace = self._objects.get(Namespace, name)
        return NO_LABELS if namespace is None else namespace.metadata.labels or NO_LABELS

    def expand(self, terms: Iterable[Term]) -> tuple[IncomingTerm, ...]:
        return tuple(
            IncomingTerm(term.topology_key, self._names(term), term.selector) for term in terms
        )

    def _names(self, term: Term) -> frozenset[str] | None:
        selector = term.namespace_selector
        if selector.is_nothing:
            return term.namespaces
        # Upstream goes on to match the selector itself, against no labels at all.  So one that an
        # empty set of labels satisfies (`{}`, but also a lone NotIn) takes in every namespace.
        if selector.matches(NO_LABELS):
            return None
        return term.namespaces.union(
            name
            for name, namespace in self._objects.all(Namespace).items()
            if selector.matches(namespace.metadata.labels or NO_LABELS)
        )


def matched_by_all(terms: Sequence[IncomingTerm]) -> list[Query]:
    """The pods that match all the terms, per domain of each of their keys."""
    conditions = frozenset((term.namespaces, term.selector) for term in terms)
    per_node = CountQuery(PodsMatching(conditions))
    keys = dict.fromkeys(term.topology_key for term in terms)
    return [DomainQuery(per_node, key) for key in keys]


def matched_by_each(terms: Iterable[tuple[int, IncomingTerm]]) -> list[Weighted]:
    """The pods that match a term, per domain of its key, with the weight of the term."""
    queries: list[Weighted] = []
    for key, some in _by_key(terms, lambda weighted: weighted[1].topology_key):
        conditions = [(weight, (term.namespaces, term.selector)) for weight, term in some]
        if len(conditions) > _TERMS_MAX:
            queries.append((1, SumQuery(PodsMatchingSome(conditions), key)))
        else:
            queries += [
                (weight, DomainQuery(CountQuery(PodsMatching(frozenset((condition,)))), key))
                for weight, condition in conditions
            ]
    return queries


def carriers(term_sort: str, terms: Iterable[Term], table: NodeTable) -> list[Weighted]:
    """The pods that carry a term, per domain of its key, with the weight of the term if it has one.

    Without terms whose key no node has.
    """
    queries: list[Weighted] = []
    for key, some in _by_key(terms, lambda term: term.topology_key):
        if not table.has_label(key):
            continue
        if len(some) > _TERMS_MAX:
            queries.append((1, SumQuery(PodsCarryingSome(term_sort, some), key)))
        else:
            queries += [
                (
                    weight_of(term_sort, term),
                    DomainQuery(CountQuery(PodsCarrying(term_sort, term)), key),
                )
                for term in some
            ]
    return queries


_Item = TypeVar("_Item")


def _by_key(
    items: Iterable[_Item], key_of: Callable[[_Item], str]
) -> Iterable[tuple[str, list[_Item]]]:
    groups: dict[str, list[_Item]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return groups.items()


class PairCounts:
    """Pods per topology pair (key and value): what the table counts, and changes on top of it.

    The changes are the pods that preemption or a nomination moves.
    """

    __slots__ = ("_changes", "by_key")

    def __init__(
        self, by_key: dict[str, list[DomainCounts]], changes: dict[tuple[str, str], int]
    ) -> None:
        self.by_key = by_key
        """By topology key what the table counts; the keys are all that matter."""
        self._changes = changes

    @staticmethod
    def of(table: NodeTable, queries: Iterable[Query]) -> PairCounts:
        by_key: dict[str, list[DomainCounts]] = {}
        for query in queries:
            by_key.setdefault(query.topology_key, []).append(query.ask(table))
        return PairCounts(by_key, {})

    def clone(self) -> PairCounts:
        return PairCounts(self.by_key.copy(), self._changes.copy())

    @property
    def is_by_host(self) -> bool:
        """Whether the table says it all, and has no two nodes in one domain."""
        return not self._changes and all(
            counts.domains.are_single_nodes for each in self.by_key.values() for counts in each
        )

    @property
    def is_empty(self) -> bool:
        """No pod at any pair."""
        counted = sum(domains.total for each in self.by_key.values() for domains in each)
        return counted + sum(self._changes.values()) == 0

    def at(self, key: str, value: str) -> int:
        count = self._changes.get((key, value), 0)
        for domains in self.by_key[key]:
            count += int(domains.sums[domains.label.id_of(value)])
        return count

    def of_number(self, key: str, number: int) -> int:
        """What the table counts for a value of the key, by its number."""
        return sum(counts.of(number) for counts in self.by_key.get(key, ()))

    def any_in(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in a domain with pods."""
        for key in self.by_key:
            value = labels.get(key)
            if value is not None and self.at(key, value) > 0:
                return True
        return False

    def per_value(self, table: NodeTable, key: str) -> tuple[LabelColumn, Counts]:
        """Pods per value of the key, with a slot more for nodes without it."""
        each = self.by_key[key]
        label = each[0].label if each else table.label(key)
        counts = each[0].sums if each else np.zeros(len(label.values) + 1, np.int32)
        for other in each[1:]:
            counts = counts + other.sums
        if self._changes:
            counts = counts.copy()
            for (changed, value), delta in self._changes.items():
                if changed == key and label.id_of(value) >= 0:
                    counts[label.id_of(value)] += delta
        return label, counts

    def change(self, labels: Mapping[str, str], key: str, delta: int) -> None:
        """A pod came to (1) or left (-1) a node with these labels."""
        value = labels.get(key)
        if value is not None:
            self.by_key.setdefault(key, [])
            self._changes[key, value] = self._changes.get((key, value), 0) + delta
