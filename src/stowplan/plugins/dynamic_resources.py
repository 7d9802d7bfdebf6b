"""DynamicResources, as far as it concerns pods that claim no devices.

Mirrors kube-scheduler's `dynamicresources/dynamicresources.go` for such pods to the letter,
because its PostFilter has a say (and a sentence) in every failed attempt.  Pods that do claim
devices are held back with a clear reason: placing them without allocating would be wrong.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import attrgetter
from typing import Any

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import EventRegistration
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP_ALWAYS, Status, error, unresolvable, unschedulable
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo

_claims = attrgetter("kind.spec.resource_claims")

NOT_SUPPORTED = "pod has resource claims, which Stowplan does not allocate yet"


class DynamicResources:
    name = "DynamicResources"
    reads = Reads.CLUSTER

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def events_to_register(self) -> Sequence[EventRegistration]:
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable(NOT_SUPPORTED) if pod.kind.spec.resource_claims else None

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        if not any(map(_claims, pods)):
            return [None] * len(pods)
        return list(map(self.pre_enqueue, pods))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.spec.resource_claims:
            return SKIP_ALWAYS
        cycle.data[self.name] = True
        return unresolvable(NOT_SUPPORTED)

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise AssertionError("PreFilter either skips this filter or ends the attempt")

    def post_filter(
        self, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
        yield from ()
        if self.name not in cycle.data and self.name not in cycle.skip_filter:
            # Another PreFilter ended the attempt before ours ran; upstream reports it so.
            return None, error("not found")
        return None, unschedulable("no new claims to deallocate")
