"""Where a pod stands in the queue, and how much room nodes have: read from the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stowplan.core.machine import Machine
from stowplan.objects.pod import Pod
from stowplan.world.table import Table

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
    backoff_until: float | None = None
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
        queued.backoff_expiration_s,
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
