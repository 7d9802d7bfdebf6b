"""A new configuration between two cycles: no pod is lost, no promise forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.core.machine import Machine
from stowplan.errors import ConfigError
from stowplan.framework.plugin import Wait
from stowplan.framework.status import unschedulable
from stowplan.objects.api import Bind, Delete
from tests.builders import node, pod
from tests.core.harness import PROFILE, Cluster, is_a, make_plugin


def only(*names: str) -> dict[str, Any]:
    enabled = [{"name": name} for name in ("PrioritySort", "DefaultBinder", *names)]
    return {"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}


def test_pods_that_wait_are_tried_again_under_the_new_rules() -> None:
    picky = make_plugin("Picky", filter_node=lambda *_: unschedulable("no"))
    cluster = Cluster(node("node-1"), plugins=(picky,), profile=only("Picky"))
    cluster.add(pod("web"))
    assert cluster.place("web") == "unschedulable"

    cluster.driver.reconfigure(cluster.load(profile=only("NodeResourcesFit")))
    cluster.settle()

    assert cluster.place("web") == "bound"


def test_history_counts_backoff_goes_on_growing() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("big", cpu="64"))
    cluster.run(700)
    queued = cluster.machine.queue.get("default/big")
    assert queued is not None
    attempts = queued.attempts

    cluster.driver.reconfigure(cluster.load())
    cluster.settle()

    queued = cluster.machine.queue.get("default/big")
    assert queued is not None
    assert queued.attempts == attempts + 1
    # Counted once as rejected, as if it had always been here.
    gauge = {key: n for key, n in cluster.machine.queue.metrics.unschedulable_pods.items() if n}
    assert gauge == {("NodeResourcesFit", PROFILE): 1}


def test_a_binding_under_way_goes_on_under_the_plugins_that_began_it() -> None:
    told: list[str] = []
    old = make_plugin("Old", post_bind=lambda self, cycle, pod, node: told.append(pod.key))
    cluster = Cluster(node("node-1"), plugins=(old,), profile=only("Old"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web"))

    cluster.driver.reconfigure(cluster.load(profile=only()))
    cluster.settle()
    cluster.api.release()
    cluster.settle()

    assert cluster.place("web") == "bound"
    assert told == ["default/web"]


def test_a_pod_that_waits_at_permit_still_waits() -> None:
    slow = make_plugin("Slow", permit=lambda *_: Wait(60))
    cluster = Cluster(node("node-1"), plugins=(slow,), profile=only("Slow"))
    cluster.add(pod("web"))

    cluster.driver.reconfigure(cluster.load(profile=only()))
    cluster.settle()
    assert cluster.place("web") == "assumed"
    cluster.machine.waiting.allow(cluster.pod("web").metadata.uid, "Slow")
    cluster.add(node("node-2"))

    assert cluster.place("web") == "bound"


def test_promises_and_preemptions_in_progress_are_kept() -> None:
    running = pod(
        "batch", node="node-1", cpu="1", spec={"priority": 1, "terminationGracePeriodSeconds": 30}
    )
    cluster = Cluster(node("node-1", cpu="1"), running)
    cluster.api.hold(is_a(Delete))
    cluster.add(pod("urgent", cpu="1", spec={"priority": 100}))
    uid = cluster.pod("urgent").metadata.uid

    cluster.driver.reconfigure(cluster.load())
    cluster.settle()

    assert cluster.machine.queue.nominator.node_of == {uid: "node-1"}
    assert cluster.place("urgent") == "gated"
    cluster.api.release()
    cluster.settle()
    cluster.delete("batch")
    cluster.run(2)
    assert cluster.node_of("urgent") == "node-1"


def test_pods_of_a_profile_that_is_new_are_taken_up_of_one_that_is_gone_let_go() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("theirs", spec={"schedulerName": "other"}), pod("big", cpu="64"))

    config = cluster.load(profile={"schedulerName": "other"})
    cluster.driver.reconfigure(config)
    cluster.settle()

    assert cluster.place("theirs") == "bound"
    assert cluster.machine.queue.get("default/big") is None


def raising(self: Any) -> Any:
    raise ValueError("boom")


@pytest.mark.parametrize("events", [raising, lambda self: 5, lambda self: (5,)])
def test_a_plugin_that_cannot_say_what_wakes_its_pods_is_a_wrong_configuration(
    events: Any,
) -> None:
    broken = make_plugin("Broken", filter_node=lambda *_: None, events_to_register=events)

    with pytest.raises(ConfigError, match='initializing plugin "Broken": '):
        Cluster(plugins=(broken,), profile=only("Broken"))


def test_a_configuration_that_cannot_be_used_changes_nothing() -> None:
    cluster = Cluster(node("node-1"))
    machine: Machine = cluster.machine
    before = machine.config, machine.frameworks, machine.queue, machine.algorithm
    wrong = cluster.load(profile=only("NoSuchPlugin"))

    with pytest.raises(ConfigError, match="NoSuchPlugin"):
        cluster.driver.reconfigure(wrong)
    with pytest.raises(ConfigError):
        machine.reconfigure(wrong)

    assert (machine.config, machine.frameworks, machine.queue, machine.algorithm) == before
    cluster.add(pod("web"))
    assert cluster.place("web") == "bound"
    assert PROFILE in machine.frameworks
