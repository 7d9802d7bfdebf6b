"""Nodes with nominated pods: a pod must fit beside those that are no less important.

To find out, they are put on a copy of the node and the filters are run once more.  Where the
filters are node-local the answer is kept per kind of pod until the node or its nominations change.
`Framework` and preemption ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan.framework.cycle import Cycle
from stowplan.framework.findings import Feasible
from stowplan.framework.handle import Nominated
from stowplan.framework.status import Status, row_numbers
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo
from stowplan.state.row_follower import RowFollower

if TYPE_CHECKING:
    from stowplan.framework.runtime import Framework


_KEPT = "nominations"
"""The key in `handle.kept`."""


def nominated_beside(nominated: Nominated, pod: PodInfo, node: str) -> list[PodInfo]:
    """The pods nominated to the node that this one has to fit beside."""
    others = nominated.pods_for_node(node, but=pod.uid)
    if not others:
        return others
    priority = pod.kind.priority
    return [other for other in others if other.kind.priority >= priority]


def filter_beside(
    framework: Framework,
    cycle: Cycle,
    pod: PodInfo,
    node: NodeInfo,
    others: list[PodInfo],
    *,
    pods_only: bool = False,
) -> Status | None:
    """`Framework.filter_one`, as if these pods ran there too."""
    node = node.clone()
    has_extensions = bool(framework.on_one_node(cycle).extensions)
    if has_extensions:
        cycle = cycle.clone()
    for other in others:
        node.add_pod(other)
        if has_extensions:
            framework.add_pod(cycle, pod, other, node)
    return framework.filter_one(cycle, pod, node, pods_only=pods_only)


def filter_beside_nominated(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: NodeInfo
) -> Status | None:
    others = nominated_beside(framework.handle.nominated, pod, node.name)
    return filter_beside(framework, cycle, pod, node, others) if others else None


def count_nominated(framework: Framework, cycle: Cycle, pod: PodInfo, found: Feasible) -> None:
    """Turn down the nodes where the pod does not fit beside the nominated ones."""
    table, candidates, nominated = cycle.nodes, found.candidates, framework.handle.nominated
    first, last_node_only = found.answers.first, framework.on_one_node(cycle).last_node_only

    def ask(row: int) -> Status | None:
        node = table.info(row)
        others = nominated_beside(nominated, pod, node.name)
        if not others:
            return None
        # Of filters that read the node object alone, none turned it down.
        passes_itself = int(first[row]) > last_node_only
        return filter_beside(framework, cycle, pod, node, others, pods_only=passes_itself)

    refused = _kept(framework, cycle, pod).refused(table, nominated, ask)
    if candidates is not None:
        refused = {row: status for row, status in refused.items() if candidates[row]}
    if refused:
        found.overrides.update(refused)
        if len(found.rows()):
            found.mask = found.mask.copy()
            found.mask[row_numbers(refused)] = False


def _kept(framework: Framework, cycle: Cycle, pod: PodInfo) -> KeptNominations:
    # A pod's own nomination does not count against it, but does against its replicas.
    has_own = pod.uid in framework.handle.nominated.node_of
    if has_own or not framework.is_node_local(cycle, pod):
        return KeptNominations()
    kept = framework.handle.kept[pod.kind.ref]
    found: KeptNominations | None = kept.get(_KEPT)
    if found is None:
        found = kept[_KEPT] = KeptNominations()
    return found


class KeptNominations:
    __slots__ = ("_follower", "_nominations", "_refused")

    def __init__(self) -> None:
        self._follower = RowFollower()
        self._nominations = -1
        """The version of the nominations for which `_refused` holds."""
        self._refused: dict[int, Status] = {}

    def refused(
        self, nodes: NodeTable, nominated: Nominated, ask: Callable[[int], Status | None]
    ) -> dict[int, Status]:
        """The rows that the pod does not fit on, and why; `ask` is called where unknown.

        To be read only, until the next call.
        """
        refused, row_of, names_of = self._refused, nodes.row_of, nodes.names
        names = nominated.nodes_changed_since(self._nominations)
        changed = self._follower.changed(nodes)
        if names is None or changed is None:
            refused.clear()
            names, changed = nominated.nodes(), ()
        for row in {*changed, *[row_of[name] for name in names if name in row_of]}:
            status = ask(row) if names_of[row] in nominated.on_node else None
            if status is not None:
                refused[row] = status
            else:
                refused.pop(row, None)
        self._nominations = nominated.version
        return refused
