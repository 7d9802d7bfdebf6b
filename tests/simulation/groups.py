"""Groups and those who want them: gangs, topologies, groups disrupted whole, shared claims.

Members come before or after the group's object, late, or never; groups are deleted while they are
on their way.  What a scheduler may do with them is checked by `group_checks`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.errors import ApiError
from stowplan.objects.api import Create, Delete
from stowplan.objects.kinds import POD, POD_GROUP
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import GROUP_VERSIONS, GroupVersion, PodGroup, group_key
from tests.simulation import things

if TYPE_CHECKING:
    from tests.simulation.world import World

Data = dict[str, Any]

GROUPS_MAX = 6
SIZE_MAX = 5


class GroupUsers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/groups")
        self._serial = 0
        self._templates: dict[str, Data] = {}
        """What members of each group look like, by the group's name."""
        self._missing: dict[str, Data] = {}
        """Groups whose members are there already."""
        weighted = {
            self.create_group: 5,
            self.create_missing_group: 4,
            self.add_member: 4,
            self.delete_group: 1,
            self.delete_member: 1,
        }
        self._actions = [*weighted], [*weighted.values()]

    @property
    def version(self) -> GroupVersion | None:
        """In which schedulers watch groups, if they do."""
        return GROUP_VERSIONS[-1] if self.world.weather.groups else None

    def settle(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.create_group()

    def act(self) -> None:
        self.random.choices(*self._actions)[0]()

    # -- what they do -----------------------------------------------------------------------

    def create_group(self) -> None:
        world, random = self.world, self.random
        if len(world.every(POD_GROUP)) >= GROUPS_MAX:
            return
        self._serial += 1
        name, size = f"group-{self._serial}", random.randrange(2, SIZE_MAX + 1)
        body = self._group(name, size)
        template = self._templates[name] = self._template(name)
        # Those of another priority are pushed aside, or push others aside, again and again: room
        # is made by the group's priority, and kept by the members'.
        template["spec"].pop("priorityClassName", None)
        if priority := body["spec"].get("priorityClassName"):
            template["spec"]["priorityClassName"] = priority
        if world.weather.devices and random.random() < 0.5:
            self._share_claim(name, body, template)
        if random.random() < 0.75:
            self._do(Create(POD_GROUP, "default", body), f"create group {name}")
        else:
            self._missing[name] = body
        for _ in range(size - (random.random() < 0.2)):
            self._create_member(name)

    def create_missing_group(self) -> None:
        if self._missing:
            name = next(iter(self._missing))
            body = self._missing.pop(name)
            self._do(Create(POD_GROUP, "default", body), f"create group {name}, at last")

    def complete(self) -> None:
        while self._missing:
            self.create_missing_group()

    def add_member(self) -> None:
        group = self._some_group()
        if group is not None and len(self.world.pods()) < self.world.pods_max:
            self._create_member(group.name)

    def delete_group(self) -> None:
        """The object first: it stays until its members are gone."""
        group = self._some_group()
        if group is None:
            return
        self._do(Delete(POD_GROUP, "default", group.name), f"delete group {group.name}")
        for pod in self._members(group):
            self._do(Delete(POD, "default", pod.name), f"delete member {pod.name}")

    def delete_member(self) -> None:
        group = self._some_group()
        members = self._members(group) if group is not None else []
        if members:
            name = self.random.choice(members).name
            self._do(Delete(POD, "default", name), f"delete member {name}")

    # -- helpers ----------------------------------------------------------------------------

    def _some_group(self) -> PodGroup | None:
        found = [it for it in self.world.every(POD_GROUP) if isinstance(it, PodGroup)]
        found = [it for it in found if it.metadata.deletion_timestamp is None]
        return self.random.choice(found) if found else None

    def _members(self, group: PodGroup) -> list[Pod]:
        return [pod for pod in self.world.pods() if group_key(pod) == group.key]

    def _group(self, name: str, size: int) -> Data:
        random, weather = self.random, self.world.weather
        gang = {"gang": {"minCount": random.randrange(max(1, size - 2), size + 1)}}
        policy = gang if random.random() < 0.8 else {"basic": {}}
        spec: Data = {"schedulingPolicy": policy}
        if weather.topology and random.random() < 0.5:
            spec["schedulingConstraints"] = {"topology": [{"key": things.ZONE}]}
        if weather.group_preemption:
            spec["disruptionMode"] = random.choice(("Pod", "PodGroup"))
            if random.random() < 0.7:
                spec["priorityClassName"] = random.choice(("low", "high", "urgent"))
        return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}

    def _template(self, group: str) -> Data:
        """One for all members: what replicas of a job are."""
        random = self.random
        body = things.pod(group, random, self.world.weather)
        spec = body["spec"]
        spec.pop("schedulingGates", None)
        if random.random() < 0.6:
            for wish in ("affinity", "topologySpreadConstraints", "nodeSelector"):
                spec.pop(wish, None)
            spec["containers"][0].pop("ports", None)
        # Only some of them wait at Permit: a gang whose last one does is not scheduled.
        body["metadata"]["labels"].pop(things.SLOW, None)
        return body

    def _create_member(self, group: str) -> None:
        random, template = self.random, self._templates[group]
        self._serial += 1
        name = f"{group}-{self._serial}"
        metadata = {**template["metadata"], "name": name}
        if self.world.weather.permit and random.random() < 0.2:
            metadata["labels"] = {**metadata["labels"], things.SLOW: "yes"}
        spec = {**template["spec"], "schedulingGroup": {"podGroupName": group}}
        if random.random() < 0.1:
            spec["schedulingGates"] = [{"name": "sim.example.com/gate"}]
        body = {"metadata": metadata, "spec": spec}
        self._do(Create(POD, "default", body), f"create member {name}")

    def _share_claim(self, name: str, group: Data, template: Data) -> None:
        """One claim for all members; with the gate it is the group's own."""
        claim = f"{name}-claim"
        reference = {"name": "it", "resourceClaimName": claim}
        template["spec"]["resourceClaims"] = [reference]
        if self.world.weather.group_claims:
            group["spec"]["resourceClaims"] = [reference]
        self.world.devices.create_claim(claim)

    def _do(self, request: Any, what: str) -> None:
        try:
            self.world.store.execute(request)
        except ApiError as error:
            what = f"{what}: {error.code} {error.message}"
        self.world.trace("groups", what)
