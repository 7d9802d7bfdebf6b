"""One node drained on a fork: does every pod of it find another place?

A trial costs what it changes: who is where is read once (`State`) and follows the steps, and what
is plain from sums alone is not tried.  Replicas that had no other place a moment ago are evicted
before the others, so that a drain which fails does so early.  Called by `plan_consolidate`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from stowplan.answers.placement_bound import moves
from stowplan.answers.words import shown, some_of
from stowplan.objects.pod import Pod
from stowplan.objects.resources import pod_requests
from stowplan.world.cluster import Cluster

ROUNDS_MAX = 50
"""Of one drain, where a budget lets pods go one by one."""


@dataclass(slots=True)
class Moved:
    evicted: list[str]
    placed: dict[str, str] = field(default_factory=dict)
    """The pods made in their stead -> their nodes."""


class State:
    """Who is where, before the next node is tried."""

    def __init__(self, world: Cluster) -> None:
        self.pods = {pod.key: pod for pod in world.pods()}
        self.pending = {key for key, pod in self.pods.items() if not pod.spec.node_name}
        self.movable: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            self._add(pod)
        self.homeless: set[str] = set()
        """Owners of pods that had no place when a node was tried."""
        self.weigh(world)

    def _add(self, pod: Pod) -> None:
        if pod.spec.node_name and moves(pod):
            self.movable.setdefault(pod.spec.node_name, []).append(pod)

    def follow(self, now: dict[str, Pod], node: str, made: list[Pod]) -> None:
        """The node is gone; these pods are new, and elsewhere."""
        self.pods = now
        self.movable.pop(node, None)
        for pod in made:
            self._add(pod)

    def weigh(self, world: Cluster) -> None:
        self.whole, self.free = world.allocatable(), world.free()

    def amounts(self, name: str) -> dict[str, int]:
        row = self.whole.row(name)
        return {resource: int(amount) for resource, amount in row.items() if amount}

    def emptiest(self, names: set[str], price_of: dict[str, float] | None) -> list[str]:
        """Those that give up the least for what they cost."""
        shares = np.zeros(len(self.whole))
        for resource in ("cpu", "memory"):
            if resource in self.whole:
                whole = np.maximum(self.whole[resource], 1)
                shares = np.maximum(shares, 1 - self.free[resource] / whole)
        rank = {}
        for name, share in zip(self.whole.index, shares.tolist(), strict=True):
            price = 1.0 if price_of is None else max(price_of[name], 1e-9)
            rank[name] = (bool(self.movable.get(name)), share / price, name)
        return sorted(names, key=lambda name: rank[name])

    def why_not(self, name: str) -> str:
        """What is plain without trying: pods nobody makes again, or that the other nodes do not
        have the room for, one by one or together."""
        pods = self.movable.get(name, [])
        bare = [pod.key for pod in pods if pod.metadata.controller() is None]
        if bare:
            return f"{some_of(bare)}: no owner would make it again"
        others = np.array([each != name for each in self.free.index])
        needed: Counter[str] = Counter()
        for pod in pods:
            fits = others.copy()
            requests = {n: a for n, a in pod_requests(pod, use_status=False).items() if a}
            needed.update(requests)
            for resource, amount in requests.items():
                fits &= self.free[resource] >= amount if resource in self.free else False
            if not fits.any():
                wants = ", ".join(f"{shown(n, a)} {n}" for n, a in requests.items())
                return f"no other node has room for one of its pods ({wants})"
        for resource, amount in needed.items():
            left = int(np.maximum(self.free[resource][others], 0).sum())
            if amount > left:
                told = f"{shown(resource, amount)} {resource}, and {shown(resource, left)} is left"
                return f"the other nodes have no room for its pods: they want {told}"
        return ""


def drained(trial: Cluster, state: State, name: str) -> Moved | str:
    """Drain the node and take it away; or why that is not possible."""
    moving = state.movable.get(name, [])
    first = {pod.key for pod in moving if _owner(pod) in state.homeless}
    for only in (first, None) if first else (None,):
        now, why = _evicted(trial, state, name, only)
        lost = next((pod for pod in trial.queue() if pod.key not in state.pending), None)
        if lost is not None:
            state.homeless.add(_owner(lost))
            return f"{lost.key} would have no place: {trial.decision(lost.key).message}"
        if why:
            return why
    moved = Moved([pod.key for pod in moving])
    gone = state.pods.keys() - now.keys() - set(moved.evicted)
    if gone:
        return f"{some_of(sorted(gone))} would be evicted to make room"
    made = _made(now, state, moving)
    moved.placed = {pod.key: pod.spec.node_name for pod in made if moves(pod)}
    trial.delete(name, "Node")
    trial.run()
    state.follow(now, name, made)
    return moved


def _evicted(
    trial: Cluster, state: State, name: str, only: set[str] | None
) -> tuple[dict[str, Pod], str]:
    """Evict the node's pods, or some of them; all pods then, and who of these stays and why."""
    moving = [p for p in state.movable.get(name, []) if only is None or p.key in only]
    for _ in range(ROUNDS_MAX):
        blocked = trial.drain(name, only)
        now = _by_key(trial)
        again = _not_made_again(now, state, moving)
        if again:
            trial.put([_pending_again(pod) for pod in again])
            trial.run()
            now = _by_key(trial)
        if not blocked or not again:
            break
    return now, "".join(f"{key} cannot be evicted: {why}" for key, why in [*blocked.items()][:1])


def _by_key(world: Cluster) -> dict[str, Pod]:
    return {pod.key: pod for pod in world.pods()}


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return pod.key if owner is None else owner.uid


def _made(now: dict[str, Pod], state: State, moving: list[Pod]) -> list[Pod]:
    """Pods that are new, some perhaps under the name of one that was evicted."""
    new = [now[key] for key in now.keys() - state.pods.keys()]
    again = (now[pod.key] for pod in moving if pod.key in now)
    here = {pod.spec.node_name for pod in moving}
    return [*new, *(pod for pod in again if pod.spec.node_name not in here)]


def _not_made_again(now: dict[str, Pod], state: State, moving: list[Pod]) -> list[Pod]:
    """Evicted pods whose owners are not in the input: we do what the owners would."""
    made = Counter(_owner(pod) for pod in _made(now, state, moving))
    found = []
    for pod in moving:
        if pod.key not in now:
            if made[_owner(pod)] > 0:
                made[_owner(pod)] -= 1
            else:
                found.append(pod)
    return found


def _pending_again(pod: Pod) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(pod)
    spec = {name: value for name, value in data["spec"].items() if name != "nodeName"}
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {name: value for name, value in data["metadata"].items() if name in kept}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
