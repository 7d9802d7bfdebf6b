"""Node: where pods go."""

from __future__ import annotations

import msgspec

from stowplan.objects.base import Condition, KubeObject, Resources, Struct


class Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Struct, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    capacity: Resources | None = None
    allocatable: Resources | None = None
    conditions: list[Condition] | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(KubeObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
