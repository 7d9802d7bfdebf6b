"""Who may see what on the secure port: the cluster decides, for every endpoint and caller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.harness.cluster import NOBODY, SCRAPER, Cluster
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import eventually
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World

HEALTH = ("/healthz", "/livez", "/readyz")
GUARDED = (
    "/metrics",
    "/metrics/resources",
    "/metrics/slis",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/queue",
    "/debug/cache",
    "/debug/decisions/default/seen",
    "/debug/bottlenecks",
)

NO_TOKEN = ""
BAD_TOKEN = "not-a-token-of-this-cluster"


def _codes(scheduler: Scheduler, token: str) -> dict[str, int]:
    endpoint = scheduler.endpoint(token)
    return {path: endpoint.send("GET", path)[0] for path in (*HEALTH, *GUARDED)}


def _all(health: int, guarded: int) -> dict[str, int]:
    return dict.fromkeys(HEALTH, health) | dict.fromkeys(GUARDED, guarded)


@pytest.fixture
def seen(scheduled: World) -> World:
    """A cluster with a pod that was scheduled, so that every endpoint has something to show."""
    scheduled.add_nodes(node("n1"))
    scheduled.create(pod("seen"))
    scheduled.until_bound("seen")
    return scheduled


def test_without_a_token_health_is_open_and_the_rest_is_not(
    seen: World, standing_scheduler: Scheduler
) -> None:
    assert _codes(standing_scheduler, NO_TOKEN) == _all(health=200, guarded=403)


def test_a_bad_token_opens_nothing(seen: World, standing_scheduler: Scheduler) -> None:
    assert _codes(standing_scheduler, BAD_TOKEN) == _all(health=401, guarded=401)


def test_a_token_without_rights_sees_health_only(
    seen: World, standing_scheduler: Scheduler, cluster: Cluster
) -> None:
    """Where there are no roles, whoever is known may see everything."""
    guarded = 403 if cluster.has_roles else 200
    assert _codes(standing_scheduler, cluster.tokens[NOBODY]) == _all(200, guarded)


def test_a_token_with_rights_sees_everything(
    seen: World, standing_scheduler: Scheduler, cluster: Cluster
) -> None:
    assert _codes(standing_scheduler, cluster.tokens[SCRAPER]) == _all(health=200, guarded=200)


def test_refusals_are_what_kubernetes_sends(seen: World, standing_scheduler: Scheduler) -> None:
    _, text = standing_scheduler.endpoint(NO_TOKEN).send("GET", "/metrics")
    forbidden: dict[str, Any] = json.loads(text)
    assert (forbidden["kind"], forbidden["status"], forbidden["reason"], forbidden["code"]) == (
        "Status",
        "Failure",
        "Forbidden",
        403,
    )
    assert 'User "system:anonymous" cannot get path "/metrics"' in forbidden["message"]
    _, text = standing_scheduler.endpoint(BAD_TOKEN).send("GET", "/metrics")
    unauthorized = json.loads(text)
    assert (unauthorized["reason"], unauthorized["code"]) == ("Unauthorized", 401)


def test_tokens_are_nowhere_in_the_log(
    seen: World, standing_scheduler: Scheduler, cluster: Cluster
) -> None:
    for token in (*cluster.tokens.values(), BAD_TOKEN):
        _codes(standing_scheduler, token)
    log = standing_scheduler.process.text()
    assert "Successfully bound" in log
    for token in (*cluster.tokens.values(), BAD_TOKEN):
        assert token not in log


def test_metrics_count_what_happened(seen: World, standing_scheduler: Scheduler) -> None:
    metrics = standing_scheduler.metrics()
    scheduled = frozenset({("result", "scheduled"), ("profile", "default-scheduler")})
    before = metrics["scheduler_schedule_attempts_total", scheduled]
    seen.create(*(pod(f"more-{i}") for i in range(5)))
    seen.until_bound(*(f"more-{i}" for i in range(5)))

    def counted() -> Any:
        # The others hear of a binding from the API server, perhaps before its answer reaches us.
        metrics = standing_scheduler.metrics()
        return metrics["scheduler_schedule_attempts_total", scheduled] >= before + 5 and metrics

    metrics = eventually("five more attempts are counted", counted)
    assert metrics["scheduler_schedule_attempts_total", scheduled] == before + 5
    assert metrics["scheduler_scheduling_attempt_duration_seconds_count", scheduled] == before + 5
    assert metrics["scheduler_pending_pods", frozenset({("queue", "active")})] == 0
    assert metrics["process_cpu_seconds_total", frozenset()] > 0


def test_resources_name_every_pod_and_its_node(seen: World, standing_scheduler: Scheduler) -> None:
    _, text = standing_scheduler.endpoint().send("GET", "/metrics/resources")
    [line] = [it for it in text.splitlines() if 'resource="cpu"' in it and 'pod="seen"' in it]
    assert line.startswith("kube_pod_resource_request{")
    assert 'node="n1"' in line
    assert line.endswith(" 0.1")


def test_the_configuration_in_use_can_be_read(seen: World, standing_scheduler: Scheduler) -> None:
    shown = standing_scheduler.endpoint().get("/configz")["componentconfig"]
    assert shown["podMaxBackoffSeconds"] == 1
    assert shown["profiles"][0]["schedulerName"] == "default-scheduler"
