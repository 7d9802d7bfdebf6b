"""Claims as they are or will be once our own writes have come back, and which devices they hold.

Three sources, in this order: what this scheduler wrote and the watch has yet to show (assumed),
what the watch shows, and allocations that are being written (in flight).  Mirrors the claim part of
kube-scheduler's `dynamicresources/dra_manager.go` and `allocateddevices.go`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from stowplan.objects.devices import AllocatedDevice, Allocation, ResourceClaim
from stowplan.objects.pod import Pod
from stowplan.objects.quantity import parse_quantity
from stowplan.plugins.dynamic_resources.device_entry import DeviceId, PoolId
from stowplan.plugins.dynamic_resources.extended_resources import is_special, is_special_claim_of
from stowplan.state.object_index import ObjectIndex

_LOG_MAX = 4096

Consumed = tuple[tuple[str, int], ...] | None
"""What is taken of each capacity of a device that is shared; None: it is not."""

PoolState = tuple[tuple[str, bool, Consumed], ...]
"""The devices that are held: name, whether all of it, what is taken of it."""


class HeldDevices:
    """Devices that claims hold; those held for administration alone do not count."""

    def __init__(self) -> None:
        self.dedicated: dict[DeviceId, int] = {}
        """Device -> how many claims hold it for themselves: one, unless something went wrong."""
        self.shares: dict[DeviceId, int] = {}
        """Device -> in how many parts it is given away."""
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        """Device -> capacity -> nanos taken of it by those."""
        self.version = 0
        """Grows with every device that is taken or given back."""
        self._log: deque[DeviceId] = deque(maxlen=_LOG_MAX)
        self._of_pool: dict[PoolId, dict[str, int]] = {}
        """Pool -> name of a device -> how many claims hold it, or part of it."""
        self._states: dict[PoolId, PoolState] = {}

    def add(self, allocation: Allocation, times: int = 1) -> None:
        """`times` is -1 to take it back."""
        for result in counted_results(allocation):
            device = (result.driver, result.pool, result.device)
            self.version += 1
            self._log.append(device)
            self._note(device, times)
            if result.share_id is None:
                _count(self.dedicated, device, times)
                continue
            _count(self.shares, device, times)
            consumed = self.consumed.setdefault(device, {})
            for name, quantity in (result.consumed_capacity or {}).items():
                consumed[name] = consumed.get(name, 0) + times * parse_quantity(quantity)
            if not self.shares.get(device):
                del self.consumed[device]

    def _note(self, device: DeviceId, times: int) -> None:
        *pool, name = device
        pool_id = (pool[0], pool[1])
        self._states.pop(pool_id, None)
        names = self._of_pool.setdefault(pool_id, {})
        _count(names, name, times)
        if not names:
            del self._of_pool[pool_id]

    def state_of(self, pool_id: PoolId) -> PoolState:
        """All that a search can see of who holds what in a pool."""
        names = self._of_pool.get(pool_id)
        if not names:
            return ()
        found = self._states.get(pool_id)
        if found is None:
            found = tuple([self._state(pool_id, name) for name in sorted(names)])
            self._states[pool_id] = found
        return found

    def _state(self, pool_id: PoolId, name: str) -> tuple[str, bool, Consumed]:
        device = (*pool_id, name)
        consumed = self.consumed.get(device)
        taken = None if consumed is None else tuple(sorted(consumed.items()))
        return name, device in self.dedicated, taken

    def changed_since(self, version: int) -> list[DeviceId] | None:
        """Devices taken or given back after that; None when it is too long ago to say."""
        count = self.version - version
        return None if count > len(self._log) else list(islice(reversed(self._log), count))

    def is_used(self, device: DeviceId) -> bool:
        return device in self.dedicated or device in self.shares


def counted_results(allocation: Allocation) -> Iterator[AllocatedDevice]:
    for result in allocation.devices.results or ():
        if not result.admin_access:
            yield result


_Key = TypeVar("_Key")


def _count(counts: dict[_Key, int], device: _Key, times: int) -> None:
    left = counts.get(device, 0) + times
    if left:
        counts[device] = left
    else:
        counts.pop(device, None)


class ClaimCache:
    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._shown = objects.all(ResourceClaim)
        self._assumed: dict[str, ResourceClaim] = {}
        self._in_flight: dict[str, Allocation] = {}
        """Uid -> what the claim is to be given."""
        self._sharing: dict[str, tuple[str, int]] = {}
        """Uid -> the group that shares it, and for how many of its pods it is in flight."""
        self._uids: dict[str, str] = {}
        """Key -> uid of the claim of that name, as last counted."""
        self._given: dict[str, Allocation] = {}
        """Uid -> the allocation of that claim."""
        self._counted: dict[str, Allocation] = {}
        """Uid -> of either, what `_held` was told."""
        self._special: dict[str, str] = {}
        """Uid of a pod -> key of the claim that was made for its extended resources."""
        self._special_pods: dict[str, str] = {}
        """The same, by key."""
        self._held = HeldDevices()
        self._version = -1

    # -- claims -----------------------------------------------------------------------------

    def get(self, key: str) -> ResourceClaim | None:
        shown = self._shown.get(key)
        assumed = self._assumed.get(key) if self._assumed else None
        if assumed is None:
            return shown
        if shown is not None and _is_newer(assumed, shown):
            return assumed
        del self._assumed[key]
        return shown

    def special_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was made for the pod's extended resources, if there is one already."""
        self.catch_up()
        claim = self.get(self._special.get(pod.metadata.uid, ""))
        return claim if claim is not None and is_special_claim_of(claim, pod) else None

    def assume(self, claim: ResourceClaim) -> None:
        """What was written is how the claim is, until the watch shows that or something newer."""
        shown = self._shown.get(claim.key)
        if shown is not None and _is_newer(claim, shown):
            self._assumed[claim.key] = claim
        self._look_at(claim.key)

    def restore(self, key: str) -> None:
        """Go by what the watch shows."""
        if self._assumed.pop(key, None) is not None:
            self._look_at(key)

    # -- allocations on their way -----------------------------------------------------------

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        return claim.metadata.uid in self._in_flight

    def begin(self, claim: ResourceClaim, allocation: Allocation, group: str = "") -> None:
        """`group`: of the pod, whose fellows may share it."""
        uid = claim.metadata.uid
        self._in_flight[uid] = allocation
        if group:
            self._sharing[uid] = group, self._sharing.get(uid, (group, 0))[1] + 1
        self._count(uid)

    def shared_with(self, claim: ResourceClaim, group: str) -> Allocation | None:
        """What the claim is being given for another pod of this group."""
        uid = claim.metadata.uid
        sharer, _ = self._sharing.get(uid, ("", 0))
        return self._in_flight.get(uid) if group and sharer == group else None

    def end(self, claim: ResourceClaim, *, written: bool = False) -> bool:
        """One pod is done with it, or (`written`) nobody waits for it any more.

        Whether it was in flight, and is no more.
        """
        uid = claim.metadata.uid
        group, count = self._sharing.pop(uid, ("", 1))
        if count > 1 and not written:
            self._sharing[uid] = group, count - 1
            return False
        if self._in_flight.pop(uid, None) is None:
            return False
        self._count(uid)
        return True

    # -- devices ----------------------------------------------------------------------------

    @property
    def held(self) -> HeldDevices:
        """Up to date."""
        self.catch_up()
        return self._held

    def catch_up(self) -> None:
        version = self._objects.version(ResourceClaim)
        if version != self._version:
            changed: Iterable[str] | None = None
            if self._version >= 0:
                changed = self._objects.changed_since(ResourceClaim, self._version)
            if changed is None:
                changed = [*self._shown, *self._uids]
            self._version = version
            for key in changed:
                self._look_at(key)

    def _look_at(self, key: str) -> None:
        """Count what the claim holds now, and no more what it held before."""
        claim, uid = self.get(key), self._uids.get(key, "")
        now = "" if claim is None else claim.metadata.uid
        if uid and uid != now:
            del self._uids[key]
            pod = self._special_pods.pop(key, "")
            if self._special.get(pod) == key:
                del self._special[pod]
            self._given.pop(uid, None)
            self._count(uid)
        if claim is None:
            return
        self._uids[key] = now
        owner = claim.metadata.controller() if is_special(claim) else None
        if owner is not None:
            self._special[owner.uid] = key
            self._special_pods[key] = owner.uid
        if claim.status.allocation is None:
            self._given.pop(now, None)
        else:
            self._given[now] = claim.status.allocation
        self._count(now)

    def _count(self, uid: str) -> None:
        now = self._given.get(uid) or self._in_flight.get(uid)
        before = self._counted.get(uid)
        if now is not None and before is not None and now.devices.results == before.devices.results:
            return
        # Both, and not the same: it was given back meanwhile.
        if before is not None:
            self._held.add(before, -1)
            del self._counted[uid]
        if now is not None:
            self._held.add(now)
            self._counted[uid] = now


def _is_newer(claim: ResourceClaim, shown: ResourceClaim) -> bool:
    if claim.metadata.uid != shown.metadata.uid:
        return False
    mine, theirs = claim.metadata.resource_version, shown.metadata.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) > int(theirs)
