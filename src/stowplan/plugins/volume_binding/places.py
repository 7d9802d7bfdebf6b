"""Where storage can be reached from: the nodes a volume, a class or a pool of storage accepts.

All three say it by node labels, each in its own way; here they become one thing, `Places`, that
answers for one node's labels or for the whole table.  `first_match` hands out many such things at
once: to every node the first that accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask
from stowplan.objects.base import LabelSelector
from stowplan.objects.labels import IN, SelectorError, compile_selector
from stowplan.objects.node_selector import CompiledNodeSelector, NodeTerm, compile_term
from stowplan.objects.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.objects.storage import TopologySelectorTerm
from stowplan.plugins._shared.node_selection import selector_mask
from stowplan.state.label_column import ABSENT, LabelColumn
from stowplan.state.node_table import NodeTable

Numbers = NDArray[np.int32]

NOTHING = np.iinfo(np.int32).max
"""What `first_match` gives a node that nothing accepts; larger than any number."""

_KEPT_MAX = 16384


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Made once for equal selectors, so compared by identity."""

    selector: CompiledNodeSelector | None
    """None: any node."""
    label: tuple[str, frozenset[str]] | None = None
    """A key and its accepted values, where that is all there is to it."""

    def accepts(self, labels: Mapping[str, str]) -> bool:
        return self.selector is None or self.selector.matches(labels, "")

    def mask(self, nodes: NodeTable) -> NodeMask:
        if self.selector is None:
            return np.ones(nodes.size, np.bool_)
        return selector_mask(nodes, self.selector, slice(0, nodes.size))


ANYWHERE = Places(None)
NOWHERE = Places(CompiledNodeSelector(()))

_encode = msgspec.json.Encoder(order="deterministic").encode


def places_of_volume(required: NodeSelector | None) -> Places:
    """From a persistent volume's node affinity."""
    return ANYWHERE if required is None else _by_node_selector(_encode(required))


def places_of_class(allowed_topologies: Sequence[TopologySelectorTerm] | None) -> Places:
    """From a storage class: no topologies allow any node."""
    return _by_topologies(_encode(allowed_topologies)) if allowed_topologies else ANYWHERE


def places_of_capacity(node_topology: LabelSelector | None) -> Places:
    """From a CSIStorageCapacity: without a topology no node can reach it."""
    return NOWHERE if node_topology is None else _by_label_selector(_encode(node_topology))


@lru_cache(maxsize=_KEPT_MAX)
def _by_node_selector(encoded: bytes) -> Places:
    selector = msgspec.json.decode(encoded, type=NodeSelector)
    return _places([compile_term(term) for term in selector.node_selector_terms or ()])


@lru_cache(maxsize=_KEPT_MAX)
def _by_topologies(encoded: bytes) -> Places:
    return _places(
        [
            compile_term(
                NodeSelectorTerm(
                    match_expressions=[
                        NodeSelectorRequirement(key=label.key, operator=IN, values=label.values)
                        for label in term.match_label_expressions or ()
                    ]
                )
            )
            for term in msgspec.json.decode(encoded, type=list[TopologySelectorTerm])
        ]
    )


@lru_cache(maxsize=_KEPT_MAX)
def _by_label_selector(encoded: bytes) -> Places:
    try:
        selector = compile_selector(msgspec.json.decode(encoded, type=LabelSelector))
    except SelectorError:
        return NOWHERE
    return ANYWHERE if selector.is_everything else _places([NodeTerm(selector.requirements)])


def _places(terms: Sequence[NodeTerm]) -> Places:
    usable = [term for term in terms if not term.never_matches]
    if not usable:
        return NOWHERE
    # A volume's affinity is checked against labels alone: conditions on fields always hold.
    if any(not term.expressions for term in usable):
        return ANYWHERE
    selector = CompiledNodeSelector(tuple(NodeTerm(term.expressions) for term in usable))
    first = usable[0].expressions
    if len(usable) == len(first) == 1 and first[0].operator == IN:
        return Places(selector, (first[0].key, first[0].values))
    return Places(selector)


def first_match(
    nodes: NodeTable, offers: Sequence[tuple[int, Places]], taken: Sequence[Numbers] = ()
) -> Numbers:
    """Per row the lowest number among the offers that accept its node, NOTHING where none does.

    An offer that one of `taken` already gave to a row is not given to it again.
    """
    best: Numbers = np.full(nodes.size, NOTHING, np.int32)
    # Each of `taken` can spoil one offer per row, so one more than that is always enough.
    for column in _columns(nodes, offers, depth=len(taken) + 1):
        for earlier in taken:
            column[column == earlier] = NOTHING
        np.minimum(best, column, out=best)
    return best


def _columns(
    nodes: NodeTable, offers: Sequence[tuple[int, Places]], depth: int
) -> Iterator[Numbers]:
    """Columns of offers, the lowest ones, without a look at every node for each of them."""
    by_label: dict[str, list[tuple[int, str]]] = {}
    others: dict[Places, list[int]] = {}
    for number, places in offers:
        if places.label is not None:
            key, values = places.label
            by_label.setdefault(key, []).extend((number, value) for value in values)
        else:
            found = others.setdefault(places, [])
            if len(found) < depth:
                found.append(number)
    for key, pairs in by_label.items():
        yield from _by_label(nodes.label(key), pairs, depth)
    for places, found in others.items():
        mask = places.mask(nodes)
        yield from (np.where(mask, np.int32(number), np.int32(NOTHING)) for number in found)


def _by_label(
    column: LabelColumn, offers: Sequence[tuple[int, str]], depth: int
) -> Iterator[Numbers]:
    """Offers that go by one label, each with a value it accepts: a table over the values."""
    levels: list[dict[int, int]] = [{} for _ in range(depth)]
    for number, value in offers:
        position = column.id_of(value)
        if position != ABSENT:
            for level in levels:
                if position not in level:
                    level[position] = number
                    break
    for level in levels:
        table = np.full(len(column.values) + 1, NOTHING, np.int32)
        table[list(level)] = list(level.values())
        yield table[column.ids]
