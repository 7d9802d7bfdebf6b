"""A field takes values of its type, and no others: 400, as Go's decoder has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.http.serving import PODS, Served

CONTAINERS = [{"name": "a", "image": "i"}]
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SECRETS = "/api/v1/namespaces/default/secrets"


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": CONTAINERS, **spec}}


def asking(amount: Any) -> dict[str, Any]:
    return pod(containers=[{**CONTAINERS[0], "resources": {"requests": {"cpu": amount}}}])


FIELDS: dict[str, tuple[str, Any, list[Any], list[Any]]] = {
    "text": (
        PODS,
        lambda value: pod(nodeName=value),
        ["node-1", ""],
        [7, 1.5, True, ["a"], {"a": "b"}],
    ),
    "int64": (
        PODS,
        lambda value: pod(terminationGracePeriodSeconds=value),
        [0, 5, 2**63 - 1],
        ["5", 1.5, True, [1], {"a": 1}, 2**63, -(2**63) - 1],
    ),
    "int32": (
        LEASES,
        lambda value: {"spec": {"leaseDurationSeconds": value}},
        [1, 2**31 - 1],
        ["5", 1.5, True, [1], {"a": 1}, 2**31, -(2**31) - 1],
    ),
    "bool": (
        PODS,
        lambda value: pod(hostPID=value),
        [True, False],
        ["true", 1, 0, [True], {"a": True}],
    ),
    "bytes": (
        SECRETS,
        lambda value: {"data": {"a": value}},
        ["aGVsbG8=", ""],
        ["a", "%%%%", 7, True, ["a"], {"a": "b"}],
    ),
    "quantity": (PODS, asking, ["100m", "1.5", 2, 0.5], ["much", "1x", True, ["1"], {"a": 1}]),
    "int-or-text": (
        BUDGETS,
        lambda value: {"spec": {"minAvailable": value}},
        [0, 3, "50%"],
        [True, 1.5, [1], {"a": 1}, 2**31],
    ),
    "time": (
        LEASES,
        lambda value: {"spec": {"renewTime": value}},
        ["2026-01-01T00:00:00.000000Z"],
        ["yesterday", "2026-13-01T00:00:00.000000Z", 7, True, ["a"], {"a": "b"}],
    ),
}


@pytest.mark.parametrize("field", FIELDS)
async def test_values_of_its_type_and_no_others(server: Served, field: str) -> None:
    path, body, good, bad = FIELDS[field]
    metadata = {"generateName": "x-"}
    for value in good:
        answer = await server.post(path, {"metadata": metadata, **body(value)})
        assert answer.code == 201, (value, answer.data)
    for value in bad:
        answer = await server.post(path, {"metadata": metadata, **body(value)})
        assert answer.status()[:2] == (400, "BadRequest"), (value, answer.data)


async def test_null_is_as_if_the_field_were_not_there(server: Served) -> None:
    for path, body, _, _ in FIELDS.values():
        sent = {"metadata": {"generateName": "x-"}, **body(None)}
        answer = await server.post(path, sent)
        assert answer.code == 201, (sent, answer.data)
