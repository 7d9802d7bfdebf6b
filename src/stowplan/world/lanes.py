"""The queue as lanes: where each pod waits, since when, who turned it down, what would wake it.

Read from the scheduler; `Cluster.lanes` is the way in.  What wakes a pod are the events that the
plugins that turned it down have registered for, in the names that metrics have for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from stowplan.core.machine import Machine
from stowplan.queue import build_hint_map

FLYING_MAX = 1000
"""Pods whose attempt is under way come first among the places; more are not counted."""

LANES = ("active", "backoff", "unschedulable", "gated", "in flight", "permit")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod in a lane."""

    pod: str
    """`namespace/name`."""
    attempts: int = 0
    since_s: float = 0.0
    """When it came, or came back from its last attempt."""
    until_s: float | None = None
    """The end of its backoff."""
    priority: int = 0
    plugins: tuple[str, ...] = ()
    """Who turned it down, or holds it."""
    reason: str = ""
    """What a gate or Permit says; otherwise the pod's decision says why."""
    profile: str = ""
    node: str = ""
    """Where it is about to go."""


def lanes_of(machine: Machine) -> dict[str, list[Waiting]]:
    """Every lane, its pods in the order they are taken."""
    found: dict[str, list[Waiting]] = {lane: [] for lane in LANES}
    places = dict(machine.queue.places())
    for queued in machine.queue.in_order(machine.queue.waiting()):
        pod = queued.info.pod
        lane = found.get(str(places.get(queued.info.uid, "")))
        if lane is None or pod.metadata.deletion_timestamp is not None:
            continue
        gate = queued.gating_plugin
        lane.append(
            Waiting(
                pod.key,
                queued.attempts,
                queued.timestamp_s,
                queued.backoff_expiration_s,
                pod.spec.priority or 0,
                (gate,) if gate else tuple(sorted(queued.rejectors)),
                queued.gating_status.message if queued.gating_status is not None else "",
                pod.spec.scheduler_name,
            )
        )
    at_permit = set()
    for uid in machine.waiting.uids():
        waiting = machine.waiting.get(uid)
        if waiting is None:
            continue
        at_permit.add(uid)
        why = "; ".join(f"{plugin}: {text}" for plugin, text in waiting.pending.items())
        plugins = tuple(waiting.pending)
        found["permit"].append(
            Waiting(
                waiting.pod.key,
                since_s=waiting.since_s,
                plugins=plugins,
                reason=why,
                node=waiting.node,
            )
        )
    flying = {uid for uid, place in places.items() if place == "in flight"} - at_permit
    if flying:
        found["in flight"] = [
            Waiting(key) for key, info in machine.pods.items() if info.uid in flying
        ]
    return found


def lane_counts(machine: Machine) -> dict[str, int]:
    """How many wait in each lane; nobody is looked at."""
    counts = {**dict.fromkeys(LANES, 0), **machine.queue.pending_counts()}
    flying = sum(place == "in flight" for _, place in islice(machine.queue.places(), FLYING_MAX))
    counts["permit"] = len(machine.waiting)
    counts["in flight"] = max(0, flying - counts["permit"])
    return counts


def wakes_of(machine: Machine, profile: str, plugins: Iterable[str]) -> list[str]:
    """The events after which pods that these plugins turned down are looked at again."""
    framework = machine.frameworks.get(profile)
    if framework is None:
        return []
    wanted = set(plugins)
    hints = build_hint_map(framework.plugins.instances.values())
    return sorted({hint.event.label for hint in hints if hint.plugin in wanted})
