"""What is kept belongs to the framework that worked it out, and goes with it, or with the pods.

Kinds of pods live as long as any pod of them, in any scheduler of the process: so here one pod of
each sort is held all the time, while schedulers come and go around it.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

import stowplan
from stowplan.config import load_config
from stowplan.core.machine import Machine
from stowplan.framework.handle import Handle
from stowplan.framework.runtime import Framework
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import KeptPer, PodInfo, PodKind, fact
from tests.builders import node, pod
from tests.core.test_memory import Traffic, new_machine

TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {**TERM, "maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule"}
SORTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "apart": {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}},
    "spread": {"topologySpreadConstraints": [SPREAD]},
    "important": {"priority": 10},
    "nowhere": {"nodeSelector": {"no": "such label"}},
}
OWNERS = (Framework, Handle, NodeTable, KeptPer, *IN_TREE.values())


def pods(suffix: str) -> list[Pod]:
    return [
        pod(
            f"{name}-{suffix}",
            labels={"app": "web"},
            cpu="900m" if name == "important" else "300m",
            spec=spec,
            metadata={"uid": f"{name}-{suffix}"},
        )
        for name, spec in SORTS.items()
    ]


def alive() -> Counter[type]:
    gc.collect()
    return Counter(type(thing) for thing in gc.get_objects() if isinstance(thing, OWNERS))


def traced_kb() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1024


@pytest.mark.timeout(300)
def test_a_hundred_reloads_leave_one_framework() -> None:
    others = alive()[Framework]
    machine = new_machine(nodes=3)
    traffic = Traffic(machine)

    def reload(number: int) -> None:
        machine.reconfigure(load_config())
        traffic.come_and_go(pods(str(number)))

    held = [PodInfo(thing) for thing in pods("held")]
    tracemalloc.start()
    for number in range(30):
        reload(number)
    before, before_kb = alive(), traced_kb()
    for number in range(30, 130):
        reload(number)

    assert alive() - before == Counter()
    assert before[Framework] - others == 1
    # Windows of durations fill up; a framework left behind takes ten times as much.
    assert traced_kb() - before_kb < 300
    tracemalloc.stop()
    # The held pods' kinds were asked about in every one of the configurations.
    assert all(thing.kind.ref in _handle(machine).kept for thing in held)


def _handle(machine: Machine) -> Handle:
    (framework,) = machine.frameworks.values()
    return framework.handle


@pytest.mark.timeout(300)
def test_a_thousand_dry_runs_leave_nothing() -> None:
    held = [PodInfo(thing) for thing in pods("held")]
    nodes = [node(f"node-{n}", cpu="1") for n in range(3)]
    objects = [msgspec.to_builtins(thing) for thing in (*nodes, *pods("asked"))]

    def run() -> None:
        assert len(stowplan.dry_run(objects, seed=0, detail=False)) >= len(held)

    tracemalloc.start()
    for _ in range(5):
        run()
    before, marks_kb = alive(), [traced_kb()]
    for _ in range(5):
        for _ in range(200):
            run()
        marks_kb.append(traced_kb())

    assert alive() - before == Counter()
    # Python's own table of names may become larger meanwhile, once: a leak is in every stretch.
    *grown_kb, _ = sorted(after - earlier for earlier, after in pairwise(marks_kb))
    assert sum(grown_kb) < 50
    tracemalloc.stop()


def test_what_is_kept_for_a_kind_goes_with_its_last_pod() -> None:
    kept = KeptPer()
    one, replica = PodInfo(pod("one", cpu="7m")), PodInfo(pod("replica", cpu="7m"))
    kept[one.kind.ref]["X"] = 1

    assert kept[replica.kind.ref] == {"X": 1}
    del one
    assert len(kept) == 1
    del replica
    assert len(kept) == 0


def test_a_fact_is_worked_out_once_for_all_who_ask() -> None:
    asked = []

    @fact
    def priority(kind: PodKind) -> int:
        asked.append(kind)
        return kind.priority

    held = PodInfo(pod("held", spec={"priority": 3}))
    assert [priority(held.kind), priority(PodInfo(pod("x", spec={"priority": 3})).kind)] == [3, 3]
    assert asked == [held.kind]
