"""The workloads that ship: each one, at its smallest, ends as section 6 of the description says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from stowplan.bench.catalogue import choose, resized, shipped
from stowplan.bench.goals import GOALS
from stowplan.bench.language import Workload
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.kinds import PERSISTENT_VOLUME, RESOURCE_CLAIM
from stowplan.objects.quantity import parse_quantity
from tests.bench.playing import Played, play

INTEGRATION = "integration-test"
SMALL = [
    workload
    for workload in shipped()
    if INTEGRATION in workload.labels and "performance" not in workload.labels
]
EVENT_CASES = (
    "EventHandlingPodDelete",
    "EventHandlingPodUpdate",
    "EventHandlingNodeAdd",
    "EventHandlingPodAdd",
    "EventHandlingNodeUpdate",
)
ZONE = "topology.kubernetes.io/zone"


def test_the_catalogue_is_complete() -> None:
    """50 cases upstream, of which 14 are about devices, and 242 workloads."""
    groups = {"Gangs", "GangsInRacks", "GangOfThousand"}
    too_large = {"PodsTooLarge", "GangTooLarge", "GangTooLargeForRacks"}
    ours = {"SchedulingAnySize", "SchedulingLarge", "DeviceClaims", *groups, *too_large}
    theirs = [workload for workload in shipped() if workload.case not in ours]

    assert len({workload.case for workload in theirs}) == 50
    assert len(theirs) == 242


def test_every_goal_has_its_workload() -> None:
    for goal in GOALS:
        (workload,) = choose([goal.workload], shipped())
        assert workload.params["initNodes"] == goal.nodes


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.full_name)
def test_small_workload(workload: Workload) -> None:
    played = play(workload)

    if workload.case not in EVENT_CASES:
        assert played.result["pods"] == workload.params["measurePods"]
    assert played.result["inflight_events"] == 0
    assert_no_node_is_overcommitted(played)
    assert_no_device_is_given_twice(played)
    if workload.case in CHECKS:
        CHECKS[workload.case](played, workload)


def assert_no_node_is_overcommitted(played: Played) -> None:
    used: Counter[tuple[str, str]] = Counter()
    for pod in played.pods():
        node = pod.spec.node_name
        if not node:
            continue
        used[node, "pods"] += 1
        for container in pod.spec.containers:
            requests = container.resources.requests if container.resources else None
            for name, amount in (requests or {}).items():
                used[node, name] += parse_quantity(str(amount))  # type: ignore[assignment]
    nodes = played.nodes()
    for (name, resource), amount in used.items():
        allocatable = nodes[name].status.allocatable or {}
        if resource in allocatable:
            assert amount <= parse_quantity(str(allocatable[resource])), (name, resource)


def assert_no_device_is_given_twice(played: Played) -> None:
    given = [
        (it.driver, it.pool, it.device)
        for claim in played.all(RESOURCE_CLAIM)
        if isinstance(claim, ResourceClaim) and claim.status.allocation is not None
        for it in claim.status.allocation.devices.results or ()
        if it.share_id is None
    ]
    assert len(set(given)) == len(given)


def test_every_pod_with_a_claim_gets_a_device_of_its_own() -> None:
    (workload,) = choose(["DeviceClaims/500Nodes_8Devices_1000Pods"], shipped())
    played = play(resized(workload, nodes=4, pods=20, init_pods=12))

    assert played.result["pods"] == 20
    assert sum(played.placed().values()) == 32
    assert "" not in played.placed()
    assert_no_device_is_given_twice(played)


# -- case by case ---------------------------------------------------------------------------


def one_green_pod_per_node(played: Played, workload: Workload) -> None:
    green = [
        pod.spec.node_name
        for pod in played.pods()
        if (pod.metadata.labels or {}).get("color") == "green"
    ]
    assert len(green) == len(set(green))


def all_in_zone1(played: Played, workload: Workload) -> None:
    nodes = played.nodes()
    zones = {(nodes[pod.spec.node_name].metadata.labels or {}).get(ZONE) for pod in played.pods()}
    assert zones == {"zone1"}


def all_on_the_named_node(played: Played, workload: Workload) -> None:
    assert played.placed() == {"scheduler-perf-node": workload.params["measurePods"]}


def three_victims_each(played: Played, workload: Workload) -> None:
    """Four pods of 0.9 cpu fill a node of 4; one of 3 cpu leaves room for one of them."""
    count = workload.params["measurePods"]
    priorities = Counter(pod.spec.priority or 0 for pod in played.pods())
    assert priorities == {10: count, 0: int(workload.params["initPods"]) - 3 * int(count)}
    assert all(count == 2 for count in played.placed().values())


def skew_at_most(limit: int) -> Callable[[Played, Workload], None]:
    def check(played: Played, workload: Workload) -> None:
        nodes = played.nodes()
        zones = Counter(
            (nodes[pod.spec.node_name].metadata.labels or {})[ZONE]
            for pod in played.pods("measured")
        )
        assert set(zones) == {"moon-1", "moon-2", "moon-3"}
        assert max(zones.values()) - min(zones.values()) <= limit

    return check


def untainted_nodes_one_each(played: Played, workload: Workload) -> None:
    nodes = played.nodes()
    placed = played.placed()
    assert all(not nodes[name].spec.taints for name in placed)
    assert set(placed.values()) == {1}


def each_where_its_resource_is(played: Played, workload: Workload) -> None:
    nodes = played.nodes()
    for pod in played.pods():
        requests = pod.spec.containers[0].resources.requests
        (resource,) = (name for name in requests if name.startswith("foo.com/"))
        assert resource in nodes[pod.spec.node_name].status.allocatable


def gated_pods_stay(played: Played, workload: Workload) -> None:
    waiting = [pod for pod in played.pods() if not pod.spec.node_name]
    assert len(waiting) == workload.params["gatedPods"]
    assert all(pod.spec.scheduling_gates for pod in waiting)


def large_pods_wait(played: Played, workload: Workload) -> None:
    waiting = [pod for pod in played.pods() if not pod.spec.node_name]
    assert all(
        parse_quantity(str(pod.spec.containers[0].resources.requests["cpu"])) == parse_quantity("9")
        for pod in waiting
    )


def at_most_39_volumes_per_node(played: Played, workload: Workload) -> None:
    count = int(workload.params["initPods"]) + int(workload.params["measurePods"])
    assert len(played.all(PERSISTENT_VOLUME)) == count
    assert max(played.placed().values()) <= 39


def everything_is_placed(played: Played, workload: Workload) -> None:
    assert played.placed()[""] == 0


CHECKS: dict[str, Callable[[Played, Workload], None]] = {
    "SchedulingBasic": everything_is_placed,
    "SchedulingPodAntiAffinity": one_green_pod_per_node,
    "SchedulingRequiredPodAntiAffinityWithNSSelector": one_green_pod_per_node,
    "SchedulingPodAffinity": all_in_zone1,
    "SchedulingRequiredPodAffinityWithNSSelector": all_in_zone1,
    "SchedulingNodeAffinity": all_in_zone1,
    "MixedSchedulingBasePod": all_in_zone1,
    "SchedulingDaemonset": all_on_the_named_node,
    "PreemptionBasic": three_victims_each,
    "PreemptionPVs": three_victims_each,
    "TopologySpreading": skew_at_most(5),
    "PreferredTopologySpreading": skew_at_most(2),
    "DefaultTopologySpreading": skew_at_most(2),
    "SchedulingWithNodeInclusionPolicy": untainted_nodes_one_each,
    "SchedulingWithExtendedResource": each_where_its_resource_is,
    "SchedulingWhileGated": gated_pods_stay,
    "SchedulingGatedPodsWithPodAffinityImpactForThroughput": gated_pods_stay,
    "Unschedulable": large_pods_wait,
    "SchedulingWithMixedChurn": large_pods_wait,
    "SchedulingCSIPVs": at_most_39_volumes_per_node,
    "SchedulingMigratedInTreePVs": at_most_39_volumes_per_node,
    "EventHandlingPodDelete": everything_is_placed,
    "EventHandlingPodUpdate": everything_is_placed,
    "EventHandlingNodeAdd": everything_is_placed,
    "EventHandlingPodAdd": everything_is_placed,
    "EventHandlingNodeUpdate": everything_is_placed,
}
