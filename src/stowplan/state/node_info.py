"""NodeInfo: one node with its pods, and the sums that scheduling asks for.

The cache keeps one per node and counts here, in Python integers; the node table copies what
changed into its columns.  Mirrors kube-scheduler's `framework/types.go`, NodeInfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stowplan.objects.node import Node, Taint
from stowplan.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, allocatable
from stowplan.state.pod_info import ANY_IP, NO_LABELS, HostPort, PodInfo, PodKind

_ALWAYS_THERE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class ImageState(NamedTuple):
    size_bytes: int
    node_count: int


class NodeInfo:
    __slots__ = (
        "allocatable",
        "claim_refs",
        "generation",
        "holder",
        "image_states",
        "name",
        "node",
        "nonzero_memory",
        "nonzero_milli_cpu",
        "pods",
        "requested",
        "row",
        "used_ports",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        """None for a ghost: pods are known to be on it, the node itself is not."""
        self.row = -1
        """Its row in the node table; -1 while it has none."""
        self.pods: dict[str, PodInfo] = {}
        """By uid, in the order they came."""
        self.allocatable: dict[str, int] = {}
        self.requested: dict[str, int] = {CPU: 0, MEMORY: 0, EPHEMERAL_STORAGE: 0}
        self.nonzero_milli_cpu = 0
        self.nonzero_memory = 0
        self.used_ports: set[HostPort] = set()
        self.claim_refs: dict[str, int] = {}
        self.image_states: dict[str, ImageState] = {}
        self.generation = 0
        self.holder: object = None
        """The cache that may change it; others that have it hold a fork, and copy it first."""

    @property
    def labels(self) -> dict[str, str]:
        node = self.node
        return (node.metadata.labels or NO_LABELS) if node is not None else NO_LABELS

    @property
    def taints(self) -> list[Taint] | tuple[Taint, ...]:
        node = self.node
        return (node.spec.taints or ()) if node is not None else ()

    def set_node(self, node: Node) -> None:
        self.node = node
        self.allocatable = allocatable(node)

    def add_pod(self, pod: PodInfo) -> None:
        kind, requested = pod.kind, self.requested
        self.pods[pod.uid] = pod
        for name, amount in kind.taken_up:
            requested[name] = requested.get(name, 0) + amount
        milli_cpu, memory = kind.nonzero_requests
        self.nonzero_milli_cpu += milli_cpu
        self.nonzero_memory += memory
        if kind.host_ports:
            self.used_ports.update(kind.host_ports)
        if kind.has_claims:
            self._count_claims(pod, 1)

    def remove_pod(self, pod: PodInfo) -> PodInfo:
        """Take off a pod that is on this node (by uid), and return it as it was counted."""
        known = self.pods.pop(pod.uid, None)
        if known is None:
            raise KeyError(f"no corresponding pod {pod.key} in pods of node {self.name}")
        self._take_off(known.kind, 1)
        if known.kind.has_claims:
            self._count_claims(known, -1)
        return known

    def remove_pods(self, pods: Iterable[PodInfo]) -> None:
        """`remove_pod` for several that are all on this node: replicas are counted together."""
        kinds: dict[PodKind, int] = {}
        for pod in pods:
            known = self.pods.pop(pod.uid)
            kind = known.kind
            kinds[kind] = kinds.get(kind, 0) + 1
            if kind.has_claims:
                self._count_claims(known, -1)
        for kind, count in kinds.items():
            self._take_off(kind, count)

    def _take_off(self, kind: PodKind, times: int) -> None:
        requested = self.requested
        for name, amount in kind.taken_up:
            left = requested.get(name, 0) - times * amount
            if left or name in _ALWAYS_THERE:
                requested[name] = left
            else:
                requested.pop(name, None)
        milli_cpu, memory = kind.nonzero_requests
        self.nonzero_milli_cpu -= times * milli_cpu
        self.nonzero_memory -= times * memory
        if kind.host_ports:
            # A set, as upstream has it: of two equal entries, removing one frees the port.
            self.used_ports.difference_update(kind.host_ports)

    def _count_claims(self, pod: PodInfo, times: int) -> None:
        for key in pod.claim_keys:
            count = self.claim_refs.get(key, 0) + times
            if count > 0:
                self.claim_refs[key] = count
            else:
                self.claim_refs.pop(key, None)

    def port_conflict(self, wanted: tuple[HostPort, ...]) -> bool:
        """0.0.0.0 clashes with any address; another address with itself and 0.0.0.0."""
        used = self.used_ports
        if not used:
            return False
        for ip, protocol, port in wanted:
            if (ip, protocol, port) in used or (ANY_IP, protocol, port) in used:
                return True
        everywhere = {(protocol, port) for ip, protocol, port in wanted if ip == ANY_IP}
        return bool(everywhere) and any(
            (protocol, port) in everywhere for _, protocol, port in used
        )

    def emptied(self) -> NodeInfo:
        """A copy to try things out on, without any pods."""
        copy = NodeInfo(self.name)
        copy.node, copy.row, copy.generation = self.node, self.row, self.generation
        copy.allocatable = self.allocatable
        copy.image_states = self.image_states
        return copy

    def clone(self) -> NodeInfo:
        """A copy to try things out on; pods and node are shared, the sums are not."""
        copy = NodeInfo.__new__(NodeInfo)
        copy.name = self.name
        copy.node, copy.row, copy.generation = self.node, self.row, self.generation
        copy.pods = dict(self.pods)
        copy.allocatable = self.allocatable
        copy.requested = dict(self.requested)
        copy.nonzero_milli_cpu = self.nonzero_milli_cpu
        copy.nonzero_memory = self.nonzero_memory
        copy.used_ports = set(self.used_ports)
        copy.claim_refs = dict(self.claim_refs)
        copy.image_states = self.image_states
        copy.holder = None
        return copy
