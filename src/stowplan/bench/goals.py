"""How fast it is meant to be: a rate for each workload, and how a result compares.

The rates are pods per second on one quiet core of the machine that the bare kernel (`yardstick`)
did 48,000 pods per second on.  Elsewhere the share of the kernel's rate is what is compared: a goal
of 8,000 is a share of one sixth, measured with the processor's clock, whoever else is working.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.bench.yardstick import REFERENCE_KEPT


@dataclass(frozen=True, slots=True)
class Goal:
    workload: str
    nodes: int
    """With fewer nodes it is another question."""
    pods_per_s: float
    kube_scheduler: float = 0.0
    """kube-scheduler's rate on the same machine, decisions only; 0: not measured."""
    large: bool = False
    """Takes minutes, and gigabytes."""

    @property
    def ratio(self) -> float:
        """As a share of the kernel's rate."""
        return self.pods_per_s / REFERENCE_KEPT


@dataclass(frozen=True, slots=True)
class Limit:
    """What a start on a filled cluster may take at most; 0: not asked for."""

    workload: str
    first_bind_s: float = 0.0
    mib: float = 0.0
    large: bool = False


GOALS: tuple[Goal, ...] = (
    Goal("SchedulingBasic/5000Nodes_10000Pods", 5000, 8000, 814),
    Goal("SchedulingAnySize/5000Nodes_10000Pods", 5000, 2500),
    Goal("TopologySpreading/5000Nodes_5000Pods", 5000, 3500, 377),
    Goal("PreferredTopologySpreading/5000Nodes_5000Pods", 5000, 3500),
    Goal("DefaultTopologySpreading/5000Nodes_10000Pods", 5000, 3500),
    Goal("SchedulingPodAntiAffinity/5000Nodes_2000Pods", 5000, 3500, 244),
    Goal("SchedulingPodAffinity/5000Nodes_5000Pods", 5000, 3500, 164),
    Goal("SchedulingPreferredPodAffinity/5000Nodes_5000Pods", 5000, 3500, 418),
    Goal("SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods", 5000, 3500, 418),
    Goal("SchedulingNodeAffinity/5000Nodes_10000Pods", 5000, 3000),
    Goal("SchedulingSecrets/5000Nodes_10000Pods", 5000, 3000),
    Goal("SchedulingCSIPVs/5000Nodes_5000Pods", 5000, 3000),
    Goal("MixedSchedulingBasePod/5000Nodes_5000Pods", 5000, 3000),
    Goal("DeviceClaims/5000Nodes_8Devices_10000Pods", 5000, 1500),
    Goal("Gangs/5000Nodes_1000Gangs", 5000, 2500),
    Goal("GangsInRacks/5000Nodes_100Gangs", 5000, 2000),
    Goal("GangOfThousand/5000Nodes", 5000, 1000),
    Goal("GangTooLarge/5000Nodes", 5000, 3500),
    Goal("GangTooLargeForRacks/5000Nodes", 5000, 3500),
    Goal("PreemptionBasic/1000Nodes", 1000, 1000),
    Goal("Unschedulable/5kNodes/100Init/10kPods", 5000, 1000),
    Goal("SchedulingLarge/15000Nodes_10000Pods", 15000, 5000, 581),
    Goal("SchedulingLarge/100000Nodes_10000Pods", 100000, 2000, 115, large=True),
    Goal("SchedulingLarge/100000Nodes_100000Pods", 100000, 100_000 / 60, large=True),
)

SIMULATIONS: tuple[Goal, ...] = (
    Goal("Simulation/149Days", 1523, 8152 / 3),
    Goal("Simulation/Tenfold", 15230, 81520 / 20),
    Goal("Simulation/Month", 10000, 1_000_000 / 300, large=True),
    Goal("Simulation/Arrivals", 1213, 10_866 / 2),
)
"""Traces in virtual time, on the embedded cluster only."""

TIMES_EQUAL_MAX = 2.0
"""What a pod of a real trace may cost, against one of many that are equal (`Uneven`)."""

LIMITS: tuple[Limit, ...] = (
    Limit("StartUp/5000Nodes_50000Pods", first_bind_s=5.0),
    Limit("StartUp/5000Nodes_150000Pods", mib=1024.0),
    Limit("StartUp/100000Nodes_1000000Pods", mib=8192.0, large=True),
)

_GOALS = {goal.workload: goal for goal in (*GOALS, *SIMULATIONS)}
_LIMITS = {limit.workload: limit for limit in LIMITS}


def goal_named(workload: str) -> Goal | None:
    return _GOALS.get(workload)


def limit_named(workload: str) -> Limit | None:
    return _LIMITS.get(workload)


def goal_of(result: Mapping[str, Any]) -> Goal | None:
    """The goal that this result can be compared with."""
    goal = _GOALS.get(result["workload"])
    return goal if goal is not None and result["nodes"] >= goal.nodes else None


def share_of_goal(result: Mapping[str, Any]) -> float | None:
    """1.0: just as fast as it is meant to be; None where there is no goal, or no yardstick."""
    if "times_equal" in result:
        return round(TIMES_EQUAL_MAX / float(result["times_equal"]), 3)
    goal = goal_of(result)
    if goal is None or "ratio" not in result:
        return None
    return round(float(result["ratio"]) / goal.ratio, 3)
