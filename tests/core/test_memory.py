"""Memory: after a hundred thousand pods have come and gone, nothing of them is left.

Counted are all Python objects the collector knows, by type, and what the process takes up.  A
warm-up comes first: logs of bounded length are full, and kinds of pods have been met.
"""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.config import load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.machine import Machine
from stowplan.core.messages import (
    Added,
    Answered,
    Call,
    Deleted,
    Event,
    ScheduleNext,
    Tick,
    Updated,
)
from stowplan.errors import Conflict
from stowplan.framework.kept import IDLE_MAX
from stowplan.framework.timing import Recorders
from stowplan.objects.api import Bind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import kind_count
from tests.builders import node, pod

ALIVE = 100
"""Pods that are there at any time."""


def new_machine(nodes: int) -> Machine:
    bottlenecks = Bottlenecks(lambda: 0.0)
    machine = Machine(
        load_config(),
        random=Random(0),
        recorder=Recorders(bottlenecks),
        log=AttemptLog(bottlenecks, decisions_max=100),
    )
    zones = {"topology.kubernetes.io/zone": "a"}
    for n in range(nodes):
        image = {"names": [f"image-{n}"], "sizeBytes": 300_000_000}
        thing = node(f"node-{n}", labels=zones, cpu="64", status={"images": [image]})
        machine.handle(Added(thing), 0.0)
    return machine


class Traffic:
    """Pods come, are decided on, bound, seen on their node, and deleted; some are unlucky."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.dice = Random(1)
        self.now_s = 0.0
        self.alive: OrderedDict[str, Pod] = OrderedDict()
        self.outcomes: Counter[str] = Counter()

    def come_and_go(self, pods: Iterable[Pod]) -> None:
        for n, thing in enumerate(pods):
            self.now_s += 0.01
            self.alive[thing.metadata.name] = thing
            self.tell(Added(thing))
            if len(self.alive) > ALIVE:
                self._leave()
            if n % 100 == 0:
                self.tell(Tick())
            self._decide()
        while self.alive:
            self._leave()
        # One cycle more, to take in what left last.
        last = pod("last", metadata={"uid": "last"})
        self.alive["last"] = last
        self.tell(Added(last))
        self._decide()
        self._leave()
        self.machine.table.refresh(self.machine.cache)

    def tell(self, event: Event) -> None:
        for effect in self.machine.handle(event, self.now_s):
            if isinstance(effect, Call):
                self._carry_out(effect)

    def _decide(self) -> None:
        while self.machine.has_work:
            self.tell(_SCHEDULE_NEXT)

    def _leave(self) -> None:
        _, thing = self.alive.popitem(last=False)
        self.tell(Deleted(thing))

    def _carry_out(self, call: Call) -> None:
        request = call.request
        if not isinstance(request, Bind):
            self.outcomes["written"] += 1
            self.tell(Answered(call.token, None))
        elif self.dice.random() < 0.01:
            self.outcomes["bind failed"] += 1
            self.tell(Answered(call.token, Conflict("lost")))
        else:
            self.outcomes["bound"] += 1
            thing = self.alive[request.name]
            spec = msgspec.structs.replace(thing.spec, node_name=request.node)
            bound = self.alive[request.name] = msgspec.structs.replace(thing, spec=spec)
            self.tell(Answered(call.token, None))
            self.tell(Updated(thing, bound))


_SCHEDULE_NEXT = ScheduleNext()


ALONE = "STOWPLAN_TEST_ALONE"


def alone(test: Callable[[], None]) -> Callable[[], None]:
    """Run the test in a process of its own: what is counted is the whole process."""

    @wraps(test)
    def run() -> None:
        if ALONE in os.environ:
            test()
            return
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
        ]
        done = subprocess.run(
            [*command, f"{inspect.getfile(test)}::{test.__name__}"],
            env={**os.environ, ALONE: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]

    return run


def objects() -> Counter[str]:
    gc.collect()
    return Counter(type(thing).__qualname__ for thing in gc.get_objects())


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def settled(machine: Machine) -> None:
    """Nothing of any pod is left where pods are known by name."""
    assert machine.pods == {}
    assert machine.cache.pod_count == machine.cache.assumed_count == 0
    assert list(machine.queue.places()) == []
    assert not machine.queue.nominator
    assert len(machine.waiting) == machine.binding_count == machine.stepper.timer_count == 0
    assert machine.bindings.in_pre_bind == {}
    assert machine.stepper.effects == []
    assert len(machine.table.pods) == 0
    assert all(info.requested["cpu"] == 0 for info in machine.cache.nodes.values())


TERM = {
    "labelSelector": {"matchLabels": {"app": "apart"}},
    "topologyKey": "kubernetes.io/hostname",
}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
REPLICAS = [
    pod("web", labels={"app": "web"}, cpu="100m"),
    pod("db", labels={"app": "db"}, cpu="1", memory="1Gi", spec={"priority": 5}),
    pod("apart", labels={"app": "apart"}, spec={"affinity": APART}),
    pod("nowhere", spec={"nodeSelector": {"no": "such label"}}),
]


def replicas(first: int, count: int) -> Iterator[Pod]:
    """Pods of a few kinds; one in a hundred fits nowhere."""
    for n in range(first, first + count):
        template = REPLICAS[3 if n % 100 == 0 else 2 if n % 20 == 0 else n % 2]
        yield msgspec.structs.replace(
            template,
            metadata=msgspec.structs.replace(template.metadata, name=f"pod-{n}", uid=f"uid-{n}"),
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
@alone
def test_a_hundred_thousand_pods_leave_nothing_behind() -> None:
    machine = new_machine(nodes=10)
    traffic = Traffic(machine)
    traffic.come_and_go(replicas(0, 5_000))
    before, before_mb = objects(), resident_mb()

    traffic.come_and_go(replicas(5_000, 100_000))

    after, after_mb = objects(), resident_mb()
    settled(machine)
    assert traffic.outcomes["bound"] > 90_000
    assert traffic.outcomes["written"] > 1_000
    assert traffic.outcomes["bind failed"] > 500
    grown = {name: count - before[name] for name, count in after.items()}
    assert {name: count for name, count in grown.items() if count > 20} == {}
    assert after_mb - before_mb < 8


def all_different(first: int, count: int) -> Iterator[Pod]:
    """No two are alike: labels, sizes, images, ports, tolerations, affinities, spreading."""
    for n in range(first, first + count):
        labels = {"app": f"app-{n}", f"label-{n}": "x"}
        yield pod(
            f"pod-{n}",
            labels=labels,
            cpu=f"{100 + n % 1000}m",
            memory=str(10_000_000 + n),
            spec={**_wish(n, labels), "priority": n % 7},
            metadata={"uid": f"uid-{n}"},
        )


def _wish(n: int, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"matchLabels": {"app": labels["app"]}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    odd_key = {"matchExpressions": [{"key": f"key-{n}", "operator": "DoesNotExist"}]}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    container = {"name": "main", "image": f"image-{n}"}
    wishes: list[dict[str, Any]] = [
        {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}},
        {"affinity": {"podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}},
        {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [odd_key]}}}},
        {"affinity": {"nodeAffinity": {_PREFERRED: [{"weight": 1, "preference": odd_key}]}}},
        {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"tolerations": [{"key": f"key-{n}", "operator": "Exists"}]},
        {"containers": [{**container, "ports": [{"containerPort": 80, "hostPort": 1 + n}]}]},
    ]
    if n % 50 == 0:
        return {"nodeSelector": {f"nowhere-{n}": "x"}}
    if n % 50 == 1:
        resources = {"requests": {f"example.com/resource-{n}": "1"}}
        return {"containers": [{**container, "resources": resources}]}
    return wishes[n % len(wishes)]


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.slow
@pytest.mark.timeout(900)
@alone
def test_pods_of_which_no_two_are_alike_leave_nothing_behind_either() -> None:
    """What is kept per kind of pod is bounded by the kinds there are, not by those there were."""
    machine = new_machine(nodes=10)
    traffic = Traffic(machine)
    # Enough of them that every bound of a fixed size has been reached.
    traffic.come_and_go(all_different(0, 6_000))
    before, before_mb = objects(), resident_mb()

    traffic.come_and_go(all_different(6_000, 3_000))

    after, after_mb = objects(), resident_mb()
    settled(machine)
    assert traffic.outcomes["bound"] > 8_000
    framework = machine.frameworks["default-scheduler"]
    assert len(framework.kept) <= IDLE_MAX + kind_count() + 1
    assert len(machine.table.labels_kept) <= 1200
    grown = {name: count - before[name] for name, count in after.items()}
    # How much of a bound is filled differs from moment to moment; one for each pod is a leak.
    assert {name: count for name, count in grown.items() if count > 2_000} == {}
    assert after_mb - before_mb < 8


def passing_nodes(first: int, count: int) -> Iterator[Node]:
    """No two are alike in their taints, labels, images, features or resources."""
    for n in range(first, first + count):
        taint = {"key": "deletion-candidate", "value": str(n), "effect": "PreferNoSchedule"}
        image = {"names": [f"app:{n}"], "sizeBytes": 300_000_000}
        yield node(
            f"passing-{n}",
            labels={"serial": str(n)},
            taints=[taint],
            status={"images": [image], "declaredFeatures": [f"Feature{n}"]},
        )


@alone
def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    machine = new_machine(nodes=2)
    traffic = Traffic(machine)

    def come_and_go(first: int) -> None:
        nodes, pods = passing_nodes(first, 1_500), replicas(first, 1_500)
        for passing, thing in zip(nodes, pods, strict=True):
            traffic.tell(Added(passing))
            traffic.come_and_go([thing] if thing.metadata.name.endswith("1") else [])
            traffic.tell(Deleted(passing))
        machine.table.refresh(machine.cache)

    come_and_go(0)
    before = objects()
    come_and_go(1_500)
    grown = {name: count - before[name] for name, count in objects().items()}

    settled(machine)
    assert machine.table.node_count == len(machine.cache.nodes) == len(machine.cache.images) == 2
    assert {name: count for name, count in grown.items() if count > 150} == {}
