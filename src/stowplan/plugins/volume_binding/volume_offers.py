"""What there is to bind claims to: free volumes, and pools of storage to make new ones from.

Mirrors `FindMatchingVolume` of `component-helpers/storage/volume` and the capacity check of
kube-scheduler's `volumebinding/binder.go`, as far as they do not depend on the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from stowplan.objects.labels import EVERYTHING, Selector, compile_selector
from stowplan.objects.quantity import ceil_value, parse_quantity
from stowplan.objects.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.plugins._shared.volumes import capacity_nanos, class_of, requested_nanos
from stowplan.plugins.volume_binding.assumed import Assumed
from stowplan.plugins.volume_binding.grouped import Grouped
from stowplan.plugins.volume_binding.places import (
    Places,
    places_of_capacity,
    places_of_class,
    places_of_volume,
)
from stowplan.state.object_index import ObjectIndex

_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
_AVAILABLE = "Available"


@dataclass(frozen=True, slots=True)
class Offer:
    """A volume that a claim could get."""

    volume: PersistentVolume
    capacity: int
    places: Places

    @property
    def order(self) -> tuple[int, str]:
        return self.capacity, self.volume.metadata.name


@dataclass(frozen=True, slots=True)
class Pool:
    """A CSIStorageCapacity: how large a volume can be made, where."""

    key: str
    places: Places
    limit_bytes: int | None
    """Of one volume."""
    capacity_bytes: int

    @property
    def order(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class Provision:
    """What making a new volume for a claim takes."""

    claim: PersistentVolumeClaim
    places: Places | None
    """None: this class makes no volumes."""
    pools: Sequence[Pool] | None
    """Pools with room for it; None: nobody keeps count."""


class VolumeOffers:
    def __init__(self, objects: ObjectIndex, assumed: Assumed[PersistentVolume]) -> None:
        self._objects = objects
        self._assumed = assumed
        self._volumes = Grouped(objects, PersistentVolume, _sort_volume)
        self._pools = Grouped(objects, CSIStorageCapacity, _sort_pool)

    def prebound(self, claim: PersistentVolumeClaim) -> Offer | None:
        """The volume that is set aside for this claim, the first by name."""
        assumed = {volume.metadata.name: volume for volume in self._assumed}
        offers = [
            offer
            for offer in self._volumes.in_order(("claimed", claim.key))
            if offer.volume.metadata.name not in assumed
        ]
        offers += (
            _offer(volume)
            for volume in assumed.values()
            if is_bound_to(volume, claim) and volume.metadata.deletion_timestamp is None
        )
        suitable = [
            offer
            for offer in offers
            if is_bound_to(offer.volume, claim)
            and class_of(offer.volume) == class_of(claim)
            and _suits(offer, claim.spec.volume_mode, _attributes_class(claim))
            and offer.capacity >= (requested_nanos(claim) or 0)
        ]
        return min(suitable, key=lambda offer: offer.volume.metadata.name, default=None)

    def of_class(self, class_name: str) -> Sequence[Offer]:
        """Unclaimed volumes of the class, the smallest first."""
        offers = self._volumes.in_order(("class", class_name))
        assumed = {volume.metadata.name for volume in self._assumed}
        if not assumed:
            return offers
        return [offer for offer in offers if offer.volume.metadata.name not in assumed]

    def provision(self, claim: PersistentVolumeClaim) -> Provision:
        storage_class = self._objects.get(StorageClass, class_of(claim))
        if storage_class is None or storage_class.provisioner in _NO_PROVISIONER:
            return Provision(claim, None, None)
        places = places_of_class(storage_class.allowed_topologies)
        return Provision(claim, places, self._pools_for(claim, storage_class))

    def _pools_for(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> Sequence[Pool] | None:
        requested = requested_nanos(claim)
        driver = self._objects.get(CSIDriver, storage_class.provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return None
        size = ceil_value(requested)
        return [
            pool
            for pool in self._pools.in_order(storage_class.name)
            if pool.limit_bytes is not None and pool.limit_bytes >= size
        ]


def candidates(claim: PersistentVolumeClaim, offers: Sequence[Offer]) -> Iterator[int]:
    """Positions of the offers that suit the claim on some node.  Raises `SelectorError`."""
    size = requested_nanos(claim) or 0
    mode, attributes = claim.spec.volume_mode, _attributes_class(claim)
    wanted = claim.spec.selector
    selector = EVERYTHING if wanted is None else compile_selector(wanted)
    modes = set(claim.spec.access_modes or ())
    for position, offer in enumerate(offers):
        if (
            offer.capacity >= size
            and _suits(offer, mode, attributes)
            and modes.issubset(offer.volume.spec.access_modes or ())
            and _selected(selector, offer.volume)
        ):
            yield position


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is set aside for this claim, if not for its uid then for its name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and reference.namespace == claim.metadata.namespace
        and reference.uid in ("", claim.metadata.uid)
    )


def limit_bytes(capacity: CSIStorageCapacity) -> int | None:
    """How large one volume can be, as far as known."""
    limit = capacity.maximum_volume_size
    if limit is None:
        limit = capacity.capacity
    return None if limit is None else ceil_value(parse_quantity(limit))


def _selected(selector: Selector, volume: PersistentVolume) -> bool:
    return selector is EVERYTHING or selector.matches(volume.metadata.labels or {})


def _suits(offer: Offer, mode: str | None, attributes: str) -> bool:
    spec = offer.volume.spec
    same_mode = (spec.volume_mode or "Filesystem") == (mode or "Filesystem")
    return same_mode and (spec.volume_attributes_class_name or "") == attributes


def _attributes_class(claim: PersistentVolumeClaim) -> str:
    return claim.spec.volume_attributes_class_name or ""


def _offer(volume: PersistentVolume) -> Offer:
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    return Offer(volume, capacity_nanos(volume), places_of_volume(required))


def _sort_volume(volume: PersistentVolume) -> tuple[Hashable, Offer] | None:
    reference = volume.spec.claim_ref
    if volume.metadata.deletion_timestamp is not None:
        return None
    if reference is not None:
        return ("claimed", f"{reference.namespace}/{reference.name}"), _offer(volume)
    if volume.status.phase != _AVAILABLE:
        return None
    return ("class", class_of(volume)), _offer(volume)


def _sort_pool(capacity: CSIStorageCapacity) -> tuple[Hashable, Pool]:
    total = 0 if capacity.capacity is None else ceil_value(parse_quantity(capacity.capacity))
    places = places_of_capacity(capacity.node_topology)
    return capacity.storage_class_name, Pool(capacity.key, places, limit_bytes(capacity), total)
