"""Short ways to write pods, plugins and queues in the tests of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, on
from stowplan.framework.status import Status, unschedulable
from stowplan.objects.base import ObjectMeta
from stowplan.objects.pod import Pod, PodSpec, PodStatus
from stowplan.queue import ProfileQueueing, QueuedPod, SchedulingQueue, build_hint_map
from stowplan.state.pod_info import PodInfo

PROFILE = "default-scheduler"

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)

_serial = count(1)


def pod(
    name: str = "",
    *,
    uid: str = "",
    priority: int | None = None,
    labels: dict[str, str] | None = None,
    nominated: str = "",
    node: str = "",
    profile: str = PROFILE,
    namespace: str = "default",
    **spec: Any,
) -> PodInfo:
    name = name or f"pod-{next(_serial)}"
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                namespace=namespace, name=name, uid=uid or f"uid-{name}", labels=labels
            ),
            spec=msgspec.structs.replace(
                PodSpec(scheduler_name=profile, priority=priority, node_name=node), **spec
            ),
            status=PodStatus(nominated_node_name=nominated),
        )
    )


def relabelled(info: PodInfo, **labels: str) -> PodInfo:
    metadata = msgspec.structs.replace(info.pod.metadata, labels=labels)
    return PodInfo(msgspec.structs.replace(info.pod, metadata=metadata))


def annotated(info: PodInfo) -> PodInfo:
    """The pod with a change that means nothing to scheduling."""
    metadata = msgspec.structs.replace(info.pod.metadata, annotations={"seen": str(next(_serial))})
    return PodInfo(msgspec.structs.replace(info.pod, metadata=metadata))


def nominated_to(info: PodInfo, node: str) -> PodInfo:
    status = msgspec.structs.replace(info.pod.status, nominated_node_name=node)
    return PodInfo(msgspec.structs.replace(info.pod, status=status))


def by_priority(info: PodInfo, timestamp_s: float) -> tuple[int, float]:
    """PrioritySort."""
    return -info.kind.priority, timestamp_s


@dataclass
class Clock:
    now_s: float = 1000.0

    def now(self) -> float:
        return self.now_s


@dataclass
class Plugin:
    """A Filter plugin that registers what it is told to."""

    name: str
    events: Sequence[EventRegistration] = ()

    def filter_node(self, cycle: Any, pod: PodInfo, node: Any) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        return self.events


@dataclass
class GatePlugin:
    """A PreEnqueue plugin that holds back the pods whose uid is in `closed_to`."""

    name: str
    closed_to: set[str] = field(default_factory=set)
    events: Sequence[EventRegistration] = ()
    asked: list[str] = field(default_factory=list)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.uid)
        return unschedulable(f"{self.name} is closed") if pod.uid in self.closed_to else None

    def events_to_register(self) -> Sequence[EventRegistration]:
        return self.events


def skip(pod: Pod, old: Any, new: Any) -> Hint:
    return Hint.SKIP


def boom(pod: Pod, old: Any, new: Any) -> Hint:
    raise RuntimeError("boom")


FIT = Plugin("Fit", [on(Resource.NODE, Action.ADD), on(Resource.POD, Action.DELETE)])
LABELS = Plugin("Labels", [on(Resource.NODE, Action.UPDATE_NODE_LABEL)])
OWN_LABEL = Plugin("OwnLabel", [on(Resource.POD, Action.UPDATE_POD_LABEL)])
DEAF = Plugin("Deaf")


class Harness:
    """A queue with a clock that tests move, and short words for what they do most."""

    def __init__(self, *plugins: Any, start_s: float = 1000.0, **options: Any) -> None:
        self.clock = Clock(start_s)
        plugins = plugins or (FIT, LABELS, OWN_LABEL, DEAF)
        gates = [plugin for plugin in plugins if hasattr(plugin, "pre_enqueue")]
        profiles = {PROFILE: ProfileQueueing(gates, build_hint_map(plugins))}
        self.queue = SchedulingQueue(by_priority, self.clock.now, profiles, **options)

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None, "nothing to pop"
        return queued

    def fail(self, queued: QueuedPod, *rejectors: str, pending: Sequence[str] = ()) -> QueuedPod:
        """The attempt failed: as the failure handler would say it."""
        queued.set_rejectors(frozenset(rejectors) | frozenset(pending), frozenset(pending))
        assert self.queue.add_unschedulable_if_not_present(queued) == ""
        return queued

    def failed(self, info: PodInfo, *rejectors: str, pending: Sequence[str] = ()) -> QueuedPod:
        """Add a pod and have its first attempt fail."""
        self.queue.add(info)
        return self.fail(self.pop(), *rejectors, pending=pending)

    def place(self, pod: PodInfo | QueuedPod) -> str | None:
        return self.queue.place_of(pod.uid if isinstance(pod, PodInfo) else pod.info.uid)

    def tick(self, seconds: float) -> None:
        self.clock.now_s += seconds

    def incoming(self, queue: str, event: str) -> int:
        return self.queue.metrics.incoming_pods[queue, event]

    def unschedulable(self, plugin: str) -> int:
        return self.queue.metrics.unschedulable_pods[plugin, PROFILE]
