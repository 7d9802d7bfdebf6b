"""What each change in the cluster means: to the cache, to the queue, to pods under way.

Mirrors kube-scheduler's `eventhandlers.go`, row by row of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.core.messages import Added, Deleted, Updated
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.objects.base import KubeObject
from stowplan.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.queue import pod_update_events
from stowplan.state.cache import CacheError, condition_states, same_kind
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
_NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


RESOURCES: dict[type[KubeObject], str] = {
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    CSINode: Resource.CSI_NODE,
    CSIDriver: Resource.CSI_DRIVER,
    CSIStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    StorageClass: Resource.STORAGE_CLASS,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
    ResourceClaim: Resource.RESOURCE_CLAIM,
    ResourceSlice: Resource.RESOURCE_SLICE,
    DeviceClass: Resource.DEVICE_CLASS,
}
"""Other kinds are only looked up by plugins; their changes wake nobody."""


class ClusterChanges:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def added(self, events: Sequence[Added]) -> None:
        """Pods without a node that come one after the other go to the queue together."""
        machine = self._machine
        pods, frameworks, is_assumed = machine.pods, machine.frameworks, machine.cache.is_assumed
        arrived: list[PodInfo] = []
        for event in events:
            thing = event.object
            if isinstance(thing, Pod) and not thing.spec.node_name:
                if thing.status.phase not in ENDED_PHASES:
                    info = PodInfo(thing)
                    pods[info.key] = info
                    if thing.spec.scheduler_name in frameworks and not is_assumed(info.uid):
                        arrived.append(info)
                continue
            if arrived:
                machine.queue.add_all(arrived)
                arrived = []
            self._added(thing)
        if arrived:
            machine.queue.add_all(arrived)

    def _added(self, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            if obj.status.phase not in ENDED_PHASES:
                self._assigned(obj)
        elif isinstance(obj, Node):
            self._machine.cache.add_node(obj)
            self._machine.queue.move_all(NODE_ADD, None, obj)
        else:
            self._machine.objects.put(obj)
            self._tell(obj, Action.ADD, None, obj)

    def updated(self, events: Sequence[Updated]) -> None:
        for event in events:
            old: Any = event.old
            new = event.new
            if isinstance(new, Pod):
                self._pod_updated(old, new)
            elif isinstance(new, Node):
                self._machine.cache.add_node(new)
                for change in node_update_events(old, new):
                    self._machine.queue.move_all(change, old, new)
            else:
                self._machine.objects.put(new)
                self._tell(new, Action.UPDATE, old, new)

    def deleted(self, events: Sequence[Deleted]) -> None:
        for event in events:
            self._deleted(event.object)

    def _deleted(self, obj: KubeObject) -> None:
        if isinstance(obj, Pod):
            self._pod_deleted(obj)
        elif isinstance(obj, Node):
            self._machine.queue.move_all(_NODE_DELETE, obj, None)
            try:
                self._machine.cache.remove_node(obj.metadata.name)
            except CacheError as problem:
                self._machine.log.problem(str(problem))
        else:
            self._machine.objects.remove(obj)
            self._tell(obj, Action.DELETE, obj, None)

    def _tell(
        self, obj: KubeObject, action: Action, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        resource = RESOURCES.get(type(obj))
        if isinstance(obj, PodGroup) and self._machine.groups is not None:
            self._machine.groups.object_changed(ClusterEvent(Resource.POD_GROUP, action), old, obj)
        if isinstance(obj, DeviceClass):
            # It may stand for an extended resource: what fits where is worked out anew.
            for framework in self._machine.frameworks.values():
                framework.forget()
        if resource is not None:
            self._machine.queue.move_all(ClusterEvent(resource, action), old, new)

    # -- pods -------------------------------------------------------------------------------

    def _assigned(self, pod: Pod) -> bool:
        """The cluster shows the pod on a node for the first time; True if we had assumed it."""
        machine = self._machine
        cache = machine.cache
        assumed = cache.pod(pod.metadata.uid)
        try:
            info = cache.add_pod(pod)
        except CacheError as problem:
            machine.log.problem(str(problem))
            info = PodInfo(pod)
        machine.pods[info.key] = info
        machine.queue.move_all(_POD_ADD, None, pod)
        if assumed is None:
            if machine.groups is not None:
                machine.groups.member_changed(_POD_ADD, info)
            return False
        if assumed.kind is not info.kind:
            # Changed while it was on its way: to the others that happens now.
            for event in pod_update_events(assumed, info, True):
                machine.queue.move_all(event, assumed.pod, pod)
        node = assumed.pod.spec.node_name
        if node != pod.spec.node_name:
            machine.log.problem(
                f"pod {info.key} was assumed on {node} but is on {pod.spec.node_name}"
            )
        return True

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        machine = self._machine
        if new.status.phase in ENDED_PHASES:
            # The informer's selector makes an end of the pod's work look like its deletion.
            self._pod_deleted(new)
        elif old.spec.node_name:
            self._assigned_updated(old, new)
        elif new.spec.node_name:
            # One that we sent there has left the queue long ago.
            if not self._assigned(new) and machine.is_ours(new):
                machine.queue.delete(machine.pods[new.key])
        else:
            self._unassigned_updated(new)

    def _assigned_updated(self, old: Pod, new: Pod) -> None:
        machine = self._machine
        before = machine.cache.pod(new.metadata.uid) or PodInfo(old)
        try:
            info = machine.cache.update_pod(new)
        except CacheError as problem:
            machine.log.problem(str(problem))
            info = PodInfo(new)
        machine.pods[info.key] = info
        for event in pod_update_events(before, info, True):
            machine.queue.move_all(event, before.pod, new)

    def _unassigned_updated(self, new: Pod) -> None:
        machine = self._machine
        before = machine.pods.get(new.key)
        info = PodInfo(new, same_kind(before, new) if before is not None else None)
        machine.pods[info.key] = info
        if not machine.is_ours(new):
            return
        if machine.groups is not None:
            machine.groups.arrived([info])
        if before is None:
            machine.queue.add(info)
            return
        if before.pod.metadata.resource_version == new.metadata.resource_version != "":
            return
        if machine.cache.is_assumed(info.uid):
            deleting = new.metadata.deletion_timestamp is not None
            if deleting and before.pod.metadata.deletion_timestamp is None:
                self._assumed_deleted(info)
            return
        machine.queue.update(before, info)
        nominated = before.pod.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self.nomination_freed(before, nominated)

    def _pod_deleted(self, pod: Pod) -> None:
        """The object may be stale, so what is known of the pod decides what has to be undone."""
        machine = self._machine
        pods, cache = machine.pods, machine.cache
        key, uid = pod.key, pod.metadata.uid
        known = pods.get(key)
        if known is not None and known.uid == uid:
            info = known
            del pods[key]
        else:
            info = PodInfo(pod)
        cached, is_assumed = cache.pod(uid), cache.is_assumed(uid)
        if cached is not None and not is_assumed:
            cache.remove_pod(cached.pod)
            machine.queue.move_all(_POD_DELETE, cached.pod, None)
            if machine.groups is not None:
                machine.groups.member_changed(_POD_DELETE, cached)
            return  # It left the queue when it got its node.
        if not machine.is_ours(pod):
            return
        if machine.groups is not None:
            machine.groups.left(info)
        nominated = machine.queue.nominator.node_of.get(uid)
        machine.queue.delete(info)
        if is_assumed:
            self._assumed_deleted(info)
        elif nominated := info.pod.status.nominated_node_name or nominated:
            self.nomination_freed(info, nominated)

    def _assumed_deleted(self, info: PodInfo) -> None:
        """A pod that was on its way is gone: stop it where it waits, or take it off its node.

        One that is being bound goes on and will fail, since the API server does not know it.
        """
        machine = self._machine
        assumed = machine.cache.pod(info.uid)
        assert assumed is not None
        if not machine.waiting.reject(info.uid, "", "removed"):
            machine.cache.forget_pod(assumed)
        machine.queue.move_all(_POD_DELETE, assumed.pod, None)

    def nomination_freed(self, info: PodInfo, node: str) -> None:
        """A pod gives up a node that was kept for it, whether or not its status said so."""
        priority, pod = info.priority, info.pod
        if pod.status.nominated_node_name != node:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=node))
        self._machine.queue.move_all(
            _POD_DELETE, pod, None, lambda other: other.priority <= priority
        )


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """What an update of a node means for scheduling: a heartbeat nothing, anything a filter reads
    something.  Mirrors `nodeSchedulingPropertiesChange`."""
    return [ClusterEvent(Resource.NODE, action) for action in _node_changes(old, new)]


def _node_changes(old: Node, new: Node) -> Iterator[Action]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield Action.UPDATE_NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        yield Action.UPDATE_NODE_ALLOCATABLE
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        yield Action.UPDATE_NODE_LABEL
    if (old.spec.taints or []) != (new.spec.taints or []):
        yield Action.UPDATE_NODE_TAINT
    if condition_states(old) != condition_states(new):
        yield Action.UPDATE_NODE_CONDITION
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        yield Action.UPDATE_NODE_ANNOTATION
    if (old.status.declared_features or []) != (new.status.declared_features or []):
        yield Action.UPDATE_NODE_DECLARED_FEATURE
