"""Evictions over HTTP: a budget lets so many go, and then nobody (policy/v1 Eviction)."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.kinds import POD, POD_DISRUPTION_BUDGET
from tests.apiserver.http.serving import PODS, Answer, Served
from tests.apiserver.things import bind, create, create_pod, names, patch

READY = [{"type": "Ready", "status": "True"}]


def run_pod(server: Served, name: str, phase: str = "Running", *, ready: bool = True) -> None:
    create_pod(server.store, name, labels={"app": "web"})
    conditions = READY if ready else [{"type": "Ready", "status": "False"}]
    status = {"phase": phase, "conditions": conditions}
    patch(server.store, POD, name, {"status": status}, "merge", "status")


def budget(server: Served, name: str = "budget", app: str | None = "web", **status: int) -> None:
    selector: dict[str, Any] = {"matchLabels": {"app": app}} if app else {}
    body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}
    create(server.store, POD_DISRUPTION_BUDGET, body)
    patch(server.store, POD_DISRUPTION_BUDGET, name, {"status": status}, "merge", "status")


async def evict(server: Served, name: str, query: str = "", **body: Any) -> Answer:
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}, **body}
    return await server.post(f"{PODS}/{name}/eviction{query}", eviction)


async def left(server: Served) -> int:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/budget"
    found: int = (await server.get(path)).data["status"].get("disruptionsAllowed", 0)
    return found


async def test_a_budget_lets_so_many_go_and_no_more(server: Served) -> None:
    budget(server, disruptionsAllowed=2, currentHealthy=3, desiredHealthy=1)
    for name in "abc":
        run_pod(server, name)

    codes = [
        (await evict(server, name, deleteOptions={"gracePeriodSeconds": 0})).code for name in "abc"
    ]

    assert codes == [201, 201, 429]
    assert (names(server.store, POD), await left(server)) == (["c"], 0)
    refused = await evict(server, "c")
    assert refused.status() == (
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    (cause,) = refused.data["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == (
        "The disruption budget budget needs 1 healthy pods and has 3 currently"
    )


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_whoever_does_not_run_needs_no_budget(server: Served, phase: str) -> None:
    budget(server, disruptionsAllowed=0, desiredHealthy=1)
    run_pod(server, "a", phase)

    assert (await evict(server, "a")).code == 201


async def test_whoever_is_leaving_needs_no_budget(server: Served) -> None:
    budget(server, disruptionsAllowed=1, desiredHealthy=1)
    run_pod(server, "a")
    bind(server.store, "a")
    for _ in range(2):
        assert (await evict(server, "a", deleteOptions={"gracePeriodSeconds": 30})).code == 201

    assert await left(server) == 0


@pytest.mark.parametrize(
    ("healthy", "wanted", "code"), [(2, 2, 201), (3, 2, 201), (1, 2, 429), (0, 0, 429)]
)
async def test_whoever_is_not_ready_is_no_loss_while_enough_others_are(
    server: Served, healthy: int, wanted: int, code: int
) -> None:
    budget(server, disruptionsAllowed=0, currentHealthy=healthy, desiredHealthy=wanted)
    run_pod(server, "a", ready=False)

    assert (await evict(server, "a")).code == code


async def test_a_budget_of_others_does_not_matter(server: Served) -> None:
    budget(server, app="db", disruptionsAllowed=0, desiredHealthy=1)
    run_pod(server, "a")

    assert (await evict(server, "a")).code == 201


async def test_two_budgets_are_one_too_many(server: Served) -> None:
    budget(server, "one", disruptionsAllowed=5)
    budget(server, "two", app=None, disruptionsAllowed=5)
    run_pod(server, "a")

    answer = await evict(server, "a")

    assert answer.code == 500
    assert answer.data["message"].startswith("This pod has more than one PodDisruptionBudget")
    assert names(server.store, POD) == ["a"]


async def test_a_rehearsal_spends_nothing(server: Served) -> None:
    budget(server, disruptionsAllowed=1, desiredHealthy=1)
    run_pod(server, "a")

    assert (await evict(server, "a", "?dryRun=All")).code == 201
    assert (names(server.store, POD), await left(server)) == (["a"], 1)


async def test_an_eviction_means_one_pod_as_it_is(server: Served) -> None:
    run_pod(server, "a")
    found = (await server.get(f"{PODS}/a")).data["metadata"]
    good = {"uid": found["uid"], "resourceVersion": found["resourceVersion"]}
    for wrong in ({**good, "uid": "other"}, {**good, "resourceVersion": "1"}):
        answer = await evict(server, "a", deleteOptions={"preconditions": wrong})
        assert answer.status()[:2] == (409, "Conflict")
    other_name = await server.post(f"{PODS}/a/eviction", {"metadata": {"name": "b"}})
    assert other_name.status()[:2] == (400, "BadRequest")
    elsewhere = {"metadata": {"name": "a", "namespace": "elsewhere"}}
    assert (await server.post(f"{PODS}/a/eviction", elsewhere)).code == 400
    assert (await evict(server, "missing")).code == 404
    assert names(server.store, POD) == ["a"]

    assert (await evict(server, "a", deleteOptions={"preconditions": good})).code == 201
