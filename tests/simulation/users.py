"""Everybody else who works on the cluster: people, autoscalers, other schedulers.

Each `act` does one thing, drawn from the seed.  What they do to a node that may leave it with more
pods than it has room for is noted in `Bindings.excuse`: that is not the scheduler's doing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.errors import ApiError
from stowplan.objects.api import Bind, Create, Delete, Patch
from stowplan.objects.kinds import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    Kind,
)
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.simulation import things

if TYPE_CHECKING:
    from tests.simulation.world import World

Action = Callable[[], None]


class Users:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/users")
        self._serial = 0
        self._actions = self._choose()

    def _choose(self) -> tuple[list[Action], list[int]]:
        """What they do in this seed, and how often each."""
        weather = self.world.weather
        weighted: list[tuple[Action, int, bool]] = [
            (self.create_pods, 10, True),
            (self.open_gate, 3, True),
            (self.create_replica_set, 1, True),
            (self.delete_pod, 3, True),
            (self.create_budget, 1, True),
            (self.delete_budget, 1, True),
            (self.delete_pod, 5, weather.churn),
            (self.relabel_pod, 4, weather.churn),
            (self.tolerate, 2, weather.churn),
            (self.scale, 2, weather.churn),
            (self.resize_pod, 4, weather.resizes),
            (self.bind_elsewhere, 3, weather.foreign),
            (self.cordon, 3, weather.nodes),
            (self.taint, 3, weather.nodes),
            (self.resize_node, 3, weather.nodes),
            (self.relabel_node, 2, weather.nodes),
            (self.delete_node, 2, weather.nodes),
            (self.create_node, 3, weather.nodes),
            (self.create_volume, 3, weather.volumes),
            (self.create_missing_claim, 3, weather.volumes),
            (self.delete_claim, 1, weather.volumes and weather.churn),
        ]
        chosen = [(action, weight) for action, weight, there in weighted if there]
        return [action for action, _ in chosen], [weight for _, weight in chosen]

    def settle(self) -> None:
        """The cluster as it is at first."""
        world, random = self.world, self.random
        for _ in range(random.randrange(3, 8)):
            self.create_node()
        if world.weather.volumes:
            for _ in range(random.randrange(1, 5)):
                self.create_volume()
        for _ in range(random.randrange(2, 8)):
            self.create_pods()

    def act(self) -> None:
        self.random.choices(*self._actions)[0]()

    # -- helpers ----------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}-{self._serial}"

    def _do(self, request: Any, what: str) -> bool:
        try:
            self.world.store.execute(request)
        except ApiError as error:
            self.world.trace("users", f"{what}: {error.code} {error.message}")
            return False
        self.world.trace("users", what)
        return True

    def _patch(
        self, kind: Kind, name: str, body: Any, what: str, sort: str = "merge", sub: str = ""
    ) -> bool:
        namespace = "default" if kind.namespaced else ""
        return self._do(Patch(kind, namespace, name, body, sort, sub), what)

    def _some_pod(self, wanted: Callable[[Pod], bool] = lambda pod: True) -> Pod | None:
        pods = [pod for pod in self.world.pods() if wanted(pod)]
        return self.random.choice(pods) if pods else None

    def _some_node(self) -> Node | None:
        nodes = self.world.nodes()
        return self.random.choice(nodes) if nodes else None

    # -- pods -------------------------------------------------------------------------------

    def create_pods(self) -> None:
        world, random = self.world, self.random
        for _ in range(random.choice((1, 1, 2, 4))):
            if len(world.pods()) >= world.pods_max:
                return
            name = self._name("pod")
            claim = f"{name}-data" if world.weather.volumes and random.random() < 0.35 else ""
            if claim and random.random() < 0.8:
                self._create_claim(claim)
            body = things.pod(name, random, world.weather, claim)
            self._do(Create(POD, "default", body), f"create pod {name}")

    def _create_claim(self, name: str) -> None:
        storage_class = self.random.choice((things.LATE_CLASS, things.STATIC_CLASS))
        body = things.claim(name, storage_class)
        self._do(Create(PERSISTENT_VOLUME_CLAIM, "default", body), f"create claim {name}")

    def create_missing_claim(self) -> None:
        """The claim of a pod that came before it."""
        claims = {claim.name for claim in self.world.every(PERSISTENT_VOLUME_CLAIM)}
        for pod in self.world.pods():
            for key in PodInfo(pod).claim_keys:
                name = key.rpartition("/")[2]
                if name not in claims:
                    self._create_claim(name)
                    return

    def create_replica_set(self) -> None:
        if len(self.world.pods()) < self.world.pods_max:
            name = self._name("set")
            body = things.replica_set(name, self.random, self.world.weather)
            self._do(Create(REPLICA_SET, "default", body), f"create replica set {name}")

    def scale(self) -> None:
        sets = self.world.every(REPLICA_SET)
        if sets:
            name, count = self.random.choice(sets).name, self.random.randrange(0, 6)
            self._patch(
                REPLICA_SET, name, {"spec": {"replicas": count}}, f"scale {name} to {count}"
            )

    def delete_pod(self) -> None:
        pod = self._some_pod()
        if pod is not None:
            grace_s = self.random.choice((None, None, 0))
            request = Delete(POD, "default", pod.name, grace_period_seconds=grace_s)
            self._do(request, f"delete pod {pod.name}")

    def relabel_pod(self) -> None:
        pod = self._some_pod()
        if pod is not None:
            app = self.random.choice(things.APPS)
            body = {"metadata": {"labels": {"app": app}}}
            self._patch(POD, pod.name, body, f"label {pod.name} app={app}")

    def tolerate(self) -> None:
        pod = self._some_pod(lambda pod: not pod.spec.node_name)
        if pod is not None:
            known = [{"key": t.key, "operator": t.operator} for t in pod.spec.tolerations or ()]
            known = [t for t in known if t["key"] in things.TAINTS]
            key = self.random.choice(things.TAINTS)
            body = {"spec": {"tolerations": [*known, {"key": key, "operator": "Exists"}]}}
            self._patch(POD, pod.name, body, f"let {pod.name} tolerate {key}", "strategic")

    def open_gate(self) -> None:
        pod = self._some_pod(lambda pod: bool(pod.spec.scheduling_gates))
        if pod is not None:
            body = {"spec": {"schedulingGates": None}}
            self._patch(POD, pod.name, body, f"open the gate of {pod.name}")

    def resize_pod(self) -> None:
        pod = self._some_pod()
        if pod is None:
            return
        cpu = self.random.choice(("50m", "500m", "1", "2"))
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        body = {"spec": {"containers": [container]}}
        if self._patch(POD, pod.name, body, f"resize {pod.name} to {cpu}", "strategic", "resize"):
            self.world.bindings.resized(pod)

    def bind_elsewhere(self) -> None:
        """Another scheduler, or somebody with kubectl, is quicker."""
        pod = self._some_pod(lambda pod: not pod.spec.node_name)
        node = self._some_node()
        if pod is not None and node is not None:
            request = Bind("default", pod.name, pod.uid, node.name)
            if self._do(request, f"bind {pod.name} to {node.name} by hand"):
                self.world.bindings.excuse(node.name)

    # -- nodes ------------------------------------------------------------------------------

    def create_node(self) -> None:
        if len(self.world.nodes()) >= self.world.nodes_max:
            return
        # Names come back, as they do in clusters that replace machines.
        name = f"node-{self.random.randrange(self.world.nodes_max)}"
        if self._do(Create(NODE, "", things.node(name, self.random)), f"create node {name}"):
            self.world.bindings.excuse(name, NODE)

    def delete_node(self) -> None:
        node = self._some_node()
        if node is not None:
            self._do(Delete(NODE, "", node.name), f"delete node {node.name}")

    def cordon(self) -> None:
        node = self._some_node()
        if node is not None:
            closed = not node.spec.unschedulable
            word = "cordon" if closed else "uncordon"
            self._patch(NODE, node.name, {"spec": {"unschedulable": closed}}, f"{word} {node.name}")

    def taint(self) -> None:
        node = self._some_node()
        if node is not None:
            taints = [] if node.spec.taints else [things.random_taint(self.random)]
            what = f"taint {node.name} {[t['key'] + ':' + t['effect'] for t in taints]}"
            self._patch(NODE, node.name, {"spec": {"taints": taints}}, what)

    def resize_node(self) -> None:
        node = self._some_node()
        if node is None:
            return
        cpu = self.random.choice(("1", "2", "4", "8"))
        body = {"status": {"allocatable": {"cpu": cpu}}}
        if self._patch(NODE, node.name, body, f"make {node.name} {cpu} cpu", sub="status"):
            self.world.bindings.excuse(node.name, NODE)

    def relabel_node(self) -> None:
        node = self._some_node()
        if node is not None:
            key, value = self.random.choice(
                ((things.ZONE, self.random.choice(things.ZONES)), ("disk", "ssd"), ("disk", "hdd"))
            )
            body = {"metadata": {"labels": {key: value}}}
            self._patch(NODE, node.name, body, f"label {node.name} {key}={value}")

    # -- budgets and volumes ----------------------------------------------------------------

    def create_budget(self) -> None:
        name = self._name("budget")
        body = things.budget(name, self.random.choice(things.APPS), self.random)
        self._do(Create(POD_DISRUPTION_BUDGET, "default", body), f"create budget {name}")

    def delete_budget(self) -> None:
        budgets = self.world.every(POD_DISRUPTION_BUDGET)
        if budgets:
            name = self.random.choice(budgets).name
            self._do(Delete(POD_DISRUPTION_BUDGET, "default", name), f"delete budget {name}")

    def create_volume(self) -> None:
        name, zone = self._name("volume"), self.random.choice(things.ZONES)
        body = things.volume(name, things.STATIC_CLASS, zone)
        self._do(Create(PERSISTENT_VOLUME, "", body), f"create volume {name} in {zone}")

    def delete_claim(self) -> None:
        claims = self.world.every(PERSISTENT_VOLUME_CLAIM)
        if claims:
            name = self.random.choice(claims).name
            self._do(Delete(PERSISTENT_VOLUME_CLAIM, "default", name), f"delete claim {name}")
