"""Which claims there are and which devices they hold: spec/dra.md, 4, against the plain definition.

Shown, assumed, in flight, shared by a group, given back, made anew: random histories, and after
every step what is held is added up from scratch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.objects.codec import convert
from stowplan.objects.devices import Allocation, ResourceClaim
from stowplan.objects.quantity import parse_quantity
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache, HeldDevices
from tests.builders import World, pod
from tests.plugins.device_objects import claim
from tests.small_limits import small_limits

Device = tuple[str, str, str]
NAMES = ("a", "b", "c")
SPECIAL = {"resource.kubernetes.io/extended-resource-claim": "true"}


def some_allocation(random: Random) -> Allocation:
    results = []
    for _ in range(random.randrange(4)):
        result: dict[str, Any] = {
            "request": "r",
            "driver": "d",
            "pool": random.choice(("p", "q")),
            "device": random.choice(("x", "y", "z")),
        }
        if random.random() < 0.3:
            result["adminAccess"] = True
        if random.random() < 0.5:
            result["shareID"] = str(random.random())
            result["consumedCapacity"] = random.choice(
                (None, {"memory": "1Gi"}, {"memory": "2Gi", "cores": "500m"})
            )
        results.append(result)
    return convert({"devices": {"results": results or None}}, Allocation)


@dataclass
class Plain:
    """The same by its definition."""

    shown: dict[str, ResourceClaim] = field(default_factory=dict)
    assumed: dict[str, ResourceClaim] = field(default_factory=dict)
    in_flight: dict[str, Allocation] = field(default_factory=dict)
    sharers: Counter[str] = field(default_factory=Counter)

    def get(self, name: str) -> ResourceClaim | None:
        shown, assumed = self.shown.get(name), self.assumed.get(name)
        if shown is not None and assumed is not None and is_newer(assumed, shown):
            return assumed
        self.assumed.pop(name, None)
        return shown

    def allocations(self) -> list[Allocation]:
        found = dict(self.in_flight)
        for name in NAMES:
            known = self.get(name)
            if known is not None and known.status.allocation is not None:
                found[known.uid] = known.status.allocation
        return list(found.values())

    def held(self) -> tuple[Counter[Device], Counter[Device], dict[Device, Counter[str]]]:
        dedicated: Counter[Device] = Counter()
        shares: Counter[Device] = Counter()
        consumed: dict[Device, Counter[str]] = {}
        for allocation in self.allocations():
            for result in allocation.devices.results or ():
                device = (result.driver, result.pool, result.device)
                if result.admin_access:
                    continue
                if result.share_id is None:
                    dedicated[device] += 1
                    continue
                shares[device] += 1
                taken = consumed.setdefault(device, Counter())
                for name, quantity in (result.consumed_capacity or {}).items():
                    taken[name] += parse_quantity(quantity)
        return dedicated, shares, consumed


def is_newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    versions = [int(it.metadata.resource_version) for it in (one, other)]
    return one.uid == other.uid and versions[0] > versions[1]


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world, self.plain = World(), Plain()
        self.cache = self.world.objects.derived(ClaimCache)
        self.version = 0

    def made(self, name: str, uid: str, allocation: Allocation | None) -> ResourceClaim:
        self.version += 1
        bare = claim(name, uid=uid, resourceVersion=str(self.version))
        return replace(bare, status=replace(bare.status, allocation=allocation))

    def some_uid(self, name: str) -> str:
        """Mostly that of the claim of this name."""
        known = self.plain.shown.get(name)
        if known is not None and self.random.random() < 0.8:
            return known.uid
        return f"{name}-{self.random.randrange(3)}"

    def step(self) -> None:
        name = self.random.choice(NAMES)
        known = self.plain.get(name)
        before = None if known is None else known.status.allocation
        match self.random.randrange(7):
            case 0 | 1:
                uid = self.some_uid(name)
                same = known is not None and known.uid == uid
                fresh = None if self.random.random() < 0.4 else some_allocation(self.random)
                # A claim that has devices keeps them, until it has none.
                given = fresh if not same or before is None or fresh is None else before
                flying = self.plain.in_flight.get(uid)
                if given is not None and flying is not None:
                    given = flying
                self.plain.shown[name] = self.made(name, uid, given)
                self.world.add(self.plain.shown[name])
            case 2:
                if name in self.plain.shown:
                    self.world.objects.remove(self.plain.shown.pop(name))
            case 3:
                if known is not None:
                    given = before or self.plain.in_flight.get(known.uid)
                    written = self.made(name, known.uid, given)
                    self.cache.assume(written)
                    self.plain.assumed[name] = written
            case 4:
                self.cache.restore(f"default/{name}")
                self.plain.assumed.pop(name, None)
            case 5:
                if known is not None and before is None:
                    self.begin(known)
            case 6:
                if known is not None:
                    self.end(known)

    def begin(self, known: ResourceClaim) -> None:
        uid = known.uid
        group = "default/g" if uid.endswith("1") else ""
        flying = self.plain.in_flight.get(uid)
        if flying is not None and not group:
            return
        given = flying or some_allocation(self.random)
        self.cache.begin(known, given, group)
        self.plain.in_flight[uid] = given
        self.plain.sharers[uid] += 1

    def end(self, known: ResourceClaim) -> None:
        uid, written = known.uid, self.random.random() < 0.3
        last = written or self.plain.sharers[uid] <= 1
        was = uid in self.plain.in_flight
        assert self.cache.end(known, written=written) is (was and last)
        self.plain.sharers[uid] -= 1
        if last:
            self.plain.in_flight.pop(uid, None)
            del self.plain.sharers[uid]

    def check(self) -> None:
        held = self.cache.held
        dedicated, shares, consumed = self.plain.held()
        assert held.dedicated == dedicated
        assert held.shares == shares
        assert {device: +Counter(taken) for device, taken in held.consumed.items()} == consumed
        for device in ((d, p, n) for d in "d" for p in "pq" for n in "xyz"):
            assert held.is_used(device) is (device in dedicated or device in shares)
        for pool in ("p", "q"):
            expected = {
                name: (device in dedicated, consumed.get(device))
                for device in dedicated.keys() | shares.keys()
                if device[1] == pool
                for name in (device[2],)
            }
            state = held.state_of(("d", pool))
            assert [name for name, _, _ in state] == sorted(expected)
            for name, whole, taken in state:
                amounts = None if taken is None else +Counter(dict(taken))
                assert (whole, amounts) == expected[name]
        for name in NAMES:
            known = self.plain.get(name)
            assert self.cache.get(f"default/{name}") == known
            if known is not None:
                uid = known.uid
                flying = self.plain.in_flight.get(uid)
                assert self.cache.is_in_flight(known) is (flying is not None)
                sharing = flying if uid.endswith("1") else None
                assert self.cache.shared_with(known, "default/g") == sharing
                assert self.cache.shared_with(known, "default/h") is None
                assert self.cache.shared_with(known, "") is None


@pytest.mark.parametrize("limits", ["as they are", "small"])
def test_what_is_held_is_what_claims_have_and_are_being_given(limits: str) -> None:
    for seed in range(25):
        if limits == "small":
            with small_limits():
                history = History(seed)
        else:
            history = History(seed)
        states: list[tuple[int, Any]] = []
        for _ in range(60):
            # Between two looks a claim may be given back, and to another.
            for _ in range(history.random.randrange(1, 4)):
                history.step()
            history.check()
            held = history.cache.held
            dedicated, shares, consumed = history.plain.held()
            for version, before in states[-8:]:
                changed = held.changed_since(version)
                now = (dedicated, shares, consumed)
                if changed is not None:
                    assert differing(before, now) <= set(changed)
            assert held.changed_since(held.version) == []
            states.append((held.version, (dedicated, shares, consumed)))
    assert HeldDevices().changed_since(-1) is None


def differing(before: Any, now: Any) -> set[Device]:
    devices = {device for parts in (before, now) for part in parts for device in part}
    return {
        device
        for device in devices
        if [part.get(device) for part in before] != [part.get(device) for part in now]
    }


def test_the_claim_made_for_the_extended_resources_of_a_pod_is_found_by_the_pod() -> None:
    owner, other = pod("p"), pod("p")

    def special(name: str, of: Any, **fields: Any) -> ResourceClaim:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": of.uid}
        metadata = {"annotations": SPECIAL, "ownerReferences": [{**reference, "controller": True}]}
        return claim(name, **{**metadata, **fields})

    world = World(special("mine", owner, annotations={}))
    cache = world.objects.derived(ClaimCache)
    assert cache.special_of(owner) is None

    mine = special("mine", owner)
    world.add(mine)
    assert cache.special_of(owner) is mine
    assert cache.special_of(other) is None

    world.add(special("mine", other, uid="anew"))
    assert cache.special_of(owner) is None
    assert cache.special_of(other) is not None

    world.objects.remove(special("mine", other, uid="anew"))
    assert cache.special_of(other) is None
