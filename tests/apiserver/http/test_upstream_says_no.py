"""What kube-apiserver refuses, or writes differently, and this server once did not.

Each claim was checked against kube-apiserver 1.36; `tests.e2e.differential` compares many more.
"""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.kinds import POD
from tests.apiserver.http.serving import DEPLOYMENTS, PODS, Served
from tests.apiserver.things import create_pod, exists, pod_data

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"


def _eviction(name: str = "a", **preconditions: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"preconditions": preconditions},
    }


async def test_an_eviction_of_another_version_or_another_pod(server: Served) -> None:
    create_pod(server.store, "a")

    older = await server.post(f"{PODS}/a/eviction", _eviction(resourceVersion="1"))
    assert older.status()[:2] == (409, "Conflict")
    another = await server.post(f"{PODS}/a/eviction", _eviction("b"))
    message = "name in URL does not match name in Eviction object"
    assert another.status() == (400, "BadRequest", message)
    assert exists(server.store, POD, "a")

    version = (await server.get(f"{PODS}/a")).data["metadata"]["resourceVersion"]
    meant = await server.post(f"{PODS}/a/eviction", _eviction(resourceVersion=version))
    assert meant.code == 201
    assert not exists(server.store, POD, "a")


async def test_a_port_of_the_host_is_had_once(server: Served) -> None:
    def ports(*addresses: str) -> dict[str, Any]:
        listed = [
            {"containerPort": 80 + n, "hostPort": 80, "hostIP": address}
            for n, address in enumerate(addresses)
        ]
        return pod_data("a", containers=[{"name": "c", "image": "i", "ports": listed}])

    twice = await server.post(PODS, ports("127.0.0.1", "127.0.0.1"))
    assert twice.status()[:2] == (422, "Invalid")
    assert 'ports[1].hostPort: Duplicate value: "TCP/127.0.0.1/80"' in twice.data["message"]
    assert (await server.post(PODS, ports("127.0.0.1", "127.0.0.2"))).code == 201


async def test_a_key_said_twice(server: Served) -> None:
    body = (
        b'{"metadata": {"name": "a"}, "spec": {"nodeName": "x", "nodeName": "y", '
        b'"containers": [{"name": "c", "image": "i"}]}}'
    )
    strict = await server.post(f"{PODS}?fieldValidation=Strict", body)
    assert strict.status()[:2] == (400, "BadRequest")
    assert 'duplicate field "spec.nodeName"' in strict.data["message"]

    warned = await server.post(PODS, body)
    assert warned.code == 201
    assert "duplicate field" in warned.headers["Warning"]
    assert warned.data["spec"]["nodeName"] == "y"

    wrong_first = body.replace(b'"x"', b"5").replace(b'"a"', b'"b"')
    assert (await server.post(PODS, wrong_first)).status()[:2] == (400, "BadRequest")


async def test_what_nobody_knows_is_not_kept(server: Served) -> None:
    body = {**pod_data("a"), "color": "red"}
    body["spec"] = {**body["spec"], "tint": 1}
    made = (await server.post(PODS, body)).data
    assert "color" not in made
    assert "tint" not in made["spec"]

    patched = await server.patch(f"{PODS}/a", {"spec": {"tint": 1}, "metadata": {"x": 1}})
    assert "tint" not in patched.data["spec"]
    strict = await server.patch(f"{PODS}/a?fieldValidation=Strict", {"spec": {"tint": 1}})
    assert strict.status()[:2] == (422, "Invalid")
    assert 'unknown field "spec.tint"' in strict.data["message"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [("1000m", "1"), ("0.5", "500m"), ("1e3", "1e3"), ("0.5Gi", "512Mi"), (2, "2"), ("1n", "1m")],
)
async def test_quantities_are_canonical(server: Served, written: Any, shown: str) -> None:
    capacity = {"cpu": written, "pods": "10"}
    made = await server.post(NODES, {"metadata": {"name": "n"}, "status": {"capacity": capacity}})
    assert made.data["status"]["capacity"]["cpu"] == shown


async def test_types_are_those_of_the_kind(server: Served) -> None:
    create_pod(server.store, "a")
    for spec in ({"hostNetwork": "yes"}, {"priority": 2**31}, {"priority": 1.5}, {"volumes": {}}):
        answer = await server.post(PODS, pod_data("b", **spec))
        assert answer.status()[:2] == (400, "BadRequest"), spec
        (name, value) = next(iter(spec.items()))
        changed = await server.patch(f"{PODS}/a", {"spec": {name: value}})
        assert changed.status()[:2] == (422, "Invalid"), spec


async def test_refusals_come_before_what_is_there_already(server: Served) -> None:
    create_pod(server.store, "a")
    answer = await server.post(PODS, pod_data("a", restartPolicy="Sometimes"))
    assert answer.status()[:2] == (422, "Invalid")
    assert (await server.post(PODS, pod_data("a"))).status()[:2] == (409, "AlreadyExists")


async def test_whoever_wrote_before_owns_it_until_an_apply_is_forced(server: Served) -> None:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod_data("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await server.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})

    config = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {**spec, "replicas": 3},
    }
    path = f"{DEPLOYMENTS}/web?fieldManager=me"
    refused = await server.patch(path, config, "apply")
    assert refused.status()[:2] == (409, "Conflict")
    assert 'conflict with "unknown" using apps/v1: .spec.replicas' in refused.data["message"]
    forced = await server.patch(f"{path}&force=true", config, "apply")
    assert forced.data["spec"]["replicas"] == 3


async def test_a_service_has_an_address_and_keeps_it(server: Served) -> None:
    spec = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    made = (await server.post(SERVICES, body)).data["spec"]
    assert made["clusterIPs"] == [made["clusterIP"]]
    assert made["clusterIP"].startswith("10.")

    other = (await server.post(SERVICES, {**body, "metadata": {"name": "t"}})).data["spec"]
    assert other["clusterIP"] != made["clusterIP"]

    put = await server.put(f"{SERVICES}/s", body)
    assert put.data["spec"]["clusterIP"] == made["clusterIP"]
    moved = await server.patch(f"{SERVICES}/s", {"spec": {"clusterIP": "10.96.9.9",
                                                         "clusterIPs": ["10.96.9.9"]}})  # fmt: skip
    assert moved.status()[:2] == (422, "Invalid")


async def test_a_token_of_a_service_account(server: Served) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    assert (await server.post(f"{path}/bob/token", asked)).status()[:2] == (404, "NotFound")
    await server.post(path, {"metadata": {"name": "bob"}})

    token = (await server.post(f"{path}/bob/token", asked)).data["status"]["token"]

    review = {"spec": {"token": token}}
    answer = await server.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert answer.data["status"]["user"]["username"] == "system:serviceaccount:default:bob"


async def test_kubectl_debug_is_told_why_not(server: Served) -> None:
    create_pod(server.store, "a")
    answer = await server.patch(f"{PODS}/a/ephemeralcontainers", {"spec": {}}, "strategic")
    assert answer.status()[:2] == (400, "BadRequest")
    assert "simulated" in answer.data["message"]


async def test_openapi_in_the_encoding_that_kubectl_wants(server: Served) -> None:
    wanted = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await server.get("/openapi/v2", Accept=wanted)
    assert answer.code == 200
    assert answer.headers["Content-Type"].endswith("+protobuf")
    assert answer.body.startswith(b"\x0a\x032.0")
