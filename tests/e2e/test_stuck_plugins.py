"""A plugin of a user's that does not return: nobody waits for it, whatever it is at."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.cluster import STOWPLAN
from tests.e2e.harness.objects import COLLECTIONS, node, pod
from tests.e2e.harness.processes import Process, eventually, free_port
from tests.e2e.harness.scheduler import LEASE, QUICK_ELECTION, Scheduler
from tests.e2e.harness.world import World

PLUGIN = '''
import re
import time


class Thinker:
    """Thinks about pods that have the label "how"."""

    name = "Thinker"

    def __init__(self, args, handle):
        pass

    def filter_node(self, cycle, pod, node):
        how = pod.kind.labels.get("how", "")
        if how:
            print(f"thinking: {how}", flush=True)
            getattr(self, f"_{how}")()

    def _forever(self):
        while True:
            pass

    def _six_seconds(self):
        time.sleep(6)

    def _twenty_seconds(self):
        time.sleep(20)

    def _in_a_regular_expression(self):
        re.match(r"(a+)+$", "a" * 60 + "b")

    def _in_c(self):
        sum(range(10**15))
'''
HEALTH_MAX_S = 1.0
SIGTERM_MAX_S = 5.0
LEASE_S = 3.0

Data = dict[str, Any]
NewScheduler = Callable[..., Scheduler]


@pytest.fixture
def thinking(world: World, new_scheduler: NewScheduler, tmp_path: Path) -> Callable[..., Scheduler]:
    """Starts replicas with the plugin, on a cluster with one node."""
    plugin = tmp_path / "thinker.py"
    plugin.write_text(PLUGIN)
    if world.exists("Lease", LEASE):
        world.delete("Lease", LEASE)
    world.create(node("n1"))

    def start(name: str = "thinking", *arguments: str) -> Scheduler:
        enabled = {"multiPoint": {"enabled": [{"name": "Thinker"}]}}
        return new_scheduler(
            name=name,
            arguments=(f"--plugin-path={plugin}", *arguments),
            leaderElection=QUICK_ELECTION,
            profiles=[{"schedulerName": "default-scheduler", "plugins": enabled}],
        ).start()

    return start


def think(world: World, scheduler: Scheduler, how: str) -> None:
    """Returns when the scheduler is at it."""
    world.create(pod(f"thought-{how}".replace("_", "-"), labels={"how": how}))
    world.until("it thinks", lambda: f"thinking: {how}" in scheduler.process.text())


def holder(world: World) -> str:
    found: str = world.get("Lease", LEASE)["spec"].get("holderIdentity") or ""
    return found


def health_s(scheduler: Scheduler) -> float:
    """How long /livez takes on a new connection, as a kubelet asks."""
    started_s = time.monotonic()
    context = ssl.create_default_context(
        cafile=str(scheduler.folder / "certs" / "kube-scheduler.crt")
    )
    url = f"https://127.0.0.1:{scheduler.port}/livez"
    with urllib.request.urlopen(url, timeout=10.0, context=context) as answer:
        assert answer.read() == b"ok"
    return time.monotonic() - started_s


def sigterm_s(scheduler: Scheduler) -> tuple[int, float]:
    """The exit code, and how long it took."""
    started_s = time.monotonic()
    scheduler.process.signal(signal.SIGTERM)
    code = scheduler.process.wait()
    return code, time.monotonic() - started_s


def test_a_leader_that_thinks_for_ever_steps_down_and_says_in_which_plugin(
    world: World, thinking: Callable[..., Scheduler]
) -> None:
    leader = thinking("leader", "--decision-timeout=8s")
    world.until("it leads", lambda: holder(world))
    standby = thinking("standby")
    identity = holder(world)
    world.create(pod("ordinary"))
    world.until_bound("ordinary")

    think(world, leader, "forever")
    started_s = time.monotonic()
    while time.monotonic() < started_s + 2 * LEASE_S:
        assert health_s(leader) < HEALTH_MAX_S
        assert holder(world) == identity
        time.sleep(0.2)
    world.delete("Pod", "thought-forever")

    assert leader.process.wait() == 124
    [line] = [it for it in leader.process.text().splitlines() if "does not end" in it]
    assert 'pod="default/thought-forever" plugin="Thinker" point="Filter"' in line
    assert "thinker.py:" in line
    world.create(pod("after"))
    world.until_bound("after")
    assert standby.process.exit_code is None


def test_a_long_decision_costs_no_lease(world: World, thinking: Callable[..., Scheduler]) -> None:
    leader = thinking("leader")
    world.until("it leads", lambda: holder(world))
    identity = holder(world)

    think(world, leader, "six_seconds")
    world.create(pod("beside"))
    world.until_bound("thought-six-seconds", "beside")

    assert holder(world) == identity
    assert leader.process.exit_code is None


@pytest.mark.parametrize("how", ["forever", "twenty_seconds", "in_a_regular_expression"])
def test_sigterm_is_heard_in_the_midst_of_a_decision(
    world: World, thinking: Callable[..., Scheduler], how: str
) -> None:
    scheduler = thinking()

    think(world, scheduler, how)
    took_s = health_s(scheduler)
    code, ended_s = sigterm_s(scheduler)

    assert took_s < HEALTH_MAX_S
    assert (code, holder(world)) == (0, "")
    assert ended_s < SIGTERM_MAX_S
    assert 'plugin="Thinker" point="Filter"' in scheduler.process.text()


def test_c_code_that_lets_nobody_run_is_ended_by_the_kernel(
    world: World, thinking: Callable[..., Scheduler]
) -> None:
    leader = thinking("leader")
    world.until("it leads", lambda: holder(world))
    standby = thinking("standby")

    think(world, leader, "in_c")
    world.delete("Pod", "thought-in-c")

    # After seconds of processor time, which a busy machine takes its time to give.
    assert leader.process.wait(60.0) == -signal.SIGPROF
    assert 'thinker.py", line' in leader.process.text()
    assert "in _in_c" in leader.process.text()
    world.create(pod("after"))
    world.until_bound("after")
    assert standby.process.exit_code is None


class Up:
    """`stowplan up` with the plugin installed, as a package would be."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        package = folder / "thinker-1.0.dist-info"
        package.mkdir()
        (folder / "thinker.py").write_text(PLUGIN)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: thinker\nVersion: 1.0\n")
        entry = "[stowplan.plugins]\nThinker = thinker:Thinker\n"
        (package / "entry_points.txt").write_text(entry)
        config = folder / "config.yaml"
        enabled = {"multiPoint": {"enabled": [{"name": "Thinker"}]}}
        profile = {"schedulerName": "default-scheduler", "plugins": enabled}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
        kind = {"kind": "KubeSchedulerConfiguration"}
        config.write_text(json.dumps({**head, **kind, "profiles": [profile]}))
        self.url = f"http://127.0.0.1:{free_port()}"
        port = self.url.rpartition(":")[2]
        command = [STOWPLAN, "up", f"--port={port}", f"--config={config}", *arguments]
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        self.process = Process("stowplan up", command, folder / "up.log", {"PYTHONPATH": path})
        eventually("it is ready", lambda: self.ask("/readyz")[0] == 200, must_live=self.process)

    def ask(self, path: str, body: Data | None = None) -> tuple[int, str, float]:
        """Code, text and seconds; on a new connection."""
        started_s = time.monotonic()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30.0) as answer:
                text = answer.read().decode()
                return answer.status, text, time.monotonic() - started_s
        except urllib.error.HTTPError as error:
            return error.code, "", time.monotonic() - started_s
        except OSError:
            return 0, "", time.monotonic() - started_s

    def think(self, how: str) -> None:
        made = pod(f"thought-{how}".replace("_", "-"), labels={"how": how})
        assert self.ask(COLLECTIONS["Pod"], made)[0] == 201
        said = f"thinking: {how}"
        eventually("it thinks", lambda: said in self.process.text(), must_live=self.process)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path)
    yield made
    made.process.stop()


@pytest.mark.parametrize("how", ["forever", "in_a_regular_expression"])
def test_an_embedded_cluster_answers_and_ends_in_the_midst_of_a_decision(up: Up, how: str) -> None:
    up.think(how)
    for path in ("/healthz", "/livez", "/readyz", "/livez?verbose"):
        code, text, took_s = up.ask(path)
        assert (code, text) == (200, "ok")
        assert took_s < HEALTH_MAX_S
    started_s = time.monotonic()
    up.process.signal(signal.SIGTERM)

    assert up.process.wait() == 0
    assert time.monotonic() - started_s < SIGTERM_MAX_S
    assert 'plugin="Thinker" point="Filter"' in up.process.text()


def test_what_is_not_about_health_waits_until_the_decision_is_made(up: Up) -> None:
    up.think("six_seconds")
    assert up.ask("/healthz")[2] < HEALTH_MAX_S
    code, text, took_s = up.ask(f"{COLLECTIONS['Pod']}/thought-six-seconds")

    assert code == 200
    assert json.loads(text)["spec"]["nodeName"]
    assert took_s > HEALTH_MAX_S
