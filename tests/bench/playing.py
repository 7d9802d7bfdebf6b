"""Play workloads in virtual time, on a store that can be looked at afterwards."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.bench.engine import VirtualTime
from stowplan.bench.language import Workload, read_workloads
from stowplan.bench.results import Result
from stowplan.bench.run import Options, run_workload
from stowplan.cluster.port import ListOptions
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import join
from stowplan.objects.kinds import NODE, POD, Kind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod

MEASURED: dict[str, Any] = {"opcode": "createPods", "count": 1, "collectMetrics": True}
"""Every case has to measure something."""


@dataclass
class Played:
    """What a workload has left behind."""

    result: Result
    store: Store
    took_s: float
    """Virtual seconds."""

    def all(self, kind: Kind, namespace: str = "") -> list[KubeObject]:
        items, _ = self.store.select(kind, ListOptions(namespace=namespace))
        return [thing for thing, _ in items]

    def data(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        """As JSON, with what the structs do not know."""
        items, _ = self.store.select(kind, ListOptions(namespace=namespace))
        return [join(thing, rest) for thing, rest in items]

    def pods(self, namespace: str = "") -> list[Pod]:
        return [thing for thing in self.all(POD, namespace) if isinstance(thing, Pod)]

    def nodes(self) -> dict[str, Node]:
        return {thing.name: thing for thing in self.all(NODE) if isinstance(thing, Node)}

    def placed(self, namespace: str = "") -> Counter[str]:
        """Pods per node; those without one under ""."""
        return Counter(pod.spec.node_name or "" for pod in self.pods(namespace))


def play(workload: Workload, *, seed: int = 1) -> Played:
    engine = VirtualTime()
    store = Store(engine.clock, seed=seed)
    started_s = engine.clock.now()
    options = Options(seed=seed, yardstick=False, sampler=None, tune=False)
    result = run_workload(workload, options, engine=engine, store=store)
    return Played(result, store, engine.clock.now() - started_s)


def written(
    folder: Path,
    ops: list[dict[str, Any]],
    templates: dict[str, str] | None = None,
    **case: Any,
) -> Workload:
    """A workload of these ops, read from a file as a user would write it."""
    for name, text in (templates or {}).items():
        (folder / name).write_text(text)
    params = case.pop("params", {})
    document = [
        {
            "name": "Case",
            "workloadTemplate": ops,
            "workloads": [{"name": "only", "params": params}],
            **case,
        }
    ]
    file = folder / "workloads.yaml"
    file.write_text(json.dumps(document))
    (workload,) = read_workloads(file)
    return workload
