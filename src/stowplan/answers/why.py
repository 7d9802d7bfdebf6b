"""`why`: where a pod stands, what stands in its way, and what would help, proven.

`cluster.why("default/web")`, `decision.explain()` and `stowplan why` are this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stowplan.answers.causes import Cause, causes_of
from stowplan.answers.groups import Lack, lack_of
from stowplan.answers.overview import GROUPS_MAX, Overview, grouped, placed_by
from stowplan.answers.placed import Placed, placed
from stowplan.answers.proving import Fix, Prover
from stowplan.answers.searching import find_fixes
from stowplan.answers.situation import Situation, is_lost
from stowplan.answers.text import WIDTH, lines_of
from stowplan.answers.words import Tell, tell_nobody
from stowplan.errors import InputError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.lanes import Place

FIXES_MAX = 5


@dataclass(slots=True, repr=False)
class Why:
    """The answer for one pod.  Truth: it has a node."""

    pod: str
    node: str = ""
    place: Place | None = None
    message: str = ""
    """What the scheduler said last."""
    history: list[Decision] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    fixes: list[Fix] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    """Changes that were tried, whether they helped or not."""
    node_count: int = 0
    evicted: list[str] = field(default_factory=list)
    """Whom the pod evicts to get its node."""
    group: Lack | None = None
    """What the pod's group lacks, if it was not placed."""

    def __bool__(self) -> bool:
        return bool(self.node)

    def to_dict(self) -> dict[str, Any]:
        """What `stowplan why -o json` prints."""
        group = {} if self.group is None else {"group": self.group.to_dict()}
        return {
            "pod": self.pod,
            "node": self.node,
            **group,
            "causes": [cause.to_dict() for cause in self.causes],
            "fixes": [fix.to_dict() for fix in self.fixes],
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        return lines_of(self, width)

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def why(
    cluster: Cluster,
    key: str = "",
    *,
    fixes: int = FIXES_MAX,
    node: str = "",
    tell: Tell = tell_nobody,
) -> Why | Placed | Overview:
    """Why this pod has no node, or which it has; up to so many fixes.

    With `node`, of a pod that has one: why not there.  Without a pod: all that are pending, by
    cause.  The cluster itself is not changed: what is still to be decided is decided on a fork.
    """
    if not key:
        return _all_pending(cluster, fixes, tell)
    key = find_pod(cluster, key)
    with cluster.fork() as world:
        tell("deciding what waits")
        world.run()
        if node:
            return placed(world, key, node)
        return _of_pod(cluster, world, key, fixes, tell)


def _of_pod(cluster: Cluster, world: Cluster, key: str, fixes: int, tell: Tell) -> Why:
    try:
        pod = world.pod(key)
    except InputError:
        # It had a node for as long as it tolerates a taint there, or ran to its end.
        history = world.decision(key).history
        return Why(key, history[-1].node, history=history)
    node = "" if is_lost(world, pod) else pod.spec.node_name
    answer = Why(key, node, _place(cluster, world, key))
    try:
        decision = world.decision(key)
        answer.message, answer.history = decision.full_message, decision.history
        answer.evicted = [v for each in answer.history for v in each.victims]
        answer.group = lack_of(world, decision)
    except InputError:
        # Nobody decides on it, or it came with its node.
        pass
    if answer.node:
        return answer
    with world.screen() as screen:
        situation = Situation(world, key, screen)
        answer.node_count = len(situation.names)
        answer.causes = causes_of(situation)
        if fixes:
            prover = Prover(cluster, situation, tell)
            answer.fixes = find_fixes(situation, prover, fixes)
            answer.tried = prover.tried
    return answer


def _place(cluster: Cluster, world: Cluster, key: str) -> Place:
    """Where it stands: as the question found it, if it had been tried by then.  Otherwise only the
    fork has tried it, and nobody waits for the backoff there."""
    before, after = cluster.place(key), world.place(key)
    was_tried = before.attempts or before.place == "permit"
    return before if was_tried and after.place != "bound" else replace(after, backoff_s=0.0)


def _all_pending(cluster: Cluster, fixes: int, tell: Tell) -> Overview:
    """Each group with the best fix of its first pod, and how many pods that places."""
    with cluster.fork() as world:
        tell("deciding what waits")
        world.run()
        answer = Overview(grouped(world))
        for group in answer.groups[:GROUPS_MAX] if fixes else ():
            found = _of_pod(cluster, world, group.pods[0], 1, tell)
            if found.fixes:
                group.fix = found.fixes[0]
                group.helps = placed_by(world, group.pods, group.fix)
    return answer


WORKLOADS = {
    "deploy": "Deployment",
    "deployment": "Deployment",
    "rs": "ReplicaSet",
    "replicaset": "ReplicaSet",
    "sts": "StatefulSet",
    "statefulset": "StatefulSet",
    "ds": "DaemonSet",
    "daemonset": "DaemonSet",
    "job": "Job",
}


def _of_workload(cluster: Cluster, kind: str, name: str) -> str:
    """The first pod of a workload that is not placed yet, or else the first."""
    cluster.get(kind, name)
    names = {name.rpartition("/")[2]}
    for owned in cluster.objects("ReplicaSet") if kind == "Deployment" else ():
        owners = owned.metadata.owner_references or ()
        if any(owner.kind == kind and owner.name in names for owner in owners):
            names.add(owned.name)
    pods = [
        pod
        for pod in cluster.pods()
        if any(owner.name in names for owner in pod.metadata.owner_references or ())
    ]
    if not pods:
        raise InputError(f"there is no pod of {kind} {name!r}")
    return min(pods, key=lambda pod: (bool(pod.spec.node_name), pod.key)).key


def find_pod(cluster: Cluster, key: str) -> str:
    """The pod somebody means: `namespace/name`, a name that only one pod has, or its workload's."""
    kind, _, name = key.partition("/")
    if kind.lower() in WORKLOADS:
        return _of_workload(cluster, WORKLOADS[kind.lower()], name)
    if "/" not in key:
        named = [pod.key for pod in cluster.pods() if pod.name == key]
        if len(named) == 1:
            return named[0]
        key = f"default/{key}"
    cluster.get("Pod", key)
    return key
