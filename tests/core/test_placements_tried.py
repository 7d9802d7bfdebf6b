"""Placements are left out that cannot take a group: no outcome may depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.placements import PlacementChoice
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from tests.builders import node, pod, pod_group
from tests.core.group_world import TOPOLOGY, GroupWorld
from tests.plugins.device_objects import claim, device_class, devices, request, resource_slice

HOST, ZONE = "kubernetes.io/hostname", "zone"
LABELS = {"app": "g"}


def apart(key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": key}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


PORT = {"containerPort": 80, "hostPort": 80}
SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "team", "operator": "Exists"}]},
    apart(HOST),
    apart(ZONE),
    {"containers": [{"name": "main", "image": "app", "ports": [PORT]}]},
]


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for number in range(draw(st.integers(1, 9))):
        labels = {"rack": f"r{draw(st.integers(0, 2))}"}
        labels |= draw(st.sampled_from([{}, {"disk": "ssd"}]))
        labels |= draw(st.sampled_from([{}, {ZONE: "a"}, {ZONE: "b"}]))
        taints = draw(
            st.sampled_from([[], [{"key": "team", "value": "x", "effect": "NoSchedule"}]])
        )
        cordoned = draw(st.booleans()) and draw(st.booleans())
        cpu = draw(st.integers(1, 3))
        found.append(
            node(f"n{number}", cpu=cpu, labels=labels, taints=taints, unschedulable=cordoned)
        )
    return found


@st.composite
def gangs(draw: st.DrawFn) -> tuple[list[Pod], int]:
    count = draw(st.integers(1, 5))
    specs = st.sampled_from(draw(st.lists(st.sampled_from(SPECS), min_size=1, max_size=2)))
    members = [
        pod(f"g-{n}", group="g", cpu=1, labels=LABELS, spec={"priority": 0, **draw(specs)})
        for n in range(count)
    ]
    return members, draw(st.integers(1, count))


def outcome(cluster: Sequence[KubeObject], members: list[Pod], min_count: int) -> Any:
    group = pod_group("g", min_count=min_count, topology="rack")
    world = GroupWorld(*cluster, group, gates=TOPOLOGY)
    world.add(*members).run(3.0)
    return world.nodes(), world.condition("g")


def assert_nothing_changes(cluster: Sequence[KubeObject], gang: tuple[list[Pod], int]) -> None:
    shortened = outcome(cluster, *gang)
    with (
        patch.object(PlacementChoice, "_large_enough", lambda self, placements: placements),
        patch.object(PlacementChoice, "learn", lambda self, tried: None),
    ):
        assert outcome(cluster, *gang) == shortened


@settings(max_examples=150, deadline=None)
@given(nodes(), gangs())
def test_leaving_placements_out_changes_nothing(
    nodes: list[Node], gang: tuple[list[Pod], int]
) -> None:
    assert_nothing_changes(nodes, gang)


SHARED = [{"name": "shared-0", "allowMultipleAllocations": True}]
ASKS: list[list[dict[str, Any]]] = [
    [request()],
    [request(count=2)],
    [request("a"), request("b")],
    [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}],
    [
        {
            "name": "r",
            "firstAvailable": [
                {"name": "two", "deviceClassName": "gpu", "count": 2},
                {"name": "one", "deviceClassName": "gpu", "count": 1},
            ],
        }
    ],
]


@st.composite
def with_devices(draw: st.DrawFn) -> tuple[list[KubeObject], tuple[list[Pod], int]]:
    """Some devices are everybody's, some can be shared; members have claims of their own or not."""
    cluster: list[KubeObject] = [device_class()]
    for number in range(draw(st.integers(1, 6))):
        name = f"n{number}"
        cluster.append(node(name, cpu=2, labels={"rack": f"r{draw(st.integers(0, 2))}"}))
        offered = draw(st.sampled_from([SHARED, *(devices(count) for count in range(4))]))
        cluster.append(resource_slice(name, offered))
    if draw(st.booleans()):
        cluster.append(resource_slice("network", devices(draw(st.integers(1, 2))), allNodes=True))
    count, members = draw(st.integers(1, 4)), []
    asks = st.sampled_from(draw(st.lists(st.sampled_from(ASKS), min_size=1, max_size=2)))
    for number in range(count):
        names = draw(
            st.sampled_from([[f"c{number}"], [f"c{number}"], ["c0"], [f"c{number}", "c0"]])
        )
        named = [{"name": f"r{n}", "resourceClaimName": it} for n, it in enumerate(names)]
        spec = {"priority": 0, "resourceClaims": named}
        members.append(pod(f"g-{number}", group="g", cpu=1, spec=spec))
        cluster.append(claim(f"c{number}", *draw(asks)))
    return cluster, (members, draw(st.integers(1, count)))


@settings(max_examples=150, deadline=None)
@given(with_devices())
def test_nor_where_devices_are_counted(
    drawn: tuple[list[KubeObject], tuple[list[Pod], int]],
) -> None:
    assert_nothing_changes(*drawn)
