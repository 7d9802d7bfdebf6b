"""Update and patch: versions, what may change, and what a subresource may touch."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from stowplan.objects.api import Patch, Update
from stowplan.objects.base import Condition, ObjectMeta
from stowplan.objects.coordination import Lease
from stowplan.objects.kinds import (
    DEPLOYMENT,
    EVENT,
    LEASE,
    NODE,
    POD,
    PRIORITY_CLASS,
    SERVICE,
)
from stowplan.objects.kinds import (
    PRIORITY_CLASS as CLASS,
)
from tests.apiserver.things import (
    Log,
    bind,
    create,
    create_node,
    create_pod,
    data,
    gate,
    get_pod,
    new_store,
    patch,
    pod_data,
    update,
)

CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def test_a_write_needs_the_version_it_read() -> None:
    store = new_store()
    create_pod(store)
    first, second = data(store, POD, "p"), data(store, POD, "p")
    first["metadata"]["labels"] = {"a": "1"}
    second["metadata"]["labels"] = {"a": "2"}

    update(store, POD, "p", first)
    with pytest.raises(Conflict) as raised:
        update(store, POD, "p", second)

    assert raised.value.message == (
        'Operation cannot be fulfilled on pods "p": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert get_pod(store).metadata.labels == {"a": "1"}


def test_without_a_version_the_last_one_wins() -> None:
    store = new_store()
    create_pod(store)
    body = data(store, POD, "p")
    del body["metadata"]["resourceVersion"]
    for value in ("1", "2"):
        update(store, POD, "p", {**body, "metadata": {**body["metadata"], "labels": {"a": value}}})

    assert get_pod(store).metadata.labels == {"a": "2"}


def test_a_lease_must_say_which_version_it_changes() -> None:
    store = new_store()
    create(store, LEASE, Lease(metadata=ObjectMeta(name="l")))
    body = data(store, LEASE, "l")
    body["spec"] = {"holderIdentity": "me"}

    update(store, LEASE, "l", body)
    with pytest.raises(Conflict):
        update(store, LEASE, "l", body)
    del body["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match="must be specified for an update"):
        update(store, LEASE, "l", body)


def test_a_version_in_a_patch_is_a_precondition() -> None:
    store = new_store()
    pod = create_pod(store)
    version = pod.metadata.resource_version
    body = {"metadata": {"resourceVersion": version, "labels": {"a": "1"}}}

    patch(store, POD, "p", body, "merge")
    with pytest.raises(Conflict):
        patch(store, POD, "p", body, "merge")


def test_a_uid_is_a_precondition_too() -> None:
    store = new_store()
    create_pod(store)

    for body in (
        {"metadata": {"uid": "other"}, "status": {"phase": "Running"}},
        {"metadata": {"uid": "other"}, "status": {"podIP": "1.2.3.4"}},
    ):
        with pytest.raises(Invalid, match=r'metadata.uid: Invalid value: "other"'):
            patch(store, POD, "p", body, subresource="status")
    whole = {**data(store, POD, "p"), "metadata": {"name": "p", "uid": "other"}}
    with pytest.raises(Conflict, match="UID in precondition: other"):
        update(store, POD, "p", whole)


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    store = new_store()
    create_pod(store, labels={"a": "1"})
    patch(store, POD, "p", {"status": {"conditions": [CONDITION]}}, subresource="status")
    log, version = Log(store), store.resource_version

    update(store, POD, "p", data(store, POD, "p"))
    patch(store, POD, "p", {"metadata": {"labels": {"a": "1"}}}, "merge")
    patch(store, POD, "p", {"status": {"conditions": [CONDITION]}}, subresource="status")

    assert store.resource_version == version
    assert log.events == []


def test_system_metadata_stays() -> None:
    store = new_store()
    pod = create_pod(store)

    patch(
        store,
        POD,
        "p",
        {
            "metadata": {
                "creationTimestamp": "1999-01-01T00:00:00Z",
                "generation": 99,
                "labels": {"a": "b"},
            }
        },
        "merge",
    )

    after = get_pod(store).metadata
    assert after.creation_timestamp == pod.metadata.creation_timestamp
    assert after.generation == 1
    assert after.labels == {"a": "b"}


@pytest.mark.parametrize("patch_type", ["merge", "strategic"])
def test_nothing_is_deleted_by_a_patch(patch_type: str) -> None:
    store = new_store()
    create_pod(store)

    for key, value in (("deletionTimestamp", "1999-01-01T00:00:00Z"),
                       ("deletionGracePeriodSeconds", 5)):  # fmt: skip
        with pytest.raises(Invalid, match=rf"metadata.{key}: .*field is immutable"):
            patch(store, POD, "p", {"metadata": {key: value}}, patch_type)

    assert get_pod(store).metadata.deletion_timestamp is None


def test_the_object_leaves_its_status_alone_and_the_status_the_object() -> None:
    store = new_store()
    create_node(store)

    patch(store, NODE, "n", {"spec": {"unschedulable": True}, "status": {"phase": "x"}}, "merge")
    patch(
        store,
        NODE,
        "n",
        {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "2"}}},
        "merge",
        "status",
    )

    node = data(store, NODE, "n")
    assert node["spec"] == {"unschedulable": True}
    assert node["status"] == {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}


def test_a_status_keeps_fields_that_no_struct_has() -> None:
    store = new_store()
    create_pod(store)

    patch(store, POD, "p", {"status": {"podIP": "10.0.0.7", "phase": "Running"}}, "merge", "status")
    patch(store, POD, "p", {"status": {"conditions": [CONDITION]}}, subresource="status")

    status = data(store, POD, "p")["status"]
    assert status["podIP"] == "10.0.0.7"
    assert status["conditions"] == [CONDITION]


@pytest.mark.parametrize(
    "body",
    [
        {"status": {"conditions": [CONDITION], "nominatedNodeName": "n1"}},
        {"status": {"nominatedNodeName": None}},
        {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "reason": "Other"}]}},
        {
            "status": {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"type": "PodScheduled", "status": "True"}],
            }
        },
        {"status": {}},
    ],
)
def test_the_quick_way_of_a_status_patch_leads_where_the_long_one_does(body: Any) -> None:
    quick, long = new_store(), new_store()
    start = {"status": {"conditions": [CONDITION], "nominatedNodeName": "n0"}}
    # A field that the quick way does not know sends a patch the long way.
    detour = {"status": {**body["status"], "podIP": "10.0.0.1"}}
    for store in (quick, long):
        create_pod(store)
        patch(store, POD, "p", start, subresource="status")

    patch(quick, POD, "p", body, subresource="status")
    patch(long, POD, "p", detour, subresource="status")

    expected = data(long, POD, "p")["status"]
    del expected["podIP"]
    assert data(quick, POD, "p")["status"] == expected


@pytest.mark.parametrize(
    "body",
    [
        {"status": {"conditions": [{"type": "A", "status": 5}]}},
        {"status": {"conditions": "all"}},
        {"status": {"phase": 5}},
        {"status": {"conditions": [{"status": "True"}]}},
    ],
)
def test_a_status_patch_with_wrong_types_is_refused(body: Any) -> None:
    store = new_store()
    create_pod(store)

    with pytest.raises((BadRequest, Invalid)):
        patch(store, POD, "p", body, subresource="status")


def test_a_condition_is_patched_by_its_type() -> None:
    store = new_store()
    create_pod(store)
    for status in ("False", "True"):
        body = {"status": {"conditions": [{"type": "A", "status": status}]}}
        patch(store, POD, "p", body, subresource="status")

    assert get_pod(store).status.conditions == [Condition(type="A", status="True")]


def test_generation_counts_changes_of_the_spec_only() -> None:
    store = new_store()
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    create(store, DEPLOYMENT, body)

    patch(store, DEPLOYMENT, "d", {"metadata": {"labels": {"x": "y"}}}, "merge")
    patch(store, DEPLOYMENT, "d", {"status": {"replicas": 1}}, "merge", "status")
    assert data(store, DEPLOYMENT, "d")["metadata"]["generation"] == 1
    patch(store, DEPLOYMENT, "d", {"spec": {"replicas": 3}}, "merge")
    assert data(store, DEPLOYMENT, "d")["metadata"]["generation"] == 2


def test_what_is_not_there_is_not_found() -> None:
    store = new_store()

    for request in (
        Update(POD, "default", "p", pod_data()),
        Patch(POD, "default", "p", {"status": {}}, subresource="status"),
    ):
        with pytest.raises(NotFound, match='pods "p" not found'):
            store.execute(request)


def test_a_subresource_that_is_not_there_is_not_found() -> None:
    store = new_store()
    create_pod(store)

    with pytest.raises(NotFound, match="could not find the requested resource"):
        patch(store, POD, "p", {}, "merge", "scale")
    with pytest.raises(NotFound):
        patch(store, CLASS, "system-node-critical", {}, "merge", "status")


def test_another_name_in_the_body_is_a_bad_request() -> None:
    store = new_store()
    create_pod(store)

    with pytest.raises(BadRequest, match="does not match the name on the URL"):
        update(store, POD, "p", pod_data("q"))


IMMUTABLE = "pod updates may not change fields other than"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"spec": {"nodeName": "n2"}}, IMMUTABLE, id="node-name"),
        pytest.param({"spec": {"priority": 5}}, IMMUTABLE, id="priority"),
        pytest.param({"spec": {"hostname": "x"}}, IMMUTABLE, id="unmodelled-field"),
        pytest.param({"spec": {"nodeSelector": {"a": "b"}}}, IMMUTABLE, id="node-selector"),
        pytest.param({"spec": {"schedulerName": "x"}}, IMMUTABLE, id="scheduler"),
        pytest.param(
            {"spec": {"containers": [{"name": "c", "image": "app:1", "command": ["x"]}]}},
            IMMUTABLE,
            id="command",
        ),
        pytest.param(
            {"spec": {"containers": []}}, "may not add or remove containers", id="containers"
        ),
        pytest.param(
            {"spec": {"schedulingGates": [{"name": "new"}]}},
            "only deletion is allowed, but found new scheduling gate 'new'",
            id="gate",
        ),
        pytest.param(
            {"spec": {"tolerations": []}},
            "existing toleration can not be modified except its tolerationSeconds",
            id="fewer-tolerations",
        ),
    ],
)
def test_most_of_a_pod_cannot_change(change: Any, problem: str) -> None:
    store = new_store()
    create_pod(store, tolerations=None)
    create(store, POD, pod_data("q", tolerations=[{"key": "a", "operator": "Exists"}]))
    bind(store, "q", "n")

    with pytest.raises(Invalid) as raised:
        patch(store, POD, "q", change, "merge")

    assert problem in raised.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{"name": "c", "image": "app:2"}]}},
        {"spec": {"tolerations": [{"key": "extra", "operator": "Exists"}]}},
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"schedulingGates": []}},
    ],
)
def test_some_of_it_can(change: Any) -> None:
    store = new_store()
    create_pod(store, scheduling_gates=[gate("g")])
    if "tolerations" in change["spec"]:
        change["spec"]["tolerations"] += data(store, POD, "p")["spec"]["tolerations"]
    patch_type = "merge" if "containers" not in change["spec"] else "strategic"

    patch(store, POD, "p", change, patch_type)

    assert get_pod(store).metadata.generation == 2


def test_a_gated_pod_may_be_narrowed() -> None:
    store = new_store()
    create_pod(store, scheduling_gates=[gate("g")], node_selector={"a": "1"})

    patch(store, POD, "p", {"spec": {"nodeSelector": {"b": "2"}}}, "merge")
    with pytest.raises(Invalid, match="only additions are allowed"):
        patch(store, POD, "p", {"spec": {"nodeSelector": {"a": None}}}, "merge")

    assert get_pod(store).spec.node_selector == {"a": "1", "b": "2"}


def test_a_resize_changes_resources_and_nothing_else() -> None:
    store = new_store()
    create_pod(store)
    body = {
        "spec": {
            "containers": [
                {"name": "c", "image": "evil", "resources": {"requests": {"cpu": "2"}}},
            ]
        }
    }

    patch(store, POD, "p", body, subresource="resize")

    (container,) = get_pod(store).spec.containers or []
    assert container.image == "app:1"
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "2"}
    assert get_pod(store).metadata.generation == 2


def test_the_value_of_a_priority_class_is_for_ever() -> None:
    store = new_store()
    create(store, PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 5})

    with pytest.raises(Invalid, match="may not be changed in an update"):
        patch(store, PRIORITY_CLASS, "high", {"value": 6}, "merge")


def test_a_bad_change_is_refused_and_leaves_no_trace() -> None:
    store = new_store()
    create_node(store)
    version = store.resource_version

    for body in (
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        {"metadata": {"labels": {"a b": "c"}}},
        {"spec": {"taints": "all"}},
    ):
        with pytest.raises(ApiError):
            patch(store, NODE, "n", body, "merge")

    assert store.resource_version == version


def test_an_event_series_is_patched() -> None:
    store = new_store()
    create(store, EVENT, {"metadata": {"name": "e"}, "note": "x", "regarding": {"kind": "Pod"}})

    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
    patch(store, EVENT, "e", {"series": series})

    assert data(store, EVENT, "e")["series"]["count"] == 2


def test_a_service_made_from_json_keeps_its_ports() -> None:
    store = new_store()
    create(store, SERVICE, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})

    patch(store, SERVICE, "s", {"spec": {"selector": {"app": "web"}}})

    assert data(store, SERVICE, "s")["spec"]["ports"] == [
        {"port": 80, "protocol": "TCP", "targetPort": 80}
    ]
