"""Answers that are kept and patched equal answers worked out from scratch, and node by node.

The clusters are the golden ones: they have every feature in realistic mixture.  A scheduler lives
through a random sequence of changes; after each, what it says about a pod is compared with what a
scheduler says that was built this moment from the same objects, and with the one-node form of
every filter.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.config import load_config
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Status
from stowplan.objects.base import KubeObject
from stowplan.objects.manifests import decode
from stowplan.objects.node import Node, Taint
from stowplan.objects.pod import Pod, ResourceRequirements
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.state.pod_info import PodInfo
from tests.builders import node as make_node
from tests.builders import pod
from tests.conformance.run_golden import families, scenarios
from tests.deciding import Deciding
from tests.small_limits import small_limits

STEPS = 20

CHANGES = (
    *("place", "place", "remove", "relabel"),
    *("labels", "taint", "cordon", "shrink", "vanish", "return", "grow"),
    *("nominate", "nominate", "forget", "budget"),
)


class LivedThrough(Deciding):
    def nominate(self, key: str, node: str) -> None:
        waiting = self.waiting.get(key)
        if waiting is not None:
            self.nominator.add(waiting.info, Nominate(node))

    @property
    def nominated(self) -> bool:
        return bool(self.nominator)


class Cluster:
    """The objects as they should be, and the scheduler that lived through how they came to be."""

    def __init__(self, scenario: dict[str, Any], seed: int) -> None:
        self.random = Random(seed)
        self.config = load_config(scenario["config"]) if scenario["config"] else None
        decoded = [decode(item, "golden") for item in scenario["cluster"]["items"]]
        self.objects = {f"{type(o).__name__} {o.key}": o for o in decoded if o is not None}
        self.old = self.fresh()
        self.pods = list(self.old.pending)
        self.spare_nodes: list[Node] = []
        self.nominations: dict[str, str] = {}

    def fresh(self) -> LivedThrough:
        new = LivedThrough(
            list(self.objects.values()), config=self.config, tie_break="name", random=Random(0)
        )
        for key, name in getattr(self, "nominations", {}).items():
            new.nominate(key, name)
        return new

    def put(self, obj: KubeObject) -> None:
        self.objects[f"{type(obj).__name__} {obj.key}"] = obj

    def drop(self, obj: KubeObject) -> None:
        del self.objects[f"{type(obj).__name__} {obj.key}"]

    def of(self, kind: type[Any]) -> list[Any]:
        return [obj for obj in self.objects.values() if isinstance(obj, kind)]

    def change(self) -> None:
        choice = self.random.choice(CHANGES)
        getattr(self, f"_{choice}")()

    def _place(self) -> None:
        node = self.random.choice(self.of(Node)).metadata.name if self.of(Node) else ""
        waiting = [p for p in self.of(Pod) if not p.spec.node_name]
        if not waiting or not node:
            return
        pod = self.random.choice(waiting)
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        bound = msgspec.structs.replace(pod, spec=spec)
        self.put(bound)
        self.old.cache.add_pod(bound)
        if self.nominations.pop(pod.key, None):
            self.old.nominate(pod.key, "")

    def _nominate(self) -> None:
        waiting = [p for p in self.of(Pod) if not p.spec.node_name]
        if waiting and self.of(Node):
            pod = self.random.choice(waiting)
            node = self.random.choice(self.of(Node)).metadata.name
            self.nominations[pod.key] = node
            self.old.nominate(pod.key, node)

    def _forget(self) -> None:
        if self.nominations:
            key = self.random.choice(sorted(self.nominations))
            del self.nominations[key]
            self.old.nominate(key, "")

    def _budget(self) -> None:
        budgets = self.of(PodDisruptionBudget)
        if budgets:
            budget = self.random.choice(budgets)
            allowed = self.random.randrange(3)
            status = msgspec.structs.replace(budget.status, disruptions_allowed=allowed)
            self.put(msgspec.structs.replace(budget, status=status))
            self.old.objects.put(msgspec.structs.replace(budget, status=status))

    def _remove(self) -> None:
        # Of two equal ports on a node the first to go frees both, as upstream: no new cache would.
        running = [p for p in self.of(Pod) if p.spec.node_name and not PodInfo(p).kind.host_ports]
        if running:
            pod = self.random.choice(running)
            self.drop(pod)
            self.old.cache.remove_pod(pod)

    def _relabel(self) -> None:
        """A pod gets another's labels, as binding adds a zone's."""
        running = [p for p in self.of(Pod) if p.spec.node_name]
        if running:
            pod, other = self.random.choice(running), self.random.choice(self.of(Pod))
            metadata = msgspec.structs.replace(pod.metadata, labels=other.metadata.labels)
            self.put(msgspec.structs.replace(pod, metadata=metadata))
            self.old.cache.update_pod(msgspec.structs.replace(pod, metadata=metadata))

    def _update(self, node: Node) -> None:
        self.put(node)
        self.old.cache.add_node(node)

    def _labels(self) -> None:
        node, other = self.random.choice(self.of(Node)), self.random.choice(self.of(Node))
        labels = {**(other.metadata.labels or {}), "kubernetes.io/hostname": node.metadata.name}
        if self.random.random() < 0.3:
            labels.pop("topology.kubernetes.io/zone", None)
        metadata = msgspec.structs.replace(node.metadata, labels=labels)
        self._update(msgspec.structs.replace(node, metadata=metadata))

    def _taint(self) -> None:
        node = self.random.choice(self.of(Node))
        effect = self.random.choice(("NoSchedule", "PreferNoSchedule"))
        taints = [Taint(key="dedicated", value="x", effect=effect)]
        spec = msgspec.structs.replace(node.spec, taints=self.random.choice((None, taints)))
        self._update(msgspec.structs.replace(node, spec=spec))

    def _cordon(self) -> None:
        node = self.random.choice(self.of(Node))
        spec = msgspec.structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
        self._update(msgspec.structs.replace(node, spec=spec))

    def _shrink(self) -> None:
        node = self.random.choice(self.of(Node))
        allocatable = {**(node.status.allocatable or {}), "cpu": self.random.choice((1, 2, 64))}
        status = msgspec.structs.replace(node.status, allocatable=allocatable)
        self._update(msgspec.structs.replace(node, status=status))

    def _vanish(self) -> None:
        # A node with images leaves other nodes' image counts out of date, as it does upstream.
        nodes = [node for node in self.of(Node) if not node.status.images]
        if len(nodes) > 2:
            node = self.random.choice(nodes)
            self.drop(node)
            self.spare_nodes.append(node)
            self.old.cache.remove_node(node.metadata.name)

    def _return(self) -> None:
        if self.spare_nodes:
            self._update(self.spare_nodes.pop())

    def _grow(self) -> None:
        self._update(make_node(f"new-{len(self.objects)}", cpu=self.random.choice(("1", "64"))))


def answers(run: LivedThrough, pod: PodInfo) -> dict[str, Any]:
    """Everything a profile says about a pod, by node name."""
    framework = run.framework_of(pod)
    assert framework is not None
    run.table.refresh(run.cache)
    cycle = Cycle(framework.handle, framework.handle.nodes)
    verdict = framework.pre_filter(cycle, pod)
    if verdict.status is not None:
        return {"status": verdict.status}
    found = framework.find_feasible(cycle, pod, verdict.nodes)
    diagnosis = framework.diagnose(run.table, found)
    rows = found.rows()
    said: dict[str, Any] = {
        run.table.names[row]: _comparable(diagnosis.status(row))
        for row in range(run.table.size)
        if run.table.infos[row] is not None and (found.candidates is None or found.candidates[row])
    }
    said["reasons"], said["rejectors"] = diagnosis.histogram(), diagnosis.unschedulable_plugins
    said["resolvable"] = {run.table.names[row] for row in diagnosis.resolvable_rows().tolist()}
    if len(rows):
        board = framework.score(cycle, pod, found, rows)
        for name in board.plugins:
            scores = board.of_plugin(name).tolist()
            names = [run.table.names[row] for row in rows.tolist()]
            said[f"scores of {name}"] = dict(zip(names, scores, strict=True))
        said["total"] = dict(
            zip((run.table.names[r] for r in rows.tolist()), board.total.tolist(), strict=True)
        )
    else:
        cycle.statuses = diagnosis
        said["victims"] = _victims(framework, cycle, pod)
    if not run.nominated:
        _check_one_by_one(framework, run, pod, said)
    return said


def _victims(framework: Framework, cycle: Cycle, pod: PodInfo) -> dict[str, Any]:
    """Whom preemption would evict from each node, or why it would not help there."""
    plugin = framework.plugins.post_filter[-1]
    assert isinstance(plugin, DefaultPreemption)
    plugin._percentage = 100  # type: ignore[misc]
    diagnosis = cycle.statuses
    candidates, statuses = plugin._dry_run(cycle, pod, diagnosis.resolvable_rows())
    names = cycle.nodes.names
    said: dict[str, Any] = {names[row]: _comparable(s) for row, s in statuses.items()}
    for candidate in candidates:
        victims = [victim.key for victim in candidate.victims]
        said[candidate.node] = (victims, candidate.violations)
    return said if not candidates else {n: v for n, v in said.items() if isinstance(v[0], list)}


def _check_one_by_one(
    framework: Framework, run: Deciding, pod: PodInfo, said: dict[str, Any]
) -> None:
    cycle = Cycle(framework.handle, framework.handle.nodes)
    framework.pre_filter(cycle, pod)
    for info in run.table.infos:
        if info is not None and info.name in said:
            status = framework.filter_one(cycle, pod, info)
            assert _comparable(status) == said[info.name], f"{pod.key} on {info.name}"


def _comparable(status: Status | None) -> Any:
    if status is None:
        return None
    return status.plugin, status.code.label, tuple(sorted(status.reasons))


@pytest.mark.parametrize("family", families())
def test_a_scheduler_that_lived_through_it_agrees_with_a_new_one(family: str) -> None:
    _live_through(family, 0)


@pytest.mark.parametrize("family", families())
def test_they_agree_when_hardly_anything_is_kept(family: str) -> None:
    with small_limits():
        _live_through(family, 4)


def _live_through(family: str, first: int) -> None:
    for seed, scenario in enumerate(scenarios(family)):
        if seed % 8 != first:
            continue
        cluster = Cluster(scenario, seed)
        for step in range(STEPS):
            cluster.change()
            # The same pod a few times in a row: something is kept that could be out of date.
            pod = cluster.pods[step // 4 % len(cluster.pods)]
            lived, new = answers(cluster.old, pod), answers(cluster.fresh(), pod)
            assert lived == new, f"{scenario['name']} seed {seed} step {step} pod {pod.key}"


@pytest.mark.parametrize("family", families())
def test_a_pod_of_another_size_is_told_what_it_would_be_told_alone(family: str) -> None:
    """What is known of pods that differ in size only is shared, except where size matters."""
    for seed, scenario in enumerate(scenarios(family)):
        if seed % 8:
            continue
        cluster = Cluster(scenario, seed)
        for given in cluster.pods[:3]:
            small, large = _resized(given, "7m", "1Mi"), _resized(given, "950m", "3Gi")
            for asked in (given, small, large, given):
                lived, new = answers(cluster.old, asked), answers(cluster.fresh(), asked)
                assert lived == new, f"{scenario['name']} pod {given.key}"


def _resized(pod: PodInfo, cpu: str, memory: str) -> PodInfo:
    spec = pod.pod.spec
    size = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    containers = [msgspec.structs.replace(c, resources=size) for c in spec.containers or ()]
    spec = msgspec.structs.replace(spec, containers=containers)
    return PodInfo(msgspec.structs.replace(pod.pod, spec=spec))


def test_a_nomination_is_seen_by_pods_of_a_kind_that_was_asked_before() -> None:
    small, tiny = pod("small", cpu="2"), pod("tiny", cpu="1", spec={"priority": 10})
    objects = [make_node("node-1", cpu="4"), small, tiny]
    objects.append(pod("big", cpu="3", spec={"priority": 10}))
    run = LivedThrough(objects, tie_break="name", random=Random(0))
    asked = next(info for info in run.pending if info.key == "default/small")

    run.nominate("default/tiny", "node-1")
    assert answers(run, asked)["node-1"] is None
    run.nominate("default/big", "node-1")
    refused = ("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",))
    assert answers(run, asked)["node-1"] == refused
    run.nominate("default/big", "")
    assert answers(run, asked)["node-1"] is None
