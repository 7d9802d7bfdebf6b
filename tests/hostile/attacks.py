"""What a user may create beside others' pods, as JSON for a real API server.

Each attack is some pods, often large ones (`large_objects`), with what they need around them; some
also do something over and over while others wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.e2e.harness.objects import COLLECTIONS, HOSTNAME, ZONE, node, pod, priority_class
from tests.hostile.large_objects import PODS

Json = dict[str, Any]

HOSTILE = "hostile"
"""The namespace of the attacker."""

NODES = 60


@dataclass(frozen=True)
class Attack:
    copies: int = 0
    pod: Callable[[int], Json] = pod
    """The pod of a number; its name and namespace are seen to."""
    node: Json = field(default_factory=dict)
    """Laid over each node: what an attacker alone cannot bring about."""
    objects: Callable[[], list[tuple[str, Json]]] = list
    """Collections, and what is created in them before."""
    patched: Callable[[int], Json] | None = None
    """Sent to the first pod again and again."""

    def pods(self) -> list[Json]:
        made = []
        for number in range(self.copies):
            one = self.pod(number)
            one["metadata"].update(name=f"hostile-{number}", namespace=HOSTILE)
            made.append(one)
        return made

    def nodes(self) -> list[Json]:
        made = []
        for number in range(NODES):
            one = node(f"node-{number}", cpu="64", labels={ZONE: f"zone-{number % 3}"})
            one["metadata"]["labels"].update(self.node.get("labels", {}))
            one["spec"].update(self.node.get("spec", {}))
            one["status"].update(self.node.get("status", {}))
            made.append(one)
        return made


def _large(shape: str, size: int, number: int) -> Json:
    """As in `large_objects`: a pod of its own kind for each number."""
    large = PODS[shape](size, number)
    made = pod("", labels={"app": "x", **large.labels}, **large.spec)
    made["metadata"].update(large.metadata)
    return made


def _container(**fields: Any) -> Callable[[int], Json]:
    def make(number: int) -> Json:
        made = pod("", labels={"app": "x"})
        made["spec"]["containers"][0].update(fields)
        return made

    return make


def _containers(stanza: str, count: int) -> Callable[[int], Json]:
    def make(number: int) -> Json:
        few = {"requests": {"cpu": "1m"}}
        those = [{"name": f"c-{n}", "image": f"i-{n}", "resources": few} for n in range(count)]
        made = pod("")
        made["spec"][stanza] = those
        return made

    return make


def _resources(count: int) -> Callable[[int], Json]:
    amounts = {f"example.com/r-{n}": "1" for n in range(count)}
    return _container(resources={"requests": amounts, "limits": amounts})


def _labelled_terms(count: int) -> Callable[[int], Json]:
    """Terms that take the values of labels in: the API server writes those into each term."""

    def make(number: int) -> Json:
        labels = {f"label-{n}": f"v-{number}" for n in range(count)}
        term = {
            "topologyKey": HOSTNAME,
            "labelSelector": {"matchLabels": {"app": "x"}},
            "matchLabelKeys": list(labels),
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return pod("", labels=labels | {"app": "x"}, affinity={"podAntiAffinity": required})

    return make


def _claiming(count: int) -> Callable[[int], Json]:
    def make(number: int) -> Json:
        claims = [{"name": f"c-{n}", "resourceClaimName": f"claim-{n}"} for n in range(count)]
        return pod("", resourceClaims=claims)

    return make


def _classes() -> list[tuple[str, Json]]:
    path = COLLECTIONS["PriorityClass"]
    return [(path, priority_class(f"hostile-{n}", 1000 + n)) for n in range(200)]


def _relabelled(number: int) -> Json:
    return {"metadata": {"labels": {f"label-{n}": f"v-{number}" for n in range(500)}}}


ATTACKS: dict[str, Attack] = {
    "no hostile pods": Attack(),
    "1,000 spread constraints of distinct keys": Attack(
        1, partial(_large, "DoNotSchedule of distinct keys", 1000)
    ),
    "2 pods, 1,000 preferred terms, NotIn, everywhere": Attack(
        2, partial(_large, "preferred podAffinity that match everybody", 1000)
    ),
    "30 pods, 1,000 anti-affinity terms": Attack(
        30, partial(_large, "podAntiAffinity that match nobody", 1000)
    ),
    "30 pods, 1,000 anti-affinity terms of distinct keys": Attack(
        30, partial(_large, "podAntiAffinity of distinct keys", 1000)
    ),
    "20 pods, 1,000 node terms of ten expressions": Attack(
        20, partial(_large, "node terms ten expressions each", 10_000)
    ),
    "20 pods, 1,000 preferred node terms": Attack(
        20, partial(_large, "node preferences of distinct keys", 1000)
    ),
    "20 pods, an In list of 20,000 values": Attack(
        20, partial(_large, "node terms one that allows many values", 20_000)
    ),
    "20 pods, an affinity term of 5,000 namespaces": Attack(
        20, partial(_large, "podAffinity one of many namespaces", 5000)
    ),
    "20 pods, 1,000 constraints of distinct selectors": Attack(
        20, partial(_large, "ScheduleAnyway of distinct keys", 1000)
    ),
    "20 pods, 5,000 resources": Attack(20, _resources(5000)),
    "20 pods, 5,000 tolerations": Attack(20, partial(_large, "tolerations", 5000)),
    "20 pods, 10,000 labels": Attack(20, partial(_large, "labels", 10_000)),
    "20 pods, 8,000 annotations": Attack(20, partial(_large, "annotations", 8000)),
    "20 pods, a node selector of 10,000 keys": Attack(20, partial(_large, "node selector", 10_000)),
    "20 pods, 1,000 containers": Attack(20, _containers("containers", 1000)),
    "20 pods, 1,000 init containers": Attack(20, _containers("initContainers", 1000)),
    "20 pods, 10,000 host ports": Attack(
        20,
        _container(
            ports=[
                {"containerPort": n + 1, "hostPort": n + 1, "name": f"p-{n}"} for n in range(10_000)
            ]
        ),
    ),
    "20 pods, 3,000 volumes": Attack(20, partial(_large, "config maps", 3000)),
    "20 pods, 3,000 claims that do not exist": Attack(20, partial(_large, "missing claims", 3000)),
    "20 pods, 3,000 disks": Attack(20, partial(_large, "gce disks", 3000)),
    "20 pods, 3,000 device claims": Attack(20, _claiming(3000)),
    "20 pods, 5,000 scheduling gates": Attack(20, partial(_large, "gates", 5000)),
    "20 pods, 1,000 matchLabelKeys": Attack(20, _labelled_terms(1000)),
    "20 pods, 10,000 variables": Attack(
        20, _container(env=[{"name": f"V{n}", "value": "x" * 50} for n in range(10_000)])
    ),
    "200 pods of distinct priority, too large": Attack(
        200,
        lambda n: pod("", cpu="1000", priorityClassName=f"hostile-{n}"),
        objects=_classes,
    ),
    "1,000 pods that fit nowhere": Attack(1000, lambda n: pod("", cpu=str(1000 + n))),
    "labels of one pod patched in a storm": Attack(
        1, lambda n: pod("", cpu="1000"), patched=_relabelled
    ),
    "nodes with 2,000 labels": Attack(
        20,
        partial(_large, "node preferences of distinct keys", 1000),
        node={"labels": {f"key-{n}": f"v-{n}" for n in range(2000)}},
    ),
    "nodes with 1,000 taints": Attack(
        20,
        partial(_large, "tolerations", 1000),
        node={
            "spec": {
                "taints": [{"key": f"taint-{n}", "effect": "PreferNoSchedule"} for n in range(1000)]
            }
        },
    ),
    "nodes with 2,000 images": Attack(
        20,
        _containers("containers", 500),
        node={
            "status": {"images": [{"names": [f"i-{n}"], "sizeBytes": 10**8} for n in range(2000)]}
        },
    ),
}
