"""A plugin that reads more than it says it does is caught, whichever of the shipped ones it is.

Each is first asked as it is, and passes; then with a declaration that says too little, or with a
method that reads one thing more.
"""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config import default_args
from stowplan.framework.plugin import make_plugin
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP
from stowplan.framework.testing import ReadsMore, ask_everything
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.plugins import IN_TREE
from stowplan.state.pod_info import PodInfo
from tests.builders import World, node, pod
from tests.plugins.device_objects import device_class, devices, resource_slice
from tests.plugins.volume_objects import DRIVER, claim, csi_node, volume

DECLARED = sorted(name for name, plugin in IN_TREE.items() if hasattr(plugin, "reads"))
LOCAL = [name for name in DECLARED if Reads.CLUSTER not in IN_TREE[name].reads]  # type: ignore[attr-defined]
HOST = "kubernetes.io/hostname"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}


def world() -> World:
    taint = {"key": "odd", "effect": "PreferNoSchedule"}
    image = {"names": ["app:latest"], "sizeBytes": 500_000_000}
    nodes = [
        node("node-1", labels={"zone": "a"}, taints=[taint], status={"images": [image]}),
        node("node-2", unschedulable=True),
    ]
    running = pod("running", labels={"app": "web"}, node="node-1", cpu="1", spec=_ports())
    stored = (claim("c", volume="v"), volume("v", handle="h"), csi_node("node-1", {DRIVER: 1}))
    return World(*nodes, running, *stored)


def _ports() -> dict[str, Any]:
    port = {"containerPort": 80, "hostPort": 80}
    return {"containers": [{"name": "main", "image": "app", "ports": [port]}]}


def asked() -> PodInfo:
    """A pod about which every plugin has something to say."""
    preferred = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    ]
    terms = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {
        **_ports(),
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
            "podAntiAffinity": {terms: [WEB]},
        },
        "topologySpreadConstraints": [
            {**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            {**WEB, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "hostNetwork": True,
        "hostUsers": False,
    }
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return PodInfo(pod("asked", labels={"app": "web"}, spec=spec))


GPU = "example.com/gpu"


def world_with_gpus() -> World:
    every = (device_class(extendedResourceName=GPU), resource_slice("node-1", devices(2)))
    return World(node("node-1"), node("node-2"), *every)


def wants_gpus(count: int) -> PodInfo:
    return PodInfo(pod("wants", requests={"cpu": "1", GPU: str(count)}))


def ask(plugin: type) -> None:
    args = default_args(plugin.name)  # type: ignore[attr-defined]
    ask_everything(plugin, args, world().handle, asked())
    for count in (0, 2):
        ask_everything(plugin, args, world_with_gpus().handle, wants_gpus(count))


@pytest.mark.parametrize("name", DECLARED)
def test_as_it_is_it_reads_no_more_than_it_says(name: str) -> None:
    ask(IN_TREE[name])


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("NodePorts", Reads.NODE),
        ("NodeResourcesFit", Reads.NODE | Reads.SIZE),
        ("NodeResourcesFit", Reads.SUMS),
        ("NodeResourcesBalancedAllocation", Reads.NODE | Reads.SIZE),
        ("NodeResourcesBalancedAllocation", Reads.SUMS),
        ("PodTopologySpread", Reads.SUMS),
        ("InterPodAffinity", Reads.SUMS),
        ("NodeVolumeLimits", Reads.PODS),
        ("VolumeBinding", Reads.PODS),
        ("VolumeRestrictions", Reads.PODS),
        ("VolumeZone", Reads.PODS),
        ("DynamicResources", Reads.CLUSTER),
    ],
)
def test_a_declaration_that_says_too_little_is_caught(name: str, reads: Reads) -> None:
    with pytest.raises(ReadsMore):
        ask(type("Planted", (IN_TREE[name],), {"reads": reads}))


def reads_requested(cycle: Any, pod: Any, info: Any) -> Any:
    return info.requested


def reads_pods(cycle: Any, pod: Any, info: Any) -> Any:
    return info.pods.values()


def reads_size(cycle: Any, pod: Any, info: Any) -> Any:
    return pod.kind.requests


def reads_size_in_the_spec(cycle: Any, pod: Any, info: Any) -> Any:
    return pod.pod.spec.containers[0].resources


def reads_annotations(cycle: Any, pod: Any, info: Any) -> Any:
    return pod.pod.metadata.annotations


def reads_the_name(cycle: Any, pod: Any, info: Any) -> Any:
    return pod.key


def reads_objects(cycle: Any, pod: Any, info: Any) -> Any:
    return cycle.handle.objects.all(PersistentVolumeClaim)


def planted(name: str, more: Any) -> type:
    """The plugin, with a method that reads one thing more."""
    plugin = IN_TREE[name]
    methods = ("filter_node", "score_node") if name in LOCAL else ("pre_filter",)
    method = next(m for m in methods if hasattr(plugin, m))

    def ask_more(self: Any, cycle: Any, pod: Any, *info: Any) -> Any:
        more(cycle, pod, *info or (None,))
        return getattr(plugin, method)(self, cycle, pod, *info)

    return type("Planted", (plugin,), {method: ask_more})


PLANTED = [
    *((name, reads_requested) for name in LOCAL if Reads.SUMS not in IN_TREE[name].reads),  # type: ignore[attr-defined]
    *((name, reads_pods) for name in LOCAL),
    *((name, reads_objects) for name in LOCAL),
    *((name, reads_annotations) for name in LOCAL),
    *((name, reads_the_name) for name in LOCAL),
    *((name, reads_size) for name in DECLARED if Reads.SIZE not in IN_TREE[name].reads),  # type: ignore[attr-defined]
    *((name, reads_size_in_the_spec) for name in DECLARED if Reads.SIZE not in IN_TREE[name].reads),  # type: ignore[attr-defined]
]


SKIPPING = [name for name in DECLARED if hasattr(IN_TREE[name], "skips_any_size")]


@pytest.mark.parametrize("name", SKIPPING)
@pytest.mark.parametrize("more", [reads_size, reads_size_in_the_spec])
def test_who_skips_pods_of_any_size_does_not_look_at_that_first(name: str, more: Any) -> None:
    with pytest.raises(ReadsMore):
        ask(planted(name, more))


def test_pods_like_one_that_wants_none_of_a_resource_may_want_some() -> None:
    assert wants_gpus(0).kind.traits is wants_gpus(1).kind.traits
    plugin = make_plugin(IN_TREE["DynamicResources"], None, (world := world_with_gpus()).handle)
    assert plugin.pre_filter(world.cycle(), wants_gpus(0)) == SKIP
    assert plugin.pre_filter(world.cycle(), wants_gpus(1)) is None


@pytest.mark.parametrize(("name", "more"), PLANTED)
def test_a_method_that_reads_more_is_caught(name: str, more: Any) -> None:
    with pytest.raises(ReadsMore):
        ask(planted(name, more))
