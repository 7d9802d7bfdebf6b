"""NodeUnschedulable turns down cordoned nodes, unless the pod tolerates the cordon."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import unresolvable
from stowplan.objects.pod import Pod
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint

PLUGIN = NodeUnschedulable()
CORDON = "node.kubernetes.io/unschedulable"
OPEN, CORDONED = node("open"), node("cordoned", unschedulable=True)
REFUSED = unresolvable("node(s) were unschedulable")


def tolerating(**toleration: str) -> Pod:
    return pod(spec={"tolerations": [toleration]})


@pytest.mark.parametrize(
    ("wanting", "refused"),
    [
        pytest.param(pod(), True, id="no-toleration"),
        pytest.param(tolerating(key=CORDON, operator="Exists"), False, id="key"),
        pytest.param(tolerating(operator="Exists"), False, id="everything"),
        pytest.param(tolerating(key=CORDON, effect="NoSchedule"), False, id="equal-empty-value"),
        pytest.param(tolerating(key=CORDON, operator="Exists", effect="NoExecute"), True, id="no"),
    ],
)
def test_cordoned_nodes(wanting: Pod, refused: bool) -> None:
    found = filtered(PLUGIN, World(OPEN, CORDONED), wanting)

    assert found == {"open": None, "cordoned": REFUSED if refused else None}
    assert PLUGIN.signature(info(wanting)) is not refused


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, OPEN, Hint.QUEUE),
        (None, CORDONED, Hint.SKIP),
        (CORDONED, OPEN, Hint.QUEUE),
        (OPEN, OPEN, Hint.SKIP),
        (OPEN, CORDONED, Hint.SKIP),
    ],
)
def test_node_events(old: Any, new: Any, expected: Hint) -> None:
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT

    assert hint(PLUGIN, Resource.NODE, action, pod(), old, new) == expected


def test_pod_events() -> None:
    own = tolerating(key=CORDON, operator="Exists")
    useless = pod(spec={"tolerations": [{"key": "x"}]})
    changed = Action.UPDATE_POD_TOLERATION

    assert hint(PLUGIN, Resource.POD, changed, own, pod(), own) == Hint.QUEUE
    assert hint(PLUGIN, Resource.POD, changed, pod(), pod(), own) == Hint.SKIP
    assert hint(PLUGIN, Resource.POD, changed, useless, pod(), useless) == Hint.SKIP
    assert hint(PLUGIN, Resource.NODE, Action.UPDATE_NODE_LABEL, own, OPEN, OPEN) is None
