"""`plan_nodes`: the cheapest nodes found so that everything that waits has a place.

A set of nodes counts only when the scheduler has placed every pod on a fork with these nodes added.
The integer programme of `packing` proposes a set and says what any set costs at least; what does
not fit is added to, and then single nodes are left out or exchanged for cheaper ones as long as all
pods keep a place.  `cluster.plan_nodes` and `stowplan plan nodes` are this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from stowplan.answers.node_types import NodeType, Types, read_types
from stowplan.answers.packing import Bin, Bound, PodKind, gap, lower_bound
from stowplan.answers.text import WIDTH, wrapped
from stowplan.answers.words import Tell, count_of, some_of, tell_nobody
from stowplan.objects.pod import Pod
from stowplan.objects.resources import pod_requests
from stowplan.printable import printable
from stowplan.world.cluster import Cluster

TRIALS_MAX = 60
DECIDED_MAX = 100_000
"""Pods that are decided on in all trials together."""
TRIALS_MIN = 6

BY_OTHERS = frozenset({"PodTopologySpread", "InterPodAffinity"})
"""Their objections follow from where other pods are, and so may go when nodes come."""

Counts = tuple[int, ...]
"""Of each type."""


@dataclass(slots=True, repr=False)
class NodePlan:
    """Truth: with these nodes every pod has a place."""

    nodes: dict[str, int] = field(default_factory=dict)
    """Type -> how many."""
    price: float = 0.0
    bound: float = 0.0
    """No set of these types that has room for all costs less."""
    method: str = ""
    placed: dict[str, str] = field(default_factory=dict)
    """Pods that waited -> the node they get."""
    without: dict[str, str] = field(default_factory=dict)
    """Pods that no number of these nodes helps -> why."""
    trials: int = 0

    def __bool__(self) -> bool:
        return not self.without

    @property
    def gap(self) -> float:
        return gap(self.price, self.bound)

    def to_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "price": self.price,
            "bound": self.bound,
            "gap": self.gap,
            "boundBy": self.method,
            "placed": self.placed,
            "without": self.without,
            "trials": self.trials,
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        if not self.placed and not self.without:
            yield "No pod waits: nothing to buy."
            return
        total = count_of(sum(self.nodes.values()), "node")
        yield from wrapped(f"{total} for {self.price:g} place {len(self.placed)} pods", width)
        for name, count in self.nodes.items():
            yield from wrapped(f"{count} x {name}", width, "  ")
        yield ""
        yield from wrapped(f"at least {self.bound:.4g}, by {self.method}", width)
        yield from wrapped(f"gap {100 * self.gap:.1f} %, after {count_of(self.trials, 'trial')}",
                           width)  # fmt: skip
        if self.without:
            yield ""
            yield from wrapped(f"no such node helps {count_of(len(self.without), 'pod')}:", width)
            alike: dict[str, list[str]] = {}
            for pod, why in self.without.items():
                alike.setdefault(why, []).append(pod)
            for why, pods in alike.items():
                yield from wrapped(f"{some_of(pods)}: {why}", width, "  ")

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def plan_nodes(cluster: Cluster, types: Types, *, tell: Tell = tell_nobody) -> NodePlan:
    """The cheapest nodes of these types, that we find, with which every pod has a place.

    `types` is a file, or what would be in one.  What fits without new nodes is placed first.
    """
    known = read_types(types)
    for each in known:
        if each.like:
            cluster.get("Node", each.like)
    with cluster.fork() as world:
        world.run()
        waiting = _waiting(world)
        if not waiting:
            return NodePlan()
        with _Shop(world, known, waiting, tell) as shop:
            return shop.plan()


def _waiting(world: Cluster) -> list[Pod]:
    return [pod for pod in world.queue() if not world.place(pod.key).gated_by]


@dataclass(slots=True)
class _Kind:
    """Pods that are alike but for their names."""

    pods: list[str]
    manifest: dict[str, Any]
    requests: dict[str, int]
    types: frozenset[int] = frozenset()
    why: str = ""
    """It fits no type."""
    elsewhere: bool = False
    """Nodes that are there may take it, once others are there."""


class _Shop:
    def __init__(
        self, world: Cluster, types: list[NodeType], waiting: list[Pod], tell: Tell
    ) -> None:
        self._world = world
        self._types = types
        self._kinds = _kinds(world, waiting)
        self._rooms = _look_at(world, types, self._kinds, waiting[0].key)
        self._wanted = {key for kind in self._kinds if not kind.why for key in kind.pods}
        self.trials = 0
        self._report = tell
        left = DECIDED_MAX // max(1, len(self._wanted))
        self._trials_max = max(TRIALS_MIN, min(TRIALS_MAX, left))
        self._known: dict[Counts, tuple[dict[str, str], frozenset[str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._known.clear()

    def plan(self) -> NodePlan:
        without = {key: kind.why for kind in self._kinds if kind.why for key in kind.pods}
        if not self._wanted:
            return NodePlan(without=without)
        bound = self._bound(self._wanted)
        best = self._best(bound)
        placed, left = self._try(best)
        without |= dict.fromkeys(left, "not placed with any set that was tried")
        names = {each.title: n for each, n in zip(self._types, best, strict=True) if n}
        price = self._price(best)
        return NodePlan(
            names, price, min(bound.price, price), bound.method, placed, without, self.trials
        )

    # -- finding ----------------------------------------------------------------------------

    def _best(self, bound: Bound) -> Counts:
        starts = [tuple(bound.counts) or self._nothing()]
        starts += [self._alone(place) for place in range(len(self._types))][:5]
        found: list[tuple[int, float, Counts]] = []
        for start in dict.fromkeys(starts):
            if found and self.trials >= self._trials_max // 2:
                break
            counts = self._completed(start)
            found.append((len(self._try(counts)[1]), self._price(counts), counts))
        left, _, best = min(found)
        return best if left else self._cheaper(best)

    def _nothing(self) -> Counts:
        return (0,) * len(self._types)

    def _alone(self, place: int) -> Counts:
        """As many of one type as the pods that it takes need, by their sums."""
        need = 0
        for name, room in self._rooms[place].items():
            total = sum(len(kind.pods) * kind.requests.get(name, 0) for kind in self._kinds
                        if place in kind.types)  # fmt: skip
            need = max(need, math.ceil(total / room)) if room else need
        counts = [0] * len(self._types)
        counts[place] = min(need, self._types[place].max)
        return tuple(counts)

    def _completed(self, counts: Counts) -> Counts:
        """More nodes, as long as pods have no place and nodes help."""
        while self.trials < self._trials_max:
            _, left = self._try(counts)
            if not left:
                return counts
            more = self._for(left, counts)
            if more == counts:
                return counts
            counts = more
        return counts

    def _for(self, left: frozenset[str], counts: Counts) -> Counts:
        rest = self._bound(left).counts
        if not any(rest):
            rest = self._one_for(left)
        most = [each.max for each in self._types]
        return tuple(min(a + b, c) for a, b, c in zip(counts, rest, most, strict=True))

    def _one_for(self, left: frozenset[str]) -> list[int]:
        """One of the cheapest type that takes the first of them."""
        rest = [0] * len(self._types)
        kind = next(kind for kind in self._kinds if not left.isdisjoint(kind.pods))
        if kind.types:
            rest[min(kind.types, key=lambda place: self._types[place].price)] = 1
        return rest

    def _cheaper(self, counts: Counts) -> Counts:
        """Leave out a node, or take a cheaper one instead, while all keep a place."""
        improved = True
        while improved:
            improved = False
            for other in self._smaller(counts):
                if self.trials >= self._trials_max:
                    return counts
                if not self._try(other)[1]:
                    counts, improved = other, True
                    break
        return counts

    def _smaller(self, counts: Counts) -> Iterator[Counts]:
        """The cheapest first."""
        found = []
        for place, count in enumerate(counts):
            if count:
                fewer = (*counts[:place], count - 1, *counts[place + 1 :])
                found.append(fewer)
                for other, each in enumerate(self._types):
                    cheaper = each.price < self._types[place].price
                    if cheaper and fewer[other] < each.max:
                        found.append((*fewer[:other], fewer[other] + 1, *fewer[other + 1 :]))
        bound = self._bound(self._wanted).price - 1e-9
        yield from sorted((c for c in found if self._price(c) >= bound), key=self._price)

    def _price(self, counts: Counts) -> float:
        return sum(each.price * n for each, n in zip(self._types, counts, strict=True))

    # -- trying -----------------------------------------------------------------------------

    def _try(self, counts: Counts) -> tuple[dict[str, str], frozenset[str]]:
        """Where the pods go with these nodes added, and which have no place."""
        if counts not in self._known:
            self.trials += 1
            self._report(f"trial {self.trials} of {self._trials_max}")
            with self._world.fork() as trial:
                for each, count in zip(self._types, counts, strict=True):
                    if count:
                        each.add(trial, count)
                trial.run()
                nodes = {key: trial.pod(key).spec.node_name for key in sorted(self._wanted)}
                lost = trial.diff(self._world).evicted
            placed = {key: node for key, node in nodes.items() if node}
            # Who was evicted to make room has no place either.
            left = frozenset({key for key, node in nodes.items() if not node} | set(lost))
            self._known[counts] = placed, left
        return self._known[counts]

    def _bound(self, keys: frozenset[str] | set[str]) -> Bound:
        kinds = []
        for kind in self._kinds:
            count = sum(key in keys for key in kind.pods)
            if count and not kind.elsewhere:
                kinds.append(PodKind(count, kind.requests, kind.types))
        bins = [
            Bin(each.price, room, each.max)
            for each, room in zip(self._types, self._rooms, strict=True)
        ]
        return lower_bound(kinds, bins)


def _kinds(world: Cluster, waiting: list[Pod]) -> list[_Kind]:
    found: dict[bytes, _Kind] = {}
    for pod in waiting:
        data = world.get("Pod", pod.key)
        same = msgspec.json.encode([data["spec"], data["metadata"].get("labels"), pod.namespace])
        if same not in found:
            requests = {**pod_requests(pod, use_status=False), "pods": 1}
            found[same] = _Kind([], data, requests)
        found[same].pods.append(pod.key)
    return list(found.values())


def _look_at(
    world: Cluster, types: list[NodeType], kinds: list[_Kind], some_pod: str
) -> list[dict[str, int]]:
    """What an empty node of each type has room for, and which kinds it takes.

    Nodes come cordoned, so that nothing but what belongs on every node goes there.
    """
    with world.fork() as probe:
        names = [each.add(probe, 1)[0] for each in types]
        for name in names:
            probe.cordon(name)
        probe.run()
        free = probe.free()
        rooms = [{n: int(free.at(name, n)) for n in free.columns} for name in names]
        for name in names:
            probe.uncordon(name)
        # Lets the scheduler hear of it, and decides nothing.
        probe.retry(some_pod)
        with probe.screen() as screen:
            for kind in kinds:
                _match(kind, screen.objections(kind.manifest), names)
    return rooms


def _match(kind: _Kind, objections: Any, names: list[str]) -> None:
    takes, why = set(), Counter[str]()
    places = {name: place for place, name in enumerate(names)}
    lasting = [name for name in objections.plugins if name not in BY_OTHERS]
    for position, name in enumerate(objections.names):
        against = [plugin for plugin in lasting if objections.rejected[plugin][position]]
        if name in places:
            if not against:
                takes.add(places[name])
            for plugin in against:
                why.update(objections.reasons(plugin, position))
        elif not against:
            kind.elsewhere = True
    kind.types = frozenset(takes)
    if not takes and not kind.elsewhere:
        kind.why = ", ".join(f"{reason} ({count_of(n, 'type')})" for reason, n in why.items())
