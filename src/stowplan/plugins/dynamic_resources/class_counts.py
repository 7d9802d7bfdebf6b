"""How many devices of a class each node has, and how many of those are held: what scores count.

All slices count, also those of a pool that cannot be used just now, as upstream has it.  The counts
follow node objects, slices and claims, row by row; asked through `_shared.device_totals`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.devices import DeviceClass
from stowplan.plugins._shared.device_totals import DeviceCount
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.device_entry import DeviceId
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import expressions_of
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import RowFollower

KEPT_MAX = 64

Ints = NDArray[np.int64]
Selectors = tuple[str, ...]


class ClassCounts:
    def __init__(self, claims: ClaimCache, slices: Slices) -> None:
        self._claims = claims
        self._slices = slices
        self._kept: OrderedDict[Selectors, _OfClass] = OrderedDict()

    def on_node(self, device_class: DeviceClass, node: NodeInfo) -> DeviceCount:
        self._slices.catch_up()
        matching = devices_on(node, expressions_of(device_class.spec.selectors), self._slices)
        return DeviceCount(len(matching), sum(map(self._claims.held.is_used, matching)))

    def on_nodes(self, device_class: DeviceClass, nodes: NodeTable) -> tuple[Ints, Ints]:
        selectors = expressions_of(device_class.spec.selectors)
        found = self._kept.get(selectors)
        if found is None:
            found = self._kept[selectors] = _OfClass(selectors, self._claims, self._slices)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(selectors)
        found.catch_up(nodes)
        return found.totals, found.used


class _OfClass:
    """Per row, for all classes with these selectors."""

    def __init__(self, selectors: Selectors, claims: ClaimCache, slices: Slices) -> None:
        self._selectors = selectors
        self._claims = claims
        self._slices = slices
        self._follower = RowFollower(of_nodes=True)
        self._slices_seen = self._held_seen = -1
        self._rows_with: dict[DeviceId, set[int]] = {}
        """Device -> the rows where it counts, or did."""
        self.totals: Ints = np.zeros(0, np.int64)
        self.used: Ints = np.zeros(0, np.int64)

    def catch_up(self, nodes: NodeTable) -> None:
        slices, held = self._slices, self._claims.held
        slices.catch_up()
        rows = self._follower.changed(nodes)
        names = slices.changed_since(self._slices_seen)
        devices = held.changed_since(self._held_seen)
        self._slices_seen, self._held_seen = slices.version, held.version
        if rows is None or names is None or devices is None:
            self._rows_with = {}
            self.totals, self.used = np.zeros((2, nodes.size), np.int64)
            self._count(nodes, range(nodes.size))
            return
        of_names = (row for name in names if (row := nodes.row_of.get(name)) is not None)
        of_devices = (row for device in devices for row in self._rows_with.get(device, ()))
        self._count(nodes, {*rows, *of_names, *of_devices})

    def _count(self, nodes: NodeTable, rows: Iterable[int]) -> None:
        is_used = self._claims.held.is_used
        for row in rows:
            node = nodes.infos[row]
            matching = [] if node is None else devices_on(node, self._selectors, self._slices)
            for device in matching:
                self._rows_with.setdefault(device, set()).add(row)
            self.totals[row], self.used[row] = len(matching), sum(map(is_used, matching))


def devices_on(node: NodeInfo, selectors: Selectors, slices: Slices) -> list[DeviceId]:
    """Those of the node that the selectors take; none where one of them fails."""
    found = []
    for entry in slices.relevant(node):
        for device in entry.devices:
            if device.places is not None and not device.places.accept(node):
                continue
            selected = device.selected_by(selectors)
            if selected is True:
                found.append(device.id)
            elif selected is not False:
                return []
    return found
