"""GPUs that pods share: who may run where, which GPUs a pod gets, and what is left of them.

A node has some `example.com/gpu`, each of a thousand parts.  A pod says in labels how many it
wants (`gpu-count`) and how much of each (`gpu-milli`): 1000 are whole, idle GPUs; less is a share
of one.  Which ones it got is written on the pod with its binding, as an annotation, so what is left
on a node follows from the pods on it, whoever bound them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stowplan.plugin import (
    Action,
    Bind,
    Cycle,
    EventRegistration,
    Handle,
    NodeInfo,
    NodeTable,
    PerNode,
    PodInfo,
    Reads,
    Resource,
    Rows,
    Status,
    Verdict,
    on,
    unschedulable,
    verdict_of,
)

GPUS = "example.com/gpu"
COUNT, MILLI = "gpu-count", "gpu-milli"
CHOSEN = "example.com/gpus"
GPUS_MAX = 8
WHOLE = 1000
TOO_FEW = "node(s) had too few GPUs left"


class Ask(NamedTuple):
    """What a pod wants."""

    count: int
    milli: int
    """Of each."""
    cpu: int = 0
    """In thousandths, for policies; a pod that asks for none counts as 100 there."""

    @property
    def is_share(self) -> bool:
        return 0 < self.milli < WHOLE


def gpus_asked(pod: PodInfo) -> Ask:
    labels = pod.kind.labels
    count = int(labels.get(COUNT, 0))
    return Ask(count, int(labels.get(MILLI, WHOLE)) if count else 0)


def all_asked(pod: PodInfo) -> Ask:
    return gpus_asked(pod)._replace(cpu=pod.kind.requests.get("cpu", 0) or 100)


def best_fit(pod: PodInfo, left: list[int], node: NodeInfo) -> int:
    """The GPU with the least left that suffices; of equal ones the first."""
    milli = gpus_asked(pod).milli
    return min((n for n in range(GPUS_MAX) if left[n] >= milli), key=lambda n: left[n])


class GpusLeft(PerNode):
    """Parts left of each GPU of each node; 0 where there is no such GPU."""

    width = GPUS_MAX

    def __init__(self, nodes: NodeTable) -> None:
        super().__init__(nodes)
        self.chosen: dict[str, list[int]] = {}
        """Uid -> the GPUs of a pod that does not say so itself yet."""
        self.choose: Callable[[PodInfo, list[int], NodeInfo], int] = best_fit
        """The GPU for a share of a node that the pod is counted on; a policy may have its own
        idea."""

    def work_out(self, node: NodeInfo, but: str = "") -> list[int]:
        """`but` is the uid of a pod to leave out."""
        count = node.allocatable.get(GPUS, 0)
        left = [WHOLE] * count + [0] * (GPUS_MAX - count)
        for uid, pod in node.pods.items():
            milli = pod.kind.labels.get(MILLI)
            if milli is not None and uid != but:
                for gpu in self._gpus_of(uid, pod):
                    left[gpu] -= int(milli)
        return left

    def _gpus_of(self, uid: str, pod: PodInfo) -> list[int]:
        written = (pod.pod.metadata.annotations or {}).get(CHOSEN)
        if written is None:
            return self.chosen.get(uid, [])
        self.chosen.pop(uid, None)
        return [int(gpu) for gpu in written.split(",")]


class GpuShare:
    """Filter, Reserve and Bind for pods with GPUs."""

    name = "GpuShare"
    reads = Reads.PODS

    def __init__(self, args: Any, handle: Handle) -> None:
        self._gpus = handle.shared(GpusLeft)
        self._handle = handle

    def signature(self, pod: PodInfo) -> Ask:
        return gpus_asked(pod)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """GPUs come back when a pod goes, and come with nodes."""
        nodes = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        return (on(Resource.ASSIGNED_POD, Action.DELETE), on(Resource.NODE, nodes))

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        ask = gpus_asked(pod)
        fitting = sum(left >= ask.milli for left in self._gpus.of(node))
        return None if fitting >= ask.count else unschedulable(TOO_FEW)

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        ask = gpus_asked(pod)
        fitting = np.count_nonzero(self._gpus.columns()[rows] >= ask.milli, axis=1)
        return verdict_of(fitting < ask.count, TOO_FEW, unresolvable=False)

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        ask, info = gpus_asked(pod), self._handle.node(node)
        assert info is not None
        left = self._gpus.work_out(info, but=pod.uid)
        if ask.is_share:
            self._gpus.chosen[pod.uid] = [self._gpus.choose(pod, left, info)]
        elif ask.count:
            idle = [n for n in range(GPUS_MAX) if left[n] == WHOLE]
            self._gpus.chosen[pod.uid] = idle[: ask.count]
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self._gpus.chosen.pop(pod.uid, None)

    def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Bind:
        metadata, chosen = pod.pod.metadata, self._gpus.chosen.get(pod.uid)
        written = {CHOSEN: ",".join(map(str, chosen))} if chosen else None
        return Bind(metadata.namespace, metadata.name, metadata.uid, node, written)
