"""What plugins are given when a group is placed: the group, and the sets of nodes to choose from.

`core.schedule_group` makes them; a plugin at `placementGenerate` names the placements, those at
`placementScore` compare the ones that are possible.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from stowplan.framework.status import Rows
from stowplan.objects.pod_groups import PodGroup
from stowplan.state.groups import GroupState
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo


class GroupCycle(Struct, eq=False):
    """One try to schedule a group; what plugins remember during it is in `data`."""

    key: str
    """`namespace/name` of the group."""
    group: PodGroup | None
    """Its object, if the cluster has shown it."""
    members: tuple[PodInfo, ...]
    """The pods that are decided on, in order."""
    state: GroupState
    """All members, those that have a node already among them."""
    nodes: NodeTable
    data: dict[str, Any] = field(default_factory=dict)
    are_alike: bool = False
    """Whether the members are all of one kind."""

    def __post_init__(self) -> None:
        self.are_alike = len({pod.kind for pod in self.members}) == 1


class Placement(Struct, frozen=True, eq=False):
    """Nodes that a group may be placed on."""

    name: str
    rows: Rows
    """Of the node table, ascending."""


class PlacedGroup(Struct, frozen=True, eq=False):
    """How a group would be placed there."""

    placement: Placement
    nodes: dict[str, str]
    """Uid of a member that found a node -> that node."""
