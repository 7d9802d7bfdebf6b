"""The two schedulers on one cluster, each for pods of its own profile, and a case before both."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.build_control_plane import find
from tests.e2e.devices.case import Case
from tests.e2e.devices.seen import seen
from tests.e2e.devices.stage import Stage
from tests.e2e.harness.api import Api
from tests.e2e.harness.cluster import ADMIN, Cluster
from tests.e2e.harness.processes import Process, eventually
from tests.e2e.harness.scheduler import Scheduler, configuration

Data = dict[str, Any]

BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
BINDING_TIMEOUT = "8s"


def _config(profile: str) -> Data:
    """Scores count one extended resource, which may be devices; all else is as it comes.

    NodeResourcesBalancedAllocation does not: kube-scheduler 1.36 panics then.
    """
    scored = [{"name": name, "weight": 1} for name in ("cpu", "memory", "example.com/gpu")]
    args = {
        "DynamicResources": {"bindingTimeout": BINDING_TIMEOUT},
        "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": scored}},
    }
    given = [{"name": plugin, "args": it} for plugin, it in args.items()]
    return {**BACKOFF, "profiles": [{"schedulerName": profile, "pluginConfig": given}]}


class Stock:
    """kube-scheduler."""

    profile = "profile-a"
    is_stock = True

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        program = find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
        file = folder / "stock.yaml"
        kubeconfig = cluster.kubeconfig(ADMIN)
        file.write_text(json.dumps(configuration(kubeconfig, **_config(self.profile))))
        self._command = [program, "--config", file, "--secure-port", "0", "--v=4"]
        self._log = folder / "stock.log"
        self._process: Process | None = None

    def start(self) -> None:
        before = len(self._log.read_text()) if self._log.exists() else 0
        self._process = Process("kube-scheduler", self._command, self._log, {})
        eventually(
            "kube-scheduler has its caches",
            lambda: (
                "Caches are synced" in self._log.read_text()[before:]
                or "Starting Kubernetes Scheduler" in self._log.read_text()[before:]
            ),
            must_live=self._process,
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


class Ours:
    """`stowplan run`, with the rights of deploy/."""

    profile = "profile-b"
    is_stock = False

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._scheduler = Scheduler(cluster, folder, **_config(self.profile))

    def start(self) -> None:
        self._scheduler.start()

    def kill(self) -> None:
        self._scheduler.process.kill()
        self._scheduler.stop()


@dataclass
class Theatre:
    """Both sides, ready."""

    api: Api
    sides: tuple[Stock, Ours]
    _plays: int = field(default=0)

    def play(self, case: Case) -> tuple[Data, Data]:
        """What was seen of the case at either side."""
        first, second = (self._played(case, side) for side in self.sides)
        return first, second

    def _played(self, case: Case, side: Stock | Ours) -> Data:
        self._plays += 1
        with Stage(self.api, side, f"r{self._plays:03}") as stage:
            case.play(stage)
            stage.settle()
            return case.ending(seen(stage))


def open_theatre(cluster: Cluster, folder: Path) -> Theatre:
    sides = (Stock(cluster, folder), Ours(cluster, folder))
    for side in sides:
        side.start()
    return Theatre(cluster.api(), sides)
