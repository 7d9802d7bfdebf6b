"""A whole embedded cluster under virtual time: what has come and gone takes no memory.

The soak shows the same of a real process over half an hour; here everything that is bounded has
small bounds, so that they are reached soon, and objects are counted instead of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from stowplan.apiserver import admission, bodies, writes
from stowplan.apiserver.retention import EventRetention
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.config import load_config
from stowplan.embedded import EmbeddedCluster, Parts, Scheduling
from stowplan.objects.api import Create, Delete
from stowplan.objects.kinds import JOB, NODE, POD, PRIORITY_CLASS, Kind
from stowplan.state import pod_info
from tests.core.test_memory import alone, objects
from tests.load.churn import URGENT
from tests.load.honest import Data, pod

ROUNDS = 120
"""Before the first count, and again after it; each has all sorts of lives."""


class Churn:
    def __init__(self) -> None:
        self.clock = VirtualClock(1_800_000_000.0)
        self.store = Store(self.clock, history_max=200)
        self.cluster = EmbeddedCluster(
            self.store,
            Parts(Scheduling(load_config(None))),
            clock=self.clock,
            timers=self.clock,
            random=Random(1),
        )
        self.cluster.add_nodes(5)
        self.cluster.start()
        assert self.cluster.scheduler is not None
        self.cluster.scheduler.machine.log._decisions_max = 200
        self.clock.advance(1.0)
        self.bound = 0

    def create(self, kind: Kind, body: Data) -> None:
        self.store.execute(Create(kind, "default" if kind.namespaced else "", body))

    def delete(self, kind: Kind, name: str) -> None:
        namespace = "default" if kind.namespaced else ""
        self.store.delete(Delete(kind, namespace, name), propagation="Background")

    def round(self, serial: int) -> None:
        """Comes, is seen, goes."""
        pods = {body["metadata"]["name"]: body for body in _pods(serial)}
        for body in pods.values():
            self.create(POD, body)
        self.create(JOB, _job(f"job-{serial}"))
        self.create(NODE, _node(f"extra-{serial}"))
        self.create(POD, _there(f"low-{serial}", serial))
        self.clock.advance(2.0)
        self.create(POD, _there(f"high-{serial}", serial, priorityClassName=URGENT))
        self.clock.advance(40.0)
        for name in [*pods, f"high-{serial}"]:
            self.bound += bool(self.store.read(POD, "default", name)[0].spec.node_name)
            self.delete(POD, name)
        self.delete(JOB, f"job-{serial}")
        self.delete(NODE, f"extra-{serial}")
        self.clock.advance(1.0)


def _pods(serial: int) -> Iterator[Data]:
    for number in range(10):
        yield pod(f"plain-{serial}-{number}")
    different: Data = {"tolerations": [{"key": f"k-{serial}", "operator": "Exists"}]}
    yield pod(f"different-{serial}", cpu=f"{serial + 1}m", **different)
    yield pod(f"hopeless-{serial}", nodeSelector={f"no-node-{serial % 20}": "has-this"})
    yield pod(f"gated-{serial}", schedulingGates=[{"name": "example.com/gate"}])


def _job(name: str) -> Data:
    spec = {"containers": pod("x")["spec"]["containers"], "restartPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {"completions": 2, "template": {"spec": spec}}}


def _node(name: str) -> Data:
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": name, "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }


def _there(name: str, serial: int, **more: Any) -> Data:
    node = f"extra-{serial}"
    here: Data = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"key": node, "operator": "Exists"}],
    }
    return pod(name, cpu="2", **here, **more)


@pytest.mark.slow
@pytest.mark.timeout(300)
@alone
def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "EventRetention", partial(EventRetention, events_max=200))
        patch.setattr(admission, "SPECS_MAX", 50)
        patch.setattr(admission, "LABELS_MAX", 50)
        patch.setattr(bodies, "SHARED_MAX", 50)
        patch.setattr(pod_info, "LATELY_MAX", 50)
        churn = Churn()
        churn.create(PRIORITY_CLASS, {"metadata": {"name": URGENT}, "value": 1000})
        for serial in range(ROUNDS):
            churn.round(serial)
        before = objects()
        for serial in range(ROUNDS, 2 * ROUNDS):
            churn.round(serial)
    grown = {name: count - before[name] for name, count in objects().items()}

    # Ten plain ones, the different one, and the one that preempts; the other two may not.
    assert churn.bound == 2 * ROUNDS * 12
    assert {name: count for name, count in grown.items() if count >= ROUNDS} == {}
