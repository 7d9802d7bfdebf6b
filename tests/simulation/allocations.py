"""What claims hold, judged from the server's side: nothing is given away twice.

A process decides by what its informers have shown it.  So an allocation that it could not know of
when it decided is an excuse: one that another process wrote, or that was written by an attempt
which had been given up and whose call arrived late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stowplan.cluster.port import Answer
from stowplan.objects.api import Request
from stowplan.objects.devices import AllocatedDevice, Allocation, ResourceClaim
from stowplan.objects.kinds import POD_GROUP, RESOURCE_CLAIM
from stowplan.objects.quantity import parse_quantity
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache, HeldDevices
from tests.simulation.devices import CARD_MEMORY, PARTS, SHARED_MEMORY
from tests.simulation.invariants import Broken

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

_NANOS = 10**9


class Allocations:
    def __init__(self, world: World) -> None:
        self._world = world
        self.count = 0
        self._writers: dict[str, tuple[str, int]] = {}
        """Uid of a claim -> who allocated it (nobody, if it was given up), and the version."""

    def carried_out(self, process: Process, request: Request, answer: Answer) -> None:
        if not isinstance(answer, ResourceClaim):
            return
        claim, uid = answer, answer.metadata.uid
        if claim.status.allocation is None:
            self._writers.pop(uid, None)
            return
        version = int(claim.metadata.resource_version)
        known = self._writers.get(uid)
        if known is not None and not _is_new(claim, known[1]):
            return
        self.count += 1
        if not process.leads or not _is_meant(process, claim):
            self._writers[uid] = ("nobody", version)
            return
        self._writers[uid] = (process.name, version)
        self._check(process, claim)

    def _check(self, process: Process, newest: ResourceClaim) -> None:
        claims = [it for it in self._all() if self._counts(process, it, newest)]
        for problem in too_much(claims):
            raise Broken(f"{process.name} allocates {newest.key}: {problem}")

    def _all(self) -> list[ResourceClaim]:
        found = self._world.every(RESOURCE_CLAIM)
        return [it for it in found if isinstance(it, ResourceClaim)]

    def _counts(self, process: Process, claim: ResourceClaim, newest: ResourceClaim) -> bool:
        """Whether who wrote the newest allocation could have known of this one."""
        writer, version = self._writers.get(claim.metadata.uid, ("nobody", 0))
        if claim.metadata.uid == newest.metadata.uid or writer == process.name:
            return True
        consumer = (newest.status.reserved_for or ())[-1]
        seen = process.seen_versions.get(consumer.uid, {}).get(RESOURCE_CLAIM.name, 0)
        return version <= seen

    # -- at the end -------------------------------------------------------------------------

    def left_over(self) -> Iterable[str]:
        """Reservations for pods that are gone, and claims for extended resources without a pod."""
        pods = {pod.uid for pod in self._world.pods()}
        if self._world.weather.groups:
            pods |= {group.uid for group in self._world.every(POD_GROUP)}
        for claim in self._all():
            for consumer in claim.status.reserved_for or ():
                if consumer.uid not in pods:
                    yield f"{claim.key} is reserved for {consumer.name}, which is gone"
            if claim.status.allocation is None or claim.status.reserved_for:
                continue
            owner = claim.metadata.controller()
            if claim.metadata.deletion_timestamp is not None:
                yield f"{claim.key} is to be deleted and holds devices for nobody"
            elif owner is not None and owner.uid not in pods:
                yield f"{claim.key} holds devices, and {owner.name} is gone"


def _is_new(claim: ResourceClaim, version: int) -> bool:
    """Whether it was given back since, and is another allocation than that of this version."""
    reserved = claim.status.reserved_for or ()
    return len(reserved) == 1 and int(claim.metadata.resource_version) > version


def _is_meant(process: Process, claim: ResourceClaim) -> bool:
    """Whether the process still waits for this write."""
    cache = process.machine.objects.derived(ClaimCache)
    planned = cache._in_flight.get(claim.metadata.uid)
    given = claim.status.allocation
    return planned is not None and given is not None and _ids(planned) == _ids(given)


def _ids(allocation: Allocation) -> list[tuple[str, str, str]]:
    return [(it.driver, it.pool, it.device) for it in allocation.devices.results or ()]


def too_much(claims: Iterable[ResourceClaim]) -> Iterable[str]:
    """What these claims have together that one may not have."""
    results = [
        it
        for claim in claims
        if claim.status.allocation is not None
        for it in claim.status.allocation.devices.results or ()
    ]
    whole = Counter(_where(it) for it in results if it.share_id is None)
    for device, count in whole.items():
        if count > 1:
            yield f"{device} is given away {count} times"
    cards: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for it in results:
        if it.device in PARTS:
            cards[it.pool] += PARTS[it.device]
        if it.share_id is not None:
            amount = (it.consumed_capacity or {}).get("memory", 0)
            shared[_where(it)] += parse_quantity(amount) // _NANOS
    for pool, amount in cards.items():
        if amount > CARD_MEMORY:
            yield f"{amount} of {CARD_MEMORY} are taken of the card of {pool}"
    for device, amount in shared.items():
        if amount > SHARED_MEMORY:
            yield f"{amount} of {SHARED_MEMORY} are taken of {device}"


def _where(it: AllocatedDevice) -> str:
    return f"{it.pool}/{it.device}"


def cache_problems(process: Process) -> Iterable[str]:
    """What the process believes to be taken is what claims hold, and what is under way."""
    cache = process.machine.objects.derived(ClaimCache)
    held, anew = cache.held, HeldDevices()
    for uid in {*cache._given, *cache._in_flight}:
        anew.add(cache._counted[uid])
    if (held.dedicated, held.shares) != (anew.dedicated, anew.shares):
        yield f"devices taken are {held.dedicated} and {held.shares}, should be {anew.dedicated}"


def in_flight(process: Process) -> list[str]:
    return list(process.machine.objects.derived(ClaimCache)._in_flight)
