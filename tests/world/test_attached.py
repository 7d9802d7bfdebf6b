"""A cluster that somebody else runs, looked at and forked through the public face."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

import stowplan as sp
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.store import Store
from stowplan.clock import LoopTimers, Timers, VirtualClock
from stowplan.config import load_config
from stowplan.core.messages import Stop
from stowplan.embedded import RESTART_AFTER_S, EmbeddedCluster, Parts, Scheduling
from stowplan.errors import InputError, StowplanError
from tests.world.things import deployment, pod

START_S = 1_800_000_000.0

EXTENDER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [{"urlPrefix": "http://extender.example", "filterVerb": "filter"}],
}


class Running:
    """As `stowplan up` puts it together: writes wait for the loop, which runs all timers."""

    def __init__(self, nodes: int = 2, **scheduling: Any) -> None:
        self.clock = VirtualClock(START_S)
        self.loop = Timers(self.clock)
        grouped = GroupedStore(Store(self.clock), partial(self.loop.call_later, 0.0))
        self.cluster = EmbeddedCluster(
            grouped.store,
            Parts(Scheduling(load_config(None), **scheduling)),
            clock=self.clock,
            timers=LoopTimers(self.clock, self.loop.call_later),
            random=Random(1),
            port=grouped,
        )
        self.cluster.add_nodes(nodes)
        self.cluster.start()
        self.advance(2.0)

    def advance(self, seconds: float) -> None:
        end_s = self.clock.now_s + seconds
        while self.clock.now_s < end_s:
            while self.loop.run_due():
                pass
            next_s = self.loop.next_s
            self.clock.now_s = end_s if next_s is None else min(next_s, end_s)


def test_it_shows_what_is_there_and_what_is_decided_from_now_on() -> None:
    running = Running()
    look = sp.Cluster.attached(running.cluster)

    look.apply([deployment("web", 3), pod("huge", cpu="1000")])
    running.advance(2.0)

    assert len(look.pods(pending=False)) == 3
    assert [one.key for one in look.pods(pending=True)] == ["default/huge"]
    why = look.decision("default/huge")
    assert "Insufficient cpu" in why.message
    assert list(why.rejected["plugin"]) == ["NodeResourcesFit"] * 2
    assert look.now == running.clock.now_s


def test_only_forks_can_be_run_and_closing_the_look_stops_nothing() -> None:
    running = Running()
    look = sp.Cluster.attached(running.cluster)

    for move in (look.run, lambda: look.retry("default/p"), lambda: look.drain("node-1")):
        with pytest.raises(InputError, match="run by somebody else"):
            move()
    assert not look.nodes()[0].spec.unschedulable
    look.close()
    with sp.Cluster.attached(running.cluster) as again:
        again.apply(deployment("web", 1))
        running.advance(2.0)

        assert len(again.pods(pending=False)) == 1


def test_a_fork_goes_on_in_virtual_time_and_neither_disturbs_the_other() -> None:
    running = Running(nodes=1)
    with sp.Cluster.attached(running.cluster) as look:
        look.apply([deployment("web", 2), pod("huge", cpu="20")])
        running.advance(1.5)
        before = {one.key: one.spec.node_name for one in look.pods()}
        with look.fork() as trial:
            trial.add_nodes(1, cpu="64", memory="64Gi", prefix="large")
            trial.apply(deployment("web", 4))
            trial.run(seconds=3600)

            assert trial.pod("default/huge").spec.node_name == "large-1"
            assert len(trial.pods(pending=False)) == 5
            assert trial.now == running.clock.now_s + 3600
            assert trial.decision("default/huge").scores is not None
        assert {one.key: one.spec.node_name for one in look.pods()} == before
        running.advance(400.0)

        assert {one.key: one.spec.node_name for one in look.pods()} == before
        assert len(look.pods()) == 3


def test_a_fork_of_any_moment_has_what_waits_to_be_written() -> None:
    running = Running()
    with sp.Cluster.attached(running.cluster) as look:
        look.apply(deployment("web", 3))
        for _ in range(25):
            with look.fork() as trial:
                trial.run(seconds=10)

                assert len(trial.pods(pending=False)) == len(trial.pods()) == 3
            running.loop.run_due()
        running.advance(5.0)

        assert len(look.pods(pending=False)) == len(look.pods()) == 3


def test_a_fork_asks_no_extender_and_is_not_made_while_one_is_asked() -> None:
    class Silent:
        def call(self, call: Any, done: Any) -> None:
            pass

    running = Running()
    running.cluster.scheduler.machine.reconfigure(load_config(EXTENDER))  # type: ignore[union-attr]
    with sp.Cluster.attached(running.cluster) as look:
        with look.fork() as trial:
            trial.apply(pod("p"))
            trial.run()

            assert trial.pod("default/p").spec.node_name
        running.cluster.scheduler._extender_client = Silent()  # type: ignore[union-attr]
        look.apply(pod("p"))
        running.advance(1.0)

        with pytest.raises(StowplanError, match="in the middle of a decision"):
            look.fork()


def test_a_scheduler_that_broke_is_replaced_and_still_heard_and_forked() -> None:
    running = Running()
    with sp.Cluster.attached(running.cluster) as look:
        broken = running.cluster.scheduler
        assert broken is not None
        broken.machine.handle_all = None  # type: ignore[assignment, method-assign]
        broken._put(Stop())
        with pytest.raises(TypeError):
            running.advance(0.1)
        with pytest.raises(StowplanError, match="is being replaced"):
            look.fork()
        running.advance(RESTART_AFTER_S + 1.0)
        look.apply(pod("p"))
        running.advance(1.0)

        assert look.decision("default/p").node == look.pod("default/p").spec.node_name != ""
        with look.fork() as trial:
            trial.run(seconds=10)


def test_a_cluster_without_a_scheduler_can_be_looked_at() -> None:
    clock = VirtualClock(START_S)
    cluster = EmbeddedCluster(
        Store(clock), Parts(None), clock=clock, timers=clock, random=Random(1)
    )
    cluster.add_nodes(3)
    with sp.Cluster.attached(cluster) as look:
        assert len(look.nodes()) == 3
        with pytest.raises(InputError, match="nobody schedules"):
            look.queue()
