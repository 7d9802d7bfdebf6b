"""Groups of pods, each a few objects, with what happens to them: section by section of the spec.

`test_groups` plays them before kube-scheduler and before Stowplan, on one kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.harness.objects import anti_affinity, node, pod, priority_class
from tests.e2e.harness.world import World

Data = dict[str, Any]
Step = Callable[[World], object]

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"

GANGS = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GANGS},TopologyAwareWorkloadScheduling=true"
PREEMPTION = f"{GANGS},WorkloadAwarePreemption=true"
ALL = f"{TOPOLOGY},WorkloadAwarePreemption=true"

CLAIMS = f"{GANGS},DRAWorkloadResourceClaims=true"
DEVICES = "/apis/resource.k8s.io/v1"
OWN = {
    "PodGroup": GROUPS,
    "ResourceClaim": f"{DEVICES}/namespaces/default/resourceclaims",
    "ResourceSlice": f"{DEVICES}/resourceslices",
    "DeviceClass": f"{DEVICES}/deviceclasses",
}
"""What is made here besides, and goes at the end of each case."""


def group(name: str, min_count: int = 0, **spec: Any) -> Data:
    policy = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def members(name: str, count: int, cpu: str = "1", first: int = 0, **spec: Any) -> list[Data]:
    belongs = {"schedulingGroup": {"podGroupName": name}}
    return [pod(f"{name}-{n}", cpu=cpu, **belongs, **spec) for n in range(first, first + count)]


def _device(kind: str, name: str, **spec: Any) -> Data:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def one_device(on: str) -> list[Data]:
    """A claim for the only device there is."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return [
        _device("DeviceClass", "gpu"),
        _device(
            "ResourceSlice",
            f"slice-{on}",
            driver="gpu.example.com",
            nodeName=on,
            pool=pool,
            devices=[{"name": "gpu-0"}],
        ),
        _device("ResourceClaim", "c", devices={"requests": [{"name": "r", "exactly": asked}]}),
    ]


NAMED = [{"name": "net", "resourceClaimName": "c"}]


def rack(key: str) -> Data:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


@dataclass(frozen=True)
class Case:
    name: str
    gates: str
    objects: list[Data]
    later: list[list[Data] | Step] = field(default_factory=list)
    """Added or done one after the other, each when everything is at rest."""
    deleted: tuple[str, ...] = ()
    """Pods that end then: nobody else ends those that were evicted."""
    compares_events: bool = True
    """Not where what was said on the way depends on how often it was tried."""
    profiles: list[Data] = field(default_factory=list)
    """Of the configuration; none: the default one."""


IN_RACKS = [
    node("a1", cpu="2", labels={"rack": "a"}),
    node("a2", cpu="2", labels={"rack": "a"}),
    node("b1", cpu="3", labels={"rack": "b"}),
    node("c1", cpu="8"),
]

CASES = [
    Case("fits", GANGS, [node("n", cpu="4"), group("g", 3), *members("g", 3)]),
    Case("too large", GANGS, [node("n", cpu="2"), group("g", 3), *members("g", 3)]),
    Case(
        "room comes",
        GANGS,
        [node("n", cpu="2"), group("g", 3), *members("g", 3)],
        [[node("m", cpu="1")]],
    ),
    Case("no group", GANGS, [node("n"), *members("g", 2)]),
    Case("too few", GANGS, [node("n"), group("g", 3), *members("g", 2)]),
    Case(
        "last member comes",
        GANGS,
        [node("n"), group("g", 3), *members("g", 2)],
        [members("g", 1, first=2)],
    ),
    Case("group comes last", GANGS, [node("n"), *members("g", 2)], [[group("g", 2)]]),
    Case("surplus", GANGS, [node("n", cpu="2"), group("g", 2), *members("g", 3)]),
    Case("basic", GANGS, [node("n", cpu="2"), group("g"), *members("g", 3)]),
    Case(
        "group alone", "GenericWorkload=true", [node("n", cpu="2"), group("g", 3), *members("g", 3)]
    ),
    Case("no gates", "", [node("n", cpu="2"), group("g", 3), *members("g", 3)]),
    Case(
        "error",
        GANGS,
        [
            node("n"),
            group("g", 2),
            *members("g", 1),
            *members("g", 1, first=1, schedulerName="other"),
        ],
    ),
    Case("one rack", TOPOLOGY, [*IN_RACKS, group("g", 4, **rack("rack")), *members("g", 4)]),
    Case(
        "no rack is large enough",
        TOPOLOGY,
        [*IN_RACKS[:2], group("g", 5, **rack("rack")), *members("g", 5)],
    ),
    Case("no such label", TOPOLOGY, [*IN_RACKS, group("g", 1, **rack("row")), *members("g", 1)]),
    Case(
        "claim of the group",
        CLAIMS,
        [
            node("n"),
            *one_device("n"),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 2, resourceClaims=NAMED),
        ],
        compares_events=False,
    ),
    Case(
        "shared claim",
        GANGS,
        [node("n"), *one_device("n"), group("g", 2), *members("g", 2, resourceClaims=NAMED)],
        compares_events=False,
    ),
    Case("no constraint", TOPOLOGY, [node("n", cpu="2"), group("g", 3), *members("g", 3)]),
    Case(
        "evicts for a group",
        PREEMPTION,
        [
            priority_class("high", 1000),
            node("n", cpu="2"),
            pod("low-0", cpu="1"),
            pod("low-1", cpu="1"),
        ],
        [[group("g", 2, priorityClassName="high"), *members("g", 2)]],
        ("low-0", "low-1"),
        compares_events=False,
    ),
    Case(
        "evicting does not help",
        PREEMPTION,
        [priority_class("high", 1000), node("n", cpu="2"), pod("low-0", cpu="1")],
        [[group("g", 3, priorityClassName="high"), *members("g", 3)]],
    ),
    Case(
        "nobody to evict",
        PREEMPTION,
        [node("n", cpu="2"), pod("low-0", cpu="1")],
        [[group("g", 2), *members("g", 2)]],
    ),
    Case(
        "members evict",
        GANGS,
        [priority_class("high", 1000), node("n", cpu="2"), pod("low-0", cpu="1")],
        [[group("g", 2), *members("g", 2, priorityClassName="high")]],
        ("low-0",),
        compares_events=False,
    ),
]

HIGH = priority_class("high", 1000)
CALM = {**priority_class("calm", 1000), "preemptionPolicy": "Never"}


def bound(name: str, to: str, group_name: str = "", cpu: str = "1", **spec: Any) -> Data:
    """A pod that somebody else has put onto its node."""
    belongs = {"schedulingGroup": {"podGroupName": group_name}} if group_name else {}
    return pod(name, cpu=cpu, nodeName=to, **belongs, **spec)


def ports(number: int) -> Data:
    made = members("g", 1, first=number)[0]
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def labelled(count: int, **spec: Any) -> list[Data]:
    made = members("g", count, **spec)
    for it in made:
        it["metadata"]["labels"] = {"app": "g"}
    return made


def delete(kind: str, name: str) -> Step:
    return lambda world: world.delete(kind, name)


APART = {"affinity": anti_affinity({"app": "g"})}

CASES += [
    Case(
        "a member with a gate counts and does not run",
        GANGS,
        [
            node("n"),
            group("g", 3),
            *members("g", 2),
            *members("g", 1, first=2, schedulingGates=[{"name": "wait"}]),
        ],
    ),
    Case(
        "a member that somebody bound counts",
        GANGS,
        [node("n"), group("g", 2), bound("g-0", "n", "g")],
        [members("g", 1, first=1)],
    ),
    Case(
        "members keep away from each other",
        GANGS,
        [node("a"), node("b"), group("g", 2), *labelled(2, **APART)],
    ),
    Case(
        "members keep away from each other, and there is one node",
        GANGS,
        [node("a"), group("g", 2), *labelled(2, **APART)],
    ),
    Case("members want the same port", GANGS, [node("a"), group("g", 2), ports(0), ports(1)]),
    Case(
        "a gang of one",
        GANGS,
        [node("n", cpu="1"), group("g", 1), *members("g", 3)],
        compares_events=False,
    ),
    Case(
        "a taint keeps all out",
        GANGS,
        [
            node("n", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]),
            group("g", 2),
            *members("g", 2),
        ],
    ),
    Case("no group object, and no gangs", "GenericWorkload=true", [node("n"), *members("g", 2)]),
    Case(
        "a member goes before the last one comes",
        GANGS,
        [node("n"), group("g", 3), *members("g", 2)],
        [delete("Pod", "g-0"), members("g", 1, first=2), members("g", 1, first=3)],
    ),
    Case(
        "a group that is being deleted is one still",
        GANGS,
        [node("n"), group("g", 2), *members("g", 1)],
        [delete("PodGroup", "g"), members("g", 1, first=1)],
    ),
    Case(
        "more members for a group that runs",
        GANGS,
        [node("n", cpu="3"), group("g", 2), *members("g", 2)],
        [members("g", 2, first=2)],
        compares_events=False,
    ),
    Case(
        "two groups, and room for one",
        GANGS,
        [node("n", cpu="2"), group("g", 2), *members("g", 2)],
        [[group("h", 2), *members("h", 2)]],
    ),
    Case(
        "the rack that takes the most",
        TOPOLOGY,
        [*IN_RACKS[:3], group("g", **rack("rack")), *members("g", 4)],
    ),
    Case(
        "the rack where a member runs",
        TOPOLOGY,
        [*IN_RACKS, group("g", 1, **rack("rack")), bound("g-0", "b1", "g")],
        [members("g", 2, first=1)],
    ),
    Case(
        "a member runs where there is no rack",
        TOPOLOGY,
        [*IN_RACKS, group("g", 1, **rack("rack")), bound("g-0", "c1", "g")],
        [members("g", 1, first=1)],
    ),
    Case(
        "a constraint without its gate",
        GANGS,
        [*IN_RACKS, group("g", 4, **rack("rack")), *members("g", 4)],
    ),
    Case(
        "members of a rack do not evict",
        TOPOLOGY,
        [
            HIGH,
            *IN_RACKS[:1],
            bound("low-0", "a1", cpu="2"),
            group("g", 1, **rack("rack")),
        ],
        [members("g", 1, priorityClassName="high")],
    ),
    Case(
        "a group in a rack does not evict",
        ALL,
        [HIGH, *IN_RACKS[:1], bound("low-0", "a1", cpu="2")],
        [[group("g", 1, priorityClassName="high", **rack("rack")), *members("g", 1)]],
    ),
    Case(
        "who may not evict",
        PREEMPTION,
        [HIGH, CALM, node("n", cpu="1"), bound("low-0", "n")],
        [
            [
                group("g", 1, priorityClassName="high"),
                *members("g", 1, priorityClassName="calm"),
            ]
        ],
    ),
    Case(
        "the priority of pods does not count",
        PREEMPTION,
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g", 1), *members("g", 1, priorityClassName="high")]],
    ),
    Case(
        "a group goes whole",
        PREEMPTION,
        [
            HIGH,
            node("n", cpu="2"),
            node("m", cpu="2"),
            group("low", disruptionMode="PodGroup"),
            bound("low-0", "n", "low"),
            bound("low-1", "m", "low"),
        ],
        [[group("g", 3, priorityClassName="high"), *members("g", 3)]],
        ("low-0", "low-1"),
        compares_events=False,
    ),
    Case(
        "the least important go",
        PREEMPTION,
        [
            HIGH,
            priority_class("middle", 500),
            node("n", cpu="3"),
            bound("low-0", "n"),
            bound("mid-0", "n", priorityClassName="middle"),
            bound("top-0", "n", priorityClassName="high"),
        ],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "claims that the group does not list",
        CLAIMS,
        [node("n"), *one_device("n"), group("g", 2), *members("g", 2, resourceClaims=NAMED)],
        compares_events=False,
    ),
    Case(
        "claims of a group without their gate",
        GANGS,
        [
            node("n"),
            *one_device("n"),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 2, resourceClaims=NAMED),
        ],
        compares_events=False,
    ),
    Case(
        "the device is on a node without room for all",
        CLAIMS,
        [
            node("n", cpu="1"),
            *one_device("n"),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 2, resourceClaims=NAMED),
        ],
        compares_events=False,
    ),
    Case(
        "a claim that is not there yet",
        CLAIMS,
        [node("n"), group("g", 2, resourceClaims=NAMED), *members("g", 2, resourceClaims=NAMED)],
        [one_device("n")],
        compares_events=False,
    ),
]
