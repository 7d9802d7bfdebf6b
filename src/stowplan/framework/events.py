"""Cluster events: what changed, and which plugins' rejected pods it may help.

Mirrors kube-scheduler's `framework/types.go` and `events.go`.  A plugin registers the events that
could make a pod it rejected schedulable, each with an optional hint; the queue asks the hints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum, IntFlag
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from stowplan.objects.pod import Pod


class Action(IntFlag):
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191


class Resource:
    """The names kube-scheduler gives to what can change; plain strings, so users may add theirs."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    ALL = "*"


_ACTION_LABELS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}


class ClusterEvent(Struct, frozen=True, cache_hash=True):
    """The queue looks up what it knows of an event many times per pod: hash and label are kept."""

    resource: str
    action: Action
    label: str = ""
    """What metrics call it; made of the other two unless given."""

    def __post_init__(self) -> None:
        if not self.label:
            label = self.resource + _ACTION_LABELS.get(self.action, "Update")
            force_setattr(self, "label", label)

    @property
    def is_wildcard(self) -> bool:
        return self.resource == Resource.ALL and self.action == Action.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration covers the incoming event (upstream's bit *and* size test)."""
        if self.is_wildcard:
            return True
        same_resource = self.resource in (Resource.ALL, incoming.resource) or (
            self.resource == Resource.POD
            and incoming.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
        )
        overlaps = bool(self.action & incoming.action)
        return same_resource and overlaps and incoming.action <= self.action


FORCE_ACTIVATE = ClusterEvent(Resource.ALL, Action.ALL, "ForceActivate")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.ALL, Action.ALL, "UnschedulableTimeout")


class Hint(IntEnum):
    SKIP = 0
    QUEUE = 1


HintFunction = Callable[[Pod, Any, Any], Hint]
"""(the rejected pod, old object or None, new object or None) -> is another try worth it?"""


ANYTHING = "*"
"""The name of a pod that every event concerns."""


class Concerned(Struct, frozen=True):
    """For which pods an event can make a difference, by names that pod and event have in common.

    So a pod that waits costs nothing while others hear of what concerns them.
    """

    of_pod: Callable[[Pod], Collection[str]]
    """The names of a pod: the same for as long as there is the pod."""
    of_change: Callable[[Any, Any], Collection[str]]
    """(old object or None, new object or None) -> the names that it concerns."""
    concerns_all: Callable[[Any, Any], bool]
    """Whether it concerns all pods but those that the plugin holds at its gate."""


class EventRegistration(Struct, frozen=True):
    """One cluster event a plugin wants to hear of.  No hint: always worth another try."""

    event: ClusterEvent
    hint: HintFunction | None = None
    by_kind: bool = False
    """The hint reads only what replicas share (labels, and the spec but for names of claims), so
    one answer does for all of them.

    Except for the pod that the event is about: it is always asked itself.
    """
    concerned: Concerned | None = None
    """For which pods the hint has to be asked: it would say SKIP for the others."""
    by_group: bool = False
    """The event can only help pods of the group that it is about: nobody else is asked."""


def on(
    resource: str,
    action: Action,
    hint: HintFunction | None = None,
    *,
    by_kind: bool = False,
    concerned: Concerned | None = None,
    by_group: bool = False,
) -> EventRegistration:
    return EventRegistration(ClusterEvent(resource, action), hint, by_kind, concerned, by_group)
