"""The plugin contract, and the runtime that asks plugins about all nodes at once.

Everything a plugin needs can be imported from here; `framework.plugin` lists the methods a plugin
may have, `framework.runtime` is how they are run.
"""

from stowplan.framework.cycle import Cycle
from stowplan.framework.effects import Sleep
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.handle import Handle
from stowplan.framework.per_node import PerNode
from stowplan.framework.plugin import (
    Nominate,
    PostFilterResult,
    PreFilterResult,
    PreFlight,
    Wait,
    points_of,
)
from stowplan.framework.reads import Reads
from stowplan.framework.runtime import Framework
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    SKIP,
    SKIP_ALWAYS,
    SKIP_STEADILY,
    Code,
    Normalized,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
    unschedulable,
    verdict_of,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "SKIP_ALWAYS",
    "SKIP_STEADILY",
    "Action",
    "ClusterEvent",
    "Code",
    "Cycle",
    "EventRegistration",
    "Framework",
    "GroupCycle",
    "Handle",
    "Hint",
    "NodeInfo",
    "NodeTable",
    "Nominate",
    "Normalized",
    "PerNode",
    "PlacedGroup",
    "Placement",
    "PodInfo",
    "PostFilterResult",
    "PreFilterResult",
    "PreFlight",
    "Reads",
    "Resource",
    "Rows",
    "Scores",
    "Sleep",
    "Status",
    "Verdict",
    "Wait",
    "error",
    "on",
    "points_of",
    "unresolvable",
    "unschedulable",
    "verdict_of",
]
