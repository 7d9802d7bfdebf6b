"""What the scheduler believes, written down; and compared with what the informers say.

`dump` shows every node (ghosts too) with its sums, pods and nominated pods, and the queue.
`compare` finds nodes and pods that one side knows and the other does not.  Both only read.
`runtime` calls them on SIGUSR2 and over HTTP.  Mirrors kube-scheduler's `backend/cache/debugger`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stowplan.printable import printable
from stowplan.state.consistency import cache_problems
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine


@dataclass(frozen=True, slots=True)
class NodeDump:
    name: str
    deleted: bool
    """A ghost: only pods speak of it."""
    requested: dict[str, int]
    allocatable: dict[str, int]
    pods: list[dict[str, str]]
    nominated: list[dict[str, str]]

    @property
    def text(self) -> str:
        lines = [
            f"Node name: {self.name}",
            f"Deleted: {str(self.deleted).lower()}",
            f"Requested Resources: {_amounts(self.requested)}",
            f"Allocatable Resources: {_amounts(self.allocatable)}",
            f"Scheduled Pods(number: {len(self.pods)}):",
            *map(_pod_line, self.pods),
            f"Nominated Pods(number: {len(self.nominated)}):",
            *map(_pod_line, self.nominated),
        ]
        return "\n".join(map(printable, lines))


@dataclass(frozen=True, slots=True)
class Dump:
    nodes: list[NodeDump]
    """The most recently changed first."""
    queue_summary: str
    queued: list[dict[str, str]]
    assumed: list[str]
    """Uids of pods that are on their way to their nodes."""
    waiting: list[str]
    """Uids of pods that wait at Permit."""
    owing: list[str]
    """A line for each namespace whose pods let others go first."""

    @property
    def text(self) -> str:
        nodes = "\n\n".join(node.text for node in self.nodes)
        queue = "\n".join(map(printable, [*self.owing, *map(_pod_line, self.queued)]))
        return (
            f"Dump of cached NodeInfo\n{nodes}\n\n"
            f"Dump of scheduling queue\n{self.queue_summary}\n{queue}"
        )


def dump(machine: Machine) -> Dump:
    pending, summary = machine.queue.pending_pods()
    return Dump(
        [dump_node(machine, info) for info in latest_first(machine)],
        summary,
        [_pod(pod) for pod in pending],
        machine.cache.assumed_uids(),
        machine.waiting.uids(),
        owing_lines(machine),
    )


def owing_lines(machine: Machine) -> list[str]:
    """Which namespaces let others go first, and why."""
    return [
        f"namespace {namespace} lets others go first for {debt.until_s - machine.now_s:.1f} s: "
        f"an attempt at {debt.pod} took {debt.seconds:.2f} s"
        for namespace, debt in machine.queue.owing().items()
    ]


def latest_first(machine: Machine) -> list[NodeInfo]:
    return sorted(machine.cache.nodes.values(), key=lambda info: -info.generation)


def dump_node(machine: Machine, info: NodeInfo) -> NodeDump:
    nominated = machine.queue.nominator.pods_for_node(info.name)
    return NodeDump(
        info.name,
        info.node is None,
        dict(info.requested),
        dict(info.allocatable),
        [_pod(pod) for pod in info.pods.values()],
        [_pod(pod) for pod in nominated],
    )


@dataclass(slots=True)
class Comparison:
    """`missed`: the cluster has it, we do not; `redundant`: the other way round."""

    missed_nodes: list[str] = field(default_factory=list)
    redundant_nodes: list[str] = field(default_factory=list)
    missed_pods: list[str] = field(default_factory=list)
    """Uids; a pod that is being decided on right now is one of them."""
    redundant_pods: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Where what we believe contradicts itself."""

    @property
    def agrees(self) -> bool:
        return not (
            self.missed_nodes
            or self.redundant_nodes
            or self.missed_pods
            or self.redundant_pods
            or self.problems
        )

    @property
    def text(self) -> str:
        """One line per mismatch, in upstream's words; empty when there is none."""
        lines = []
        if self.missed_nodes or self.redundant_nodes:
            lines.append(
                f"Cache mismatch: missed nodes {self.missed_nodes}; "
                f"redundant nodes {self.redundant_nodes}"
            )
        if self.missed_pods or self.redundant_pods:
            lines.append(
                f"Cache mismatch: missed pods {self.missed_pods}; "
                f"redundant pods {self.redundant_pods}"
            )
        return "\n".join(map(printable, lines + self.problems))


def compare(machine: Machine, nodes: Iterable[str], pods: Iterable[str]) -> Comparison:
    """`nodes` are names, `pods` the uids of unfinished pods, both as the informers have them."""
    known_nodes = {name for name, info in machine.cache.nodes.items() if info.node is not None}
    pending, _ = machine.queue.pending_pods()
    known_pods = {uid for info in machine.cache.nodes.values() for uid in info.pods}
    known_pods |= {pod.uid for pod in pending}
    foreign = {info.uid for info in machine.pods.values() if not machine.is_ours(info.pod)}
    nodes, pods = set(nodes), set(pods)
    return Comparison(
        sorted(nodes - known_nodes),
        sorted(known_nodes - nodes),
        # Pods that another scheduler has to place are nobody's business here.
        sorted(pods - known_pods - foreign),
        sorted(known_pods - pods),
        cache_problems(machine.cache),
    )


def _pod(info: PodInfo) -> dict[str, str]:
    status = info.pod.status
    return {
        "name": info.pod.metadata.name,
        "namespace": info.pod.metadata.namespace,
        "uid": info.uid,
        "phase": status.phase,
        "nominatedNode": status.nominated_node_name,
    }


def _pod_line(pod: dict[str, str]) -> str:
    return (
        f"name: {pod['name']}, namespace: {pod['namespace']}, uid: {pod['uid']}, "
        f"phase: {pod['phase']}, nominated node: {pod['nominatedNode']}"
    )


def _amounts(amounts: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in sorted(amounts.items())) or "none"
