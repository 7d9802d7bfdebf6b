"""The snapshot as a table: one row per node, one column per fact.

`refresh` copies from the cache only what changed there since the last time.  Plugins read columns
and never write them.  A removed node leaves a hole that `alive` masks until another node takes
the row.

Every row carries the version of its last change, of any sort and of its node object alone, so
that whatever is kept per row (`framework.kept`, `RowSet`, `DomainCounts`) catches up by looking at
those rows only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.node import Node, Taint
from stowplan.state.changes import Change
from stowplan.state.count_index import CountIndex
from stowplan.state.images import ImageTable
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_tree import NodeTree
from stowplan.state.pod_info import HostPort, PodInfo
from stowplan.state.pod_table import PodTable
from stowplan.state.row_set import ALL_NODES, Member, RowSet, all_nodes

if TYPE_CHECKING:
    from stowplan.state.cache import Cache

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

_LOG_MAX = 4096
"""Changed rows remembered one by one; further back, versions are compared over the whole table."""

_KEPT_MAX = 1024
"""Row sets and images kept; the oldest goes first."""


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
        self.pods = PodTable()
        self.counts = CountIndex(self)
        """Pods of every sort somebody asks for, per node and per topology domain."""
        self.taint_lists: list[tuple[Taint, ...]] = []
        self.feature_lists: list[frozenset[str]] = []
        self._taint_index: dict[tuple[Any, ...], int] = {}
        self._feature_index: dict[frozenset[str], int] = {}
        self._nodes: list[Node | None] = []
        self._free: list[int] = []
        self._log: deque[tuple[int, int]] = deque(maxlen=_LOG_MAX)
        self._log_floor = 0
        self._columns: dict[str, NDArray[Any]] = {}
        self._allocatable: dict[str, Ints] = {}
        self._requested: dict[str, Ints] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._row_sets: dict[Hashable, RowSet] = {}
        self._ports: dict[tuple[str, int], dict[str, Mask]] = {}
        self._row_ports: dict[int, frozenset[tuple[str, str, int]]] = {}
        self._images: dict[str, tuple[Ints, Ints]] = {}
        self._image_versions: list[int] = []
        self._order: Rows = np.zeros(0, np.intp)
        self._order_version = -1
        self._membership = 0
        self._tree = NodeTree()
        self._image_table = ImageTable()
        self._grow(64)

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
    def row_version(self) -> Ints:
        return self._view("row_version")

    def _view(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self.size]

    def allocatable(self, resource: str) -> Ints:
        """Milli-cpu, bytes or counts; all zero for a resource no node has."""
        return self._amount_column(self._allocatable, resource)[: self.size]

    def requested(self, resource: str) -> Ints:
        return self._amount_column(self._requested, resource)[: self.size]

    def _amount_column(self, columns: dict[str, Ints], resource: str) -> Ints:
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = np.zeros(self.capacity, np.int64)
            for row, info in enumerate(self.infos):
                if info is not None:
                    amounts = info.allocatable if columns is self._allocatable else info.requested
                    column[row] = amounts.get(resource, 0)
        return column

    def info(self, row: int) -> NodeInfo:
        info = self.infos[row]
        assert info is not None, f"row {row} holds no node"
        return info

    def label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None or column.is_worn:
            column = LabelColumn(key, self.capacity)
            column.resize(self.size, self.capacity)
            for row, info in enumerate(self.infos):
                if info is not None:
                    column.set(row, info.labels.get(key))
            column.version = self.node_version
            self._labels[key] = column
            self.counts.forget_label(key)
        return column

    def rows_of(self, names: frozenset[str]) -> Rows:
        """Rows of the nodes that exist among these names, ascending."""
        return np.array(sorted(self.row_of[n] for n in names if n in self.row_of), np.intp)

    def port_used(self, ip: str, protocol: str, port: int) -> Mask | None:
        """Rows where this host port is taken; None when no node uses it at all."""
        by_ip = self._ports.get((protocol, port))
        if not by_ip:
            return None
        clashing = [
            mask for used, mask in by_ip.items() if ip == used or "0.0.0.0" in (ip, used)
        ]
        if not clashing:
            return None
        taken = np.zeros(self.size, np.bool_)
        for mask in clashing:
            taken |= mask[: self.size]
        return taken

    def image(self, name: str) -> tuple[Ints, Ints] | None:
        """Per row the size of the image there and on how many nodes it was when last looked at.

        None when no node has it.
        """
        if name not in self._images:
            if name not in self._image_table:
                return None
            found = [
                (row, info.image_states[name])
                for row, info in enumerate(self.infos)
                if info is not None and name in info.image_states
            ]
            if not found:
                return None
            sizes, node_counts = np.zeros(self.capacity, np.int64), np.zeros(self.capacity, np.int64)
            for row, state in found:
                sizes[row], node_counts[row] = state
            _keep(self._images, name, (sizes, node_counts))
        sizes, node_counts = self._images[name]
        return sizes[: self.size], node_counts[: self.size]

    def row_set(self, key: Hashable, member: Member) -> RowSet:
        """The rows whose nodes `member` accepts; equal keys must mean equal predicates."""
        found = self._row_sets.get(key)
        if found is None:
            found = RowSet(self, member)
            _keep(self._row_sets, key, found)
        found.refresh()
        return found

    @property
    def all_rows(self) -> RowSet:
        return self.row_set(ALL_NODES, all_nodes)

    # -- what changed -----------------------------------------------------------------------

    def rows_newer_than(self, version: int) -> Rows:
        """Rows changed after `version`, each once."""
        if version >= self.version:
            return _NO_ROWS
        if version < self._log_floor:
            changed: Rows = np.flatnonzero(self.row_version > version)
            return changed
        recent = set()
        for at, row in reversed(self._log):
            if at <= version:
                break
            recent.add(row)
        return np.array(sorted(recent), np.intp)

    def rows_with_nodes_newer_than(self, version: int) -> Rows:
        changed: Rows = np.flatnonzero(self._view("row_node_version") > version)
        return changed

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
        dirty: dict[int, NodeInfo] = {}
        for change, info, payload in changes:
            if change is Change.POD_ADDED:
                if info.row >= 0:
                    self._count_pod(payload, info.row, 1)
                    dirty[info.row] = info
            elif change is Change.POD_REMOVED:
                if info.row >= 0:
                    self._count_pod(payload, info.row, -1)
                    dirty[info.row] = info
            elif change is Change.NODE_SET:
                if info.row < 0:
                    self._take_row(info)
                    for pod in payload:
                        self._count_pod(pod, info.row, 1)
                dirty[info.row] = info
            else:
                dirty.pop(info.row, None)
                self._free_row(info, payload)
        for row, info in dirty.items():
            self._write_row(row, info)

    def _count_pod(self, pod: PodInfo, row: int, sign: int) -> None:
        if sign > 0:
            self.pods.add(pod, row)
        else:
            self.pods.remove(pod)
        self.counts.count(pod.kind, row, sign)

    def _take_row(self, info: NodeInfo) -> None:
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
            for column in self._labels.values():
                column.resize(self.size, self.capacity)
            self.counts.resize(self.size, self.capacity)
        info.row = row
        self.names[row], self.infos[row], self._nodes[row] = info.name, info, None
        self.row_of[info.name] = row
        self._columns["alive"][row] = True
        self.node_count += 1
        self._membership += 1

    def _free_row(self, info: NodeInfo, pods: tuple[PodInfo, ...]) -> None:
        row = info.row
        if row < 0:
            return
        for pod in pods:
            self._count_pod(pod, row, -1)
        info.row = -1
        del self.row_of[info.name]
        self.names[row], self.infos[row], self._nodes[row] = "", None, None
        self._columns["alive"][row] = False
        self._write_ports(row, frozenset())
        self._free.append(row)
        self.node_count -= 1
        self._membership += 1
        self._touch(row, node_changed=True)

    def _touch(self, row: int, *, node_changed: bool) -> None:
        self.version += 1
        if len(self._log) == _LOG_MAX:
            self._log_floor = self._log[0][0]
        self._log.append((self.version, row))
        self._columns["row_version"][row] = self.version
        if node_changed:
            self.node_version += 1
            self._columns["row_node_version"][row] = self.node_version

    def _write_row(self, row: int, info: NodeInfo) -> None:
        columns = self._columns
        for name in info.requested:
            if name not in self._requested:
                self._amount_column(self._requested, name)
        for name, amounts in self._requested.items():
            amounts[row] = info.requested.get(name, 0)
        columns["nonzero_milli_cpu"][row] = info.nonzero_milli_cpu
        columns["nonzero_memory"][row] = info.nonzero_memory
        columns["pod_count"][row] = len(info.pods)
        if info.used_ports or row in self._row_ports:
            self._write_ports(row, frozenset(info.used_ports))
        node = info.node
        assert node is not None, f"{info.name} has a row but no node"
        changed = node is not self._nodes[row]
        if changed:
            self._write_node(row, info, node)
        if changed or self._image_versions[row] != self._image_table.version:
            self._write_images(row, info)
        self._touch(row, node_changed=changed)

    def _write_node(self, row: int, info: NodeInfo, node: Node) -> None:
        self._nodes[row] = node
        for name in info.allocatable:
            if name not in self._allocatable:
                self._amount_column(self._allocatable, name)
        for name, amounts in self._allocatable.items():
            amounts[row] = info.allocatable.get(name, 0)
        columns = self._columns
        columns["unschedulable"][row] = node.spec.unschedulable
        columns["taint_list"][row] = self._taint_list(tuple(node.spec.taints or ()))
        features = frozenset(node.status.declared_features or ())
        columns["feature_list"][row] = self._feature_list(features)
        labels = info.labels
        for key, label in self._labels.items():
            label.set(row, labels.get(key))

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

    def _write_images(self, row: int, info: NodeInfo) -> None:
        info.image_states = self._image_table.states_of(info)
        self._image_versions[row] = self._image_table.version
        for name, (sizes, node_counts) in self._images.items():
            sizes[row], node_counts[row] = info.image_states.get(name, (0, 0))

    def _write_ports(self, row: int, ports: frozenset[HostPort]) -> None:
        before = self._row_ports.get(row, frozenset())
        if ports == before:
            return
        for ip, protocol, port in before - ports:
            by_ip = self._ports[protocol, port]
            by_ip[ip][row] = False
            if not by_ip[ip].any():
                del by_ip[ip]
        for ip, protocol, port in ports - before:
            by_ip = self._ports.setdefault((protocol, port), {})
            if ip not in by_ip:
                by_ip[ip] = np.zeros(self.capacity, np.bool_)
            by_ip[ip][row] = True
        if ports:
            self._row_ports[row] = ports
        else:
            self._row_ports.pop(row, None)

    def _grow(self, capacity: int) -> None:
        for name, dtype in _COLUMNS.items():
            self._columns[name] = _grown(self._columns.get(name), capacity, dtype)
        for columns in (self._allocatable, self._requested):
            for name in columns:
                columns[name] = _grown(columns[name], capacity, np.int64)
        for by_ip in self._ports.values():
            for ip in by_ip:
                by_ip[ip] = _grown(by_ip[ip], capacity, np.bool_)
        for name, (sizes, node_counts) in self._images.items():
            self._images[name] = (
                _grown(sizes, capacity, np.int64),
                _grown(node_counts, capacity, np.int64),
            )
        self.capacity = capacity


_NO_ROWS: Rows = np.zeros(0, np.intp)

_COLUMNS: dict[str, type[np.generic]] = {
    "alive": np.bool_,
    "unschedulable": np.bool_,
    "pod_count": np.int64,
    "nonzero_milli_cpu": np.int64,
    "nonzero_memory": np.int64,
    "taint_list": np.int32,
    "feature_list": np.int32,
    "row_version": np.int64,
    "row_node_version": np.int64,
}


def _grown(column: NDArray[Any] | None, capacity: int, dtype: type[np.generic]) -> NDArray[Any]:
    grown = np.zeros(capacity, dtype)
    if column is not None:
        grown[: len(column)] = column
    return grown


def _keep(kept: dict[Any, Any], key: Hashable, value: Any) -> Any:
    """Insert, and give back what had to go to stay within bounds (None if nothing)."""
    kept[key] = value
    if len(kept) > _KEPT_MAX:
        return kept.pop(next(iter(kept)))
    return None
