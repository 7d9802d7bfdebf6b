"""What the server tells about itself: health, version, groups, resources, OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.objects.pod_groups import GENERIC_WORKLOAD
from tests.apiserver.http.serving import Served, serve

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_version_is_that_of_the_api(server: Served) -> None:
    found = (await server.get("/version")).data

    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.")


async def test_the_root_lists_paths(server: Served) -> None:
    assert "/apis" in (await server.get("/")).data["paths"]


async def test_groups(server: Served) -> None:
    core = (await server.get("/api")).data
    listed = (await server.get("/apis")).data

    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    assert listed["kind"] == "APIGroupList"
    groups = {group["name"]: group["preferredVersion"] for group in listed["groups"]}
    assert groups["apps"] == {"groupVersion": "apps/v1", "version": "v1"}
    for name in groups:
        assert (await server.get(f"/apis/{name}")).data["name"] == name


async def resources(server: Served, path: str) -> dict[str, Any]:
    listed = (await server.get(path)).data
    assert listed["kind"] == "APIResourceList"
    return {entry["name"]: entry for entry in listed["resources"]}


async def test_resources_of_core(server: Served) -> None:
    found = await resources(server, "/api/v1")

    assert found["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "shortNames": ["po"],
        "categories": ["all"],
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }
    assert {"pods/binding", "pods/status", "pods/eviction", "nodes/status"} <= set(found)
    assert found["pods/eviction"]["kind"] == "Eviction"
    assert found["pods/eviction"]["group"] == "policy"


async def test_every_stored_kind_is_served_and_described() -> None:
    server = await serve(gates=frozenset({GENERIC_WORKLOAD}))
    for kind in STORED_KINDS:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        entry = (await resources(server, root))[kind.plural]
        assert (entry["kind"], entry["namespaced"]) == (kind.name, kind.namespaced)
        listed = await server.get(f"{root}/{kind.plural}")
        assert listed.data["kind"] == f"{kind.name}List"
    await server.close()


async def test_all_of_it_in_one_document(server: Served) -> None:
    for path, group in (("/api", ""), ("/apis", "apps")):
        answer = await server.get(path, Accept=f"{AGGREGATED},application/json")
        assert answer.headers["Content-Type"] == AGGREGATED
        listed = answer.data
        assert listed["kind"] == "APIGroupDiscoveryList"
        found = {item["metadata"].get("name", ""): item for item in listed["items"]}
        (version,) = found[group]["versions"]
        assert version["version"] == "v1"
        names = {entry["resource"] for entry in version["resources"]}
        assert ("pods" if group == "" else "deployments") in names


async def test_subresources_in_one_document(server: Served) -> None:
    listed = (await server.get("/apis", Accept=AGGREGATED)).data["items"]
    apps = next(item for item in listed if item["metadata"]["name"] == "apps")
    entries = {entry["resource"]: entry for entry in apps["versions"][0]["resources"]}
    deployments = entries["deployments"]

    assert deployments["scope"] == "Namespaced"
    assert deployments["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    scale = next(one for one in deployments["subresources"] if one["subresource"] == "scale")
    assert scale["responseKind"]["kind"] == "Scale"


async def test_openapi_has_a_document_for_each_group(server: Served) -> None:
    paths = (await server.get("/openapi/v3")).data["paths"]

    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    for place in paths.values():
        document = (await server.get(place["serverRelativeURL"])).data
        assert document["openapi"].startswith("3.")
        _check_references(document, document["components"]["schemas"])


def _check_references(data: Any, schemas: dict[str, Any]) -> None:
    """What a document names must be in it."""
    if isinstance(data, dict):
        reference = data.get("$ref")
        if isinstance(reference, str):
            assert reference.removeprefix("#/components/schemas/") in schemas
        for value in data.values():
            _check_references(value, schemas)
    elif isinstance(data, list):
        for value in data:
            _check_references(value, schemas)


async def test_a_schema_knows_its_kind(server: Served) -> None:
    document = (await server.get("/openapi/v3/apis/apps/v1")).data
    schemas = document["components"]["schemas"]
    kinds = {
        kind["kind"]
        for schema in schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }

    assert {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} <= kinds
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


@pytest.mark.parametrize("path", ["/apis/nope.io", "/apis/nope.io/v1", "/openapi/v3/apis/nope/v1"])
async def test_groups_that_are_not_there(server: Served, path: str) -> None:
    answer = await server.get(path)

    assert (answer.code, answer.body) == (404, b"404 page not found\n")


async def test_health(server: Served) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await server.get(path)).body == b"ok"
