"""What would wake a pod that waits, in words: the events that those who turned it down wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stowplan.core.machine import Machine
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.queue import build_hint_map

_SUBJECTS = {
    Resource.POD: "a pod",
    Resource.ASSIGNED_POD: "a pod on a node",
    Resource.UNSCHEDULABLE_POD: "the pod itself",
    Resource.NODE: "a node",
    Resource.ALL: "anything",
}
_OF_ALL = {Action.ADD: "{} is added", Action.DELETE: "{} goes away"}
_OF_NODES = _OF_ALL | {
    Action.UPDATE_NODE_ALLOCATABLE: "{} has more to give",
    Action.UPDATE_NODE_LABEL: "labels of {} change",
    Action.UPDATE_NODE_TAINT: "taints of {} change",
    Action.UPDATE_NODE_CONDITION: "conditions of {} change",
    Action.UPDATE_NODE_ANNOTATION: "annotations of {} change",
    Action.UPDATE_NODE_DECLARED_FEATURE: "features of {} change",
}
_OF_PODS = _OF_ALL | {
    Action.UPDATE_POD_LABEL: "labels of {} change",
    Action.UPDATE_POD_SCALE_DOWN: "{} asks for less",
    Action.UPDATE_POD_TOLERATION: "{} tolerates more",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "the gates of {} are gone",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "a claim of {} is made",
}
_OF_OTHERS = _OF_ALL | {Action.UPDATE: "{} changes"}
"""What there is to change in them has no names of its own."""
_HAPPENS = {
    Resource.NODE: _OF_NODES,
    Resource.POD: _OF_PODS,
    Resource.ASSIGNED_POD: _OF_PODS,
    Resource.UNSCHEDULABLE_POD: _OF_PODS,
}


def wakes_of(machine: Machine, profile: str, plugins: Iterable[str]) -> list[str]:
    framework = machine.frameworks.get(profile)
    if framework is None:
        return []
    wanted = set(plugins)
    hints = build_hint_map(framework.plugins.instances.values())
    found = {words for hint in hints if hint.plugin in wanted for words in _words(hint.event)}
    return sorted(found)


def _words(event: ClusterEvent) -> Iterator[str]:
    subject = _SUBJECTS.get(event.resource, f"a {event.resource.rpartition('/')[2]}")
    for action, words in _HAPPENS.get(event.resource, _OF_OTHERS).items():
        if event.action & action:
            yield words.format(subject)
