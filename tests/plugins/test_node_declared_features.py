"""NodeDeclaredFeatures: what a pod's spec needs of the kubelet, and which nodes declare it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP, unresolvable
from stowplan.objects.node import Node
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures, required_features
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint

PLUGIN = NodeDeclaredFeatures()
REFUSED = unresolvable("node(s) didn't match Pod's required features")
RESTART = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"

RULES = [{"name": "x", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
RESTARTING = pod(spec={"containers": RULES})
BOTH = pod(spec={"initContainers": RULES, "hostNetwork": True, "hostUsers": False})


def declaring(name: str, *features: str) -> Node:
    return node(name, status={"declaredFeatures": list(features)})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, set()),
        ({"containers": RULES}, {RESTART}),
        ({"containers": [{"name": "x", "restartPolicyRules": [{"action": "Restart"}]}]}, set()),
        ({"hostNetwork": True}, set()),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostUsers": False}, set()),
        ({"initContainers": RULES, "hostNetwork": True, "hostUsers": False},
         {RESTART, USER_NAMESPACES}),
    ],
)  # fmt: skip
def test_what_a_pod_requires(spec: dict[str, Any], expected: set[str]) -> None:
    assert required_features(pod(spec=spec)) == expected


def test_every_feature_must_be_declared() -> None:
    world = World(
        node("none"), declaring("one", RESTART), declaring("all", "Other", RESTART, USER_NAMESPACES)
    )

    assert filtered(PLUGIN, world, RESTARTING) == {"none": REFUSED, "one": None, "all": None}
    assert filtered(PLUGIN, world, BOTH) == {"none": REFUSED, "one": REFUSED, "all": None}
    assert PLUGIN.pre_filter(world.cycle(), info(pod())) is SKIP


def test_events() -> None:
    bare, able = declaring("n"), declaring("n", RESTART)
    changed = Action.UPDATE_NODE_DECLARED_FEATURE
    plain = replace(RESTARTING, spec=pod().spec)

    assert hint(PLUGIN, Resource.NODE, Action.ADD, BOTH, None, bare) == Hint.QUEUE
    assert hint(PLUGIN, Resource.NODE, changed, BOTH, bare, able) == Hint.QUEUE
    assert hint(PLUGIN, Resource.NODE, changed, BOTH, bare, node("n")) == Hint.SKIP
    assert hint(PLUGIN, Resource.POD, Action.UPDATE, RESTARTING, RESTARTING, plain) == Hint.QUEUE
    assert hint(PLUGIN, Resource.POD, Action.UPDATE, plain, plain, plain) == Hint.SKIP
    assert hint(PLUGIN, Resource.POD, Action.UPDATE, BOTH, RESTARTING, plain) == Hint.SKIP
    assert hint(PLUGIN, Resource.POD, Action.UPDATE_POD_LABEL, BOTH, BOTH, BOTH) == Hint.SKIP
