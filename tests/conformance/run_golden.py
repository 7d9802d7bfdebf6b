"""Decide recorded clusters with our scheduler, and say where it differs from kube-scheduler.

python -m tests.conformance.run_golden [--data FOLDER] [FAMILY...]

The objects go into the `Machine` that binds live, as a watch would bring them, and each attempt
comes out of its queue.  Nobody answers its bindings, so that pods stay assumed on their nodes: as
the recordings were made.  Three ways must give the same:

- `explained`: what every plugin said about every node is written down after each search;
- `brief`: nobody asks why, as on most pods' way;
- `fresh`: everything kept is thrown away before each decision.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from stowplan.config import load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explainer, score_alone
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, ScheduleNext
from stowplan.objects.manifests import decode
from stowplan.objects.pod import Pod
from tests.conformance import compare_devices
from tests.conformance.compare import differences
from tests.conformance.devices import Replay
from tests.conformance.following import Decisions

GOLDEN = Path(__file__).parent / "golden"

Way = Literal["explained", "brief", "fresh"]
WAYS: tuple[Way, ...] = get_args(Way)

Scenario = dict[str, Any]

_EXPRESSIONS = "cel_truth"
"""Not of clusters: `run_cel` reads it."""

_TABLES = ("feasible", "rejected", "scores", "totals", "nodeAllocations")
"""What a brief decision does not have."""


def families(data: Path = GOLDEN) -> list[str]:
    names = (path.name.removesuffix(".jsonl.gz") for path in data.glob("*.jsonl.gz"))
    return sorted(name for name in names if name != _EXPRESSIONS)


def scenarios(family: str, data: Path = GOLDEN) -> Iterator[Scenario]:
    with gzip.open(data / f"{family}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


def decide(scenario: Scenario, way: Way = "explained") -> list[Decision]:
    """As many decisions as were recorded: the recording stops at the first preemption."""
    decisions = Decisions()
    config = load_config(scenario["config"]) if scenario["config"] else load_config(None)
    machine = Machine(config, random=Random(0), tie_break="name", log=AttemptLog(decisions))
    machine.algorithm.explain = score_alone if way == "brief" else Explainer().explain
    now_s = 0.0
    for obj in _in_order(scenario):
        now_s += 1.0
        machine.handle(Added(obj), now_s)
    wanted = len(scenario["expected"])
    while machine.has_work and len(decisions.made) < wanted:
        if way == "fresh":
            forget_everything(machine)
        machine.handle(ScheduleNext(), now_s)
    return decisions.made


def _in_order(scenario: Scenario) -> list[Any]:
    """Pending pods last, in the order of the recording, which is the queue's."""
    objects = [decode(item, scenario["name"]) for item in scenario["cluster"]["items"]]
    found = [obj for obj in objects if obj is not None]
    return sorted(found, key=lambda obj: isinstance(obj, Pod) and not obj.spec.node_name)


def forget_everything(machine: Machine) -> None:
    """Let the next decision be the first that was ever made, on the cluster as it is."""
    for framework in machine.frameworks.values():
        framework.forget()
    machine.table.rebuild(machine.cache)


def has_devices(scenario: Scenario) -> bool:
    items = scenario["cluster"]["items"]
    return any(item["apiVersion"].startswith("resource.k8s.io/") for item in items)


def decide_with_devices(scenario: Scenario, way: Way) -> list[dict[str, Any]]:
    """The same, with what is written to claims; already described."""
    replay = Replay(scenario)
    machine = replay.machine
    machine.algorithm.explain = score_alone if way == "brief" else Explainer().explain
    replay.add(_in_order(scenario))
    wanted = len(scenario["expected"])
    while machine.has_work and len(replay.actual) < wanted:
        if way == "fresh":
            forget_everything(machine)
        replay.decide_next()
    return replay.actual


def problems(scenario: Scenario, way: Way) -> list[str]:
    """One line for each difference; empty if there is none."""
    if has_devices(scenario):
        expected, actual = scenario["expected"], decide_with_devices(scenario, way)
        if way == "brief":
            expected = [_without_tables(entry) for entry in expected]
            actual = [_without_tables(entry) for entry in actual]
        return compare_devices.differences(expected, actual)
    expected, decisions = scenario["expected"], decide(scenario, way)
    if way == "brief":
        scores = [max((d.get("totals") or {"": None}).values()) for d in expected]
        actual = [decision.score for decision in decisions]
        wrong = [f"scores {actual}, expected {scores}"] if actual != scores else []
        expected = [_without_tables(entry) for entry in expected]
        return wrong + differences(expected, [_without_tables(d.to_dict()) for d in decisions])
    return differences(expected, [decision.to_dict() for decision in decisions])


def _without_tables(decision: dict[str, Any]) -> dict[str, Any]:
    left_out = {*_TABLES, "unschedulablePlugins"} if decision.get("chosen") else _TABLES
    return {name: value for name, value in decision.items() if name not in left_out}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="all, if none is given")
    parser.add_argument("--data", type=Path, default=GOLDEN, help="a folder of FAMILY.jsonl.gz")
    parser.add_argument("--way", choices=WAYS, action="append", help="all three, if none is given")
    asked = parser.parse_args()
    total = agreeing = 0
    for family in asked.families or families(asked.data):
        for scenario in scenarios(family, asked.data):
            total += 1
            found = [
                f"{scenario['name']} ({way}): {line}"
                for way in asked.way or WAYS
                for line in _problems_or_error(scenario, way)
            ]
            agreeing += not found
            for line in found[:4]:
                print(line)
    print(f"{agreeing} of {total} scenarios agree")
    return 0 if agreeing == total and total else 1


def _problems_or_error(scenario: Scenario, way: Way) -> list[str]:
    try:
        return problems(scenario, way)
    except Exception:
        return [traceback.format_exc(limit=-3)]


if __name__ == "__main__":
    sys.exit(main())
