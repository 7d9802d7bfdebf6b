"""The demo's cluster and its story: what is created, and what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from stowplan.apiserver.store import Store
from stowplan.bench.progress import Progress
from stowplan.cli._output import moves_cursor
from stowplan.clock import Clock, RealClock, Timers
from stowplan.core.decision import Decision
from stowplan.core.messages import Effect, RecordEvent
from stowplan.embedded import EmbeddedCluster, Parts
from stowplan.objects.api import Create
from stowplan.objects.kinds import NODE, POD, PRIORITY_CLASS, SERVICE
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import PriorityClass, Service
from stowplan.runtime.driver import Driver

ZONES = ("zone-a", "zone-b", "zone-c")
GPU_NODES = 12
TIME_S_MAX = 15.0
PAUSE_S = 0.01

_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"


@dataclass(slots=True)
class Story:
    """What the report tells."""

    node_count: int
    pod_count: int
    bound: int
    seconds: float
    driver: Driver
    preemptions: list[tuple[str, str, str]] = field(default_factory=list)
    """(victim, preemptor, node)"""
    pending: list[Decision] = field(default_factory=list)


def run(
    node_count: int,
    pod_count: int,
    seed: int,
    *,
    clock: Clock | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> Story:
    """`clock` and `pause` are the machine's; a test has its own."""
    random = Random(seed)
    clock = clock or RealClock()
    store, timers = Store(clock, seed=seed), Timers(clock)
    for data in demo_nodes(node_count, random):
        store.execute(Create(NODE, "", msgspec.convert(data, Node)))
    store.execute(Create(PRIORITY_CLASS, "", _priority("urgent", 1000)))
    store.execute(Create(PRIORITY_CLASS, "", _priority("batch", -10)))
    store.execute(Create(SERVICE, "default", _service()))
    cluster = EmbeddedCluster(
        store,
        Parts(controllers=False, detailed=False),
        clock=clock,
        timers=timers,
        random=random,
    )
    cluster.start()
    driver = cluster.scheduler
    assert driver is not None, "the demo is about a scheduler"
    story = Story(node_count, pod_count, 0, 0.0, driver)
    names: dict[str, str] = {}
    driver.on_effect = lambda effect: _note_preemption(story, names, effect)
    waves = demo_waves(pod_count, random)
    started = time.perf_counter()
    progress = Progress("scheduling", live=sys.stderr.isatty() and moves_cursor())
    for wave in waves:
        for data in wave:
            created = store.execute(Create(POD, "default", msgspec.convert(data, Pod)))
            assert created is not None
            names[created.uid] = created.key
        while not _is_at_rest(story, timers, progress, started):
            pause(PAUSE_S)
    story.seconds = time.perf_counter() - started
    progress.end()
    _collect(story)
    return story


def _is_at_rest(story: Story, timers: Timers, progress: Progress, started: float) -> bool:
    """Do what is due; whether time is up, or nothing is left that a second would change."""
    machine = story.driver.machine
    while time.perf_counter() - started < TIME_S_MAX:
        went_on = timers.run_due()
        counts = machine.queue.pending_counts()
        if not went_on:
            return not counts["active"] and not counts["backoff"]
        waiting = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        progress.show(waiting, machine.cache.pod_count, story.pod_count)
    return True


def _collect(story: Story) -> None:
    machine = story.driver.machine
    story.bound = sum(1 for pod in machine.pods.values() if pod.node_name)
    for key, pod in sorted(machine.pods.items()):
        decision = machine.decision_of(key)
        if not pod.node_name and decision is not None:
            story.pending.append(decision)


def _note_preemption(story: Story, names: dict[str, str], effect: Effect) -> None:
    if isinstance(effect, RecordEvent) and effect.reason == "Preempted":
        # "Preempted by pod UID on node NODE"
        words = effect.note.split()
        story.preemptions.append((effect.regarding.key, names.get(words[3], words[3]), words[6]))


# -- what there is --------------------------------------------------------------------------


def demo_nodes(count: int, random: Random) -> Iterator[dict[str, Any]]:
    for number in range(count):
        gpu = number < GPU_NODES
        cpu = 16 if gpu else random.choice((4, 8, 8, 16))
        name = f"{'gpu' if gpu else 'node'}-{number:04}"
        taints = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}] if gpu else []
        if not gpu and number % 29 == 0:
            taints = [{"key": "flaky", "value": "disk", "effect": "PreferNoSchedule"}]
        capacity = {"cpu": cpu, "memory": f"{cpu * 4}Gi", "pods": 110}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    _HOST: name,
                    _ZONE: ZONES[number % len(ZONES)],
                    "pool": "gpu" if gpu else "general",
                },
            },
            "spec": {"taints": taints, "unschedulable": not gpu and number % 97 == 0},
            "status": {"capacity": capacity, "allocatable": capacity},
        }


def demo_waves(count: int, random: Random) -> list[list[dict[str, Any]]]:
    """First what fills the cluster, then the urgent pods that must push some of it aside."""
    urgent = max(4, count // 200)
    stuck = max(3, count // 300)
    batch = GPU_NODES * 5
    rest = count - urgent - 3 * stuck - batch
    mixed = [_mixed(number, random) for number in range(rest)]
    fits_nowhere = [_huge(n) for n in range(stuck)] + [_lost(n) for n in range(stuck)]
    fits_nowhere += [_gated(n) for n in range(stuck)]
    random.shuffle(mixed)
    first = [_batch(number) for number in range(batch)] + mixed + fits_nowhere
    return [first, [_urgent(number) for number in range(urgent)]]


def _pod(name: str, app: str, cpu: str, memory: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": f"demo/{app}:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [container], **spec},
    }


def _mixed(number: int, random: Random) -> dict[str, Any]:
    kind = random.choices(("plain", "web", "spread", "cache", "near"), (50, 20, 15, 3, 12))[0]
    if kind == "plain":
        cpu = random.choice(("100m", "250m", "500m"))
        return _pod(f"plain-{number:05}", "plain", cpu, random.choice(("128Mi", "512Mi", "1Gi")))
    if kind == "web":
        return _pod(f"web-{number:05}", "web", "200m", "256Mi")
    if kind == "spread":
        constraint = {
            "maxSkew": 2,
            "topologyKey": _ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        return _pod(
            f"spread-{number:05}", "spread", "150m", "200Mi", topologySpreadConstraints=[constraint]
        )
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": _HOST}
    if kind == "cache":
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return _pod(
            f"cache-{number:05}", "cache", "500m", "2Gi", affinity={"podAntiAffinity": anti}
        )
    near = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]
    }
    return _pod(f"near-{number:05}", "near", "100m", "100Mi", affinity={"podAffinity": near})


_ON_GPU: dict[str, Any] = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
}


def _batch(number: int) -> dict[str, Any]:
    spec = {"priorityClassName": "batch", "terminationGracePeriodSeconds": 0, **_ON_GPU}
    return _pod(f"batch-{number:05}", "batch", "3", "8Gi", **spec)


def _urgent(number: int) -> dict[str, Any]:
    return _pod(f"urgent-{number:05}", "urgent", "5", "12Gi", priorityClassName="urgent", **_ON_GPU)


def _huge(number: int) -> dict[str, Any]:
    return _pod(f"huge-{number:05}", "huge", "64", "1Ti")


def _lost(number: int) -> dict[str, Any]:
    return _pod(f"lost-{number:05}", "lost", "100m", "64Mi", nodeSelector={_ZONE: "zone-d"})


def _gated(number: int) -> dict[str, Any]:
    gates = [{"name": "demo.stowplan/quota"}]
    return _pod(f"gated-{number:05}", "gated", "100m", "64Mi", schedulingGates=gates)


def _priority(name: str, value: int) -> PriorityClass:
    data = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    return msgspec.convert(data, PriorityClass)


def _service() -> Service:
    data = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    return msgspec.convert(data, Service)
