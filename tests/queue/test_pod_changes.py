"""What an update of a pod means, row by row (core.md §3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.objects.pod import Container, PodSchedulingGate, ResourceRequirements, Toleration
from stowplan.queue import pod_update_events
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import annotated, pod


def requests(**amounts: Any) -> dict[str, Any]:
    return {
        "containers": [Container(name="main", resources=ResourceRequirements(requests=amounts))]
    }


def claimed(*names: str) -> PodInfo:
    info = pod("web-0")
    statuses = [{"name": name, "resourceClaimName": name} for name in names]
    status = msgspec.structs.replace(info.pod.status, resource_claim_statuses=statuses or None)
    return PodInfo(msgspec.structs.replace(info.pod, status=status))


def web(**fields: Any) -> PodInfo:
    return pod("web-0", **fields)


GATE = PodSchedulingGate(name="gate")
TOLERATION = Toleration(key="spot", operator="Exists")


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        pytest.param(web(), web(labels={"a": "1"}), ["UpdatePodLabel"], id="label-added"),
        pytest.param(
            web(labels={"a": "1"}), web(labels={"a": "2"}), ["UpdatePodLabel"], id="label-changed"
        ),
        pytest.param(web(), web(labels={}), ["Update"], id="empty-labels-are-no-labels"),
        pytest.param(
            web(**requests(cpu="2")), web(**requests(cpu="1")), ["UpdatePodScaleDown"], id="lower"
        ),
        pytest.param(
            web(**requests(cpu="1", memory="1Gi")),
            web(**requests(cpu="1")),
            ["UpdatePodScaleDown"],
            id="request-gone",
        ),
        pytest.param(
            web(**requests(cpu="1", memory="2Gi")),
            web(**requests(cpu="2", memory="1Gi")),
            ["UpdatePodScaleDown"],
            id="one-up-one-down",
        ),
        pytest.param(
            web(**requests(cpu="1")), web(**requests(cpu="2")), ["Update"], id="more-is-generic"
        ),
        pytest.param(
            web(**requests(cpu="1")), web(**requests(cpu="1000m")), ["Update"], id="same-amount"
        ),
        pytest.param(
            web(scheduling_gates=[GATE]),
            web(),
            ["UpdatePodSchedulingGatesEliminated"],
            id="gates-gone",
        ),
        pytest.param(
            web(scheduling_gates=[GATE]),
            web(scheduling_gates=[]),
            ["UpdatePodSchedulingGatesEliminated"],
            id="gates-empty",
        ),
        pytest.param(
            web(scheduling_gates=[GATE, PodSchedulingGate(name="other")]),
            web(scheduling_gates=[GATE]),
            ["Update"],
            id="a-gate-is-left",
        ),
        pytest.param(
            web(), web(tolerations=[TOLERATION]), ["UpdatePodToleration"], id="toleration"
        ),
        pytest.param(
            web(tolerations=[TOLERATION]),
            web(tolerations=[Toleration(key="gpu", operator="Exists")]),
            ["Update"],
            id="another-toleration-is-generic",
        ),
        pytest.param(claimed(), claimed("c"), ["UpdatePodGeneratedResourceClaim"], id="claim"),
        pytest.param(
            claimed("c"), claimed("d"), ["UpdatePodGeneratedResourceClaim"], id="claim-changed"
        ),
        pytest.param(web(), annotated(web()), ["Update"], id="metadata-only"),
        pytest.param(
            web(scheduling_gates=[GATE], **requests(cpu="2")),
            web(labels={"a": "1"}, tolerations=[TOLERATION], **requests(cpu="1")),
            [
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
            ],
            id="everything-at-once-in-order",
        ),
    ],
)
def test_changes(old: PodInfo, new: PodInfo, actions: list[str]) -> None:
    labels = [event.label for event in pod_update_events(old, new, assigned=False)]

    assert labels == [f"UnschedulablePod{action}" for action in actions]


def test_an_assigned_pod_is_another_resource() -> None:
    (event,) = pod_update_events(web(), web(labels={"a": "1"}), assigned=True)

    assert event.label == "AssignedPodUpdatePodLabel"
