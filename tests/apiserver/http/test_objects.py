"""GET, POST, PUT and DELETE of objects, in JSON and in YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.apiserver.http.serving import DEPLOYMENTS, PODS, Served
from tests.apiserver.things import START, create_node, create_pod, pod_data

NODES = "/api/v1/nodes"


async def test_create_fills_in_what_the_server_knows(server: Served) -> None:
    answer = await server.post(PODS, pod_data("a"))

    made = answer.data
    assert answer.code == 201
    assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")
    assert made["metadata"]["creationTimestamp"] == START
    assert made["metadata"]["uid"]
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_read_what_was_written(server: Served) -> None:
    made = (await server.post(PODS, pod_data("a", nodeSelector={"x": "y"}))).data

    assert (await server.get(f"{PODS}/a")).data == made


async def test_fields_that_scheduling_never_reads_are_kept(server: Served) -> None:
    body = pod_data("a", hostAliases=[{"ip": "10.0.0.1", "hostnames": ["x"]}])
    body["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["ls"]}}
    await server.post(PODS, body)

    spec = (await server.get(f"{PODS}/a")).data["spec"]
    assert spec["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["x"]}]
    assert spec["containers"][0]["livenessProbe"]["exec"] == {"command": ["ls"]}


async def test_yaml_in_and_yaml_out(server: Served) -> None:
    text = yaml.safe_dump(pod_data("a")).encode()
    answer = await server.post(PODS, text, type_="application/yaml", Accept="application/yaml")

    assert answer.code == 201
    assert answer.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(answer.body)["metadata"]["name"] == "a"


async def test_a_long_yaml_body(server: Served) -> None:
    body = pod_data("a")
    body["metadata"]["annotations"] = {f"key-{n}": "x" * 100 for n in range(500)}
    text = yaml.safe_dump(body).encode()
    answer = await server.post(PODS, text, type_="application/yaml")

    assert answer.code == 201
    assert answer.data["metadata"]["annotations"] == body["metadata"]["annotations"]


async def test_put_replaces_and_asks_for_the_latest(server: Served) -> None:
    made = (await server.post(PODS, pod_data("a"))).data
    made["metadata"]["labels"] = {"x": "1"}
    changed = await server.put(f"{PODS}/a", made)
    stale = await server.put(f"{PODS}/a", made)

    assert changed.code == 200
    assert changed.data["metadata"]["resourceVersion"] > made["metadata"]["resourceVersion"]
    assert stale.status()[:2] == (409, "Conflict")
    assert stale.data["message"] == (
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )
    assert stale.data["details"] == {"name": "a", "kind": "pods"}


async def test_what_exists_already(server: Served) -> None:
    await server.post(DEPLOYMENTS, _deployment("web"))
    again = await server.post(DEPLOYMENTS, _deployment("web"))

    assert again.status() == (409, "AlreadyExists", 'deployments.apps "web" already exists')
    assert again.data["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


async def test_what_is_not_there(server: Served) -> None:
    answer = await server.get(f"{DEPLOYMENTS}/web")

    assert answer.status() == (404, "NotFound", 'deployments.apps "web" not found')
    assert answer.data["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


async def test_what_breaks_the_rules_is_told_field_by_field(server: Served) -> None:
    body = pod_data("a", restartPolicy="Sometimes")
    body["spec"]["containers"][0].pop("name")
    answer = await server.post(PODS, body)

    code, reason, message = answer.status()
    assert (code, reason) == (422, "Invalid")
    assert message.startswith('Pod "a" is invalid: [')
    assert (answer.data["details"]["kind"], answer.data["details"]["name"]) == ("Pod", "a")
    assert {cause["field"]: cause["reason"] for cause in answer.data["details"]["causes"]} == {
        "spec.containers[0].name": "FieldValueRequired",
        "spec.restartPolicy": "FieldValueNotSupported",
    }


async def test_a_namespace_that_is_not_there(server: Served) -> None:
    body = {**pod_data("a"), "metadata": {"name": "a"}}
    answer = await server.post("/api/v1/namespaces/nope/pods", body)

    assert answer.status() == (404, "NotFound", 'namespaces "nope" not found')
    assert answer.data["details"] == {"name": "nope", "kind": "namespaces"}


async def test_lists(server: Served) -> None:
    for name in ("b", "a"):
        create_pod(server.store, name)
    listed = (await server.get(PODS)).data

    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert listed["metadata"]["resourceVersion"] == server.store.resource_version


async def test_selectors(server: Served) -> None:
    create_pod(server.store, "a", labels={"app": "web"})
    create_pod(server.store, "b", labels={"app": "db"}, node_name="n1")

    async def names(query: str) -> list[str]:
        listed = (await server.get(f"/api/v1/pods?{query}")).data["items"]
        return [item["metadata"]["name"] for item in listed]

    assert await names("labelSelector=app%3Dweb") == ["a"]
    assert await names("labelSelector=app+in+(web,db),app!%3Ddb") == ["a"]
    assert await names("fieldSelector=spec.nodeName%3Dn1") == ["b"]
    assert await names("fieldSelector=spec.nodeName%3D,metadata.name%3Da") == ["a"]


async def test_delete_waits_for_the_kubelet(server: Served) -> None:
    create_pod(server.store, "a", node_name="n1")
    answer = await server.delete(f"{PODS}/a")

    assert answer.code == 200
    assert answer.data["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await server.get(f"{PODS}/a")).code == 200
    await server.delete(f"{PODS}/a?gracePeriodSeconds=0")
    assert (await server.get(f"{PODS}/a")).code == 404


async def test_options_of_a_delete_come_in_the_body(server: Served) -> None:
    create_pod(server.store, "a", node_name="n1")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    answer = await server.delete(f"{PODS}/a", options)

    assert answer.data["metadata"]["name"] == "a"
    assert (await server.get(f"{PODS}/a")).code == 404


async def test_preconditions_of_a_delete(server: Served) -> None:
    made = create_pod(server.store, "a")
    wrong = await server.delete(f"{PODS}/a", {"preconditions": {"uid": "other"}})
    old = await server.delete(f"{PODS}/a", {"preconditions": {"resourceVersion": "1"}})
    right = await server.delete(f"{PODS}/a", {"preconditions": {"uid": made.uid}})

    assert wrong.status()[:2] == (409, "Conflict")
    assert old.status()[:2] == (409, "Conflict")
    assert right.code == 200


async def test_what_a_delete_of_something_else_is_answered_with(server: Served) -> None:
    made = (await server.post(DEPLOYMENTS, _deployment("web"))).data
    answer = await server.delete(f"{DEPLOYMENTS}/web")

    assert answer.data == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "web",
            "group": "apps",
            "kind": "deployments",
            "uid": made["metadata"]["uid"],
        },
    }


async def test_delete_a_collection(server: Served) -> None:
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        create_pod(server.store, name, labels={"app": app})
    answer = await server.delete(f"{PODS}?labelSelector=app%3Dweb")

    assert answer.data["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in answer.data["items"]] == ["a", "b"]
    left = (await server.get(PODS)).data["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


async def test_a_collection_goes_gracefully(server: Served) -> None:
    create_pod(server.store, "a", node_name="n1")
    await server.delete(PODS, {"gracePeriodSeconds": 5})

    metadata = (await server.get(f"{PODS}/a")).data["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_dry_run_changes_nothing(server: Served, method: str) -> None:
    create_pod(server.store, "a")
    version = server.store.resource_version
    name = "b" if method == "POST" else "a"
    body: Any = pod_data(name)
    body["metadata"]["labels"] = {"x": "1"}
    path = f"{PODS}?dryRun=All" if method == "POST" else f"{PODS}/a?dryRun=All"
    type_ = "application/merge-patch+json" if method == "PATCH" else ""
    shown = await server.ask(method, path, None if method == "DELETE" else body, type_=type_)

    assert shown.code == (201 if method == "POST" else 200)
    assert shown.data["metadata"]["name"] == name
    if method != "DELETE":
        assert shown.data["metadata"]["labels"] == {"x": "1"}
    assert server.store.resource_version == version
    listed = (await server.get(PODS)).data["items"]
    assert [item["metadata"].get("labels") for item in listed] == [None]


async def test_a_dry_run_makes_no_version(server: Served) -> None:
    made = create_pod(server.store, "a")
    created = await server.post(f"{PODS}?dryRun=All", pod_data("b"))
    patched = await server.patch(f"{PODS}/a?dryRun=All", {"metadata": {"labels": {"x": "1"}}})

    assert "resourceVersion" not in created.data["metadata"]
    found = patched.data["metadata"]["resourceVersion"]
    assert found == made.metadata.resource_version


async def test_the_status_of_a_node_is_written_apart(server: Served) -> None:
    create_node(server.store, "n1")
    status = {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}
    await server.patch(f"{NODES}/n1/status", {**status, "spec": {"unschedulable": True}})

    found = (await server.get(f"{NODES}/n1")).data
    assert found["status"]["allocatable"] == {"cpu": "4"}
    assert "unschedulable" not in found.get("spec", {})


async def test_binding(server: Served) -> None:
    create_pod(server.store, "a")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n1"},
    }
    bound = await server.post(f"{PODS}/a/binding", body)
    again = await server.post(f"{PODS}/a/binding", body)

    assert bound.code == 201
    assert bound.data == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    pod = (await server.get(f"{PODS}/a")).data
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["status"]["conditions"][0]["type"] == "PodScheduled"
    assert again.status() == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    )


async def test_scale(server: Served) -> None:
    await server.post(DEPLOYMENTS, _deployment("web"))
    scale = (await server.get(f"{DEPLOYMENTS}/web/scale")).data
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (1, "app=web")

    scale["spec"]["replicas"] = 4
    assert (await server.put(f"{DEPLOYMENTS}/web/scale", scale)).data["spec"] == {"replicas": 4}
    stale = await server.put(f"{DEPLOYMENTS}/web/scale", scale)
    assert stale.status()[:2] == (409, "Conflict")
    await server.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 7}})
    assert (await server.get(f"{DEPLOYMENTS}/web")).data["spec"]["replicas"] == 7


async def test_a_name_is_generated(server: Served) -> None:
    body = {**pod_data(), "metadata": {"generateName": "web-"}}
    first, second = [(await server.post(PODS, body)).data["metadata"]["name"] for _ in range(2)]

    assert first.startswith("web-")
    assert first != second


async def test_an_event_is_shown_in_both_shapes(server: Served) -> None:
    create_pod(server.store, "a")
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "x",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
        "note": "Successfully assigned default/a to n1",
        "type": "Normal",
    }
    assert (await server.post("/apis/events.k8s.io/v1/namespaces/default/events", new)).code == 201
    old = (await server.get("/api/v1/namespaces/default/events/a.1")).data
    assert old["message"] == new["note"]
    assert old["involvedObject"]["name"] == "a"

    # A second one of the sort: schedulers patch the series into the first.
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}}
    path = "/apis/events.k8s.io/v1/namespaces/default/events/a.1"
    assert (await server.patch(path, series, "strategic-merge")).data["series"]["count"] == 2
    query = "fieldSelector=involvedObject.name%3Da,involvedObject.kind%3DPod"
    found = (await server.get(f"/api/v1/namespaces/default/events?{query}")).data["items"]
    assert [item["series"]["count"] for item in found] == [2]


async def test_a_lease_is_renewed_by_whoever_knows_it(server: Served) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0},
    }
    made = (await server.post(leases, body)).data
    made["spec"]["renewTime"] = "2026-01-01T00:00:02.000000Z"
    renewed = await server.put(f"{leases}/kube-scheduler", made)
    stolen = await server.put(f"{leases}/kube-scheduler", made)

    assert renewed.data["spec"]["renewTime"] == "2026-01-01T00:00:02.000000Z"
    assert stolen.status()[:2] == (409, "Conflict")


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


@pytest.mark.parametrize(
    ("path", "body", "taken"),
    [
        (PODS, {"spec": {"containers": [{"name": "a", "image": "i"}]}}, True),
        (
            DEPLOYMENTS,
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "a", "image": "i"}]},
                    },
                }
            },
            False,
        ),
    ],
)
async def test_labels_in_a_status_are_taken_in_the_core_group_only(
    server: Served, path: str, body: Any, taken: bool
) -> None:
    """As kube-apiserver's strategies have it: those of apps reset the metadata."""
    made = (await server.post(path, {"metadata": {"name": "x"}, **body})).data
    made["metadata"]["labels"] = {"new": "label"}

    assert (await server.put(f"{path}/x/status", made)).code == 200

    found = (await server.get(f"{path}/x")).data["metadata"].get("labels")
    assert found == ({"new": "label"} if taken else None)
