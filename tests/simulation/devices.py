"""Devices and those who want them: drivers that come, go, change their minds and fail.

Every node may have a pool with a bit of everything: whole devices, parts of one card (counters),
one that is shared (capacity), and one that has to be attached first (binding conditions).  What a
device of some name is never changes, only whether it is there: so `allocations` can tell when too
much of it was given away.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.errors import ApiError
from stowplan.objects.api import Create, Delete, Patch, Update
from stowplan.objects.devices import ResourceClaim, ResourceSlice
from stowplan.objects.kinds import (
    DEVICE_CLASS,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from tests.simulation import things

if TYPE_CHECKING:
    from tests.simulation.world import World

Data = dict[str, Any]

PERIOD_S = 1.1
DRIVER = "devices.example.com"
EXTENDED = "example.com/whole"
ATTACHED, BROKEN = "Attached", "Broken"
CARD_MEMORY, SHARED_MEMORY = 4, 4
PARTS = {"part-a": 1, "part-b": 1, "part-c": 2, "part-d": 4}
"""Of a card: how much of its memory each takes."""
SORTS = ("whole", "part", "share", "fabric")


def classes() -> list[Data]:
    made = []
    for sort in SORTS:
        text = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].sort == "{sort}"'
        spec: Data = {"selectors": [{"cel": {"expression": text}}]}
        if sort == "whole":
            spec["extendedResourceName"] = EXTENDED
        made.append({"metadata": {"name": sort}, "spec": spec})
    return made


def _device(name: str, sort: str) -> Data:
    made: Data = {"name": name, "attributes": {"sort": {"string": sort}}}
    if sort == "part":
        uses = {"memory": {"value": str(PARTS[name])}}
        made["consumesCounters"] = [{"counterSet": "card", "counters": uses}]
    elif sort == "share":
        made["allowMultipleAllocations"] = True
        made["capacity"] = {"memory": {"value": str(SHARED_MEMORY)}}
    elif sort == "fabric":
        made |= {"bindingConditions": [ATTACHED], "bindingFailureConditions": [BROKEN]}
    return made


class Devices:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/devices")
        self._serial = 0
        weighted = {
            self.publish: 3,
            self.republish: 4,
            self.withdraw: 1,
            self.create_pods: 8,
            self.delete_claim: 2,
            self.create_missing_claim: 3,
        }
        self._actions = [*weighted], [*weighted.values()]

    def settle(self) -> None:
        for body in classes():
            self._do(Create(DEVICE_CLASS, "", body), f"create class {body['metadata']['name']}")
        for sort in SORTS:
            body = {"metadata": {"name": sort}, "spec": {"spec": self._wish(sort)}}
            self._do(Create(RESOURCE_CLAIM_TEMPLATE, "default", body), f"create template {sort}")
        for _ in self.world.nodes():
            self.publish()
        for _ in range(3):
            self.create_pods()

    def act(self) -> None:
        self.random.choices(*self._actions)[0]()

    def work(self) -> None:
        """What drivers do of themselves: devices that were given away are attached."""
        for claim in self.world.every(RESOURCE_CLAIM):
            assert isinstance(claim, ResourceClaim)
            allocation = claim.status.allocation
            if allocation is None or claim.status.devices:
                continue
            waiting = [it for it in allocation.devices.results or () if it.binding_conditions]
            if not waiting or (not self.world.calm and self.random.random() < 0.3):
                continue
            fails = not self.world.calm and self.random.random() < self.world.weather.driver_fails
            word = BROKEN if fails else ATTACHED
            body = {"status": {"devices": [_report(it, word) for it in waiting]}}
            request = Patch(RESOURCE_CLAIM, "default", claim.name, body, "merge", "status")
            self._do(request, f"{claim.name}: {word}")

    # -- what drivers offer -----------------------------------------------------------------

    def publish(self) -> None:
        """A driver on a node that had none."""
        known = {it.spec.pool.name for it in self._slices()}
        free = [node.name for node in self.world.nodes() if node.name not in known]
        if free:
            self._offer(self.random.choice(free), generation=1)

    def republish(self) -> None:
        """Other devices than before, or the same; sometimes half of the pool comes later."""
        slices = self._slices()
        if slices:
            pool = self.random.choice(slices).spec.pool
            self._offer(pool.name, pool.generation + 1)

    def withdraw(self) -> None:
        slices = self._slices()
        if slices:
            name = self.random.choice(slices).name
            self._do(Delete(RESOURCE_SLICE, "", name), f"withdraw {name}")

    def complete(self) -> None:
        """At the end no pool is left half done."""
        for pool in sorted({it.spec.pool.name for it in self._slices()}):
            there = [it for it in self._slices() if it.spec.pool.name == pool]
            newest = max(it.spec.pool.generation for it in there)
            if len(there) < 2 or any(it.spec.pool.generation < newest for it in there):
                self._offer(pool, newest + 1, whole=True)

    def _offer(self, node: str, generation: int, *, whole: bool = False) -> None:
        names = {f"whole-{n}": "whole" for n in range(3)} | dict.fromkeys(PARTS, "part")
        names |= {"share": "share", "fabric": "fabric"}
        made = [_device(it, sort) for it, sort in names.items() if self.random.random() < 0.8]
        card = {"name": "card", "counters": {"memory": {"value": str(CARD_MEMORY)}}}
        pool = {"name": node, "generation": generation, "resourceSliceCount": 2}
        common = {"driver": DRIVER, "nodeName": node, "pool": pool}
        self._put(f"{node}-counters", {**common, "sharedCounters": [card]})
        if whole or self.random.random() < 0.8:
            self._put(f"{node}-devices", {**common, "devices": made})

    def _put(self, name: str, spec: Data) -> None:
        what = f"publish {name}, generation {spec['pool']['generation']}"
        body = {"metadata": {"name": name}, "spec": spec}
        if self.world.find(RESOURCE_SLICE, "", name) is None:
            self._do(Create(RESOURCE_SLICE, "", body), what)
        else:
            self._do(Update(RESOURCE_SLICE, "", name, body), what)

    def _slices(self) -> list[ResourceSlice]:
        found = self.world.every(RESOURCE_SLICE)
        return [it for it in found if isinstance(it, ResourceSlice)]

    # -- what users want --------------------------------------------------------------------

    def create_pods(self) -> None:
        world, random = self.world, self.random
        for _ in range(random.choice((1, 1, 2, 3))):
            if len(world.pods()) >= world.pods_max:
                return
            self._serial += 1
            name = f"user-{self._serial}"
            body = things.pod(name, random, world.weather)
            body["spec"].pop("schedulingGates", None)
            self._give_wish(name, body["spec"])
            self._do(Create(POD, "default", body), f"create pod {name}")

    def _give_wish(self, name: str, spec: Data) -> None:
        random = self.random
        way = random.choice(("template", "template", "own", "own", "shared", "extended"))
        if way == "extended":
            resources = spec["containers"][0]["resources"]
            resources["requests"][EXTENDED] = "1"
            resources.setdefault("limits", {})[EXTENDED] = "1"
            return
        reference: Data = {"name": "it"}
        if way == "template":
            reference["resourceClaimTemplateName"] = random.choice(SORTS)
        elif way == "shared" and (claims := self.world.every(RESOURCE_CLAIM)):
            reference["resourceClaimName"] = random.choice(claims).name
        else:
            reference["resourceClaimName"] = claim = f"{name}-claim"
            if random.random() < 0.8:
                self.create_claim(claim)
        spec["resourceClaims"] = [reference]

    def _wish(self, sort: str) -> Data:
        exactly: Data = {"deviceClassName": sort}
        if sort in ("whole", "part"):
            exactly["count"] = self.random.choice((1, 1, 2))
        elif sort == "share":
            exactly["capacity"] = {"requests": {"memory": self.random.choice("123")}}
        request: Data = {"name": "it", "exactly": exactly}
        if self.random.random() < 0.2:
            request = {"name": "it", "firstAvailable": [{"name": "first", **exactly}]}
            request["firstAvailable"].append({"name": "second", "deviceClassName": "whole"})
        return {"devices": {"requests": [request]}}

    def create_claim(self, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": self._wish(self.random.choice(SORTS))}
        self._do(Create(RESOURCE_CLAIM, "default", body), f"create claim {name}")

    def create_missing_claim(self) -> None:
        claims = {claim.name for claim in self.world.every(RESOURCE_CLAIM)}
        for pod in self.world.pods():
            for reference in pod.spec.resource_claims or ():
                name = reference.resource_claim_name
                if name and name not in claims:
                    self.create_claim(name)
                    return

    def delete_claim(self) -> None:
        """Whoever needs it."""
        self._delete_one(RESOURCE_CLAIM)

    def _delete_one(self, kind: Kind) -> None:
        found = self.world.every(kind)
        if found:
            name = self.random.choice(found).name
            self._do(Delete(kind, "default", name), f"delete {kind.plural} {name}")

    def _do(self, request: Any, what: str) -> None:
        try:
            self.world.store.execute(request)
        except ApiError as error:
            what = f"{what}: {error.code} {error.message}"
        self.world.trace("devices", what)


def _report(result: Any, word: str) -> Data:
    said = {"type": word, "status": "True", "reason": "Simulated", "message": word}
    said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    where = {"driver": result.driver, "pool": result.pool, "device": result.device}
    return {**where, "conditions": [said]}
