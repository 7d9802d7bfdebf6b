"""How a scheduler starts, refuses to start, takes a new configuration, and ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.cluster import NOBODY, Cluster
from tests.e2e.harness.kinds import only_on_kubernetes
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import free_port
from tests.e2e.harness.scheduler import QUICK_ELECTION, Scheduler
from tests.e2e.harness.world import World

NewScheduler = Callable[..., Scheduler]


def _refusal(scheduler: Scheduler) -> tuple[int, list[str]]:
    """The exit code and the last lines: the problem and what to do about it."""
    process = scheduler.start(wait=False).process
    code = process.wait(30.0)
    text = process.text()
    assert "Traceback" not in text
    return code, text[text.index("error: ") :].splitlines()


# -- the start ------------------------------------------------------------------------------


def test_an_api_server_that_is_not_there_is_refused_after_a_while(
    new_scheduler: NewScheduler,
) -> None:
    scheduler = new_scheduler(proxy_port=free_port(), arguments=("--startup-timeout=2s",))
    code, lines = _refusal(scheduler)
    assert code == 3
    assert "127.0.0.1" in lines[0]
    assert "tried for 2 s" in lines[0]
    assert lines[1].startswith("  hint: ")


def test_an_api_server_that_comes_late_is_waited_for(
    world: World, new_scheduler: NewScheduler
) -> None:
    world.cluster.kill()
    scheduler = new_scheduler().start(wait=False)
    world.cluster.start()
    scheduler.wait_until_ready()
    world.add_nodes(node("n1"))
    world.create(pod("early"))
    world.until_bound("early")


def test_a_wrong_kubeconfig_is_refused(new_scheduler: NewScheduler) -> None:
    scheduler = new_scheduler()
    scheduler.kubeconfig.write_text("clusters: 7")
    code, lines = _refusal(scheduler)
    assert code == 2
    assert str(scheduler.kubeconfig) in lines[0]


def test_a_kubeconfig_that_is_not_there_is_refused(new_scheduler: NewScheduler) -> None:
    scheduler = new_scheduler()
    scheduler.kubeconfig.unlink()
    code, lines = _refusal(scheduler)
    assert code == 2
    assert str(scheduler.kubeconfig) in lines[0]


def test_a_token_that_the_cluster_does_not_know_is_refused(new_scheduler: NewScheduler) -> None:
    scheduler = new_scheduler()
    token = scheduler.cluster.tokens["scheduler"]
    text = scheduler.kubeconfig.read_text()
    scheduler.kubeconfig.write_text(text.replace(token, "f" * 32))
    code, lines = _refusal(scheduler)
    assert code == 3
    assert "does not know who we are" in lines[0]
    assert "f" * 32 not in scheduler.process.text()


def test_an_api_server_that_cannot_be_verified_is_refused(
    new_scheduler: NewScheduler, tmp_path: Path
) -> None:
    scheduler = new_scheduler()
    other = new_scheduler(name="other").start()
    ca = str(other.folder / "certs" / "kube-scheduler.crt")
    text = scheduler.kubeconfig.read_text()
    before = text.index('"certificate-authority-data": "')
    after = text.index('"', before + len('"certificate-authority-data": "'))
    scheduler.kubeconfig.write_text(f'{text[:before]}"certificate-authority": "{ca}{text[after:]}')
    code, lines = _refusal(scheduler)
    assert code == 3
    assert "certificate" in lines[0]


@only_on_kubernetes
def test_missing_rights_are_named(cluster: Cluster, new_scheduler: NewScheduler) -> None:
    code, lines = _refusal(new_scheduler(user=NOBODY))
    assert code == 3
    assert "rights are missing" in lines[0]
    for right in ("list nodes", "watch pods", "create pods/binding", "create events.events.k8s.io"):
        assert right in lines[0]


def test_a_wrong_configuration_is_refused(new_scheduler: NewScheduler) -> None:
    code, lines = _refusal(new_scheduler(podInitialBackoffSeconds=0))
    assert code == 2
    assert "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0" in lines[0]


# -- a new configuration --------------------------------------------------------------------


def _profiles(*names: str) -> list[dict[str, Any]]:
    return [{"schedulerName": name} for name in names]


def test_sighup_takes_a_new_configuration_and_refuses_a_wrong_one(
    world: World, new_scheduler: NewScheduler
) -> None:
    scheduler = new_scheduler(profiles=_profiles("default-scheduler")).start()
    world.add_nodes(node("n1"))
    world.create(pod("second", schedulerName="second"), pod("first"))
    world.until_bound("first")
    assert world.node_of("second") == ""

    scheduler.write_config(profiles=_profiles("default-scheduler", "second"))
    scheduler.process.signal(signal.SIGHUP)
    world.until_bound("second")
    event = world.until_event("second", "Scheduled")
    assert event["reportingController"] == "second"

    scheduler.write_config(profiles=_profiles("default-scheduler", "default-scheduler"))
    scheduler.process.signal(signal.SIGHUP)
    world.until(
        "the wrong one is refused",
        lambda: "profiles[1].schedulerName: Duplicate value" in scheduler.process.text(),
    )
    world.create(pod("third", schedulerName="second"))
    world.until_bound("third")


def test_a_changed_file_is_taken_when_asked_to_watch_it(
    world: World, new_scheduler: NewScheduler
) -> None:
    scheduler = new_scheduler(arguments=("--watch-config",)).start()
    world.add_nodes(node("n1"))
    world.create(pod("second", schedulerName="second"))
    scheduler.write_config(profiles=_profiles("default-scheduler", "second"))
    world.until_bound("second")


# -- the end --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(
    world: World, new_scheduler: NewScheduler, number: signal.Signals
) -> None:
    scheduler = new_scheduler(leaderElection=QUICK_ELECTION).start()
    scheduler.process.signal(number)
    assert scheduler.process.wait() == 0, scheduler.process.tail()
    assert "Traceback" not in scheduler.process.text()


def test_what_is_being_bound_when_it_ends_is_bound_or_left_to_the_next(
    world: World, new_scheduler: NewScheduler
) -> None:
    """And the next one finds nothing half done."""
    world.add_nodes(*(node(f"n{i}", cpu="10", pods="100") for i in range(3)))
    names = [f"p{i}" for i in range(300)]
    world.create(*(pod(it) for it in names))
    scheduler = new_scheduler().start()
    world.until("it has begun", lambda: any("nodeName" in it["spec"] for it in world.pods()))
    scheduler.process.signal(signal.SIGTERM)
    scheduler.process.wait()
    assert "SchedulerError" not in {
        condition.get("reason")
        for it in world.pods()
        for condition in it["status"].get("conditions", ())
    }

    scheduler.start()
    world.until("all are bound", lambda: all("nodeName" in it["spec"] for it in world.pods()), 60.0)
