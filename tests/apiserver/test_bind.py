"""The binding subresource: its checks, and what it writes."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import Conflict, Invalid, NotFound
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from tests.apiserver.things import (
    START,
    Log,
    bind,
    create,
    create_node,
    create_pod,
    data,
    delete,
    gate,
    get_pod,
    new_store,
    patch,
    pod_data,
)


def test_binding_sets_node_and_condition_and_clears_the_nomination() -> None:
    store = new_store()
    pod = create_pod(store)
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    body = {"status": {"nominatedNodeName": "n", "conditions": [{"type": "X"}, failed]}}
    patch(store, POD, "p", body, subresource="status")

    bind(store, "p", "n", uid=pod.uid)

    bound = get_pod(store)
    assert bound.spec.node_name == "n"
    assert bound.status.nominated_node_name == ""
    scheduled = Condition(type="PodScheduled", status="True", last_transition_time=START)
    assert bound.status.conditions == [Condition(type="X"), scheduled]
    # What a kubelet has to act on did not change: upstream does not count it either.
    assert bound.metadata.generation == 1


def test_a_fresh_pod_becomes_scheduled() -> None:
    store = new_store()
    create_pod(store)
    log = Log(store)

    bind(store)

    scheduled = Condition(type="PodScheduled", status="True", last_transition_time=START)
    assert get_pod(store).status.conditions == [scheduled]
    assert log.story == [("MODIFIED", "p")]


def test_fields_that_no_struct_has_survive() -> None:
    store = new_store()
    create(store, POD, pod_data(hostname="h"))

    bind(store)

    assert data(store, POD, "p")["spec"]["hostname"] == "h"


def test_a_node_that_nobody_knows_is_accepted() -> None:
    store = new_store()
    create_pod(store)

    bind(store, "p", "no-such-node")

    assert get_pod(store).spec.node_name == "no-such-node"


def test_the_zone_of_the_node_becomes_a_label_of_the_pod() -> None:
    store = new_store()
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    create_node(store, "n", **{zone: "z1", region: "r1", "other": "x"})
    create_pod(store, "p", labels={"app": "web", zone: "made-up"})
    create_pod(store, "q")
    create_pod(store, "r", node_name="n", labels={zone: "kept"})

    bind(store, "p")
    bind(store, "q")

    assert get_pod(store, "p").metadata.labels == {"app": "web", zone: "z1", region: "r1"}
    assert get_pod(store, "q").metadata.labels == {zone: "z1", region: "r1"}
    assert get_pod(store, "r").metadata.labels == {zone: "kept", region: "r1"}


def test_an_unknown_pod_is_not_found() -> None:
    with pytest.raises(NotFound, match='pods "p" not found'):
        bind(new_store())


def _bound(store: Any) -> None:
    bind(store, "p", "first")


def _deleting(store: Any) -> None:
    patch(store, POD, "p", {"metadata": {"finalizers": ["example.com/wait"]}}, "merge")
    delete(store, POD, "p")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (_bound, 'pod p is already assigned to node "first"'),
        (_deleting, "pod p is being deleted, cannot be assigned to a host"),
    ],
)
def test_a_pod_that_cannot_be_bound_any_more_is_a_conflict(prepare: Any, message: str) -> None:
    store = new_store()
    create_pod(store)
    prepare(store)
    version = store.resource_version

    with pytest.raises(Conflict) as raised:
        bind(store, "p", "second")

    assert raised.value.message == (f'Operation cannot be fulfilled on pods/binding "p": {message}')
    assert store.resource_version == version


def test_a_gated_pod_is_a_conflict() -> None:
    store = new_store()
    create_pod(store, scheduling_gates=[gate("g")])

    with pytest.raises(Conflict, match=r"pod p has non-empty \.spec\.schedulingGates"):
        bind(store)


def test_the_uid_is_a_precondition() -> None:
    store = new_store()
    pod = create_pod(store)
    delete(store, POD, "p")
    again = create_pod(store)

    with pytest.raises(Conflict, match=f"UID in precondition: {pod.uid}"):
        bind(store, "p", "n", uid=pod.uid)

    assert get_pod(store) == again


def test_no_node_at_all_is_invalid() -> None:
    store = new_store()
    create_pod(store)

    with pytest.raises(Invalid, match=r"target\.name: Required value"):
        bind(store, "p", "")


def test_pods_bound_in_one_second_share_their_status() -> None:
    store = new_store()
    for name in ("p", "q"):
        create_pod(store, name)
        bind(store, name)

    assert get_pod(store, "p").status is get_pod(store, "q").status
