"""The same events as kube-scheduler's: texts, numbers and series, over a script of changes.

Both schedule the same script on the same kube-apiserver, one after the other.  After each change
everything comes to rest, so that what they say does not depend on which of them is quicker.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.cluster import ADMIN
from tests.e2e.harness.kinds import only_on_kubernetes
from tests.e2e.harness.objects import COLLECTIONS, node, path_of, pod
from tests.e2e.harness.processes import Process
from tests.e2e.harness.scheduler import Scheduler, configuration
from tests.e2e.harness.world import World

Data = dict[str, Any]
Change = Callable[[World], object]

REST_S = 3.0
"""Nothing new for so long: everything is at rest.  A pod that failed is tried again after 1 s, and
a machine that does other things besides needs a moment for it."""
PERIODS = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def _cordon(name: str, on: bool = True) -> Change:
    return lambda world: world.patch("Node", name, {"spec": {"unschedulable": on or None}})


def _taint(name: str, *keys: str, effect: str = "NoSchedule") -> Change:
    taints = [{"key": key, "effect": effect} for key in keys]
    return lambda world: world.patch("Node", name, {"spec": {"taints": taints or None}})


def _label(kind: str, name: str, **labels: str | None) -> Change:
    return lambda world: world.patch(kind, name, {"metadata": {"labels": labels}})


def _room(name: str, cpu: str) -> Change:
    body = {"status": {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}}
    return lambda world: world.api.patch(f"{path_of('Node', name)}/status", body)


def _create(it: Data) -> Change:
    return lambda world: world.create(it)


def _delete(kind: str, name: str) -> Change:
    return lambda world: world.delete(kind, name)


def _with_port(name: str) -> Data:
    made = pod(name, nodeSelector={"disk": "hdd"})
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def _small(name: str) -> Data:
    return node(name, cpu="2", unschedulable=True)


START = [_small("n1"), _small("n2"), _small("n3"), pod("big", cpu="3")]

SCRIPT: list[Change] = [
    _create(pod("picky", nodeSelector={"disk": "ssd"})),
    _cordon("n1", on=False),
    _cordon("n2", on=False),
    _taint("n1", "a"),
    _cordon("n2"),
    _taint("n1"),
    _cordon("n3", on=False),
    _taint("n2", "b"),
    _cordon("n2", on=False),
    _label("Node", "n1", disk="hdd"),
    _create(_small("n4")),
    _cordon("n4", on=False),
    _taint("n4", "a", effect="NoExecute"),
    _label("Node", "n4", disk="ssd"),
    _taint("n4"),
    _delete("Node", "n3"),
    _create(pod("picky2", cpu="2", nodeSelector={"disk": "ssd"})),
    _cordon("n4"),
    _cordon("n4", on=False),
    _delete("Pod", "picky"),
    _create(_with_port("port1")),
    _create(_with_port("port2")),
    _cordon("n2"),
    _label("Node", "n2", disk="hdd"),
    _taint("n2"),
    _cordon("n2", on=False),
    _label("Pod", "big", team="red"),
    _taint("n1", "c", "d"),
    _room("n1", "8"),
    _taint("n1", "d"),
    _taint("n1"),
]


def _told(world: World) -> dict[str, list[tuple[str, str, int]]]:
    """Of each pod, in order: reason, text, and how often."""
    told: dict[str, list[tuple[str, str, int]]] = {}
    events = world.api.items(COLLECTIONS["Event"])
    for event in sorted(events, key=lambda it: it["eventTime"]):
        often = (event.get("series") or {"count": 1})["count"]
        said = (event["reason"], event["note"], often)
        told.setdefault(event["regarding"]["name"], []).append(said)
    return told


def _at_rest(world: World) -> None:
    before, since_s = _told(world), time.monotonic()
    deadline_s = since_s + 20.0
    while time.monotonic() < min(since_s + REST_S, deadline_s):
        time.sleep(0.1)
        now = _told(world)
        if now != before:
            before, since_s = now, time.monotonic()


def _play(world: World) -> dict[str, list[tuple[str, str, int]]]:
    world.create(*START)
    _at_rest(world)
    for change in SCRIPT:
        change(world)
        _at_rest(world)
    return _told(world)


@pytest.fixture
def stock(world: World, tmp_path: Path) -> Iterator[Process]:
    try:
        program = find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")
    config = tmp_path / "stock.yaml"
    config.write_text(json.dumps(configuration(world.cluster.kubeconfig(ADMIN), **PERIODS)))
    command = [program, "--config", config, "--secure-port", "0"]
    process = Process("kube-scheduler", command, tmp_path / "stock.log", {})
    yield process
    process.stop()


@only_on_kubernetes
@pytest.mark.timeout(600)
def test_events_over_a_script_of_changes(
    world: World, stock: Process, new_scheduler: Callable[..., Scheduler]
) -> None:
    theirs = _play(world)
    stock.stop()
    world.sweep()
    new_scheduler(**PERIODS).start()
    ours = _play(world)

    assert sum(map(len, theirs.values())) >= 30
    assert ours == theirs
