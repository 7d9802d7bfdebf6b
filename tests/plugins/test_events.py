"""Which events each plugin wants to hear of: the whole table of spec/plugins.md, and no event more.

What a hint makes of an event is in the plugin's own tests.
"""

from __future__ import annotations

from random import Random

import pytest

from stowplan.config import load_config, parse_feature_gates
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.framework.plugin import ProfilePlugins
from stowplan.state.pod_info import PodInfo
from tests.builders import pod
from tests.deciding import Deciding

ADD, DELETE, UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
NODE_LABEL, NODE_TAINT = Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT
NODE_ALLOCATABLE = Action.UPDATE_NODE_ALLOCATABLE
POD_LABEL, POD_TOLERATION = Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION

HEARD: dict[str, dict[str, Action]] = {
    "SchedulingGates": {Resource.POD: Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED},
    "NodeUnschedulable": {Resource.NODE: ADD | NODE_TAINT, Resource.POD: POD_TOLERATION},
    "NodeName": {Resource.NODE: ADD},
    "TaintToleration": {Resource.NODE: ADD | NODE_TAINT, Resource.POD: POD_TOLERATION},
    "NodeAffinity": {Resource.NODE: ADD | NODE_LABEL},
    "NodePorts": {Resource.NODE: ADD, Resource.POD: DELETE},
    "NodeResourcesFit": {
        Resource.NODE: ADD | NODE_ALLOCATABLE,
        Resource.POD: DELETE | Action.UPDATE_POD_SCALE_DOWN,
        Resource.DEVICE_CLASS: ADD | UPDATE,
    },
    "VolumeRestrictions": {
        Resource.NODE: ADD,
        Resource.POD: DELETE,
        Resource.PERSISTENT_VOLUME_CLAIM: ADD,
    },
    "NodeVolumeLimits": {
        Resource.CSI_NODE: ADD | UPDATE,
        Resource.POD: DELETE,
        Resource.PERSISTENT_VOLUME_CLAIM: ADD,
        Resource.VOLUME_ATTACHMENT: DELETE,
    },
    "VolumeBinding": {
        Resource.NODE: ADD | NODE_LABEL,
        Resource.STORAGE_CLASS: ADD | UPDATE,
        Resource.PERSISTENT_VOLUME: ADD | UPDATE,
        Resource.PERSISTENT_VOLUME_CLAIM: ADD | UPDATE,
        Resource.CSI_NODE: ADD | UPDATE,
        Resource.CSI_DRIVER: UPDATE,
        Resource.CSI_STORAGE_CAPACITY: ADD | UPDATE,
    },
    "VolumeZone": {
        Resource.NODE: ADD | NODE_LABEL,
        Resource.STORAGE_CLASS: ADD,
        Resource.PERSISTENT_VOLUME: ADD | UPDATE,
        Resource.PERSISTENT_VOLUME_CLAIM: ADD | UPDATE,
    },
    "PodTopologySpread": {
        Resource.NODE: ADD | DELETE | NODE_LABEL | NODE_TAINT,
        Resource.POD: ADD | DELETE | POD_LABEL | POD_TOLERATION,
    },
    "InterPodAffinity": {
        Resource.NODE: ADD | NODE_LABEL,
        Resource.POD: ADD | DELETE | POD_LABEL,
    },
    # Deleted claims and pods that leave are ours: docs/differences.md.
    "DynamicResources": {
        Resource.NODE: ADD | NODE_LABEL | NODE_ALLOCATABLE,
        Resource.POD: DELETE | Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        Resource.RESOURCE_CLAIM: ADD | UPDATE | DELETE,
        Resource.DEVICE_CLASS: ADD | UPDATE,
        Resource.RESOURCE_SLICE: ADD | UPDATE,
    },
    "DefaultPreemption": {Resource.POD: DELETE},
    "NodeDeclaredFeatures": {
        Resource.NODE: ADD | Action.UPDATE_NODE_DECLARED_FEATURE,
        Resource.POD: UPDATE,
    },
    "GangScheduling": {Resource.POD: ADD, Resource.POD_GROUP: ADD | UPDATE},
    "TopologyPlacementGenerator": {Resource.NODE: ADD | NODE_LABEL, Resource.POD: DELETE},
}
UNHEARING = {
    "PrioritySort",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "PodGroupPodsCount",
}
"""They turn nobody away."""
BY_GROUP = {
    ("GangScheduling", Resource.POD),
    ("GangScheduling", Resource.POD_GROUP),
    ("TopologyPlacementGenerator", Resource.POD),
}

GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
RESOURCES = [
    value for name, value in vars(Resource).items() if name.isupper() and value != Resource.ALL
]
SINGLE = [action for action in Action if action not in (Action.UPDATE, Action.ALL)]


def profile() -> ProfilePlugins:
    config = load_config(None, gates=parse_feature_gates(GATES))
    return Deciding([], random=Random(0), config=config).framework_of(PodInfo(pod())).plugins


PLUGINS = profile().instances


def test_every_plugin_is_in_the_table() -> None:
    assert PLUGINS.keys() == HEARD.keys() | UNHEARING
    assert not any(hasattr(PLUGINS[name], "events_to_register") for name in UNHEARING)


@pytest.mark.parametrize("name", HEARD)
def test_the_events_that_a_plugin_hears_of(name: str) -> None:
    registered = PLUGINS[name].events_to_register()
    heard = {resource: Action(0) for resource in RESOURCES}
    for resource in RESOURCES:
        for action in SINGLE:
            if any(it.event.matches(ClusterEvent(resource, action)) for it in registered):
                heard[resource] |= action

    expected = {resource: HEARD[name].get(resource, Action(0)) for resource in RESOURCES}
    # Whoever hears of pods hears of them wherever they are.
    for part in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD):
        expected[part] = expected[Resource.POD]
    assert heard == expected
    by_group = {(name, it.event.resource) for it in registered if it.by_group}
    assert by_group == {key for key in BY_GROUP if key[0] == name}
