"""Lists in pages, at versions, as tables and as metadata alone."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.http import pages
from stowplan.objects.kinds import NODE, POD
from tests.apiserver.http.serving import PODS, Served
from tests.apiserver.things import create_node, create_pod, patch

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def fill(server: Served, count: int = 5) -> None:
    for number in range(count):
        create_pod(server.store, f"p{number}")


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.data["items"]]


async def test_pages_make_up_the_list(server: Served) -> None:
    await fill(server)
    first = await server.get(f"{PODS}?limit=2")
    token = first.data["metadata"]["continue"]
    second = await server.get(f"{PODS}?limit=2&continue={token}")
    token = second.data["metadata"]["continue"]
    third = await server.get(f"{PODS}?limit=2&continue={token}")

    assert names(first) + names(second) + names(third) == ["p0", "p1", "p2", "p3", "p4"]
    assert first.data["metadata"]["remainingItemCount"] == 3
    assert "continue" not in third.data["metadata"]


async def test_all_pages_show_one_version(server: Served) -> None:
    await fill(server, 3)
    first = await server.get(f"{PODS}?limit=2")
    create_pod(server.store, "p9")
    patch(server.store, POD, "p2", {"metadata": {"labels": {"x": "new"}}})
    token = first.data["metadata"]["continue"]
    second = await server.get(f"{PODS}?limit=2&continue={token}")

    assert names(second) == ["p2"]
    assert "labels" not in second.data["items"][0]["metadata"]
    first_version = first.data["metadata"]["resourceVersion"]
    assert second.data["metadata"]["resourceVersion"] == first_version


async def test_a_token_of_another_list(server: Served) -> None:
    await fill(server)
    token = (await server.get(f"{PODS}?limit=2")).data["metadata"]["continue"]
    answer = await server.get(f"/api/v1/pods?limit=2&continue={token}")

    assert answer.status()[:2] == (400, "BadRequest")


async def test_a_token_that_is_none(server: Served) -> None:
    for token in ("x", "AAAA", "%20", "eyJzZXJpYWwiOjF9"):
        answer = await server.get(f"{PODS}?continue={token}")
        assert answer.status()[:2] == (400, "BadRequest")


async def test_a_token_that_is_too_old(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LISTS_MAX", 2)
    await fill(server)
    token = (await server.get(f"{PODS}?limit=2")).data["metadata"]["continue"]
    for _ in range(2):
        await server.get(f"{PODS}?limit=2")
    answer = await server.get(f"{PODS}?limit=2&continue={token}")

    assert answer.status()[:2] == (410, "Expired")


async def test_at_a_version(server: Served) -> None:
    await fill(server, 1)
    now = server.store.resource_version
    assert (await server.get(f"{PODS}?resourceVersion=0")).code == 200
    assert (await server.get(f"{PODS}?resourceVersion={now}")).code == 200
    exact = f"{PODS}?resourceVersionMatch=Exact&resourceVersion="
    assert (await server.get(exact + now)).code == 200

    create_pod(server.store, "later")
    assert (await server.get(exact + now)).status()[:2] == (410, "Expired")
    future = await server.get(f"{PODS}?resourceVersion=99999")
    assert future.status()[:2] == (504, "Timeout")
    assert (await server.get(f"{PODS}?resourceVersion=x")).status()[:2] == (400, "BadRequest")


async def test_a_table(server: Served) -> None:
    create_pod(server.store, "a", node_name="n1")
    answer = await server.get(PODS, Accept=TABLE)

    table = answer.data
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [column["name"] for column in table["columnDefinitions"] if column["priority"]] == [
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
    (row,) = table["rows"]
    assert row["cells"] == ["a", "0/1", "Pending", "0", "0s", "<none>", "n1", "<none>", "<none>"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"


async def test_what_a_row_carries(server: Served) -> None:
    create_pod(server.store, "a")
    whole = await server.get(f"{PODS}?includeObject=Object", Accept=TABLE)
    nothing = await server.get(f"{PODS}?includeObject=None", Accept=TABLE)

    assert whole.data["rows"][0]["object"]["spec"]["containers"][0]["name"] == "c"
    assert "object" not in nothing.data["rows"][0]


async def test_a_node_tells_its_state(server: Served) -> None:
    create_node(server.store, "n1", **{"node-role.kubernetes.io/worker": ""})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    patch(server.store, NODE, "n1", {"status": ready}, "merge", "status")
    patch(server.store, NODE, "n1", {"spec": {"unschedulable": True}}, "merge")
    table = (await server.get("/api/v1/nodes/n1", Accept=TABLE)).data

    assert table["rows"][0]["cells"][:3] == ["n1", "Ready,SchedulingDisabled", "worker"]


async def test_metadata_alone(server: Served) -> None:
    create_pod(server.store, "a", labels={"x": "y"})
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = (await server.get(PODS, Accept=accept)).data

    assert listed["kind"] == "PartialObjectMetadataList"
    (item,) = listed["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert item["metadata"]["labels"] == {"x": "y"}
    assert "spec" not in item


async def test_an_odd_object_does_not_hide_the_others(server: Served) -> None:
    """A status that only its writer understands."""
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    await server.post(path, {"metadata": {"name": "r1"}, "revision": 1})
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    for name in ("a", "b"):
        await server.post(jobs, {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}})
    await server.patch(f"{jobs}/a/status", {"status": {"startTime": "yesterday"}})
    table = (await server.get(jobs, Accept=TABLE)).data

    assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
