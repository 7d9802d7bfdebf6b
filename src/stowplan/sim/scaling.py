"""A simple cluster autoscaler: nodes for pods that fit nowhere, and away with nodes left empty.

What new nodes would do is not reckoned here but tried: on a fork of the cluster that has them, the
scheduler decides (so taints, affinity and users' plugins count).  Nodes that are needed come after
their pool's boot time.  Only empty nodes go; nothing is drained.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any, Protocol

from stowplan.objects.resources import pod_requests
from stowplan.sim.record import POOL, NodeFacts, Record, node_facts
from stowplan.sim.settings import Autoscaler, Pool
from stowplan.world.nodes import named_node
from stowplan.world.stream import Stream, offers_of

ROUNDS_MAX = 4
"""How often more nodes of a pool are tried at one time."""

_SCALE_RANK = 6


class Host(Protocol):
    """The run."""

    stream: Stream
    record: Record

    def plan(self, time_s: float, rank: int, index: int = 0) -> None: ...


class Scaler:
    def __init__(self, run: Host, settings: Autoscaler) -> None:
        self._run, self._settings = run, settings
        self._booting: list[tuple[float, Pool]] = []
        self._numbers = {pool.name: 0 for pool in settings.pools}
        self._nodes: dict[int, Pool] = {}
        """Ours that are there, by index."""
        self._pod_counts: dict[int, int] = {}
        self._empty_s: dict[int, float] = {}
        """Since when each of ours has been empty."""
        self._planned_s = -1.0
        self._in_vain: tuple[int, ...] = ()
        """What the cluster was like when nothing helped: it is not tried again."""

    def begin(self) -> None:
        for pool in sorted(self._settings.pools, key=_price):
            self._add(pool, pool.count_min, 0.0)

    def look(self, now_s: float) -> None:
        """Something happened: see that we act when it is time."""
        if self._planned_s > now_s:
            return
        wakes = [due_s for due_s, _ in self._booting]
        if self._run.stream.pending_count and self._situation() != self._in_vain:
            wakes.append(now_s + self._settings.every_s)
        wakes += [since_s + self._settings.idle_s for since_s in self._empty_s.values()]
        if wakes:
            self._planned_s = max(min(wakes), now_s)
            self._run.plan(self._planned_s, _SCALE_RANK)

    def act(self, now_s: float) -> None:
        self._planned_s = -1.0
        ready = [pool for due_s, pool in self._booting if due_s <= now_s]
        self._booting = [(due_s, pool) for due_s, pool in self._booting if due_s > now_s]
        for pool in self._settings.pools:
            self._add(pool, sum(one is pool for one in ready), now_s)
        self._remove_idle(now_s)
        if self._run.stream.pending_count and not ready:
            self._order(now_s)

    def _situation(self) -> tuple[int, ...]:
        record = self._run.record
        return (
            self._run.stream.pending_count,
            len(record.stays.who),
            len(self._nodes),
            len(self._booting),
        )

    # -- pods come and go -------------------------------------------------------------------

    def took(self, node: int) -> None:
        if node in self._nodes:
            self._pod_counts[node] = self._pod_counts.get(node, 0) + 1
            self._empty_s.pop(node, None)

    def left(self, node: int, now_s: float) -> None:
        if node in self._nodes:
            self._pod_counts[node] -= 1
            if not self._pod_counts[node]:
                self._empty_s[node] = now_s

    # -- nodes come and go ------------------------------------------------------------------

    def _add(self, pool: Pool, count: int, now_s: float) -> None:
        manifests = []
        for _ in range(count):
            self._numbers[pool.name] += 1
            manifest = _manifest(pool, f"{pool.name}-{self._numbers[pool.name]}")
            index = self._run.record.node_joins(_facts(pool, manifest), now_s)
            self._nodes[index], self._empty_s[index] = pool, now_s
            self._pod_counts[index] = 0
            manifests.append(manifest)
        self._run.stream.add_nodes(manifests)

    def _remove_idle(self, now_s: float) -> None:
        idle_s = self._settings.idle_s
        for node, since_s in sorted(self._empty_s.items()):
            pool = self._nodes[node]
            if now_s - since_s < idle_s or self._count(pool) <= pool.count_min:
                continue
            del self._nodes[node], self._empty_s[node]
            self._run.record.node_leaves(node, now_s)
            self._run.stream.remove_node(self._run.record.nodes[node].name)
        for node in [*self._empty_s]:
            if now_s - self._empty_s[node] >= idle_s:
                # It stays for its pool's sake: look again when it has been idle for that long.
                self._empty_s[node] = now_s

    def _count(self, pool: Pool) -> int:
        """With those under way."""
        there = sum(one is pool for one in self._nodes.values())
        return there + sum(one is pool for _, one in self._booting)

    def _order(self, now_s: float) -> None:
        if self._situation() == self._in_vain:
            return
        wanted = self._tried()
        if not any(wanted.values()):
            self._in_vain = self._situation()
        for pool in self._settings.pools:
            self._booting += [(now_s + pool.boot_s, pool)] * wanted[pool.name]

    def _tried(self) -> dict[str, int]:
        """How many nodes of each pool the scheduler has a use for, the cheapest pool first."""
        wanted = dict.fromkeys(self._numbers, 0)
        with self._run.stream.cluster.fork() as trial:
            under_way = [pool for _, pool in self._booting]
            trial.apply([_manifest(pool, f"boots-{n}") for n, pool in enumerate(under_way)])
            waiting = _retried(trial)
            for pool in sorted(self._settings.pools, key=_price):
                room, made = pool.count_max - self._count(pool), 0
                for _ in range(ROUNDS_MAX):
                    count = min(room - made, _estimate(pool, waiting))
                    if count <= 0:
                        break
                    names = [f"new-{pool.name}-{made + n}" for n in range(count)]
                    made += count
                    trial.apply([_manifest(pool, name) for name in names])
                    before = len(waiting)
                    waiting = _retried(trial)
                    used = {pod.spec.node_name for pod in trial.pods(pending=False)}
                    wanted[pool.name] += sum(name in used for name in names)
                    if len(waiting) == before:
                        break
        return wanted


def _price(pool: Pool) -> tuple[float, str]:
    return pool.price, pool.name


def _manifest(pool: Pool, name: str) -> dict[str, Any]:
    manifest = named_node(pool.node, name)
    manifest["metadata"]["labels"].setdefault(POOL, pool.name)
    return manifest


def _facts(pool: Pool, manifest: dict[str, Any]) -> NodeFacts:
    return node_facts(manifest, {pool.name: pool.price})


def _retried(trial: Any) -> list[Any]:
    """Let everybody who waits be tried; who still does."""
    for pod in trial.queue():
        trial.retry(pod.key)
    trial.run(seconds=0)
    return list(trial.queue())


def _estimate(pool: Pool, waiting: Iterable[Any]) -> int:
    """How many nodes these pods would fill at least; never none while somebody waits."""
    offers = offers_of(_manifest(pool, "one"))
    totals: dict[str, int] = {}
    count = 0
    for pod in waiting:
        requests = pod_requests(pod, use_status=False)
        if all(amount <= offers.get(name, 0) for name, amount in requests.items() if amount):
            count += 1
            for name, amount in requests.items():
                totals[name] = totals.get(name, 0) + amount
    if not count:
        return 0
    filled = [ceil(total / offers[name]) for name, total in totals.items() if offers.get(name)]
    return max([1, ceil(count / max(1, offers.get("pods", count))), *filled])
