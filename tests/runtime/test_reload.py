"""A valid new configuration takes over between two cycles; an invalid one changes nothing."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.clock import VirtualClock
from stowplan.config import load_config
from stowplan.runtime.log import Log, Verbosity
from stowplan.runtime.plugins_path import load_registry
from stowplan.runtime.reload import LOOK_EVERY_S, FileWatch, Reloader
from tests.builders import node, pod
from tests.core.harness import Cluster


def write(path: Path, **fields: Any) -> None:
    """As an editor or a ConfigMap does: another file under the old name."""
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **fields,
    }
    beside = path.with_suffix(".new")
    beside.write_text(yaml.safe_dump(data))
    beside.replace(path)


PACKED = [
    {
        "schedulerName": "default-scheduler",
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 1}],
                    }
                },
            }
        ],
    }
]
"""Fill the fullest node first, where the default spreads."""


class Running(Cluster):
    """A scheduler whose configuration is a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plugin_paths: list[str] = []
        write(path)
        small, large = node("small", cpu=4), node("large", cpu=64)
        super().__init__(small, large)
        self.out = io.StringIO()
        self.reloader = Reloader(
            lambda: (load_config(str(path)), load_registry(self.plugin_paths)),
            self.driver.reconfigure,
            load_config(str(path)),
            Log(self.clock, verbosity=Verbosity(0), stream=self.out),
        )


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "scheduler.yaml")


def test_the_next_decision_is_made_by_the_new_configuration(running: Running) -> None:
    running.add(pod("before", cpu=1))
    write(running.path, profiles=PACKED)

    running.reloader.reload()
    running.add(pod("after", cpu=1))

    assert (running.node_of("before"), running.node_of("after")) == ("large", "small")
    assert '"Configuration reloaded"' in running.out.getvalue()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"parallelism": -1}, "parallelism: Invalid value: -1"),
        ({"nonsense": 1}, 'unknown field "nonsense"'),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}]},
            'FilterPlugin "Nope" does not exist',
        ),
    ],
)
def test_an_invalid_one_is_refused_and_the_old_one_goes_on(
    running: Running, fields: dict[str, Any], problem: str
) -> None:
    before = running.machine.config
    write(running.path, **fields)

    running.reloader.reload()
    running.add(pod("p", cpu=1))

    assert running.machine.config is before
    assert running.node_of("p") == "large"
    assert "The new configuration is refused; the old one goes on" in running.out.getvalue()
    assert problem in running.out.getvalue().replace('\\"', '"')


@pytest.mark.parametrize("text", ["{", "", "\x00", "- 1\n"])
def test_a_file_that_is_half_written_is_refused_too(running: Running, text: str) -> None:
    running.path.write_text(text)

    running.reloader.reload()

    assert "The new configuration is refused; the old one goes on" in running.out.getvalue()


def test_a_file_that_is_gone_is_refused_too(running: Running) -> None:
    running.path.unlink()

    running.reloader.reload()

    assert "no such file" in running.out.getvalue()


PLUGIN = """
class Only:
    name = "Only"

    def __init__(self, args, handle):
        pass

    def pre_enqueue(self, pod):
        return None

    def score_node(self, cycle, pod, node):
        return 100 if node.name == "{}" else 0
"""


def test_changed_plugins_take_effect_too_and_broken_ones_are_refused(running: Running) -> None:
    file = running.path.with_name("only.py")
    file.write_text(PLUGIN.format("small"))
    running.plugin_paths = [str(file)]
    enabled = [{"name": "Only", "weight": 100}]
    write(running.path, profiles=[{"plugins": {"multiPoint": {"enabled": enabled}}}])
    running.reloader.reload()
    running.add(pod("a", cpu=1))
    file.write_text(PLUGIN.format("large"))
    running.reloader.reload()
    running.add(pod("b", cpu=1))
    file.write_text("import nonsense_of_mine\n")
    running.reloader.reload()
    running.add(pod("c", cpu=1))

    assert [running.node_of(name) for name in "abc"] == ["small", "large", "large"]
    assert running.reloader.counts == {"accepted": 2, "refused": 1}
    assert f"{file}:1: ModuleNotFoundError" in running.out.getvalue()


def test_what_only_a_restart_can_change_stays_and_is_named(running: Running) -> None:
    write(
        running.path,
        podMaxBackoffSeconds=30,
        leaderElection={"leaderElect": False},
        clientConnection={"qps": 7},
    )

    running.reloader.reload()
    running.settle()

    config = running.machine.config
    assert config.pod_max_backoff_seconds == 30
    assert config.leader_election.leader_elect
    assert config.client_connection.qps == 50
    assert 'fields=["client_connection", "leader_election"]' in running.out.getvalue()


def test_the_file_is_looked_at_and_only_a_change_counts(tmp_path: Path) -> None:
    clock, changes = VirtualClock(), []
    path = tmp_path / "scheduler.yaml"
    write(path)
    FileWatch(str(path), lambda: changes.append(clock.now()), clock.at)
    clock.advance(10 * LOOK_EVERY_S)
    assert changes == []

    write(path, parallelism=3)
    clock.advance(LOOK_EVERY_S)
    assert len(changes) == 1

    path.unlink()
    clock.advance(LOOK_EVERY_S)
    assert len(changes) == 1

    write(path, parallelism=4)
    clock.advance(LOOK_EVERY_S)
    assert len(changes) == 2


def test_a_mounted_config_map_changes_by_moving_a_link(tmp_path: Path) -> None:
    clock, changes = VirtualClock(), []
    for name in ("..v1", "..v2"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "scheduler.yaml")
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "scheduler.yaml").symlink_to("..data/scheduler.yaml")
    FileWatch(str(tmp_path / "scheduler.yaml"), lambda: changes.append(1), clock.at)

    (tmp_path / "..new").symlink_to("..v2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    clock.advance(LOOK_EVERY_S)

    assert changes == [1]
