"""A machine and a cluster that does what it is told, at once: for tests of groups.

The cluster is a few dicts.  Requests can be made to fail; what the machine wrote is in `pods` and
`groups` as a cluster would have it, and each change comes back to the machine as an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.config import load_config, parse_feature_gates
from stowplan.core.attempts import AttemptLog
from stowplan.core.machine import Machine
from stowplan.core.messages import (
    Added,
    Answered,
    Call,
    Deleted,
    Effect,
    Event,
    RecordEvent,
    ScheduleNext,
    Tick,
    Updated,
)
from stowplan.core.profiles import Registry
from stowplan.errors import ApiError, Conflict, NotFound
from stowplan.objects.api import Bind, Delete, Get, Patch, Request
from stowplan.objects.base import Condition, KubeObject
from stowplan.objects.codec import convert
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.kinds import RESOURCE_CLAIM
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.plugins import IN_TREE

START_S = 1_700_000_000.0

GANGS = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GANGS},TopologyAwareWorkloadScheduling=true"
PREEMPTION = f"{GANGS},WorkloadAwarePreemption=true"
ALL = f"{TOPOLOGY},WorkloadAwarePreemption=true"

Refuse = Callable[[Request], ApiError | None]


class GroupWorld:
    def __init__(
        self,
        *objects: KubeObject,
        gates: str = GANGS,
        config: Any = None,
        registry: Registry = IN_TREE,
        seed: int = 0,
    ) -> None:
        loaded = load_config(config, gates=parse_feature_gates(gates))
        self.machine = Machine(
            loaded, random=Random(seed), registry=registry, log=AttemptLog(), tie_break="name"
        )
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.others: list[KubeObject] = []
        self.requests: list[Request] = []
        self.events: list[RecordEvent] = []
        self.now_s = START_S
        self.refuse: Refuse = lambda request: None
        self.graceful = False
        """Whether deleted pods stay, terminating, until `finish` is called."""
        self._serial = 0
        self.add(*objects)

    # -- the cluster changes ----------------------------------------------------------------

    def add(self, *objects: KubeObject) -> GroupWorld:
        events: list[Event] = []
        for obj in objects:
            if isinstance(obj, Pod):
                self.pods[obj.key] = obj
            elif isinstance(obj, PodGroup):
                self.groups[obj.key] = obj
            elif isinstance(obj, ResourceClaim):
                self.claims[obj.key] = obj
            events.append(Added(obj))
        self._tell(events)
        return self

    def delete(self, obj: KubeObject) -> None:
        self.pods.pop(obj.key, None)
        self.groups.pop(obj.key, None) if isinstance(obj, PodGroup) else None
        self._tell([Deleted(obj)])

    def update(self, new: KubeObject) -> None:
        old: KubeObject
        if isinstance(new, Pod):
            old, self.pods[new.key] = self.pods[new.key], new
        else:
            assert isinstance(new, PodGroup)
            old, self.groups[new.key] = self.groups[new.key], new
        self._tell([Updated(old, new)])

    def remove_node(self, node: Node) -> None:
        self._tell([Deleted(node)])

    def finish(self) -> None:
        """What terminates is gone."""
        for pod in [*self.pods.values()]:
            if pod.metadata.deletion_timestamp is not None:
                self.delete(pod)

    # -- time passes ------------------------------------------------------------------------

    def run(self, seconds: float = 0.0) -> GroupWorld:
        """Let the machine work until it has nothing to do, then for so long."""
        until_s = self.now_s + seconds
        while True:
            while self.machine.has_work:
                self._carry_out(self.machine.handle(ScheduleNext(1), self.now_s))
            wakeup_s = self.machine.next_wakeup_s()
            if wakeup_s is None or wakeup_s > until_s:
                self.now_s = until_s
                return self
            self.now_s = max(self.now_s, wakeup_s)
            self._carry_out(self.machine.handle(Tick(), self.now_s))

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            self._carry_out(self.machine.handle(event, self.now_s))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, RecordEvent):
                self.events.append(effect)
            elif isinstance(effect, Call):
                self.requests.append(effect.request)
                answer, events = self._execute(effect.request)
                self._tell([*events, Answered(effect.token, answer)])

    def _execute(self, request: Request) -> tuple[Any, list[Event]]:
        refused = self.refuse(request)
        if refused is not None:
            return refused, []
        if isinstance(request, Bind):
            return self._bind(request)
        if isinstance(request, Delete):
            return self._delete(request)
        if isinstance(request, Get):
            things: dict[str, Any] = self.claims if request.kind is RESOURCE_CLAIM else self.pods
            found = things.get(f"{request.namespace}/{request.name}")
            return (found or NotFound("gone")), []
        assert isinstance(request, Patch), request
        return (
            self._patch_claim(request) if request.kind is RESOURCE_CLAIM else self._patch(request)
        )

    def _bind(self, request: Bind) -> tuple[Any, list[Event]]:
        key = f"{request.namespace}/{request.name}"
        pod = self.pods.get(key)
        if pod is None or pod.metadata.uid != request.uid:
            return NotFound("no such pod"), []
        new = self._newer(replace(pod, spec=replace(pod.spec, node_name=request.node)))
        self.pods[key] = new
        return None, [Updated(pod, new)]

    def _delete(self, request: Delete) -> tuple[Any, list[Event]]:
        key = f"{request.namespace}/{request.name}"
        pod = self.pods.get(key)
        if pod is None:
            return NotFound("no such pod"), []
        if not self.graceful:
            del self.pods[key]
            return None, [Deleted(pod)]
        metadata = replace(pod.metadata, deletion_timestamp="2023-11-14T22:13:20Z")
        new = self._newer(replace(pod, metadata=metadata))
        self.pods[key] = new
        return None, [Updated(pod, new)]

    def _patch(self, request: Patch) -> tuple[Any, list[Event]]:
        key = f"{request.namespace}/{request.name}"
        things: dict[str, Any] = self.groups if request.kind.name == "PodGroup" else self.pods
        old = things.get(key)
        if old is None:
            return NotFound("no such object"), []
        status = old.status
        for data in request.body["status"].get("conditions", ()):
            condition = convert(data, Condition)
            others = [c for c in status.conditions or () if c.type != condition.type]
            status = replace(status, conditions=[*others, condition])
        if "nominatedNodeName" in request.body["status"]:
            node = request.body["status"]["nominatedNodeName"] or ""
            status = replace(status, nominated_node_name=node)
        new = self._newer(replace(old, status=status))
        things[key] = new
        return None, [Updated(old, new)]

    def _patch_claim(self, request: Patch) -> tuple[Any, list[Event]]:
        key = f"{request.namespace}/{request.name}"
        old = self.claims[key]
        version = request.body["metadata"].get("resourceVersion")
        if version not in (None, old.metadata.resource_version):
            return Conflict("another version"), []
        data = msgspec.to_builtins(old)
        changed = request.body.get("status", {})
        if request.patch_type == "strategic":
            gone = {each["uid"] for each in changed["reservedFor"]}
            left = data["status"].get("reservedFor", ())
            changed = {"reservedFor": [each for each in left if each["uid"] not in gone]}
        data["status"] = {**data.get("status", {}), **changed}
        finalizers = request.body["metadata"].get("finalizers")
        if finalizers is not None:
            data["metadata"]["finalizers"] = finalizers
        new = self.claims[key] = self._newer(convert(data, ResourceClaim))
        return new, [Updated(old, new)]

    def _newer(self, obj: Any) -> Any:
        self._serial = max(self._serial, int(obj.metadata.resource_version or 0)) + 1
        return replace(obj, metadata=replace(obj.metadata, resource_version=str(self._serial)))

    # -- what came of it --------------------------------------------------------------------

    def nodes(self) -> dict[str, str]:
        """Pod -> its node, of pods that have one."""
        return {p.name: p.spec.node_name for p in self.pods.values() if p.spec.node_name}

    def bound(self) -> set[str]:
        """Pods that this machine bound."""
        return {request.name for request in self.requests if isinstance(request, Bind)}

    def message(self, pod: str) -> str:
        """What the pod's PodScheduled condition says."""
        conditions = self.pods[f"default/{pod}"].status.conditions or ()
        return next((f"{c.reason}: {c.message}" for c in conditions), "")

    def condition(self, group: str) -> tuple[str, str, str]:
        conditions = self.groups[f"default/{group}"].status.conditions or ()
        return next(((c.status, c.reason, c.message) for c in conditions), ("", "", ""))

    def place(self, pod: str) -> str:
        uid = self.pods[f"default/{pod}"].metadata.uid
        return self.machine.queue.place_of(uid) or ""

    def evicted(self) -> list[str]:
        return [request.name for request in self.requests if isinstance(request, Delete)]
