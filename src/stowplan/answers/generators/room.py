"""Whatever the cause is: another node, a running pod that goes, a higher priority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from stowplan.answers.changes import Candidate, Data, ObjectEdit, Sort
from stowplan.answers.generators.volume_places import ties, volume_names
from stowplan.answers.situation import Situation
from stowplan.answers.words import quantity
from stowplan.objects.pod import Pod
from stowplan.objects.resources import pod_requests
from stowplan.world.nodes import HOST, free_names, named_node, node_like

POOLS_MAX = 6
COUNT_MAX = 100
"""Nodes that are added at once."""
FREED_MAX = 6
LOOKED_AT_MAX = 100
"""Nodes whose pods are looked at."""
TOGETHER_MAX = 4
"""Pods that are freed at once."""
MIRROR = "kubernetes.io/config.mirror"
SYSTEM_PRIORITY = 2_000_000_000


# -- another node ---------------------------------------------------------------------------


def another_node(s: Situation) -> Iterator[Candidate]:
    """Of each pool, or a larger one where no pool's nodes are large enough."""
    pools = _pools(s)
    fitting = [row for row in pools if not _short(s, row)]
    tied = _ties_of_volumes(s)
    for row in fitting[:POOLS_MAX]:
        yield _node(s, row, {}, {})
        for count in _counts(s, row) if row in fitting[:2] else ():
            yield _several(s, row, count)
        if tied and any(s.labels(row).get(key) != value for key, value in tied.items()):
            yield _node(s, row, tied, {})
    if not fitting:
        for row in pools[:2]:
            yield _node(s, row, {}, _short(s, row))


def _counts(s: Situation, row: int) -> list[int]:
    """How many it may take where others wait before this pod, or have to be placed with it: as many
    as they fill, and near it."""
    group = s.group
    ahead = {s.cluster.place(s.key).position, 0 if group is None else len(group.unplaced)}
    each = min(
        (int(s.allocatable[name][row]) // amount for name, amount in s.requests.items() if amount),
        default=COUNT_MAX,
    )
    counts: set[int] = set()
    for others in ahead - {0, 1}:
        needed = -(-others // max(each, 1))
        counts |= {2, needed // 2, needed, 2 * needed}
    return sorted(n for n in counts if 1 < n <= COUNT_MAX)


def _several(s: Situation, row: int, count: int) -> Candidate:
    one = _node(s, row, {}, {})
    like, nodes = s.names[row], []
    names = free_names(f"{like}-new", s.names, count)
    for name in names:
        for data in one.create:
            labels = data["metadata"].get("labels")
            metadata = {**data["metadata"], "name": name}
            if labels is not None:
                metadata["labels"] = {**labels, HOST: name}
            nodes.append({**data, "metadata": metadata})
    title = f"add {count} nodes like {like}"
    return Candidate(title, Sort.ADD_NODE, count, create=tuple(nodes))


def _pools(s: Situation) -> list[int]:
    """One node of each sort, those that fewest plugins object to first."""
    found: dict[Any, int] = {}
    order = [row for _, rows in s.groups() for row in rows]
    for row in order:
        node = s.nodes[row]
        labels = tuple(
            sorted((k, v) for k, v in s.labels(row).items() if k != HOST and v != node.name)
        )
        taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints or ())
        amounts = tuple(sorted((node.status.allocatable or {}).items()))
        found.setdefault((labels, taints, amounts), row)
    return list(found.values())


def _short(s: Situation, row: int) -> dict[str, int]:
    """What a node of this sort has too little of, even when it is empty."""
    return {
        name: amount
        for name, amount in s.requests.items()
        if amount > (int(s.allocatable[name][row]) if name in s.allocatable else 0)
    }


def _ties_of_volumes(s: Situation) -> dict[str, str]:
    bound = volume_names(s)
    found: dict[str, str] = {}
    for volume in s.objects("PersistentVolume") if bound else ():
        if volume.name in bound:
            found.update(ties(volume))
    return found


def _node(s: Situation, row: int, labels: dict[str, str], more: dict[str, int]) -> Candidate:
    like = s.names[row]
    template = node_like(s.cluster.get("Node", like))
    template["metadata"]["labels"].update(labels)
    for resource, wanted in more.items():
        for field in ("allocatable", "capacity"):
            room = template["status"].setdefault(field, {})
            template["status"][field] = {**room, resource: quantity(resource, wanted)}
    (name,) = free_names(f"{like}-new", s.names, 1)
    node = named_node(template, name)
    words = "".join(f", with {key}={value}" for key, value in labels.items())
    words += "".join(f", with {quantity(key, value)} {key}" for key, value in more.items())
    create = [node, *_csi_node(s, like, name), *_slices(s, like, name)]
    amount = row / 1e6 + len(labels) + 2 * len(more)
    return Candidate(
        f"add a node like {like}{words}",
        Sort.ADD_NODE,
        amount,
        create=tuple(create),
        last_resort=bool(more),
    )


def _csi_node(s: Situation, like: str, name: str) -> list[Data]:
    """What drivers say of such a node: how many volumes it takes."""
    if not any(each.name == like for each in s.objects("CSINode")):
        return []
    data = s.cluster.get("CSINode", like)
    return [
        {
            "apiVersion": data["apiVersion"],
            "kind": "CSINode",
            "metadata": {"name": name},
            "spec": data["spec"],
        }
    ]


def _slices(s: Situation, like: str, name: str) -> list[Data]:
    """The devices that such a node has."""
    made = []
    claims = s.pod.spec.resource_claims
    for each in s.objects("ResourceSlice") if claims else ():
        if each.spec.node_name != like:
            continue
        data = s.cluster.get("ResourceSlice", each.name)
        pool = {**data["spec"]["pool"], "name": name}
        made.append(
            {
                "apiVersion": data["apiVersion"],
                "kind": "ResourceSlice",
                "metadata": {"name": f"{each.name}-{name}"},
                "spec": {**data["spec"], "nodeName": name, "pool": pool},
            }
        )
    return made


# -- a pod that goes ------------------------------------------------------------------------


def freed_pods(s: Situation, rows: list[int], plugin: str) -> Iterator[Candidate]:
    """Running pods whose place would do, those of low priority and small size first."""
    found: list[tuple[tuple[Any, ...], tuple[Pod, ...]]] = []
    for row in _roomiest(s, rows):
        movable = [
            pod
            for pod in s.by_node.get(s.names[row], ())
            if _is_movable(pod) and not s.is_sibling(pod)
        ]
        in_the_way = _in_the_way(s, row, movable, plugin)
        found += [(_weight(pods), pods) for pods in in_the_way]
    found.sort(key=lambda entry: entry[0])
    for number, (_, pods) in enumerate(found[:FREED_MAX]):
        names = ", ".join(pod.key for pod in pods)
        where = pods[0].spec.node_name
        delete = tuple(("Pod", pod.key) for pod in pods)
        title = f"delete {names} on {where}"
        given_back = tuple(_given_back(s, pods)) if plugin == "DynamicResources" else ()
        yield Candidate(title, Sort.FREE, number / 100, delete=delete, objects=given_back)


def _given_back(s: Situation, pods: tuple[Pod, ...]) -> Iterator[ObjectEdit]:
    """Claims that nobody else holds: with the pods go the allocations."""
    gone = {pod.uid for pod in pods}
    for claim in s.objects("ResourceClaim"):
        holders = {each.uid for each in claim.status.reserved_for or ()}
        if holders and holders <= gone:
            yield ObjectEdit("ResourceClaim", claim.key, _without_status)


def _without_status(claim: Data) -> None:
    del claim["status"]


def _roomiest(s: Situation, rows: list[int]) -> list[int]:
    """The nodes where the least is missing."""
    if len(rows) <= LOOKED_AT_MAX:
        return rows
    missing = np.zeros(len(rows))
    for name, amount in s.requests.items():
        if amount and name in s.free:
            missing += np.maximum(amount - s.free[name][rows], 0) / amount
    order = np.argsort(missing, kind="stable")[:LOOKED_AT_MAX]
    return [rows[position] for position in order.tolist()]


def _weight(pods: tuple[Pod, ...]) -> tuple[Any, ...]:
    size = sum(pod_requests(pod, use_status=False).get("cpu", 0) for pod in pods)
    priority = max(pod.spec.priority or 0 for pod in pods)
    return len(pods), priority, size, pods[0].key


def _is_movable(pod: Pod) -> bool:
    owners = pod.metadata.owner_references or ()
    return (
        MIRROR not in (pod.metadata.annotations or {})
        and not any(owner.kind in ("DaemonSet", "Node") for owner in owners)
        and pod.metadata.deletion_timestamp is None
        and (pod.spec.priority or 0) < SYSTEM_PRIORITY
    )


def _in_the_way(
    s: Situation, row: int, movable: list[Pod], plugin: str
) -> Iterable[tuple[Pod, ...]]:
    if plugin == "NodeResourcesFit":
        return _makes_room(s, row, movable)
    if plugin == "volumes":
        return [(pod,) for pod in movable if pod.spec.volumes]
    if plugin == "NodePorts":
        return [(pod,) for pod in movable if any(c.ports for c in pod.spec.containers or ())]
    if plugin == "DynamicResources":
        return [(pod,) for pod in movable if pod.spec.resource_claims]
    if plugin in ("InterPodAffinity", "PodTopologySpread"):
        return [(pod,) for pod in movable if pod.metadata.labels or pod.spec.affinity]
    return ()


def _makes_room(s: Situation, row: int, movable: list[Pod]) -> Iterable[tuple[Pod, ...]]:
    room = {name: int(column[row]) for name, column in s.free.items()}
    needed = {
        name: amount - room.get(name, 0)
        for name, amount in {**s.requests, "pods": 1}.items()
        if amount > room.get(name, 0)
    }
    given = {pod.key: {**pod_requests(pod, use_status=True), "pods": 1} for pod in movable}

    def enough(pods: Iterable[Pod]) -> bool:
        pods = list(pods)
        return all(
            sum(given[pod.key].get(name, 0) for pod in pods) >= amount
            for name, amount in needed.items()
        )

    single = [(pod,) for pod in movable if enough([pod])]
    if single:
        return single
    chosen: list[Pod] = []
    order = sorted(movable, key=lambda pod: (pod.spec.priority or 0, -sum(given[pod.key].values())))
    for pod in order:
        chosen.append(pod)
        if enough(chosen):
            return [tuple(chosen)]
        if len(chosen) == TOGETHER_MAX:
            break
    return []


# -- a higher priority ----------------------------------------------------------------------


def priorities(s: Situation) -> Iterator[Candidate]:
    """The lowest class above the pod's that exists; without classes, just above running pods."""
    own = s.pod.spec.priority or 0
    if s.pod.spec.preemption_policy == "Never":

        def preempt(pod: Data) -> None:
            pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"

        yield Candidate("let it preempt (preemptionPolicy)", Sort.PRIORITY, 0, pod=(preempt,))
    classes = sorted(
        (each.value, each.name)
        for each in s.objects("PriorityClass")
        if own < each.value < SYSTEM_PRIORITY and each.preemption_policy != "Never"
    )
    for number, (value, name) in enumerate(classes[:4], 1):
        edit = partial(_classify, name, value)
        yield Candidate(f"give it the priority class {name} ({value})", Sort.PRIORITY, number,
                        pod=(edit,))  # fmt: skip
    if classes:
        return
    above = sorted({(pod.spec.priority or 0) + 1 for pod in s.running if _is_movable(pod)})
    for number, value in enumerate([each for each in above if each > own][:3], 1):
        name = f"above-{value - 1}"
        edit = partial(_classify, name, value)
        made: Data = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        title = f"give it a new priority class {name} ({value})"
        yield Candidate(title, Sort.PRIORITY, number, pod=(edit,), create=(made,))


def _classify(name: str, value: int, pod: Data) -> None:
    spec = pod["spec"]
    spec["priorityClassName"] = name
    if "priority" in spec:
        spec["priority"] = value
    if spec.get("preemptionPolicy") == "Never":
        spec["preemptionPolicy"] = "PreemptLowerPriority"
