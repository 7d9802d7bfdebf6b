"""The snapshot as a table: one row per node, one column per fact.

`refresh` copies from the cache only what changed there since the last time.  Plugins read columns
and never write them.  A removed node leaves a hole that `alive` masks until another node takes
the row.

Every change of a row is a version, and so is every change of a node object; the table remembers
which row each of the last versions changed.  Whatever is kept per row catches up by looking at
those rows only (`state.row_follower`).

`core.schedule_one` refreshes it at the start of a cycle; nothing else writes it.  `heal` and
`check` compare it with the cache, and rebuild it if something is amiss.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.node import Node, Taint
from stowplan.state.changes import CacheChange
from stowplan.state.consistency import table_problems
from stowplan.state.count_index import CountIndex
from stowplan.state.image_columns import ImageColumns
from stowplan.state.images import ImageTable
from stowplan.state.label_column import LabelColumn
from stowplan.state.label_columns import LabelColumns
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_tree import NodeTree
from stowplan.state.pod_info import NO_LABELS, PodInfo
from stowplan.state.pod_table import PodTable
from stowplan.state.port_columns import PortColumns
from stowplan.state.row_follower import LOG_MAX
from stowplan.state.row_set import Member, RowSet

if TYPE_CHECKING:
    from stowplan.state.cache import Cache

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

AMOUNT_MAX = 2**62
"""Larger sums are cut off: room for one more request without leaving 64 bits."""

_ROW_SETS_MAX = 1024
"""Row sets kept; the oldest goes first."""

_LISTS_MAX = 128
"""Taint lists (and feature lists) kept beside two for each node; beyond, those in use are
numbered anew.  An autoscaler writes the time into its taints, so that no two are alike."""


class NodeTable:
    def __init__(self) -> None:
        self.size = 0
        """Rows in use, holes included: the length of every column."""
        self.capacity = 0
        self.node_count = 0
        self.names: list[str] = []
        self.infos: list[NodeInfo | None] = []
        self.row_of: dict[str, int] = {}
        self.version = 0
        self.node_version = 0
        """Grows when a node object changes; pods coming and going leave it alone."""
        self.follows_pod_kinds = False
        """Whether a row counts as changed too when nothing but the kind of a pod on it did."""
        self.columns_version = 0
        """Grows when a resource gets a column: until then it has one that is zero for ever."""
        self.pods = PodTable()
        self.counts = CountIndex(self)
        """Pods of every sort somebody asks for, per node and per topology domain."""
        self.taint_lists: list[tuple[Taint, ...]] = []
        self.feature_lists: list[frozenset[str]] = []
        self._taint_index: dict[tuple[Any, ...], int] = {}
        self._feature_index: dict[frozenset[str], int] = {}
        self._nodes: list[Node | None] = []
        self._free: list[int] = []
        self.log, self.node_log = [0] * LOG_MAX, [0] * LOG_MAX
        """Each version changed one row: which, for the last versions, round and round."""
        self._columns: dict[str, NDArray[Any]] = {}
        self._cells: dict[str, memoryview] = {}
        """The same columns for single cells: an array takes twice as long for one."""
        self._requested_cells: dict[str, memoryview] = {}
        self._allocatable: dict[str, Ints] = {}
        self._requested: dict[str, Ints] = {}
        self._labels = LabelColumns(self.counts.forget_label)
        self._row_sets: dict[Hashable, RowSet] = {}
        self.ports = PortColumns()
        self.images = ImageColumns()
        self._image_versions: list[int] = []
        self._order: Rows = np.zeros(0, np.intp)
        self._order_version = -1
        self._membership = 0
        self._tree = NodeTree()
        self._image_table = ImageTable()
        self._zeros: Ints = np.zeros(0, np.int64)
        """The column of every resource that no node has, or no pod asks for."""
        self._grow(64)

    def fork(self, cache: Cache) -> NodeTable:
        """A table of a fork of the cache, as this one is of the cache: everything is taken in.

        Counts and row sets are made anew when somebody asks for them: a few array operations, and
        few of those that were ever asked for are asked for again.
        """
        fork = NodeTable()
        fork.size, fork.capacity, fork.node_count = self.size, self.capacity, self.node_count
        fork.names, fork.infos, fork.row_of = self.names[:], self.infos[:], self.row_of.copy()
        fork.version, fork.node_version = self.version, self.node_version
        fork.follows_pod_kinds = self.follows_pod_kinds
        fork.columns_version = self.columns_version
        fork.pods = self.pods.fork()
        fork.taint_lists, fork.feature_lists = self.taint_lists[:], self.feature_lists[:]
        fork._taint_index, fork._feature_index = (
            self._taint_index.copy(),
            self._feature_index.copy(),
        )
        fork._nodes, fork._free = self._nodes[:], self._free[:]
        fork.log, fork.node_log = self.log[:], self.node_log[:]
        fork._columns = {name: column.copy() for name, column in self._columns.items()}
        fork._allocatable = {name: column.copy() for name, column in self._allocatable.items()}
        fork._requested = {name: column.copy() for name, column in self._requested.items()}
        fork._labels = self._labels.fork(fork.counts.forget_label)
        fork.ports, fork.images = self.ports.fork(), self.images.fork()
        fork._image_versions = self._image_versions[:]
        fork._order, fork._order_version = self._order, self._order_version
        fork._membership = self._membership
        fork._tree, fork._image_table = cache.tree, cache.images
        fork._zeros = self._zeros
        fork._look()
        return fork

    # -- what plugins read ------------------------------------------------------------------

    @property
    def alive(self) -> Mask:
        """False for holes left by removed nodes."""
        return self._view("alive")

    @property
    def unschedulable(self) -> Mask:
        return self._view("unschedulable")

    @property
    def pod_count(self) -> Ints:
        return self._view("pod_count")

    @property
    def nonzero_milli_cpu(self) -> Ints:
        return self._view("nonzero_milli_cpu")

    @property
    def nonzero_memory(self) -> Ints:
        return self._view("nonzero_memory")

    @property
    def taint_list(self) -> NDArray[np.int32]:
        """Per row, an index into `taint_lists`: thousands of nodes share a few lists."""
        return self._view("taint_list")

    @property
    def feature_list(self) -> NDArray[np.int32]:
        """Per row, an index into `feature_lists` (declared features)."""
        return self._view("feature_list")

    @property
    def row_pods_version(self) -> Ints:
        """Grows with every change of the row, and when nothing but a pod's kind changed on it."""
        return self._view("row_pods_version")

    def _view(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self.size]

    @property
    def resources(self) -> set[str]:
        """Every resource that has a column."""
        return {*self._allocatable, *self._requested}

    def allocatable(self, resource: str) -> Ints:
        """Milli-cpu, bytes or counts; all zero for a resource no node has."""
        return self._allocatable.get(resource, self._zeros)[: self.size]

    def requested(self, resource: str) -> Ints:
        return self._requested.get(resource, self._zeros)[: self.size]

    def _add_amount_column(self, columns: dict[str, Ints], resource: str) -> None:
        """It is zero: rows written before had none of it, or it would not be new."""
        column = columns[resource] = np.zeros(self.capacity, np.int64)
        self.columns_version += 1
        if columns is self._requested:
            self._requested_cells[resource] = column.data

    def info(self, row: int) -> NodeInfo:
        info = self.infos[row]
        assert info is not None, f"row {row} holds no node"
        return info

    def label(self, key: str) -> LabelColumn:
        column = self._labels.find(key)
        if column is None:
            labels = [None if info is None else info.labels for info in self.infos]
            column = self._labels.make(key, labels, self.size, self.capacity)
        return column

    def has_label(self, key: str) -> bool:
        """Whether a node has it."""
        return self._labels.has(key)

    @property
    def label_keys_version(self) -> int:
        """Grows when `has_label` changes its mind about a key."""
        return self._labels.keys_version

    def rows_of(self, names: frozenset[str]) -> Rows:
        """Rows of the nodes that exist among these names, ascending."""
        return np.array(sorted(self.row_of[n] for n in names if n in self.row_of), np.intp)

    @property
    def labels_kept(self) -> list[str]:
        return list(self._labels)

    def port_used(self, ip: str, protocol: str, port: int) -> Mask | None:
        """Rows where this host port is taken; None when no node uses it at all."""
        return self.ports.used(ip, protocol, port, self.size)

    def image(self, name: str) -> tuple[Ints, Ints] | None:
        """Per row the size of the image there and on how many nodes it was when last looked at.

        None when no node has it.
        """
        if name not in self._image_table:
            self.images.forget(name)
            return None
        return self.images.get(name, self.infos, self.capacity)

    def row_set(self, key: Hashable, member: Member) -> RowSet:
        """The rows whose nodes `member` accepts; equal keys must mean equal predicates."""
        found = self._row_sets.get(key)
        if found is None:
            found = self._row_sets[key] = RowSet(self, member)
            if len(self._row_sets) > _ROW_SETS_MAX:
                self._row_sets.pop(next(iter(self._row_sets)))
        found.refresh()
        return found

    @property
    def order(self) -> Rows:
        """Rows in the node tree's order (zones taken in turn); follows nodes added and removed."""
        if self._order_version != self._membership:
            self._order = np.array([self.row_of[n] for n in self._tree.names()], np.intp)
            self._order_version = self._membership
        return self._order

    # -- refreshing -------------------------------------------------------------------------

    def refresh(self, cache: Cache) -> None:
        """Bring the table up to date with the cache, touching only what changed there."""
        changes = cache.take_changes()
        if not changes:
            return
        self._tree, self._image_table = cache.tree, cache.images
        image_version = self._image_table.version
        dirty: dict[int, NodeInfo] = {}
        infos, pods, counts = self.infos, self.pods, self.counts
        image_versions = self._image_versions
        for change, info, payload in changes:
            row = info.row
            if row < 0:
                # What happens on a node that has no row is told when it gets one.
                if change is _NODE_SET:
                    row = self._take_row(info)
                    for pod in payload:
                        self._count_pod(pod, row, 1)
                    dirty[row] = info
                continue
            infos[row] = info  # A copy of the one before, if that is shared with a fork.
            if change is _POD_ADDED:
                pods.add(payload, row)
                counts.count(payload.kind, row, 1)
                dirty[row] = info
            elif change is _POD_SWAPPED:
                if image_versions[row] != image_version:
                    dirty[row] = info
            elif change is _POD_REDEFINED:
                if (
                    self._redefine_pod(row, *payload)
                    or self.follows_pod_kinds
                    or image_versions[row] != image_version
                ):
                    dirty[row] = info
            elif change is _POD_REMOVED:
                pods.remove(payload)
                counts.count(payload.kind, row, -1)
                dirty[row] = info
            elif change is _NODE_SET:
                dirty[row] = info
            elif change is _NODE_REMOVED:
                dirty.pop(row, None)
                self._free_row(info, payload)
            elif row not in dirty:
                # The node object was swapped, with nothing changed that anybody reads.
                self._nodes[row] = payload
                if image_versions[row] != image_version:
                    dirty[row] = info
        for row, info in dirty.items():
            self._write_row(row, info)
        if not self._labels.is_tidy:
            self._labels.trim()

    def heal(self, cache: Cache) -> str:
        """See that no node is missing, and rebuild the table if one is.

        Says what was wrong, as upstream does: the cycle that found it fails, the next recovers.
        """
        if self.node_count == len(cache.tree):
            return ""
        problem = (
            f"snapshot state is not consistent, length of NodeInfoList={self.node_count} "
            f"not equal to length of nodes in tree={len(cache.tree)} , length of "
            f"NodeInfoMap={len(self.row_of)}, length of nodes in cache={len(cache.nodes)}, "
            "trying to recover"
        )
        self.rebuild(cache)
        return problem

    def check(self, cache: Cache) -> list[str]:
        """Compare everything with the cache, and rebuild the table if anything differs.

        Takes as long as the cluster is large: for the debugger and for tests.
        """
        self.refresh(cache)
        problems = table_problems(self, cache)
        if problems:
            self.rebuild(cache)
        return problems

    def rebuild(self, cache: Cache) -> None:
        """Forget everything and take it anew from the cache.

        Versions go on growing and rows stay in use, so whatever is kept per row catches up.
        """
        cache.own_all()
        cache.take_changes()
        self._tree, self._image_table = cache.tree, cache.images
        for info in (*self.infos, *cache.nodes.values()):
            if info is not None:
                info.row = -1
        self._empty()
        nodes = [info for info in cache.nodes.values() if info.node is not None]
        for info in nodes:
            row = self._take_row(info)
            for pod in info.pods.values():
                self._count_pod(pod, row, 1)
        for info in nodes:
            self._write_row(info.row, info)

    def _empty(self) -> None:
        size = self.size
        self.names, self.infos, self._nodes = [""] * size, [None] * size, [None] * size
        self._image_versions = [-1] * size
        self._free = list(range(size))[::-1]
        self.row_of.clear()
        self.node_count = 0
        self._membership += 1
        for name, column in self._columns.items():
            if name != "row_pods_version":
                column[:] = 0
        for amounts in (*self._allocatable.values(), *self._requested.values()):
            amounts[:] = 0
        self.ports.clear()
        self.images.clear()
        self._labels.clear()
        self.counts.clear()
        self.pods = self.pods.emptied()
        for row in range(size):
            self._touch(row, True)

    def _count_pod(self, pod: PodInfo, row: int, sign: int) -> None:
        if sign > 0:
            self.pods.add(pod, row)
        else:
            self.pods.remove(pod)
        self.counts.count(pod.kind, row, sign)

    def _redefine_pod(self, row: int, before: PodInfo, now: PodInfo) -> bool:
        self.pods.change_kind(before, now)
        self._pods_version_cells[row] += 1
        return self.counts.recount(before.kind, now.kind, row)

    def _take_row(self, info: NodeInfo) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self.size
            if row == self.capacity:
                self._grow(2 * self.capacity)
            self.size += 1
            self.names.append("")
            self.infos.append(None)
            self._nodes.append(None)
            self._image_versions.append(-1)
            self._labels.resize(self.size, self.capacity)
            self.counts.resize(self.size, self.capacity)
        info.row = row
        self.names[row], self.infos[row], self._nodes[row] = info.name, info, None
        self.row_of[info.name] = row
        self._columns["alive"][row] = True
        self.node_count += 1
        self._membership += 1
        return row

    def _free_row(self, info: NodeInfo, pods: tuple[PodInfo, ...]) -> None:
        row = info.row
        for pod in pods:
            self._count_pod(pod, row, -1)
        self._labels.write(row, _labels_of(self._nodes[row]), None)
        info.row = -1
        del self.row_of[info.name]
        self.names[row], self.infos[row], self._nodes[row] = "", None, None
        self._columns["alive"][row] = False
        self.ports.write(row, frozenset(), self.capacity)
        self.images.write(row, {})
        self._free.append(row)
        self.node_count -= 1
        self._membership += 1
        self._touch(row, True)

    def _touch(self, row: int, node_changed: bool) -> None:
        self.version = version = self.version + 1
        self.log[version % LOG_MAX] = row
        self._pods_version_cells[row] += 1
        if node_changed:
            self.node_version = version = self.node_version + 1
            self.node_log[version % LOG_MAX] = row

    def _write_row(self, row: int, info: NodeInfo) -> None:
        requested = info.requested
        if not requested.keys() <= self._requested.keys():
            for name in requested:
                if name not in self._requested:
                    self._add_amount_column(self._requested, name)
        for name, amounts in self._requested_cells.items():
            amounts[row] = min(requested.get(name, 0), AMOUNT_MAX)
        milli_cpu, memory, pod_count = self._sum_cells
        milli_cpu[row] = min(info.nonzero_milli_cpu, AMOUNT_MAX)
        memory[row] = min(info.nonzero_memory, AMOUNT_MAX)
        pod_count[row] = len(info.pods)
        if info.used_ports or self.ports.of_rows:
            self.ports.write(row, frozenset(info.used_ports), self.capacity)
        node = info.node
        assert node is not None, f"{info.name} has a row but no node"
        changed = node is not self._nodes[row]
        if changed:
            self._write_node(row, info, node)
        if self._image_versions[row] != self._image_table.version or changed:
            changed = True
            self._write_images(row, info)
        self._touch(row, changed)

    def _write_node(self, row: int, info: NodeInfo, node: Node) -> None:
        self._labels.write(row, _labels_of(self._nodes[row]), info.labels)
        self._nodes[row] = node
        for name in info.allocatable:
            if name not in self._allocatable:
                self._add_amount_column(self._allocatable, name)
        for name, amounts in self._allocatable.items():
            amounts[row] = min(info.allocatable.get(name, 0), AMOUNT_MAX)
        columns = self._columns
        columns["unschedulable"][row] = node.spec.unschedulable
        if max(len(self.taint_lists), len(self.feature_lists)) > _LISTS_MAX + 2 * self.size:
            self._renumber_lists()
        self._write_lists(row, node)

    def _write_lists(self, row: int, node: Node) -> None:
        columns = self._columns
        columns["taint_list"][row] = self._taint_list(tuple(node.spec.taints or ()))
        features = frozenset(node.status.declared_features or ())
        columns["feature_list"][row] = self._feature_list(features)

    def _taint_list(self, taints: tuple[Taint, ...]) -> int:
        key = tuple((t.key, t.value, t.effect) for t in taints)
        number = self._taint_index.get(key)
        if number is None:
            number = self._taint_index[key] = len(self.taint_lists)
            self.taint_lists.append(taints)
        return number

    def _feature_list(self, features: frozenset[str]) -> int:
        number = self._feature_index.get(features)
        if number is None:
            number = self._feature_index[features] = len(self.feature_lists)
            self.feature_lists.append(features)
        return number

    def _renumber_lists(self) -> None:
        """Forget the lists that no node has any more; whoever knew the numbers sees new lists."""
        self.taint_lists, self.feature_lists = [], []
        self._taint_index, self._feature_index = {}, {}
        # Rows without a node too: whoever looks at all rows at once looks these up as well.
        self._columns["taint_list"][:] = self._columns["feature_list"][:] = 0
        for row, node in enumerate(self._nodes):
            if node is not None:
                self._write_lists(row, node)

    def _write_images(self, row: int, info: NodeInfo) -> None:
        info.image_states = self._image_table.states_of(info)
        self._image_versions[row] = self._image_table.version
        self.images.write(row, info.image_states)

    def _grow(self, capacity: int) -> None:
        for name, dtype in _COLUMNS.items():
            self._columns[name] = _grown(self._columns.get(name), capacity, dtype)
        for columns in (self._allocatable, self._requested):
            for name in columns:
                columns[name] = _grown(columns[name], capacity, np.int64)
        self.ports.grow(capacity)
        self.images.grow(capacity)
        self._zeros = np.zeros(capacity, np.int64)
        self._zeros.setflags(write=False)
        self.capacity = capacity
        self._look()

    def _look(self) -> None:
        cells = self._cells = {name: column.data for name, column in self._columns.items()}
        self._pods_version_cells = cells["row_pods_version"]
        self._sum_cells = cells["nonzero_milli_cpu"], cells["nonzero_memory"], cells["pod_count"]
        self._requested_cells = {name: column.data for name, column in self._requested.items()}


# An enum's members are slow to reach through the class, and these are asked for at every change.
_NODE_SET, _NODE_REMOVED = CacheChange.NODE_SET, CacheChange.NODE_REMOVED
_POD_ADDED, _POD_SWAPPED, _POD_REDEFINED, _POD_REMOVED = (
    CacheChange.POD_ADDED,
    CacheChange.POD_SWAPPED,
    CacheChange.POD_REDEFINED,
    CacheChange.POD_REMOVED,
)

_COLUMNS: dict[str, type[np.generic]] = {
    "alive": np.bool_,
    "unschedulable": np.bool_,
    "pod_count": np.int64,
    "nonzero_milli_cpu": np.int64,
    "nonzero_memory": np.int64,
    "taint_list": np.int32,
    "feature_list": np.int32,
    "row_pods_version": np.int64,
}


def _labels_of(node: Node | None) -> dict[str, str] | None:
    return None if node is None else node.metadata.labels or NO_LABELS


def _grown(column: NDArray[Any] | None, capacity: int, dtype: type[np.generic]) -> NDArray[Any]:
    grown = np.zeros(capacity, dtype)
    if column is not None:
        grown[: len(column)] = column
    return grown
