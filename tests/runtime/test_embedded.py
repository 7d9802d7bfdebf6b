"""A whole cluster, forked: who works on it goes on as if nothing had happened.

What is due at a certain time, and is known to nobody but a controller or the kubelet, must happen
at that time in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from stowplan.apiserver.store import Store, view
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions
from stowplan.embedded import EmbeddedCluster, Parts
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import DEPLOYMENT, EVENT, JOB, NODE, POD, Kind
from stowplan.objects.pod import Pod

START_S = 1_800_000_000.0


@dataclass
class World:
    cluster: EmbeddedCluster
    clock: VirtualClock

    @classmethod
    def fresh(cls) -> World:
        clock = VirtualClock(START_S)
        cluster = EmbeddedCluster(
            Store(clock), Parts(), clock=clock, call_later=clock.at, random=Random(1)
        )
        cluster.add_nodes(3)
        cluster.start()
        clock.advance(1.0)
        return cls(cluster, clock)

    def fork(self) -> World:
        clock = VirtualClock(self.clock.now())
        cluster = self.cluster.fork(clock, clock.at)
        cluster.start()
        return World(cluster, clock)

    def create(self, kind: Kind, name: str, spec: Any, **metadata: Any) -> None:
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        self.cluster.store.execute(Create(kind, "default", body))

    def all(self, kind: Kind) -> list[Any]:
        return [thing for thing, _ in self.cluster.store.select(kind, ListOptions())[0]]

    def summary(self) -> Any:
        """What is there, but for generated names and the choice of a node."""
        pods = sorted(
            (pod.metadata.generate_name or pod.name, pod.status.phase, bool(pod.spec.node_name))
            for pod in self.all(POD)
            if isinstance(pod, Pod)
        )
        statuses = [
            view(kind, *pair)["status"]
            for kind in (JOB, DEPLOYMENT)
            for pair in self.cluster.store.select(kind, ListOptions())[0]
        ]
        # A new scheduler tries again, and says so.
        reasons = sorted(
            event.reason
            for event in self.all(EVENT)
            if isinstance(event, Event) and event.reason != "FailedScheduling"
        )
        return pods, statuses, reasons


CONTAINERS = [{"name": "c", "image": "app:1"}]
TOLERATION = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}


def failing_job(world: World) -> None:
    annotations = {"stowplan/run-seconds": "2", "stowplan/exit-code": "1"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": CONTAINERS},
    }
    world.create(JOB, "job", {"template": template, "backoffLimit": 3})


def rollout(world: World) -> None:
    """It never makes progress: its deadline is what counts."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": CONTAINERS, "nodeSelector": {"no": "where"}},
    }
    selector = {"matchLabels": labels}
    spec = {"replicas": 2, "selector": selector, "template": template}
    world.create(DEPLOYMENT, "web", {**spec, "progressDeadlineSeconds": 40})


def pod_with_an_end(world: World) -> None:
    annotations = {"stowplan/run-seconds": "25"}
    world.create(POD, "ends", {"containers": CONTAINERS}, annotations=annotations)


def node_that_is_gone(world: World) -> None:
    world.create(POD, "left", {"containers": CONTAINERS, "nodeName": "node-3"})
    world.clock.advance(1.0)
    world.cluster.store.execute(Delete(NODE, "", "node-3"))


def tolerated_taint(world: World) -> None:
    world.create(
        POD, "borne", {"containers": CONTAINERS, "nodeName": "node-2", "tolerations": [TOLERATION]}
    )
    world.clock.advance(1.0)
    taints = [{"key": "broken", "effect": "NoExecute"}]
    world.cluster.store.execute(Patch(NODE, "", "node-2", {"spec": {"taints": taints}}, "merge"))


@pytest.mark.parametrize(
    "begin", [failing_job, rollout, pod_with_an_end, node_that_is_gone, tolerated_taint]
)
@pytest.mark.parametrize("after_s", [0.0, 3.0, 17.0])
def test_what_is_due_happens_in_time(begin: Any, after_s: float) -> None:
    origin = World.fresh()
    begin(origin)
    origin.clock.advance(after_s)
    fork = origin.fork()
    before = origin.summary()

    for _ in range(90):
        origin.clock.advance(1.0)
        fork.clock.advance(1.0)
        assert fork.summary() == origin.summary()

    assert origin.summary() != before


def test_each_goes_its_own_way() -> None:
    origin = World.fresh()
    origin.create(POD, "waits", {"containers": CONTAINERS, "nodeSelector": {"new": "yes"}})
    origin.clock.advance(1.0)
    fork = origin.fork()
    told = origin.summary()

    fork.cluster.store.execute(Create(NODE, "", new_node()))
    fork.clock.advance(10.0)

    (there,) = fork.all(POD)
    assert (there.spec.node_name, there.status.phase) == ("new", "Running")
    assert origin.summary() == told


def test_two_schedulers_of_one_moment_name_their_events_differently() -> None:
    origin = World.fresh()
    origin.create(POD, "waits", {"containers": CONTAINERS, "nodeSelector": {"no": "where"}})
    origin.clock.advance(0.0)
    assert len(origin.all(EVENT)) == 1

    fork = origin.fork()
    fork.clock.advance(0.0)

    assert fork.cluster.scheduler is not None
    assert (len(fork.all(EVENT)), fork.cluster.scheduler.recorder.dropped) == (2, 0)


def new_node() -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    return {
        "metadata": {"name": "new", "labels": {"new": "yes"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
