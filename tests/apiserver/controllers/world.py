"""A cluster with controllers and a kubelet, and a scheduler of one line: any node will do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.apiserver.controllers import Controllers
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions, Watch, WatchEvent, WatchHandlers
from stowplan.objects.api import Bind
from stowplan.objects.kinds import EVENT, POD, Kind
from stowplan.objects.pod import Pod
from tests.apiserver.things import START_S, create, create_node, data, names

Data = dict[str, Any]

TICK_S = 1.0


class Lagging(GroupedStore):
    """A cluster whose watches are behind, as watches of real ones are."""

    def __init__(self, store: Store, clock: VirtualClock, lag_s: float) -> None:
        super().__init__(store, lambda act: clock.at(0.0, act))
        self._clock = clock
        self._lag_s = lag_s

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        if not self._lag_s:
            return super().watch(kind, options, resource_version, handlers)

        def later(events: list[WatchEvent]) -> None:
            self._clock.at(self._lag_s, lambda: handlers.on_events(events))

        late = WatchHandlers(later, handlers.on_end)
        return super().watch(kind, options, resource_version, late)


class World:
    """Everything happens in `run`."""

    def __init__(
        self, *, binds: bool = True, lag_s: float = 0.0, gates: frozenset[str] = frozenset()
    ) -> None:
        """`lag_s`: how long changes take to come through a watch; `gates`: those that are on."""
        self.clock = VirtualClock(START_S)
        self.store = Store(self.clock, gates=gates)
        cluster = Lagging(self.store, self.clock, lag_s)
        later, random = self.clock.at, Random(1)
        self.controllers = Controllers(
            cluster, clock=self.clock, call_later=later, random=random, gates=gates
        )
        self.kubelet = Kubelet(
            cluster, clock=self.clock, call_later=later, random=random, detailed=True
        )
        self._turn = 0
        self.nodes: list[str] = []
        self.seen: list[tuple[str, str]] = []
        """What happened to pods, in order."""
        if binds:
            self.store.watch(POD, ListOptions(), "", WatchHandlers(self._bind, lambda error: None))
        for number in (1, 2, 3):
            self.add_node(f"n{number}")
        self.controllers.start()
        self.kubelet.start()

    def add_node(self, name: str, **labels: str) -> None:
        create_node(self.store, name, **labels)
        self.nodes.append(name)

    def _bind(self, events: list[WatchEvent]) -> None:
        for event in events:
            pod = event.object
            assert isinstance(pod, Pod)
            if event.type in ("ADDED", "DELETED"):
                self.seen.append((event.type, pod.name))
            if event.type == "ADDED" and not pod.spec.node_name:
                self._turn += 1
                self.clock.at(0.0, lambda pod=pod, turn=self._turn: self._place(pod, turn))

    def _place(self, pod: Pod, turn: int) -> None:
        if pod.name in names(self.store, POD, namespace=pod.namespace):
            node = _pinned(pod) or self.nodes[turn % len(self.nodes)]
            self.store.execute(Bind(pod.namespace, pod.name, pod.uid, node))

    def run(self, seconds: float = TICK_S) -> None:
        self.clock.advance(seconds)

    def create(self, kind: Kind, body: Data) -> Any:
        made = create(self.store, kind, body)
        self.run()
        return made

    def get(self, kind: Kind, name: str) -> Data:
        return data(self.store, kind, name)

    def status(self, kind: Kind, name: str) -> Data:
        found: Data = self.get(kind, name).get("status", {})
        return found

    def pods(self, **options: str) -> list[Data]:
        found = names(self.store, POD, namespace="default", **options)
        return [data(self.store, POD, name) for name in found]

    def pod_names(self) -> list[str]:
        return names(self.store, POD, namespace="default")

    def events(self, reason: str) -> list[str]:
        found = [data(self.store, EVENT, name) for name in names(self.store, EVENT)]
        return [event["note"] for event in found if event["reason"] == reason]


def _pinned(pod: Pod) -> str:
    """The node that a pod of a DaemonSet is made for."""
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    required = node.required if node is not None else None
    for term in required.node_selector_terms or () if required else ():
        for field in term.match_fields or ():
            return (field.values or [""])[0]
    return ""


def workload(name: str = "web", replicas: int | None = None, **spec: Any) -> Data:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    counted = {} if replicas is None else {"replicas": replicas}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **counted, **spec},
    }


def job(name: str = "job", annotations: dict[str, str] | None = None, **spec: Any) -> Data:
    template: Data = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]},
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


@pytest.fixture
def world() -> World:
    return World()
