"""What is known about a pod and the nodes it does not fit on: read once, shared by all that answer.

The cluster here has been run: whatever can be placed is.  `objections` come from the scheduler's
plugins, amounts from its columns; objects are as the cluster has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, cast

from stowplan.core.group_outcome import GroupOutcome
from stowplan.errors import InputError
from stowplan.objects.labels import compile_selector
from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod, PodAffinityTerm
from stowplan.objects.resources import pod_requests
from stowplan.objects.taints import HARD_EFFECTS, tolerates
from stowplan.world.cluster import Cluster
from stowplan.world.objections import Objections
from stowplan.world.screening import Screen

Data = dict[str, Any]

CORDONED = "node.kubernetes.io/unschedulable"
SCHEDULER = "schedulerName"
GATES = "SchedulingGates"
VOLUMES = "volumes"
FAMILIES = {
    "VolumeRestrictions": VOLUMES,
    "NodeVolumeLimits": VOLUMES,
    "VolumeBinding": VOLUMES,
    "VolumeZone": VOLUMES,
}
"""Plugins that object to one and the same thing."""

FACTS = ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "kubernetes.io/",
         "beta.kubernetes.io/", "node.kubernetes.io/")  # fmt: skip
"""Labels under these say where a node is and what it is: giving it another makes it lie."""

_OWNERS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")


class Situation:
    def __init__(self, cluster: Cluster, key: str, screen: Screen) -> None:
        self.cluster = cluster
        self.screen = screen
        self.pod = cluster.pod(key)
        self.key = key
        self.manifest: Data = cluster.source("Pod", key) or _bare(cluster.get("Pod", key))
        """The pod to try changes on; never changed itself."""
        self.whole = frozenset(_of_the_pod(cluster, self.pod))
        """What keeps the pod from being tried on any node."""
        self.objections: Objections = screen.objections(self._for_some_scheduler())
        self.names = self.objections.names

    def _for_some_scheduler(self) -> Data:
        if SCHEDULER not in self.whole:
            return self.manifest
        spec = {**self.manifest["spec"], "schedulerName": self.cluster.profiles[0]}
        return {**self.manifest, "spec": spec}

    @cached_property
    def nodes(self) -> list[Node]:
        """In the order of `names`."""
        known = {node.name: cast(Node, node) for node in self.cluster.objects("Node")}
        return [known[name] for name in self.names]

    @cached_property
    def free(self) -> dict[str, Any]:
        """Resource -> how much is left on each node."""
        return _columns(self.cluster.free(), self.names)

    @cached_property
    def room(self) -> dict[str, Any]:
        """The same beside the members of the pod's group that had a place."""
        group, rows = self.group, {name: row for row, name in enumerate(self.names)}
        placed = {} if group is None or group.is_placed else group.placed
        room = {name: column.copy() for name, column in self.free.items()} if placed else self.free
        for key, node in placed.items():
            taken = {**pod_requests(self.cluster.pod(key), use_status=False), "pods": 1}
            for name, amount in taken.items():
                if name in room and key != self.key and node in rows:
                    room[name][rows[node]] -= amount
        return room

    @cached_property
    def allocatable(self) -> dict[str, Any]:
        return _columns(self.cluster.allocatable(), self.names)

    @cached_property
    def requests(self) -> dict[str, int]:
        return pod_requests(self.pod, use_status=False)

    @cached_property
    def group(self) -> GroupOutcome | None:
        """What came of the group that the pod was decided on with."""
        try:
            return self.cluster.decision(self.key).group
        except InputError:
            # Nobody decides on it.
            return None

    @cached_property
    def running(self) -> list[Pod]:
        """Pods that take up room."""
        return [
            pod
            for pod in self.cluster.pods(pending=False)
            if pod.spec.node_name and pod.status.phase not in ENDED_PHASES
        ]

    @cached_property
    def by_node(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self.running:
            found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    def groups(self) -> list[tuple[frozenset[str], list[int]]]:
        """Nodes (by position) with the same families of objections, the fewest first."""
        merged: dict[frozenset[str], list[int]] = {}
        for plugins, rows in self.objections.groups():
            families = {FAMILIES.get(plugin, plugin) for plugin in plugins} | self.whole
            for row in rows.tolist():
                found = families
                if "NodeUnschedulable" in families and self.is_only_cordoned(row):
                    found = families - {"TaintToleration"}
                merged.setdefault(frozenset(found), []).append(row)
        return sorted(merged.items(), key=lambda group: (len(group[0]), -len(group[1])))

    def is_only_cordoned(self, row: int) -> bool:
        """A cordon comes with a taint that says the same."""
        return all(taint.key == CORDONED for taint in self.untolerated(row))

    def untolerated(self, row: int) -> list[Any]:
        tolerations = self.pod.spec.tolerations or ()
        return [
            taint
            for taint in self.nodes[row].spec.taints or ()
            if taint.effect in HARD_EFFECTS
            and not any(tolerates(each, taint) for each in tolerations)
        ]

    @cached_property
    def opposing(self) -> list[tuple[Pod, PodAffinityTerm]]:
        """Running pods that keep away from pods with these labels, and the terms that say so."""
        own = dict((self.manifest.get("metadata") or {}).get("labels") or {})
        return [
            (pod, term)
            for pod in self.running
            for term in _anti_affinity(pod)
            if compile_selector(term.label_selector).matches(own)
        ]

    def labels(self, row: int) -> dict[str, str]:
        return self.nodes[row].metadata.labels or {}

    def has_label(self, key: str) -> bool:
        """Whether any node has a label of that key."""
        return any(key in (node.metadata.labels or ()) for node in self.nodes)

    def objects(self, kind: str) -> Sequence[Any]:
        try:
            return list(self.cluster.objects(kind))
        except InputError:
            return ()

    # -- whose manifest it is ---------------------------------------------------------------

    @cached_property
    def owner(self) -> tuple[str, str] | None:
        """The workload (kind, key) whose template the pod was made of: the topmost in the input."""
        found: tuple[str, str] | None = None
        references = self.pod.metadata.owner_references
        for _ in _OWNERS:
            owner = next((each for each in references or () if each.kind in _OWNERS), None)
            if owner is None:
                break
            key = f"{self.pod.namespace}/{owner.name}"
            known = {each.key: each for each in self.objects(owner.kind)}
            if key not in known:
                break
            in_input = self.cluster.source(owner.kind, key) is not None
            if in_input or found is None or not self.cluster.has_sources:
                found = owner.kind, key
            references = known[key].metadata.owner_references
        return found

    def is_sibling(self, other: Pod) -> bool:
        """Whether another replica took its place: of one workload, either is as good."""
        own, its = (pod.metadata.controller() for pod in (self.pod, other))
        return own is not None and its is not None and own.uid == its.uid

    def selector_labels(self) -> set[str]:
        """Labels that the pod's owner knows it by."""
        if self.owner is None:
            return set()
        owner = self.cluster.get(*self.owner)
        selector = (owner.get("spec") or {}).get("selector") or {}
        return set(selector.get("matchLabels") or selector)

    def edited(self, edits: Iterable[Any]) -> Data:
        manifest = deepcopy(self.manifest)
        for edit in edits:
            edit(manifest)
        return manifest


def _anti_affinity(pod: Pod) -> Iterable[PodAffinityTerm]:
    stanza = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return (stanza.required if stanza else None) or ()


def is_lost(cluster: Cluster, pod: Pod) -> bool:
    """Whether it names a node that there is not: no scheduler looks at it, no kubelet runs it."""
    if not pod.spec.node_name or pod.status.phase not in ("", "Pending"):
        return False
    names = {node.name for node in cluster.objects("Node")}
    return bool(names) and pod.spec.node_name not in names


def is_fact(key: str) -> bool:
    """Whether a label says where a node is or what it is."""
    return key.startswith(FACTS)


def _of_the_pod(cluster: Cluster, pod: Pod) -> Iterable[str]:
    gate = cluster.place(pod.key).gated_by
    if gate:
        yield gate
    if pod.spec.scheduler_name not in cluster.profiles:
        yield SCHEDULER
        if pod.spec.scheduling_gates:
            # Nobody has looked at them yet.
            yield GATES


def _bare(data: Data) -> Data:
    """A served pod as a manifest: without what the cluster says about it."""
    return {**data, "status": {}}


def _columns(table: Any, names: list[str]) -> dict[str, Any]:
    assert table.index == names, "the cluster has not changed"
    return {column: table[column] for column in table.columns}
