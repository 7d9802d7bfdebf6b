"""What happened in a run, as columns: one row per pod, per stay on a node, per node and its time.

The run only appends here; every measure is worked out from it afterwards, for all pods and nodes
at once (`measures`).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.world.stream import offers_of

NEVER = float("inf")
ZONE = "topology.kubernetes.io/zone"
POOL = "stowplan/pool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class State(IntEnum):
    """Where a pod is at the end of the run; each is in exactly one."""

    PENDING = 0
    RUNNING = 1
    ENDED = 2
    """It ran, and its time was up."""
    LOST = 3
    """It left without having run to its end: its time came while it had no node, or it was evicted
    and nobody made it anew."""
    UNBORN = 4
    """It had not arrived yet when the run was over."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What does not change about a node while it is there."""

    name: str
    offers: Mapping[str, int]
    zone: str
    pool: str
    price: float


def node_facts(manifest: Mapping[str, Any], prices: Mapping[str, float]) -> NodeFacts:
    metadata = manifest["metadata"]
    labels = metadata.get("labels") or {}
    type_ = str(labels.get(INSTANCE_TYPE, ""))
    pool = str(labels.get(POOL, "") or type_)
    price = prices.get(pool, prices.get(type_, prices.get("", 0.0)))
    offers = offers_of(manifest, f"node {metadata['name']}")
    return NodeFacts(metadata["name"], offers, str(labels.get(ZONE, "")), pool, price)


@dataclass(slots=True)
class Stays:
    """Who was where, from when until when; `NEVER` for those that still are."""

    who: array[int] = field(default_factory=lambda: array("i"))
    where: array[int] = field(default_factory=lambda: array("i"))
    begin_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))

    def begin(self, who: int, where: int, now_s: float) -> int:
        self.who.append(who)
        self.where.append(where)
        self.begin_s.append(now_s)
        self.end_s.append(NEVER)
        return len(self.who) - 1

    def columns(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        return (
            np.array(self.who, np.int32),
            np.array(self.where, np.int32),
            np.array(self.begin_s, np.float64),
            np.array(self.end_s, np.float64),
        )


class Record:
    def __init__(self, pod_count: int, sample_s: NDArray[np.float64]) -> None:
        self.state = array("b", [State.UNBORN]) * pod_count
        self.attempts = array("i", [0]) * pod_count
        self.evictions = array("i", [0]) * pod_count
        self.left_s = array("d", [NEVER]) * pod_count
        """When it ended or was lost for good."""
        self.stays = Stays()
        self.nodes: list[NodeFacts] = []
        self.node_index: dict[str, int] = {}
        self.presence = Stays()
        """Of nodes: `who` is the node, `where` means nothing."""
        self._present: dict[int, int] = {}
        """Node -> its row in `presence`."""
        self.sample_s = sample_s
        self.pending: list[dict[str, int]] = []
        """Per sample, by cause."""
        self.decisions = 0
        self.preemptions = 0
        self.failures = 0
        self.end_s = 0.0

    def node_joins(self, facts: NodeFacts, now_s: float) -> int:
        index = self.node_index.get(facts.name)
        if index is None:
            index = self.node_index[facts.name] = len(self.nodes)
            self.nodes.append(facts)
        self._present[index] = self.presence.begin(index, 0, now_s)
        return index

    def node_leaves(self, index: int, now_s: float) -> None:
        row = self._present.pop(index, None)
        if row is not None:
            self.presence.end_s[row] = now_s
