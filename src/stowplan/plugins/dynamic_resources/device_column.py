"""Which nodes have the same devices to offer: a column with a number for each such offer.

Two nodes whose pools have the same content, and of which the same devices are held, are one and
the same to every search.  A cluster has few makes of nodes and few ways in which they are filled,
so a search is made once per offer and not once per node (`kept_searches`).  The column follows
node objects, slices and claims, row by row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache, PoolState
from stowplan.plugins.dynamic_resources.pool import Pool, PoolForm
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import RowFollower

OFFERS_MAX = 16_384
"""Offers remembered beyond one for each node: then all are numbered anew."""

NO_NODE = 0
"""The number of rows that hold none."""

_LOG_MAX = 4096

Offer = tuple[tuple[PoolForm, PoolState, tuple[bool, ...]], ...]
"""Per pool: its content, what is held of it, and which devices the node can have of those that say
so one by one."""

Numbers = NDArray[np.intp]


class DeviceColumn:
    def __init__(self, claims: ClaimCache, slices: Slices) -> None:
        self._claims = claims
        self._slices = slices
        self._follower = RowFollower(of_nodes=True)
        self._slices_seen = self._held_seen = -1
        self._known: dict[Offer, int] = {}
        self.numbers: Numbers = np.zeros(0, np.intp)
        """Per row that of its offer, from 1 on; 0 for rows without a node."""
        self.generation = 0
        """Grows when numbers get another meaning."""
        self.version = 0
        """Grows with every row that gets another number."""
        self._log: deque[int] = deque(maxlen=_LOG_MAX)

    def catch_up(self, nodes: NodeTable) -> None:
        slices, held = self._slices, self._claims.held
        slices.catch_up()
        rows = self._follower.changed(nodes)
        names = slices.changed_since(self._slices_seen)
        devices = held.changed_since(self._held_seen)
        self._slices_seen, self._held_seen = slices.version, held.version
        if len(self._known) > OFFERS_MAX + nodes.size:
            self.generation += 1
            self._known = {}
            rows = None
        if rows is None or names is None or devices is None:
            self._number_all(nodes)
            return
        for device in set(devices):
            names += slices.nodes_with(device)
        found = [row for name in names if (row := nodes.row_of.get(name)) is not None]
        self._number_some(nodes, (*rows, *found))

    def changed_since(self, version: int) -> list[int] | None:
        """Rows that got another number; None when it is too long ago to say."""
        count = self.version - version
        return None if count > len(self._log) else list(islice(reversed(self._log), count))

    def _number_all(self, nodes: NodeTable) -> None:
        self.version += 1
        self._log.clear()
        self.numbers = np.fromiter(map(self._number, nodes.infos), np.intp, nodes.size)

    def _number_some(self, nodes: NodeTable, rows: Iterable[int]) -> None:
        for row in rows:
            number = self._number(nodes.infos[row])
            if number != self.numbers[row]:
                self.numbers[row] = number
                self.version += 1
                self._log.append(row)

    def _number(self, node: NodeInfo | None) -> int:
        if node is None:
            return NO_NODE
        state_of = self._claims.held.state_of
        offer = tuple(
            [
                (pool.form, _seen_of(pool, state_of(pool.id)), _to_be_had(pool, node))
                for pool in self._slices.pools(node)
            ]
        )
        return self._known.setdefault(offer, len(self._known) + 1)


def _seen_of(pool: Pool, state: PoolState) -> PoolState:
    if not pool.is_usable:
        return ()
    if not (state and pool.is_part):
        return state
    return tuple([held for held in state if held[0] in pool.device_names])


def _to_be_had(pool: Pool, node: NodeInfo) -> tuple[bool, ...]:
    if not pool.form.has_places:
        return ()
    return tuple(it.places is None or it.places.accept(node) for it in pool.devices)
