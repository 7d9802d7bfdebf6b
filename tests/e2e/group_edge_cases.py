"""More groups: what happens at the edges of each section of the spec; see `group_cases`."""

from __future__ import annotations

from typing import Any

from tests.e2e.group_cases import (
    ALL,
    APART,
    CLAIMS,
    GANGS,
    GROUPS,
    HIGH,
    IN_RACKS,
    NAMED,
    OWN,
    PREEMPTION,
    TOPOLOGY,
    Case,
    Data,
    Step,
    bound,
    delete,
    group,
    labelled,
    members,
    one_device,
    rack,
)
from tests.e2e.harness.objects import (
    HOSTNAME,
    ZONE,
    node,
    pod,
    pod_affinity,
    priority_class,
    spread,
)
from tests.e2e.harness.world import World

MIDDLE = priority_class("middle", 500)
GENERIC = "GenericWorkload=true"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OWN["PodDisruptionBudget"] = BUDGETS


def disabled(*plugins: str) -> list[Data]:
    """The default profile without these plugins."""
    return [{"plugins": {"multiPoint": {"disabled": [{"name": name} for name in plugins]}}}]


def member(name: str, group_name: str = "g", **more: Any) -> Data:
    made = pod(name, cpu=more.pop("cpu", "1"), **more)
    made["spec"]["schedulingGroup"] = {"podGroupName": group_name}
    return made


def open_gate(name: str) -> Step:
    return lambda world: world.patch("Pod", name, {"spec": {"schedulingGates": None}})


def gone(name: str) -> Step:
    """A group that nothing protects any more."""

    def step(world: World) -> None:
        world.api.patch(f"{GROUPS}/{name}", {"metadata": {"finalizers": None}})
        world.api.delete(f"{GROUPS}/{name}")

    return step


def grown(name: str, cpu: str) -> Step:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    status = {"status": {"capacity": room, "allocatable": room}}
    return lambda world: world.api.patch(f"/api/v1/nodes/{name}/status", status)


def relabelled(name: str, **labels: str | None) -> Step:
    return lambda world: world.patch("Node", name, {"metadata": {"labels": labels}})


def budget(name: str, app: str) -> Data:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    }


def spent(name: str) -> Step:
    """Nobody but a controller says how many may go: none."""
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1)
    status = {"disruptionsAllowed": 0, "observedGeneration": 1, **counts}
    return lambda world: world.api.patch(f"{BUDGETS}/{name}/status", {"status": status})


def made_claim(name: str) -> Step:
    """What the claim controller would write: the claim that was made of the group's template."""

    def step(world: World) -> None:
        made = [{"name": "net", "resourceClaimName": "c"}]
        body = {"status": {"resourceClaimStatuses": made}}
        world.api.patch(f"{GROUPS}/{name}/status", body)
        for it in world.pods():
            path = f"/api/v1/namespaces/default/pods/{it['metadata']['name']}/status"
            world.api.patch(path, body)

    return step


FROM_TEMPLATE = [{"name": "net", "resourceClaimTemplateName": "t"}]
OVER_HOSTS = {"topologySpreadConstraints": [spread({"app": "g"}, HOSTNAME)]}

QUEUEING = [
    Case(
        "a gate opens",
        GANGS,
        [node("n"), group("g", 2), *members("g", 2, schedulingGates=[{"name": "wait"}])],
        [open_gate("g-0"), open_gate("g-1")],
    ),
    Case(
        "a pod ends, and there is room",
        GANGS,
        [node("n", cpu="2"), bound("old-0", "n"), group("g", 2), *members("g", 2)],
        [delete("Pod", "old-0")],
    ),
    Case(
        "a node grows, and there is room",
        GANGS,
        [node("n", cpu="1"), group("g", 2), *members("g", 2)],
        [grown("n", "2")],
    ),
    Case(
        "the group goes while members wait for room",
        GANGS,
        [node("n", cpu="1"), group("g", 2), *members("g", 2)],
        [gone("g")],
        compares_events=False,
    ),
    Case(
        "the group goes and comes back",
        GANGS,
        [node("n", cpu="1"), group("g", 2), *members("g", 2)],
        [gone("g"), [group("g", 1)]],
        compares_events=False,
    ),
    Case(
        "a gang that failed loses a member that it needs",
        GANGS,
        [node("n", cpu="1"), group("g", 3), *members("g", 3)],
        [delete("Pod", "g-2")],
        compares_events=False,
    ),
    Case(
        "one of three has nowhere to go",
        GANGS,
        [
            node("n"),
            group("g", 2),
            *members("g", 2),
            member("far-0", nodeSelector={"disk": "none"}),
        ],
    ),
    Case(
        "the more important members go first",
        GANGS,
        [
            HIGH,
            node("n", cpu="2"),
            group("g", 2),
            member("low-0", schedulingGates=[{"name": "wait"}]),
            member("high-0", priorityClassName="high", schedulingGates=[{"name": "wait"}]),
            member("high-1", priorityClassName="high", schedulingGates=[{"name": "wait"}]),
        ],
        [open_gate("low-0"), open_gate("high-0"), open_gate("high-1")],
        compares_events=False,
    ),
    Case("no node at all", GANGS, [group("g", 2), *members("g", 2)], [[node("n")]]),
    Case("basic, and nobody fits", GANGS, [node("n", cpu="1"), group("g"), *members("g", 2, "2")]),
    Case(
        "basic, and the rest follows",
        GANGS,
        [node("n", cpu="1"), group("g"), *members("g", 2)],
        [[node("m", cpu="1")]],
    ),
    Case(
        "members near each other",
        GANGS,
        [
            # The emptier nodes are better: chance does not begin where there is room for one alone.
            node("a", cpu="1", labels={ZONE: "x"}),
            node("b", cpu="2", labels={ZONE: "y"}),
            node("c", cpu="2", labels={ZONE: "y"}),
            group("g", 2),
            *labelled(2, affinity=pod_affinity({"app": "g"}, ZONE)),
        ],
        compares_events=False,
    ),
    Case(
        "members spread over hosts",
        GANGS,
        [node("a"), node("b"), group("g", 4), *labelled(4, **OVER_HOSTS)],
        compares_events=False,
    ),
    Case(
        "two profiles",
        GANGS,
        [
            node("n"),
            group("g", 2),
            *members("g", 1),
            *members("g", 1, first=1, schedulerName="second"),
        ],
        profiles=[{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}],
        compares_events=False,
    ),
    Case(
        "gangs are not for this profile",
        GANGS,
        [node("n", cpu="2"), group("g", 3), *members("g", 3)],
        profiles=disabled("GangScheduling"),
    ),
]

PLACEMENT = [
    Case(
        "members run in two racks",
        TOPOLOGY,
        [
            *IN_RACKS,
            group("g", 1, **rack("rack")),
            bound("g-0", "a1", "g"),
            bound("g-1", "b1", "g"),
        ],
        [members("g", 1, first=2)],
    ),
    Case(
        "a member's node is gone",
        TOPOLOGY,
        [*IN_RACKS, group("g", 1, **rack("rack")), bound("g-0", "lost", "g")],
        [members("g", 1, first=1)],
    ),
    Case(
        "the rack with room for surplus members",
        TOPOLOGY,
        [*IN_RACKS[:3], group("g", 2, **rack("rack")), *members("g", 5)],
        compares_events=False,
    ),
    Case(
        "the rack of the group is full",
        TOPOLOGY,
        [*IN_RACKS[:3], group("g", 4, **rack("rack")), *members("g", 4)],
        [members("g", 1, first=4)],
    ),
    Case(
        "no group object in a topology without gangs",
        f"{GENERIC},TopologyAwareWorkloadScheduling=true",
        [*IN_RACKS[:2], *members("g", 1)],
    ),
    Case(
        "a topology without gangs",
        f"{GENERIC},TopologyAwareWorkloadScheduling=true",
        [*IN_RACKS[:3], group("g", 9, **rack("rack")), *members("g", 5)],
        compares_events=False,
    ),
    Case(
        "no placements for this profile",
        TOPOLOGY,
        [*IN_RACKS[:3], group("g", 7, **rack("rack")), *members("g", 7)],
        profiles=disabled("TopologyPlacementGenerator"),
    ),
    Case(
        "a rack with a tainted node",
        TOPOLOGY,
        [
            node("a1", labels={"rack": "a"}, taints=[{"key": "t", "effect": "NoSchedule"}]),
            node("a2", cpu="1", labels={"rack": "a"}),
            group("g", 2, **rack("rack")),
            *members("g", 2),
        ],
    ),
    Case(
        "members spread over the hosts of a rack",
        TOPOLOGY,
        [
            *IN_RACKS[:2],
            node("c1", labels={"rack": "c"}),
            group("g", 4, **rack("rack")),
            *labelled(4, nodeSelector={"rack": "a"}, **OVER_HOSTS),
        ],
        compares_events=False,
    ),
    Case(
        "members spread over the hosts of any rack",
        TOPOLOGY,
        [
            *IN_RACKS[:2],
            *(node(name, cpu="2", labels={"rack": "b"}) for name in ("b1", "b2")),
            group("g", 4, **rack("rack")),
            *labelled(4, **OVER_HOSTS),
        ],
        compares_events=False,
    ),
    Case(
        "members near a pod of another rack",
        TOPOLOGY,
        [
            node("a1", labels={"rack": "a", ZONE: "x"}),
            node("b1", cpu="1", labels={"rack": "b", ZONE: "x"}),
            {**bound("near-0", "b1"), "metadata": {"name": "near-0", "labels": {"app": "near"}}},
            group("g", 2, **rack("rack")),
            *members("g", 2, affinity=pod_affinity({"app": "near"}, ZONE)),
        ],
    ),
    Case(
        "members away from a pod of another rack",
        TOPOLOGY,
        [
            node("a1", labels={"rack": "a", ZONE: "x"}),
            node("b1", labels={"rack": "b", ZONE: "x"}),
            {**bound("far-0", "b1"), "metadata": {"name": "far-0", "labels": {"app": "g"}}},
            group("g", 1, **rack("rack")),
            *labelled(
                1, affinity={"podAntiAffinity": pod_affinity({"app": "g"}, ZONE)["podAffinity"]}
            ),
        ],
    ),
    Case(
        "hosts of a rack, one each",
        TOPOLOGY,
        [*IN_RACKS, group("g", 2, **rack("rack")), *labelled(2, **APART)],
    ),
    Case(
        "a label comes",
        TOPOLOGY,
        [node("n"), group("g", 2, **rack("rack")), *members("g", 2)],
        [relabelled("n", rack="a")],
    ),
]

EVICTING = [
    Case(
        "surplus members evict later",
        PREEMPTION,
        [
            *(HIGH, MIDDLE, node("n", cpu="2"), bound("low-0", "n")),
            bound("mid-0", "n", priorityClassName="middle"),
        ],
        [
            [group("g", 1, priorityClassName="high"), *members("g", 2, priorityClassName="high")],
            delete("Pod", "low-0"),
            delete("Pod", "mid-0"),
        ],
        compares_events=False,
    ),
    Case(
        "a budget is spared",
        PREEMPTION,
        [
            *(HIGH, node("n", cpu="2"), bound("free-0", "n")),
            bound("kept-0", "n", labels={"app": "kept"}),
            budget("b", "kept"),
        ],
        [spent("b"), [group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("free-0",),
        compares_events=False,
    ),
    Case(
        "a budget does not help",
        PREEMPTION,
        [
            *(HIGH, node("n", cpu="1"), bound("kept-0", "n", labels={"app": "kept"})),
            budget("b", "kept"),
        ],
        [spent("b"), [group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("kept-0",),
        compares_events=False,
    ),
    Case(
        "a single pod evicts one of a group that goes whole",
        PREEMPTION,
        [
            *(
                HIGH,
                node("n", cpu="1"),
                node("m", cpu="1"),
                group("low", disruptionMode="PodGroup"),
            ),
            bound("low-0", "n", "low"),
            bound("low-1", "m", "low"),
        ],
        [[pod("top-0", cpu="1", priorityClassName="high", nodeSelector={HOSTNAME: "n"})]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "a lone pod goes before one of a group",
        PREEMPTION,
        [
            *(HIGH, node("n", cpu="2"), group("low", disruptionMode="PodGroup")),
            bound("low-0", "n", "low"),
            bound("lone-0", "n"),
        ],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("lone-0",),
        compares_events=False,
    ),
    Case(
        "the larger group stays",
        PREEMPTION,
        [
            *(HIGH, node("n", cpu="3")),
            *(group(name, disruptionMode="PodGroup") for name in ("two", "one")),
            *(bound(f"two-{number}", "n", "two") for number in range(2)),
            bound("one-0", "n", "one"),
        ],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("one-0",),
        compares_events=False,
    ),
    Case(
        "only as many as needed",
        PREEMPTION,
        [
            *(HIGH, MIDDLE, node("n", cpu="3"), group("low")),
            *(bound(f"low-{number}", "n", "low") for number in range(2)),
            bound("mid-0", "n", priorityClassName="middle"),
        ],
        [[group("g", 2, priorityClassName="high"), *members("g", 2)]],
        ("low-0", "low-1"),
        compares_events=False,
    ),
    Case(
        "a group's priority protects its pods",
        PREEMPTION,
        [
            *(HIGH, MIDDLE, node("n", cpu="1")),
            group("low", disruptionMode="PodGroup", priorityClassName="high"),
            bound("low-0", "n", "low"),
        ],
        [[group("g", 1, priorityClassName="middle"), *members("g", 1)]],
    ),
    Case(
        "the priority of its pods does not protect a group",
        PREEMPTION,
        [
            *(HIGH, MIDDLE, node("n", cpu="1"), group("top", disruptionMode="PodGroup")),
            bound("top-0", "n", "top", priorityClassName="high"),
        ],
        [[group("g", 1, priorityClassName="middle"), *members("g", 1)]],
        ("top-0",),
        compares_events=False,
    ),
    Case(
        "nobody evicts in this profile",
        PREEMPTION,
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        profiles=disabled("DefaultPreemption"),
    ),
    Case(
        "one has a place, the other evicts",
        PREEMPTION,
        [HIGH, node("n", cpu="2"), bound("low-0", "n")],
        [[group("g", 2, priorityClassName="high"), *members("g", 2)]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "a basic group evicts",
        PREEMPTION,
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g", priorityClassName="high"), *members("g", 2, priorityClassName="high")]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "evictions while the group waits",
        f"{PREEMPTION},SchedulerAsyncPreemption=false",
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "evictions under way",
        PREEMPTION,
        [HIGH, node("n", cpu="2"), *(bound(f"low-{number}", "n") for number in range(2))],
        [[group("g", 2, priorityClassName="high"), *members("g", 2)]],
        compares_events=False,
    ),
    Case(
        "without a constraint, with all gates",
        ALL,
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g", 1, priorityClassName="high"), *members("g", 1)]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "members of a basic group evict",
        GANGS,
        [HIGH, node("n", cpu="1"), bound("low-0", "n")],
        [[group("g"), *members("g", 1, priorityClassName="high")]],
        ("low-0",),
        compares_events=False,
    ),
    Case(
        "a mode without its gate",
        GANGS,
        [
            *(
                HIGH,
                node("n", cpu="1"),
                node("m", cpu="1"),
                group("low", disruptionMode="PodGroup"),
            ),
            bound("low-0", "n", "low"),
            bound("low-1", "m", "low"),
        ],
        [[group("g", 1), member("top-0", nodeSelector={HOSTNAME: "n"}, priorityClassName="high")]],
        ("low-0",),
        compares_events=False,
    ),
]

SHARED = [
    Case(
        "a claim of another name",
        CLAIMS,
        [
            node("n"),
            *one_device("n"),
            group("g", 2, resourceClaims=[{"name": "other", "resourceClaimName": "c"}]),
            *members("g", 2, resourceClaims=NAMED),
        ],
        compares_events=False,
    ),
    Case(
        "a claim of the group's template",
        CLAIMS,
        [
            node("n"),
            *one_device("n"),
            group("g", 2, resourceClaims=FROM_TEMPLATE),
            *members("g", 2, resourceClaims=FROM_TEMPLATE),
        ],
        [made_claim("g")],
        compares_events=False,
    ),
    Case(
        "a later member goes where the device is",
        CLAIMS,
        [
            *(node("n", cpu="3"), *one_device("n")),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 2, resourceClaims=NAMED),
        ],
        [[node("m")], members("g", 1, first=2, resourceClaims=NAMED)],
        compares_events=False,
    ),
    Case(
        "a later member finds the node of the device full",
        CLAIMS,
        [
            *(node("n", cpu="2"), *one_device("n")),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 2, resourceClaims=NAMED),
        ],
        [[node("m")], members("g", 1, first=2, resourceClaims=NAMED)],
        compares_events=False,
    ),
    Case(
        "a member with a claim, another without",
        CLAIMS,
        [
            *(node("n", cpu="1"), node("m", cpu="1"), *one_device("n")),
            group("g", 2, resourceClaims=NAMED),
            *members("g", 1, resourceClaims=NAMED),
            member("free-0"),
        ],
        compares_events=False,
    ),
]

EDGE_CASES = [*QUEUEING, *PLACEMENT, *EVICTING, *SHARED]
