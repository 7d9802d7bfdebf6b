"""The demo's cluster and its story: what is created, and what came of it.

It is told through the public face alone: in real time for `stowplan demo`, and in virtual time for
the page (`stowplan ui --demo`) and for tests.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from stowplan.bench.progress import Progress
from stowplan.cli._output import Column, moves_cursor, print_table, say, some_of, terminal_width
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.setup import ClockName

NODES, PODS, SEED = 300, 3000, 1
ZONES = ("zone-a", "zone-b", "zone-c")
GPU_NODES = 12
TIME_S_MAX = 15.0
AT_ONCE = 250
"""Pods that are created before it is shown how far it is."""

_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"


@dataclass(slots=True)
class Story:
    """What the report tells."""

    cluster: Cluster
    pod_count: int
    seconds: float = 0.0
    """That scheduling took; making the pods is not counted."""
    preemptions: list[tuple[str, str, str]] = field(default_factory=list)
    """(victim, preemptor, node)"""
    pending: list[Decision] = field(default_factory=list)
    """Of pods that fit nowhere."""


def run(
    node_count: int = NODES, pod_count: int = PODS, seed: int = SEED, clock: ClockName = "virtual"
) -> Story:
    random = Random(seed)
    shown = clock == "virtual"
    cluster = Cluster(seed=seed, clock=clock, detail=shown, timed=shown)
    cluster.apply([*_nodes(node_count, random), *map(_priority, ("urgent", "batch")), _SERVICE])
    story = Story(cluster, pod_count)
    progress = Progress("scheduling", live=sys.stderr.isatty() and moves_cursor())
    for wave in _waves(pod_count, random):
        for first in range(0, len(wave), AT_ONCE):
            cluster.apply(wave[first : first + AT_ONCE])
            if story.seconds < TIME_S_MAX:
                started_s = time.perf_counter()
                cluster.run()
                story.seconds += time.perf_counter() - started_s
            waiting = (f"{count} {lane}" for lane, count in cluster.lane_counts().items() if count)
            progress.show(", ".join(waiting), len(cluster.pods(pending=False)), pod_count)
    progress.end()
    decisions = cluster.decisions()
    waiting_pods = {pod.key for pod in cluster.pods(pending=True)}
    story.pending = [each for each in decisions if each.pod in waiting_pods]
    story.preemptions = [
        (victim, each.pod, each.nominated_node)
        for decision in decisions
        for each in decision.history
        for victim in each.victims
    ]
    return story


# -- what there is --------------------------------------------------------------------------


def _nodes(count: int, random: Random) -> Iterator[dict[str, Any]]:
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


def _waves(count: int, random: Random) -> list[list[dict[str, Any]]]:
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


def _priority(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000 if name == "urgent" else -10,
    }


_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}


# -- the summary: how fast, how full, who waits and why, who had to go ------------------------


PREEMPTIONS_SHOWN = 8
FILE_WIDTH = 110
BARS_WIDTH_MIN = 80
"""Columns of a terminal; on a narrower one the zones have no bars."""
ZONE = "topology.kubernetes.io/zone"
AMOUNTS = ("cpu", "memory", "pods")


def show(story: Story) -> None:
    bound, node_count = len(story.cluster.pods(pending=False)), len(story.cluster.nodes())
    rate = bound / story.seconds if story.seconds else 0.0
    _tell(
        f"Scheduled {bound} of {story.pod_count} pods on {node_count} nodes "
        f"in {story.seconds:.1f} s: {rate:,.0f} pods per second, every node evaluated for each."
    )
    say()
    _show_zones(story)
    _show_pending(story)
    _show_preemptions(story)
    say()
    _tell("To look at it, and ask why and what if, in your browser: stowplan ui --demo")


def _tell(text: str, indent: int = 0) -> None:
    """A sentence, wrapped between words where a terminal is narrow."""
    margin, width = " " * indent, terminal_width() or FILE_WIDTH
    for line in textwrap.wrap(
        printable(text),
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        say(line)


def _show_zones(story: Story) -> None:
    there, free = story.cluster.allocatable(), story.cluster.free()
    zones: dict[str, Any] = {}
    for node in story.cluster.nodes():
        zone = zones.setdefault((node.metadata.labels or {}).get(ZONE, ""), np.zeros(7, np.int64))
        amounts = [table.at(node.name, name) for table in (there, free) for name in AMOUNTS]
        zone += [1, *amounts]
    bars = (terminal_width() or FILE_WIDTH) >= BARS_WIDTH_MIN
    rows = []
    for name, (nodes, *amounts) in sorted(zones.items()):
        cpu, memory, _ = amounts[:3]
        used_cpu, used_memory, used_pods = np.subtract(amounts[:3], amounts[3:])
        cores = f"{_share(used_cpu, cpu, bars)} of {cpu // 1000} cores"
        gib = f"{_share(used_memory, memory, bars)} of {memory // 2**30} GiB"
        rows.append([name, str(nodes), str(used_pods), cores, gib])
    columns = [Column("ZONE"), Column("NODES", right=True), Column("PODS", right=True)]
    print_table([*columns, Column("CPU REQUESTED"), Column("MEMORY REQUESTED")], rows)


def _share(used: int, total: int, bars: bool) -> str:
    share = used / total if total else 0.0
    bar = f"{'#' * round(share * 10):<10} " if bars else ""
    return f"{bar}{share:>4.0%}"


def _show_pending(story: Story) -> None:
    groups: dict[str, list[Decision]] = defaultdict(list)
    for decision in story.pending:
        groups[decision.full_message].append(decision)
    counts = story.cluster.lane_counts()
    late = counts["active"] + counts["backoff"]
    rest = f", {late} not reached in {TIME_S_MAX:g} s" if late else ""
    fit_nowhere = f"{len(story.pending)} that fit nowhere"
    say()
    _tell(f"Pending: {fit_nowhere}, {counts['gated']} held at a gate{rest}.")
    for message, decisions in groups.items():
        _tell(some_of([decision.pod for decision in decisions]), indent=2)
        _tell(message, indent=4)


def _show_preemptions(story: Story) -> None:
    say()
    _tell(f"Preempted: {len(story.preemptions)} pods.")
    for victim, preemptor, node in story.preemptions[:PREEMPTIONS_SHOWN]:
        _tell(f"{victim} made room for {preemptor} on {node}", indent=2)
    left = len(story.preemptions) - PREEMPTIONS_SHOWN
    if left > 0:
        _tell(f"and {left} more", indent=2)
