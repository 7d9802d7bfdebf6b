"""The page's server: what it says, whom it lets in, and that only forks are ever changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import pytest
from aiohttp import CookieJar
from aiohttp.test_utils import RawTestServer, TestClient

import stowplan as sp
from stowplan.web import Guard, Page, Still
from stowplan.web.asking import Ask
from stowplan.web.assets import assets
from stowplan.web.decisions import pod_view
from stowplan.web.nodes import map_view, node_view
from stowplan.web.worlds import WORLDS_MAX

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
BIG = {"cpu": "64"}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"note": HOSTILE}},
        "spec": {"containers": [container], **spec},
    }


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def cluster() -> sp.Cluster:
    made = sp.Cluster()
    made.add_nodes(4, cpu=4, zones=2)
    made.add_nodes(1, cpu=4, prefix="tainted", taints=["team=ml:NoSchedule"])
    made.apply([pod("small-1"), pod("small-2"), pod("big", "64")])
    made.cordon("node-2")
    made.run()
    return made


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    async for each in serving(Guard()):
        yield each


async def serving(guard: Guard) -> AsyncIterator[TestClient[Any, Any]]:
    page = Page(Still(cluster(), "a test"), guard, now=lambda: 7.0)
    await page.start()
    server = RawTestServer(page.handle, host="127.0.0.1")
    async with TestClient(server, cookie_jar=CookieJar(unsafe=True)) as made:
        yield made
    await page.close()


async def get(client: TestClient[Any, Any], path: str, **headers: str) -> Any:
    response = await client.get(f"/ui/api/{path}", headers=headers)
    assert response.status == 200, await response.text()
    return await response.json()


async def post(client: TestClient[Any, Any], path: str, body: Any, status: int = 200) -> Any:
    response = await client.post(f"/ui/api/{path}", json=body)
    assert response.status == status, await response.text()
    return await response.json()


async def test_the_map_has_every_node_as_arrays_of_one_length(client) -> None:
    told = await get(client, "map?resource=cpu")

    assert told["names"] == ["node-1", "node-2", "node-3", "node-4", "tainted-1"]
    assert told["whole"] == [4000] * 5
    assert sum(told["used"]) == 2000
    assert sum(told["pods"]) == 2
    assert told["flags"] == [0, 1, 0, 0, 2]
    assert [told["groups"][n] for n in told["group"]][:2] == ["zone-a", "zone-b"]


async def test_a_decision_is_a_table_that_the_server_sorts_and_pages(client) -> None:
    told = await get(client, "pods/default/big/attempts/0?sort=node&order=desc&limit=2")

    assert [row["node"] for row in told["rows"]] == ["tainted-1", "node-4"]
    assert told["total"] == 5
    assert told["byPlugin"] == {
        "NodeResourcesFit": 3,
        "NodeUnschedulable": 1,
        "TaintToleration": 1,
    }
    placed = await get(client, "pods/default/small-1/attempts/0")
    assert placed["rows"][0]["chosen"]
    assert placed["rows"][0]["total"] == sum(placed["rows"][0]["scores"])
    assert placed["chosen"] == placed["rows"][0]["node"]


async def test_preemption_names_who_had_to_go_and_who_was_spared() -> None:
    with sp.Cluster() as made:
        made.add_nodes(1, cpu=4)
        made.apply([priority_class("low", -1), priority_class("urgent", 1000)])
        made.apply([pod("stays"), pod("goes", "3", priorityClassName="low")])
        made.run()
        made.apply(pod("urgent", "3", priorityClassName="urgent"))
        made.run()
        first = pod_view(made, Ask(("default", "urgent")))["attempts"][0]

    assert first["victims"] == [{"pod": "default/goes", "isThere": False}]
    assert first["spared"] == [{"pod": "default/stays", "priority": 0}]


async def test_the_queue_says_in_words_what_would_wake_a_pod(client) -> None:
    (row,) = (await get(client, "queue"))["lanes"]["unschedulable"]["rows"]

    assert {"a node is added", "taints of a node change"} <= set(row["wakes"])


async def test_a_pending_pod_is_explained_and_its_fix_works_in_a_fork_alone(client) -> None:
    why = await get(client, "pods/default/big/why")
    fix = why["fixes"][0]
    world = await post(client, "worlds", {})

    changed = await post(
        client,
        f"worlds/{world['id']}/changes",
        {"verb": "fix", "pod": "default/big", "title": fix["title"]},
    )
    diff = await get(client, f"worlds/{world['id']}/diff")

    assert why["causes"][0]["plugin"] == "NodeResourcesFit"
    assert (changed["pendingBefore"], changed["pendingAfter"]) == (1, 0)
    assert diff["placed"] == {"default/big": fix["node"]}
    assert (await get(client, "pods/default/big"))["node"] == ""
    assert (await get(client, f"pods/default/big?world={world['id']}"))["node"] == fix["node"]


async def test_every_change_is_made_to_the_fork_and_can_be_exported(client) -> None:
    before = await get(client, "map")
    await post(client, "worlds", {})
    for body in (
        {"verb": "drain", "node": "node-1"},
        {"verb": "taint", "node": "node-3", "taint": "a=b:NoSchedule"},
        {"verb": "addNodes", "like": "node-1", "count": 2},
        {"verb": "apply", "text": json.dumps(pod("more"))},
        {"verb": "weigh", "profile": "default-scheduler", "weights": {"NodeResourcesFit": 9}},
    ):
        told = await post(client, "worlds/fork-1/changes", body)
    export = await get(client, "worlds/fork-1/export")

    assert len(told["changes"]) == 5
    assert told["weights"]["default-scheduler"]["NodeResourcesFit"] == 9
    assert export["command"].endswith(
        "--replace fork-1.yaml --drain node-1 --new-config fork-1-config.yaml"
    )
    assert export["files"]["fork-1.yaml"] == export["manifests"]
    assert "name: more" in export["manifests"]
    assert await get(client, "map") == before


async def test_what_is_refused_says_why_and_leaves_no_trace(client) -> None:
    await post(client, "worlds", {})
    refused = [
        ({"verb": "cordon", "node": "nobody"}, 404),
        ({"verb": "fly"}, 422),
        ({"verb": "addNodes", "like": "node-1", "count": 10**9}, 422),
        ({"verb": "apply", "text": "kind: Pod"}, 422),
        ({"verb": "apply", "text": "/etc/passwd"}, 422),
        ({"verb": "weigh", "profile": "default-scheduler", "weights": {"Nope": 1}}, 422),
    ]
    for body, status in refused:
        told = await post(client, "worlds/fork-1/changes", body, status)
        assert told["error"]
    assert (await get(client, "worlds"))["worlds"][0]["changes"] == []
    wrong = await post(client, "check", {"text": "apiVersion: v1\nkind: Pod\nspec: 7"})
    assert "spec" in wrong["where"] + wrong["error"]


async def test_forks_are_bounded(client) -> None:
    for _ in range(WORLDS_MAX):
        await post(client, "worlds", {})
    await post(client, "worlds", {}, 429)
    assert (await client.delete("/ui/api/worlds/fork-1")).status == 200
    await post(client, "worlds", {})


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_other_sites_are_refused(client, headers: dict[str, str]) -> None:
    assert (await client.get("/ui/api/map", headers=headers)).status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:1", 200),
        ("Page.example:8002", 200),
        ("10.1.2.3", 403),
        ("page.example.evil", 403),
        ("evil.example", 403),
    ],
)
async def test_a_server_is_only_known_by_its_own_names(host: str, status: int) -> None:
    guard = Guard(needs_key=True, names=["page.example"])
    async for client in serving(guard):
        headers = {"Host": host}
        # The right key does not help, nor does the cookie.
        entered = await client.get(
            f"/ui/{guard.address_suffix}", headers=headers, allow_redirects=False
        )
        assert entered.status == (303 if status == 200 else 403)
        await client.get(f"/ui/{guard.address_suffix}")
        response = await client.get("/ui/api/map", headers=headers)
        assert response.status == status
        if status == 403:
            assert "--server-name" in (await response.json())["hint"]


async def test_forms_of_other_sites_cannot_change_anything(client) -> None:
    response = await client.post(
        "/ui/api/worlds", data="{}", headers={"Content-Type": "text/plain"}
    )

    assert response.status == 400


async def test_a_key_in_the_address_becomes_a_cookie_that_scripts_cannot_read() -> None:
    guard = Guard(needs_key=True)
    async for client in serving(guard):
        assert (await client.get("/ui/api/map")).status == 401
        assert (await client.get("/ui/?key=wrong")).status == 401
        entered = await client.get(f"/ui/{guard.address_suffix}", allow_redirects=False)
        assert (entered.status, entered.headers["Location"]) == (303, "/ui/")
        cookie = entered.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert guard.address_suffix.partition("=")[2] not in cookie
        assert (await client.get("/ui/api/map")).status == 200


async def test_the_source_cannot_be_written_to(client) -> None:
    for path in ("map", "nodes/node-1", "pods/default/big", "queue", "events"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            response = await client.request(method, f"/ui/api/{path}", json={})
            assert response.status == 405, (method, path)


async def test_text_of_the_cluster_is_sent_as_json_under_a_strict_policy(client) -> None:
    response = await client.get("/ui/api/manifest?kind=Pod&name=default/big")

    assert "<img src=x" in (await response.json())["text"]
    assert response.content_type == "application/json"
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


async def test_files_are_served_and_nothing_else(client) -> None:
    assert (await client.get("/ui/")).content_type == "text/html"
    assert (await client.get("/ui/app.js")).content_type == "text/javascript"
    for path in ("/ui/../page.py", "/ui/%2e%2e/page.py", "/ui/vendor/manifest.json", "/ui/x"):
        assert (await client.get(path)).status == 404


async def test_the_stream_says_hello_and_what_there_is(client) -> None:
    async with client.get("/ui/api/stream") as response:
        assert response.content_type == "text/event-stream"
        lines = b""
        while b"event: reload" not in lines:
            lines += await response.content.readany()
    assert b'"nodes":5' in lines


async def test_a_wrong_question_is_one_line_and_no_traceback(client) -> None:
    for path in ("pods/default/nobody", "nodes/nobody", "nope", "map?world=fork-9"):
        response = await client.get(f"/ui/api/{path}")
        assert response.status == 404, path
        assert "Traceback" not in await response.text()
    assert (await client.get("/ui/api/queue?limit=-1")).status == 422
    assert (await client.get("/ui/api/nodes?sort=colour")).status == 422


def test_every_module_is_fetched_at_once() -> None:
    named = set(
        re.findall(r'<link rel="modulepreload" href="([^"]+)">', assets()[""].body.decode())
    )

    assert named == {path for path in assets() if path.endswith(("js", "mjs"))} - {
        "app.js",
        "early.js",
    }


def test_vendored_files_are_those_of_the_manifest() -> None:
    folder = files("stowplan.web") / "static" / "vendor"
    manifest = json.loads((folder / "manifest.json").read_text())

    kept = {each.name for each in folder.iterdir()} - {"manifest.json"}
    assert {name for name in kept if not name.endswith(".d.mts")} == set(manifest["files"])
    for name, entry in manifest["files"].items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert found == entry["sha256"], name
        assert entry["package"] in manifest["licences"]


def test_the_page_asks_nobody_else() -> None:
    for path, asset in assets().items():
        if path.startswith("vendor/") or path == "icon.svg":
            continue
        text = asset.body.decode()
        assert "://" not in text.replace("http://www.w3.org", ""), path
        assert "innerHTML" not in text, path
        assert "dangerously" not in text, path


async def test_devices_are_a_resource_of_the_map_and_of_a_node() -> None:
    made = sp.Cluster()
    made.add_nodes(2, gpus=3)
    made.add_nodes(1, prefix="plain")
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "g", "exactly": {"deviceClassName": "gpu.stowplan.dev", "count": 2}}
                ]
            }
        },
    }
    wants = pod("wants", resourceClaims=[{"name": "c", "resourceClaimName": "two"}])
    made.apply([claim, wants])
    made.run()
    node = made.pod("default/wants").spec.node_name

    resource = map_view(made, Ask())["resources"][-1]
    told = map_view(made, Ask(query={"resource": resource}))
    amounts = node_view(made, Ask((node,)))["amounts"]

    assert resource.startswith("devices of ")
    assert dict(zip(told["names"], told["whole"], strict=True)) == {
        "node-1": 3,
        "node-2": 3,
        "plain-1": 0,
    }
    assert {name: n for name, n in zip(told["names"], told["used"], strict=True) if n} == {node: 2}
    assert {"resource": resource, "used": 2, "whole": 3} in amounts


def test_devices_of_no_single_node_stand_beside_the_map() -> None:
    made = sp.Cluster()
    made.add_nodes(3, labels={"rack": "1"})
    made.add_nodes(2, prefix="far", labels={"rack": "2"})
    rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}

    def devices_at(name: str, generation: int, devices: list[Any], **where: Any) -> dict[str, Any]:
        pool = {"name": "fabric", "generation": generation, "resourceSliceCount": 1}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {"driver": "net.example.com", "pool": pool, "devices": devices, **where},
        }

    one_by_one = [
        {"name": "a", "allNodes": True},
        {"name": "b", "nodeSelector": {"nodeSelectorTerms": [rack]}},
        {"name": "c", "nodeSelector": {"nodeSelectorTerms": [rack]}},
        {"name": "d", "nodeName": "node-2"},
    ]
    result = {"request": "r", "driver": "net.example.com", "pool": "fabric", "device": "b"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "held", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "net"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    old = devices_at("old", 1, [{"name": "z"}], allNodes=True)
    made.put([old, devices_at("new", 2, one_by_one, perDeviceNodeSelection=True), claim])
    made.run()

    told = map_view(made, Ask(query={"resource": "devices of net.example.com"}))

    assert dict(zip(told["names"], told["whole"], strict=True))["node-2"] == sum(told["whole"]) == 1
    shared = {row["from"]: row for row in told["shared"]}
    assert shared["every node"] == {
        "pool": "fabric", "from": "every node", "nodes": 5, "whole": 1, "used": 0, "claims": [],
    }  # fmt: skip
    assert shared["rack In 1"] == {
        "pool": "fabric", "from": "rack In 1", "nodes": 3, "whole": 2, "used": 1,
        "claims": ["default/held"],
    }  # fmt: skip
    assert map_view(made, Ask())["shared"] == []
