"""The queue as lanes: where each pod waits, since when, and who turned it down.

Read from the scheduler; `Cluster.lanes` is the way in.  `waking` says what would wake a pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from stowplan.core.machine import Machine
from stowplan.objects.pod import Pod
from stowplan.world.listing import POD_CELLS, Listing
from stowplan.world.table import Table

FLYING_MAX = 1000
"""Pods whose attempt is under way come first among the places; more are not counted."""

LANES = ("active", "backoff", "unschedulable", "gated", "in flight", "permit")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod in a lane."""

    pod: str
    """`namespace/name`."""
    attempts: int = 0
    since_s: float | None = None
    """When it came, or came back from its last attempt; None for one that is being decided."""
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


def queue_of(machine: Machine) -> Listing[Pod]:
    """Who waits, in the order the scheduler would take them."""
    waiting = {queued.info.key: queued for queued in machine.queue.waiting()}
    arrived = [waiting[key] for key in machine.pods if key in waiting]
    pods = [
        queued.info.pod
        for queued in machine.queue.in_order(arrived)
        if queued.info.pod.metadata.deletion_timestamp is None
    ]
    places = dict(machine.queue.places())
    return Listing(
        pods,
        {
            "place": lambda pod: places.get(pod.uid, ""),
            "attempts": lambda pod: waiting[pod.key].attempts,
            **POD_CELLS,
        },
    )


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


# -- where one pod stands, and what nodes have left -------------------------------------------


PODS = "pods"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod stands."""

    place: str
    """`active`, `backoff`, `unschedulable`, `gated`, `permit` (it has a node and waits for a
    plugin), `bound`, or empty when this scheduler does not decide on it."""
    position: int = 0
    """Among the pods that wait for a decision, in the order they are taken; from 1."""
    attempts: int = 0
    backoff_s: float = 0.0
    """What is left of its backoff; whatever wakes it before then, it waits so long."""
    nominated_node: str = ""
    waits_for: dict[str, str] | None = None
    """At Permit: plugin -> why it waits."""
    gated_by: str = ""


def place_of(machine: Machine, pod: Pod) -> Place:
    if pod.spec.node_name:
        return Place("bound")
    at_permit = machine.waiting.get(pod.uid)
    if at_permit is not None:
        return Place("permit", waits_for=dict(at_permit.pending))
    queued = machine.queue.get(pod.key)
    if queued is None:
        return Place("")
    ordered = machine.queue.in_order(machine.queue.waiting())
    position = next((n for n, each in enumerate(ordered, 1) if each.info.key == pod.key), 0)
    place = dict(machine.queue.places()).get(pod.uid, "")
    return Place(
        str(place),
        position,
        queued.attempts,
        machine.queue.backoff_left_s(queued),
        pod.status.nominated_node_name,
        gated_by=queued.gating_plugin,
    )


def amounts(machine: Machine, *, free: bool) -> Table:
    table = machine.table
    table.refresh(machine.cache)
    rows = table.alive.nonzero()[0]
    columns = {}
    for resource in sorted({*table.resources, PODS}):
        column = table.allocatable(resource)[rows].astype(np.int64)
        if free and resource == PODS:
            column = column - table.pod_count[rows]
        elif free:
            column = column - table.requested(resource)[rows]
        columns[resource] = column
    return Table("node", [table.names[row] for row in rows.tolist()], columns)
