"""A hint registered as `by_kind` cannot tell replicas apart, unless the event is about one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import msgspec

from stowplan.framework.events import Action, ClusterEvent, HintFunction, Resource
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod
from tests.deciding import Deciding

GPU = {"key": "gpu", "value": "", "effect": "NoSchedule"}

NODES = [
    node("small", cpu="1"),
    node("large", cpu="64", labels={"zone": "a"}),
    node("tainted", cpu="64", taints=[GPU]),
    node("cordoned", cpu="64", unschedulable=True),
]
RUNNING = [
    pod("other", cpu="2", node="large"),
    pod("less", cpu="1", node="large", metadata={"uid": "uid-of-less"}),
    pod("more", cpu="3", node="large", metadata={"uid": "uid-of-less"}),
    pod("nowhere", cpu="2"),
    pod(
        "web",
        node="large",
        spec={"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
    ),
]
KINDS: list[dict[str, Any]] = [
    {"cpu": "2"},
    {"cpu": "2", "spec": {"tolerations": [{"operator": "Exists"}]}},
    {"spec": {"nodeSelector": {"zone": "a"}}},
    {"spec": {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}},
]


def by_kind_hints() -> Iterator[tuple[str, ClusterEvent, HintFunction]]:
    plugins = Deciding([], random=Random(0)).framework_of(PodInfo(pod())).plugins
    for name, plugin in plugins.instances.items():
        for entry in plugin.events_to_register() if hasattr(plugin, "events_to_register") else ():
            if entry.by_kind:
                assert entry.hint is not None
                yield name, entry.event, entry.hint


def changes(event: ClusterEvent) -> list[tuple[Any, Any]]:
    """(old, new) as the event may bring them."""
    objects: list[Any] = NODES if event.resource == Resource.NODE else RUNNING
    pairs: list[tuple[Any, Any]] = []
    if event.action & Action.ADD:
        pairs += [(None, new) for new in objects]
    if event.action & Action.DELETE:
        pairs += [(old, None) for old in objects]
    if event.action & Action.UPDATE:
        pairs += list(product(objects, objects))
    return pairs


def replica(of: Pod) -> Pod:
    """Another pod of the same kind, as different from it as replicas can be."""
    metadata = msgspec.structs.replace(
        of.metadata, name="twin", uid="uid-of-twin", annotations={"a": "b"}, resource_version="7"
    )
    status = msgspec.structs.replace(of.status, nominated_node_name="large", phase="Running")
    return msgspec.structs.replace(of, metadata=metadata, status=status)


def test_replicas_get_the_same_answer() -> None:
    asked, answers = set(), set()
    for name, event, hint in by_kind_hints():
        for kind, (old, new) in product(KINDS, changes(event)):
            one = pod("one", **kind)
            twin = replica(one)
            assert PodInfo(one).kind is PodInfo(twin).kind
            answer = hint(one, old, new)
            assert hint(twin, old, new) == answer, f"{name} on {event.label}: {old} -> {new}"
            asked.add((name, event.resource))
            answers.add((name, event.resource, answer))
    assert {("NodeResourcesFit", "Pod"), ("NodeResourcesFit", "Node")} <= asked
    assert {("DefaultPreemption", "Pod"), ("TaintToleration", "Node")} <= asked
    decided = len(answers) - len(asked)
    assert decided == len(asked) - 1, "all but DefaultPreemption's say yes to some and no to others"
