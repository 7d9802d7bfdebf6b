"""For one pod, which volumes its unbound claims would get on which node.

Claims are served by rising size, each with the smallest volume that is left and can be reached
from the node; a claim that finds none gets a new volume made, where its class can make one.  The
same rules twice: `on_node` for one node, `on_all` for the table.  Mirrors `FindPodVolumes` of
kube-scheduler's `volumebinding/binder.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.plugins._shared.volumes import SELECTED_NODE, class_of, requested_nanos
from stowplan.plugins.volume_binding.places import NOTHING, Numbers, Places, first_match
from stowplan.plugins.volume_binding.volume_offers import (
    Offer,
    Pool,
    Provision,
    VolumeOffers,
    candidates,
)
from stowplan.state.node_table import NodeTable

CANNOT_BIND = 2
NO_SPACE = 4
"""Bits of the verdict's reasons."""


@dataclass(slots=True)
class PodVolumes:
    """What the claims get on one node."""

    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    provisions: list[tuple[PersistentVolumeClaim, Pool | None]] = field(default_factory=list)


@dataclass(slots=True)
class AllVolumes:
    """The same for every row, as numbers of offers and pools; NOTHING where there is none."""

    why: NDArray[np.uint32]
    bound: list[Numbers]
    """Per claim of `VolumeSearch.claims`."""
    made: list[tuple[Provision, Numbers | None, NodeMask]]
    """The claim, its pool (None: not counted), and where it needs a new volume."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """One claim and the volumes it could get, best first."""

    claim: PersistentVolumeClaim
    offers: Sequence[tuple[int, Offer]]
    provision: Provision

    @property
    def places(self) -> list[tuple[int, Places]]:
        return [(number, offer.places) for number, offer in self.offers]


class VolumeSearch:
    def __init__(self, offers: VolumeOffers, claims: Sequence[PersistentVolumeClaim]) -> None:
        self._selected_nodes = {
            annotations[SELECTED_NODE]
            for claim in claims
            if SELECTED_NODE in (annotations := claim.metadata.annotations or {})
        }
        selected = [c for c in claims if SELECTED_NODE in (c.metadata.annotations or {})]
        others = [c for c in claims if SELECTED_NODE not in (c.metadata.annotations or {})]
        others.sort(key=lambda claim: requested_nanos(claim) or 0)
        self._chosen_before = [offers.provision(claim) for claim in selected]
        """Claims whose volume is being made already, for one node."""
        self._offers: list[Offer] = []
        self._numbered: dict[str, tuple[int, Sequence[Offer]]] = {}
        self._choices = [self._choice(offers, claim) for claim in others]
        self._all: AllVolumes | None = None

    def _choice(self, offers: VolumeOffers, claim: PersistentVolumeClaim) -> _Choice:
        provision = offers.provision(claim)
        prebound = offers.prebound(claim)
        if prebound is not None:
            self._offers.append(prebound)
            return _Choice(claim, [(len(self._offers) - 1, prebound)], provision)
        class_name = class_of(claim)
        if class_name not in self._numbered:
            found = offers.of_class(class_name)
            self._numbered[class_name] = (len(self._offers), found)
            self._offers.extend(found)
        first, free = self._numbered[class_name]
        suiting = [(first + position, free[position]) for position in candidates(claim, free)]
        return _Choice(claim, suiting, provision)

    @property
    def claims(self) -> list[PersistentVolumeClaim]:
        """Those that look for a volume, in the order they are served."""
        return [choice.claim for choice in self._choices]

    @property
    def offers(self) -> Sequence[Offer]:
        """What the numbers in `AllVolumes.bound` stand for."""
        return self._offers

    # -- one node ---------------------------------------------------------------------------

    def on_node(self, name: str, labels: Mapping[str, str]) -> PodVolumes | int:
        """What the claims get here, or the reason bit for which they get nothing."""
        if any(node != name for node in self._selected_nodes):
            return CANNOT_BIND
        found = PodVolumes()
        taken: set[int] = set()
        to_make = list(self._chosen_before)
        for choice in self._choices:
            for number, offer in choice.offers:
                if number not in taken and offer.places.accepts(labels):
                    taken.add(number)
                    found.bindings.append((choice.claim, offer.volume))
                    break
            else:
                to_make.append(choice.provision)
        for provision in to_make:
            if provision.places is None or not provision.places.accepts(labels):
                return CANNOT_BIND
            pool = None
            if provision.pools is not None:
                reachable = (pool for pool in provision.pools if pool.places.accepts(labels))
                pool = next(reachable, None)
                if pool is None:
                    return NO_SPACE
            found.provisions.append((provision.claim, pool))
        return found

    # -- all nodes --------------------------------------------------------------------------

    def on_all(self, nodes: NodeTable) -> AllVolumes:
        """Worked out once per attempt."""
        if self._all is None:
            self._all = self._search(nodes)
        return self._all

    def _search(self, nodes: NodeTable) -> AllVolumes:
        why = np.zeros(nodes.size, np.uint32)
        open_rows = np.ones(nodes.size, np.bool_)
        if self._selected_nodes:
            open_rows[:] = False
            if len(self._selected_nodes) == 1:
                row = nodes.row_of.get(next(iter(self._selected_nodes)))
                if row is not None:
                    open_rows[row] = True
            why[~open_rows] = CANNOT_BIND
        bound: list[Numbers] = []
        for choice in self._choices:
            bound.append(first_match(nodes, choice.places, bound))
        to_make = [(provision, open_rows.copy()) for provision in self._chosen_before]
        to_make += (
            (choice.provision, numbers == NOTHING)
            for choice, numbers in zip(self._choices, bound, strict=True)
        )
        made: list[tuple[Provision, Numbers | None, NodeMask]] = []
        for provision, needed in to_make:
            needed &= open_rows
            pools = _refuse(nodes, provision, needed, why, open_rows) if needed.any() else None
            made.append((provision, pools, needed))
        return AllVolumes(why, bound, made)


def _refuse(
    nodes: NodeTable,
    provision: Provision,
    needed: NodeMask,
    why: NDArray[np.uint32],
    open_rows: NodeMask,
) -> Numbers | None:
    """Close the rows where this claim needs a new volume and cannot get one; the first decides."""
    if provision.places is None:
        refused = needed.copy()
    else:
        refused = needed & ~provision.places.mask(nodes)
    why[refused] = CANNOT_BIND
    open_rows &= ~refused
    if provision.pools is None:
        return None
    pools = first_match(nodes, [(n, pool.places) for n, pool in enumerate(provision.pools)])
    short = needed & open_rows & (pools == NOTHING)
    why[short] = NO_SPACE
    open_rows &= ~short
    return pools
