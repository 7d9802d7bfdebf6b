"""What tests do to a cluster and ask of it: add nodes and pods, wait, read events, clean up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tests.e2e.harness.api import Api, Refused, in_parallel
from tests.e2e.harness.cluster import Cluster
from tests.e2e.harness.objects import COLLECTIONS, NAMESPACE, path_of
from tests.e2e.harness.processes import POLL_S, eventually
from tests.e2e.harness.scheduler import Scheduler

Data = dict[str, Any]

SWEPT = ("Pod", "PersistentVolumeClaim", "PersistentVolume", "Node", "StorageClass", "Event")
"""What tests leave behind, in the order in which it goes."""


class World:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api()
        self.schedulers: list[Scheduler] = []

    # -- writing ----------------------------------------------------------------------------

    def create(self, *objects: Data) -> list[Data]:
        """As they are stored; many at a time if there are many."""
        if len(objects) > 20:
            return in_parallel(self._create, objects)
        return [self._create(it) for it in objects]

    def _create(self, it: Data) -> Data:
        return self.api.post(COLLECTIONS[it["kind"]], it)

    def add_nodes(self, *nodes: Data) -> None:
        """And wait until every scheduler knows them, so that what comes next is no race."""
        before = len(self.api.items(COLLECTIONS["Node"]))
        self.create(*nodes)
        self._wait_for_cache("nodes", before + len(nodes))

    def delete(self, kind: str, name: str) -> None:
        """At once, as a kubelet's last word on a pod is."""
        self.api.delete(path_of(kind, name), gracePeriodSeconds="0")

    def patch(self, kind: str, name: str, body: Data) -> Data:
        return self.api.patch(path_of(kind, name), body)

    def sweep(self) -> None:
        for kind in SWEPT:
            self.api.delete(COLLECTIONS[kind], gracePeriodSeconds="0")
        for it in self.api.items(COLLECTIONS["PriorityClass"]):
            if not it["metadata"]["name"].startswith("system-"):
                self.delete("PriorityClass", it["metadata"]["name"])
        self._wait_for_cache("pods", 0)
        self._wait_for_cache("nodes", 0)

    def _wait_for_cache(self, what: str, count: int) -> None:
        for scheduler in self.schedulers:
            if scheduler.process.exit_code is None:
                eventually(
                    f"{scheduler.name} has {count} {what} in its cache",
                    lambda it=scheduler: it.metric("scheduler_cache_size", {"type": what}) == count,
                    must_live=scheduler.process,
                )

    # -- reading ----------------------------------------------------------------------------

    def get(self, kind: str, name: str) -> Data:
        return self.api.get(path_of(kind, name))

    def exists(self, kind: str, name: str) -> bool:
        try:
            self.get(kind, name)
        except Refused as refusal:
            if refusal.code != 404:
                raise
            return False
        return True

    def pods(self) -> list[Data]:
        return self.api.items(COLLECTIONS["Pod"])

    def node_of(self, pod: str) -> str:
        name: str = self.get("Pod", pod)["spec"].get("nodeName", "")
        return name

    def condition(self, pod: str, kind: str = "PodScheduled") -> Data:
        found = self.get("Pod", pod).get("status", {}).get("conditions", [])
        return next((it for it in found if it["type"] == kind), {})

    def events(self, pod: str, reason: str) -> list[Data]:
        uid = self.get("Pod", pod)["metadata"]["uid"]
        return [
            it
            for it in self.api.items(COLLECTIONS["Event"])
            if it["reason"] == reason and it["regarding"]["uid"] == uid
        ]

    # -- waiting ----------------------------------------------------------------------------

    def until(self, what: str, check: Any, timeout_s: float = 20.0, poll_s: float = POLL_S) -> Any:
        logs = [scheduler.process for scheduler in self.schedulers]
        return eventually(what, check, timeout_s=timeout_s, poll_s=poll_s, watching=logs)

    def until_bound(self, *pods: str, timeout_s: float = 20.0) -> dict[str, str]:
        """The node of each."""

        def nodes() -> dict[str, str] | None:
            found = {pod: self.node_of(pod) for pod in pods}
            return found if all(found.values()) else None

        what = f"{', '.join(pods)} bound"
        bound: dict[str, str] = self.until(what, nodes, timeout_s)
        return bound

    def until_rejected(self, pod: str) -> Data:
        """The condition that says why no node takes it."""

        def rejected() -> Data | None:
            condition = self.condition(pod)
            return condition if condition.get("status") == "False" else None

        condition: Data = self.until(f"{pod} has a condition that says why it waits", rejected)
        return condition

    def until_event(self, pod: str, reason: str) -> Data:
        found: list[Data] = self.until(f"{pod}: event {reason}", lambda: self.events(pod, reason))
        return found[0]


def overcommitted(nodes: Iterable[Data], pods: Iterable[Data]) -> dict[str, str]:
    """Nodes that were given more than they have, and of what."""
    pods_of: dict[str, list[Data]] = defaultdict(list)
    for pod in pods:
        pods_of[pod["spec"].get("nodeName", "")].append(pod)
    found = {}
    for node in nodes:
        name, room = node["metadata"]["name"], node["status"]["allocatable"]
        there = pods_of[name]
        cpu = sum((_cpu(pod) for pod in there), Decimal(0))
        if cpu > _amount(room["cpu"]) or len(there) > int(room["pods"]):
            found[name] = f"{len(there)} pods with {cpu} cpu on {room}"
    return found


def _cpu(pod: Data) -> Decimal:
    containers = pod["spec"]["containers"]
    return sum((_amount(it["resources"]["requests"]["cpu"]) for it in containers), Decimal(0))


def _amount(text: str) -> Decimal:
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


__all__ = ["NAMESPACE", "World", "overcommitted"]
