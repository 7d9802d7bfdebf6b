"""`plan_capacity`: how many more pods fit, and what runs out first.

Mixes are added to a fork in portions that double until one does not fit whole, and then in portions
that halve: the scheduler places every pod.  `cluster.plan_capacity` and `stowplan plan capacity`
are this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.mixes import Part, mix_of
from stowplan.answers.pools import pools_of
from stowplan.answers.text import WIDTH, wrapped
from stowplan.answers.words import Tell, count_of, shown, tell_nobody
from stowplan.errors import InputError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.reading import Objects

FIRST = 16
"""Mixes that are added at first."""

LIMIT = 10_000
LIMIT_MAX = 1_000_000

_SHORT = "Insufficient "
_MANY_PODS = "Too many pods"


@dataclass(slots=True)
class PoolRoom:
    """What became of one pool."""

    name: str
    nodes: int = 0
    placed: int = 0
    """Pods that were added and went to it."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the next pod does not go there -> on how many nodes, the most frequent first."""
    left: dict[str, int] = field(default_factory=dict)
    """Resource -> how much of it nobody requests then."""

    @property
    def runs_out(self) -> str:
        """The resource that the most nodes have too little of, or what else stands in the way."""
        reason = next(iter(self.reasons), "")
        return "pods" if reason == _MANY_PODS else reason.removeprefix(_SHORT)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pool": self.name,
            "nodes": self.nodes,
            "placed": self.placed,
            "runsOut": self.runs_out,
            "reasons": self.reasons,
            "left": self.left,
        }


@dataclass(slots=True, repr=False)
class Capacity:
    """Truth: at least one more fits, or as many as were asked for."""

    mix: dict[str, int]
    """What was added -> how many of it in one mix."""
    count: int = 0
    """Whole mixes that fit."""
    at_least: int = 1
    is_limit: bool = False
    """There may be room for more: counting ended at the limit."""
    short: str = ""
    """The first part that did not fit any more."""
    message: str = ""
    """What the scheduler said of it."""
    pools: list[PoolRoom] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.count >= self.at_least

    @property
    def runs_out(self) -> str:
        """What runs out first: in the pools together, on the most nodes."""
        total: Counter[str] = Counter()
        for pool in self.pools:
            total.update(pool.reasons)
        reason = min(total, key=lambda each: (-total[each], each), default="")
        return PoolRoom("", reasons={reason: 1}).runs_out if reason else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "mix": self.mix,
            "count": self.count,
            "pods": self.count * sum(self.mix.values()),
            "isLimit": self.is_limit,
            "short": self.short,
            "message": self.message,
            "runsOut": self.runs_out,
            "pools": [pool.to_dict() for pool in self.pools],
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        names = [name if count == 1 else f"{count} of {name}" for name, count in self.mix.items()]
        what = f"of {names[0]}" if len(names) == 1 and " of " not in names[0] else "mixes"
        least = "at least " if self.is_limit else ""
        fit = "fits" if self.count == 1 and not self.is_limit else "fit"
        yield from wrapped(f"{least}{self.count} more {what} {fit}", width)
        if what == "mixes":
            yield from wrapped(f"a mix is {', '.join(names)}", width, "  ")
        if self.short:
            yield from wrapped(f"then {self.short} does not: {self.message}", width, "  ")
        for pool in self.pools:
            yield ""
            head = f"{pool.name}: {count_of(pool.placed, 'pod')} on {count_of(pool.nodes, 'node')}"
            yield from wrapped(head, width)
            if pool.reasons:
                yield from wrapped(f"first to run out: {pool.runs_out}", width, "  ")
            for reason, count in list(pool.reasons.items())[:4]:
                yield from wrapped(f"{count_of(count, 'node')}: {reason}", width, "    ")
            left = [f"{shown(name, pool.left.get(name, 0))} {name}" for name in ("cpu", "memory")]
            yield from wrapped(f"left: {', '.join(left)}", width, "  ")

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def plan_capacity(
    cluster: Cluster,
    pods: Iterable[str] | str = (),
    *,
    pod_file: Objects | None = None,
    pool_label: str = "",
    limit: int = LIMIT,
    at_least: int = 1,
    tell: Tell = tell_nobody,
) -> Capacity:
    """How many more of these fit beside everybody who is there, and what runs out first.

    `pods` are names of pods or workloads, `deploy/web=3` for three of them in one mix; `pod_file`
    has manifests.  Whatever waits is placed first.  The cluster itself is not changed.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise InputError(f"the limit is {limit}", hint=f"from 1 to {LIMIT_MAX:,}")
    words = [pods] if isinstance(pods, str) else list(pods)
    mix = mix_of(cluster, words, pod_file)
    pools = pools_of(cluster, pool_label)
    world = cluster.fork()
    try:
        world.run()
        filling = _Filling(world, mix, limit, tell)
        filling.fill()
        answer = Capacity({part.name: part.count for part in mix}, filling.count, at_least)
        answer.is_limit = filling.count >= limit
        _tell(answer, filling, pools)
        filling.close()
    finally:
        world.close()
    return answer


class _Filling:
    def __init__(self, world: Cluster, mix: list[Part], limit: int, tell: Tell) -> None:
        self.start = world
        self.full = world
        """With all whole mixes placed."""
        self.beyond: Cluster | None = None
        """With one more, which did not fit."""
        self.mix = mix
        self.count = 0
        self._limit = limit
        self._report = tell

    def fill(self) -> None:
        portion, growing = FIRST, True
        while self.count < self._limit and portion:
            self._report(f"{self.count} fit")
            number = min(portion, self._limit - self.count)
            trial = self.full.fork()
            trial.put([each for part in self.mix for each in part.copies(self.count, number)])
            trial.run()
            placed = [self._placed(trial, part, number) for part in self.mix]
            if all(
                have == part.count * number for have, part in zip(placed, self.mix, strict=True)
            ):
                self._keep(self.beyond)
                self.full, self.count = trial, self.count + number
                portion = portion * 2 if growing else portion
                continue
            self._keep(self.full)
            self.beyond, growing = trial, False
            if len(self.mix) == 1:
                # Those that found no place are like the others: what fits has been placed.
                self.count += placed[0] // self.mix[0].count
                self._keep(trial)
                self.full = trial
                return
            portion //= 2

    def _placed(self, trial: Cluster, part: Part, number: int) -> int:
        keys = self.keys(part, number)
        return sum(bool(trial.pod(key).spec.node_name) for key in keys)

    def keys(self, part: Part, number: int) -> list[str]:
        first = self.count * part.count
        return [
            f"{part.namespace}/{part.base}-more-{n + 1}"
            for n in range(first, first + number * part.count)
        ]

    def close(self) -> None:
        self._keep()

    def _keep(self, *kept: Cluster | None) -> None:
        """Of the forks made here, let go of all but these."""
        for each in (self.full, self.beyond):
            if each is not None and each is not self.start and each not in kept:
                each.close()


def _tell(answer: Capacity, filling: _Filling, pools: dict[str, str]) -> None:
    rooms = {name: PoolRoom(name) for name in sorted(set(pools.values()))}
    for pool in pools.values():
        rooms[pool].nodes += 1
    for part in filling.mix:
        for number in range(filling.count * part.count):
            node = filling.full.pod(f"{part.namespace}/{part.base}-more-{number + 1}").spec
            rooms[pools[node.node_name]].placed += 1
    free = filling.full.free()
    for resource in [name for name in free.columns if free[name].any()]:
        for node_name, amount in zip(free.index, free[resource].tolist(), strict=True):
            left = rooms[pools[node_name]].left
            left[resource] = left.get(resource, 0) + amount
    answer.pools = list(rooms.values())
    if filling.beyond is not None:
        _tell_why(answer, filling, filling.beyond, pools, rooms)


def _tell_why(
    answer: Capacity,
    filling: _Filling,
    beyond: Cluster,
    pools: dict[str, str],
    rooms: dict[str, PoolRoom],
) -> None:
    """The first pod that found no place, and what each pool's nodes say of it."""
    named = {f"{part.namespace}/{part.base}-more-": part.name for part in filling.mix}
    waiting = [
        (pod.key, name)
        for pod in beyond.pods(pending=True)
        for prefix, name in named.items()
        if pod.key.startswith(prefix) and pod.key.removeprefix(prefix).isdecimal()
    ]
    key, answer.short = min(waiting, key=lambda pair: int(pair[0].rpartition("-")[2]))
    try:
        answer.message = beyond.decision(key).message
    except InputError:
        answer.message = "this scheduler does not decide on it"
        return
    objections = beyond.objections(key)
    counts: dict[str, Counter[str]] = {name: Counter() for name in rooms}
    for position, node in enumerate(objections.names):
        for plugin in objections.plugins:
            counts[pools[node]].update(objections.reasons(plugin, position))
    for name, counter in counts.items():
        rooms[name].reasons = dict(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])))
