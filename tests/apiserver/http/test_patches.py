"""PATCH in its four kinds: merge, strategic merge, JSON patch, server-side apply."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.apiserver.http.serving import DEPLOYMENTS, PODS, Served
from tests.apiserver.things import create_pod


def config(replicas: int | None = None, **extra: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **extra},
        "spec": spec,
    }


async def apply(server: Served, body: Any, manager: str = "me", query: str = "") -> Any:
    path = f"{DEPLOYMENTS}/web?fieldManager={manager}{query}"
    return await server.patch(path, body, "apply")


async def test_merge_strategic_and_json_agree(server: Served) -> None:
    for number, (type_, body) in enumerate(
        [
            ("merge", {"metadata": {"labels": {"b": "2", "a": None}}}),
            ("strategic-merge", {"metadata": {"labels": {"b": "2", "a": None}}}),
            (
                "json",
                [
                    {"op": "test", "path": "/metadata/labels/a", "value": "1"},
                    {"op": "remove", "path": "/metadata/labels/a"},
                    {"op": "add", "path": "/metadata/labels/b", "value": "2"},
                ],
            ),
        ]
    ):
        create_pod(server.store, f"p{number}", labels={"a": "1"})
        answer = await server.patch(f"{PODS}/p{number}", body, type_)
        assert answer.code == 200
        assert answer.data["metadata"]["labels"] == {"b": "2"}


async def test_strategic_merges_lists_by_key_and_merge_replaces_them(server: Served) -> None:
    create_pod(server.store, "a")

    async def conditions(type_: str, condition: str) -> list[str]:
        body = {"status": {"conditions": [{"type": condition, "status": "True"}]}}
        answer = await server.patch(f"{PODS}/a/status", body, type_)
        return [one["type"] for one in answer.data["status"]["conditions"]]

    assert await conditions("strategic-merge", "PodScheduled") == ["PodScheduled"]
    assert sorted(await conditions("strategic-merge", "Ready")) == ["PodScheduled", "Ready"]
    assert await conditions("merge", "Initialized") == ["Initialized"]


async def test_a_patch_with_a_version_is_a_precondition(server: Served) -> None:
    made = create_pod(server.store, "a")
    body = {"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"x": "1"}}}
    assert (await server.patch(f"{PODS}/a", body)).code == 200

    assert (await server.patch(f"{PODS}/a", body)).status()[:2] == (409, "Conflict")


@pytest.mark.parametrize(
    ("type_", "body", "code", "reason"),
    [
        ("merge", b"{", 400, "BadRequest"),
        ("merge", b"[]", 400, "BadRequest"),
        ("json", b"{}", 400, "BadRequest"),
        ("json", b'[{"op": "jump", "path": "/x"}]', 422, "Invalid"),
        ("json", b'[{"op": "remove", "path": "/nope"}]', 422, "Invalid"),
        ("json", b'[{"op": "test", "path": "/metadata/name", "value": "b"}]', 422, "Invalid"),
        ("merge", b'{"metadata": {"name": "b"}}', 400, "BadRequest"),
        ("merge", b'{"spec": {"containers": 5}}', 422, "Invalid"),
        ("telepathic", b"{}", 415, "UnsupportedMediaType"),
    ],
)
async def test_patches_that_are_refused(
    server: Served, type_: str, body: bytes, code: int, reason: str
) -> None:
    create_pod(server.store, "a")
    version = server.store.resource_version
    answer = await server.patch(f"{PODS}/a", body, type_)

    assert answer.status()[:2] == (code, reason)
    assert server.store.resource_version == version


async def test_apply_makes_what_is_not_there(server: Served) -> None:
    made = await apply(server, config(2))
    again = await apply(server, config(2))

    assert (made.code, again.code) == (201, 200)
    assert made.data["spec"]["replicas"] == 2
    (entry,) = made.data["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert entry["fieldsV1"]["f:spec"]["f:replicas"] == {}
    assert again.data["metadata"]["resourceVersion"] == made.data["metadata"]["resourceVersion"]


async def test_apply_takes_yaml(server: Served) -> None:
    answer = await apply(server, yaml.safe_dump(config(2)).encode())

    assert answer.data["spec"]["replicas"] == 2


async def test_what_is_no_longer_applied_goes(server: Served) -> None:
    await apply(server, config(2, labels={"tier": "front", "keep": "1"}))
    answer = await apply(server, config(labels={"keep": "1"}))

    assert answer.data["metadata"]["labels"] == {"keep": "1"}
    # A default takes its place.
    assert answer.data["spec"]["replicas"] == 1


async def test_what_others_own_is_a_conflict(server: Served) -> None:
    await apply(server, config(2))
    refused = await apply(server, config(3), "you")
    shared = await apply(server, config(2), "you")
    forced = await apply(server, config(3), "you", "&force=true")

    assert refused.status() == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "me": .spec.replicas',
    )
    assert refused.data["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "me"',
            "field": ".spec.replicas",
        }
    ]
    assert shared.code == 200
    assert forced.data["spec"]["replicas"] == 3


async def test_conflicts_with_several_are_told_one_by_one(server: Served) -> None:
    await apply(server, config(2, labels={"a": "1"}))
    await apply(server, config(labels={"b": "1"}), "you")
    refused = await apply(server, config(3, labels={"a": "2", "b": "2"}), "they")

    first, *lines = refused.status()[2].splitlines()
    assert first == 'Apply failed with 3 conflicts: conflicts with "me":'
    assert sorted(lines[:2]) == ["- .metadata.labels.a", "- .spec.replicas"]
    assert lines[2:] == ['conflicts with "you":', "- .metadata.labels.b"]
    causes = [(it["message"], it["field"]) for it in refused.data["details"]["causes"]]
    assert sorted(causes) == [
        ('conflict with "me"', ".metadata.labels.a"),
        ('conflict with "me"', ".spec.replicas"),
        ('conflict with "you"', ".metadata.labels.b"),
    ]


async def test_what_two_own_stays_until_both_let_go(server: Served) -> None:
    await apply(server, config(labels={"x": "1"}))
    await apply(server, config(labels={"x": "1"}), "you")
    after_one = await apply(server, config())
    assert after_one.data["metadata"]["labels"] == {"x": "1"}

    after_both = await apply(server, config(), "you")
    assert "labels" not in after_both.data["metadata"]


async def test_lists_are_merged_by_their_keys(server: Served) -> None:
    await apply(server, config())
    extra = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}},
    }
    both = await apply(server, extra, "you")

    containers = both.data["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one["image"] for one in containers} == {"main": "web:1", "side": "side:1"}


async def test_apply_needs_a_manager(server: Served) -> None:
    answer = await server.patch(f"{DEPLOYMENTS}/web", config(), "apply")

    assert answer.code in (400, 422)
    assert "fieldManager: Required value" in answer.status()[2]


async def test_fields_that_nobody_knows(server: Served) -> None:
    body = config()
    body["spec"]["replicaz"] = 3
    strict = await server.post(f"{DEPLOYMENTS}?fieldValidation=Strict", body)
    warned = await server.post(f"{DEPLOYMENTS}?fieldValidation=Warn", body)

    assert strict.status()[:2] == (400, "BadRequest")
    assert 'unknown field "spec.replicaz"' in strict.status()[2]
    assert warned.code == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.replicaz\\""'
    ignored = await server.put(
        f"{DEPLOYMENTS}/web?fieldValidation=Ignore", {**warned.data, "spec": body["spec"]}
    )
    assert "Warning" not in ignored.headers
