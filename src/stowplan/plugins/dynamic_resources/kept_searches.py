"""What searches found, kept for claims alike: a node is searched again once its devices change.

Replicas have claims of the same content, and each takes devices of one node.  So the next pod's
answer is the last one's but for that node, and for the others that share a pool with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.objects.devices import DeviceClass
from stowplan.plugins.dynamic_resources.allocator import Choices
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.device_entry import PoolId
from stowplan.plugins.dynamic_resources.extended_resources import SpecialClaim
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import ClaimAsk
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex

KEPT_MAX = 64
"""Demands remembered: one for each sort of pod that waits."""

UNKNOWN = np.uint32(2**32 - 1)

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True, eq=False)
class OnNode:
    """What was found on one node where the pod can run."""

    choices: Choices | None
    """Per claim that had no allocation, in their order; None where nothing had to be found."""
    special: SpecialClaim | None = None


class FoundOnRows(Mapping[str, OnNode]):
    """What was found on some rows of the table, by name: most of it is never looked at."""

    def __init__(
        self, found: dict[int, OnNode], row_of: dict[str, int], names: list[str], rows: list[int]
    ) -> None:
        self._found, self._row_of, self._names, self._rows = found, row_of, names, rows

    def __getitem__(self, name: str) -> OnNode:
        return self._found[self._row_of[name]]

    def __iter__(self) -> Iterator[str]:
        return (self._names[row] for row in self._rows if row in self._found)

    def __len__(self) -> int:
        return sum(row in self._found for row in self._rows)

    def items(self) -> ItemsView[str, OnNode]:
        """Of the time it was made, whatever became of the rows since."""
        found = self._found
        return {self._names[row]: found[row] for row in self._rows if row in found}.items()


class KeptSearch:
    """Of claims with this content, by row of the node table."""

    def __init__(self, claims: ClaimCache, slices: Slices, objects: ObjectIndex) -> None:
        self._claims = claims
        self._slices = slices
        self._objects = objects
        self._basis: tuple[int, ...] = ()
        self._held_version = 0
        self._why: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._found: dict[int, OnNode] = {}
        self._rows_of: dict[PoolId, list[int]] = {}
        """Rows that were searched and had devices of the pool to choose from."""

    def why(self, nodes: NodeTable) -> NDArray[np.uint32]:
        """Per row the bit of the reason against it, 0 for none, or UNKNOWN; up to date."""
        held = self._claims.held
        classes = self._objects.version(DeviceClass)
        basis = (nodes.node_version, nodes.size, self._slices.version, classes)
        changed = held.changed_since(self._held_version)
        self._held_version = held.version
        if basis != self._basis or changed is None:
            self._basis = basis
            self._why = np.full(nodes.size, UNKNOWN, np.uint32)
            self._found, self._rows_of = {}, {}
            for row, node in enumerate(nodes.infos[: nodes.size]):
                for pool in self._slices.pools(node) if node is not None else ():
                    self._rows_of.setdefault(pool.id, []).append(row)
            return self._why
        for pool_id in {(driver, pool) for driver, pool, _ in changed}:
            rows = self._rows_of.get(pool_id, ())
            self._why[list(rows)] = UNKNOWN
            for row in rows:
                self._found.pop(row, None)
        return self._why

    def note(self, row: int, why: int, found: OnNode | None) -> None:
        self._why[row] = why
        if found is not None:
            self._found[row] = found

    def found_on(self, nodes: NodeTable, rows: list[int]) -> FoundOnRows:
        """By name, of these rows those where all was found; true from now on."""
        return FoundOnRows(self._found.copy(), nodes.row_of, nodes.names[:], rows)


class KeptSearches:
    def __init__(self, claims: ClaimCache, slices: Slices, objects: ObjectIndex) -> None:
        self._parts = (claims, slices, objects)
        self._kept: OrderedDict[bytes, KeptSearch] = OrderedDict()

    def of(self, claims: list[ClaimAsk]) -> KeptSearch:
        key = _encode([ask.claim.spec.devices for ask in claims])
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = KeptSearch(*self._parts)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found
