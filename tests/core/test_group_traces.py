"""A trial of a group that is undone leaves everything as it was; victims that are a group go whole.

Clusters are random: nodes, pods that run, members with claims of devices, volumes, affinity and
priorities.  Besides what the cache and the plugins hold, all that is said about pods afterwards is
compared with what a machine says that has never tried.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.schedule_group import GroupAttempt
from stowplan.framework.runtime import Framework
from stowplan.objects.base import KubeObject
from stowplan.objects.manifests import decode
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.builders import pod, pod_group
from tests.core.group_world import ALL, GANGS, PREEMPTION, GroupWorld
from tests.core.test_group_properties import Dice, member, nodes
from tests.framework.test_kept_answers import answers
from tests.plugins.device_objects import claim, device_class, devices, resource_slice

CLAIMS = f"{ALL},DRAWorkloadResourceClaims=true"


def _made(kind: str, name: str, version: str = "v1", **body: Any) -> KubeObject:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    made = decode({"apiVersion": version, "kind": kind, "metadata": metadata, **body}, "here")
    assert made is not None
    return made


def volumes(there: list[Node], claims: list[str]) -> list[KubeObject]:
    """A disk on each node, and claims that wait for somebody to choose one of them."""
    mode, size = ["ReadWriteOnce"], {"storage": "1Gi"}
    local = {"provisioner": "kubernetes.io/no-provisioner"}
    late = {"volumeBindingMode": "WaitForFirstConsumer"}
    made = [_made("StorageClass", "disk", "storage.k8s.io/v1", **local, **late)]
    for each in there:
        hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": [each.name]}
        on = {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}
        spec = {"capacity": size, "accessModes": mode, "storageClassName": "disk"}
        spec |= {"local": {"path": "/disk"}, "nodeAffinity": on}
        free = {"phase": "Available"}
        made.append(_made("PersistentVolume", f"disk-{each.name}", spec=spec, status=free))
    wanted = {"accessModes": mode, "storageClassName": "disk", "resources": {"requests": size}}
    made += [_made("PersistentVolumeClaim", name, spec=wanted) for name in claims]
    return made


def equipped(dice: Dice, bare: Pod, number: int) -> tuple[Pod, list[KubeObject], list[str]]:
    """The pod with a claim or a volume, or as it was; its claims; its volumes."""
    spec: dict[str, Any] = {"priority": bare.spec.priority}
    made: list[KubeObject] = []
    disks: list[str] = []
    what = dice.one_of(["nothing", "device", "shared", "volume"])
    if what in ("device", "shared"):
        name = "shared" if what == "shared" else f"claim-{number}"
        spec["resourceClaims"] = [{"name": "net", "resourceClaimName": name}]
        made = [claim(name)] if what == "device" else []
    elif what == "volume":
        disks = [f"disk-of-{number}"]
        spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": disks[0]}}]
    else:
        return bare, [], []
    return pod(bare.name, group="g", cpu=1, labels={"app": "g"}, spec=spec), made, disks


def _all_of(world: GroupWorld) -> dict[str, Any]:
    """Everything that a trial could leave traces in."""
    machine = world.machine
    machine.table.refresh(machine.cache)
    table, cache = machine.table, machine.cache
    instances = machine.frameworks["default-scheduler"].plugins.instances
    claims, binding = instances["DynamicResources"]._claims, instances["VolumeBinding"]
    return {
        "nodes": {
            name: (
                [*info.pods],
                {**info.requested},
                info.nonzero_milli_cpu,
                info.nonzero_memory,
                {*info.used_ports},
                {**info.claim_refs},
            )
            for name, info in cache.nodes.items()
        },
        "assumed": cache.assumed_uids(),
        "columns": {
            name: table.requested(name)[table.alive].tolist() for name in ("cpu", "memory")
        },
        "pods": table.pod_count[table.alive].tolist(),
        "nominated": {**machine.queue.nominator.node_of},
        "in flight": {**claims._in_flight},
        "held": {**claims.held.dedicated},
        "volumes": {**binding._volumes._assumed},
        "volume claims": {**binding._claims._assumed},
        "groups": {
            key: ([*state.waiting], [*state.assumed], [*state.assigned])
            for key, state in cache.groups._states.items()  # type: ignore[attr-defined]
        },
    }


class Asked:
    """A machine, as `answers` asks it."""

    def __init__(self, world: GroupWorld) -> None:
        machine = world.machine
        self.table, self.cache = machine.table, machine.cache
        self.framework = machine.frameworks["default-scheduler"]
        self.nominated = bool(machine.queue.nominator)

    def framework_of(self, pod: PodInfo) -> Framework:
        return self.framework


def nothing_remains(seed: int, gates: str) -> None:
    """What is said next is what a machine says that has never tried."""
    dice = Dice(seed)
    there = nodes(dice)
    running: list[KubeObject] = [
        pod(f"r{n}", node=dice.one_of(there).name, cpu=1, spec={"priority": n % 3})
        for n in range(dice.number(0, 4))
    ]
    slices = [resource_slice(n.name, devices(dice.number(1, 2))) for n in there if dice.flag()]
    some, made, disks = [], [device_class(), claim("shared"), *slices], []
    for n in range(dice.number(1, 6)):
        one, own, its = equipped(dice, member(dice, f"g-{n}", "g"), n)
        some.append(one)
        made += own
        disks += its
    key = dice.one_of(["", "rack"]) if "Topology" in gates else ""
    group = pod_group("g", min_count=len(some) + 1, topology=key, priority=9)
    promised = {"nominatedNodeName": dice.one_of(there).name}
    hers = pod("hers", cpu=1, spec={"schedulingGates": [{"name": "w"}]}, status=promised)
    objects = [*there, *running, *made, *volumes(there, disks), hers]
    # One more, to get past the gate; it stays behind its own, so that they are never enough.
    waiting = pod("w", group="g", spec={"schedulingGates": [{"name": "never"}]})
    world = GroupWorld(*objects, group, waiting, *some, gates=gates)
    before = _all_of(world)

    world.run()

    assert world.bound() == set()
    assert world.evicted() == []
    assert _all_of(world) == before
    assert world.machine.table.check(world.machine.cache) == []
    fresh = GroupWorld(*objects, group, waiting, *some, gates=gates)
    for one in (*some, pod("later", cpu=1)):
        asked = PodInfo(one)
        assert answers(Asked(world), asked) == answers(Asked(fresh), asked), one.key


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([GANGS, ALL, CLAIMS]))
def test_a_trial_that_is_undone_leaves_no_trace(seed: int, gates: str) -> None:
    nothing_remains(seed, gates)


class Looking(GroupWorld):
    """Compares everything before and after a search for victims."""

    def __init__(self, *objects: KubeObject, gates: str) -> None:
        super().__init__(*objects, gates=gates)
        groups = self.machine.groups
        assert groups is not None
        self._search = groups.search
        groups.search = self.search  # type: ignore[method-assign]

    def search(self, *asked: Any) -> Generator[Any, Any, GroupAttempt]:
        before = _all_of(self)
        result = yield from self._search(*asked)
        if result.status is not None:
            assert _all_of(self) == before
        return result


def victims_go_whole(seed: int, gates: str) -> None:
    """A group that is disrupted whole has all its nodes or none; and the search leaves no trace."""
    dice = Dice(seed)
    there = nodes(dice)
    groups = [
        pod_group(name, priority=dice.number(0, 9), whole=name != "loose")
        for name in ("one", "two", "loose")
    ]
    running = [
        pod(
            f"r{n}",
            group=dice.one_of(["", "one", "two", "loose"]),
            node=dice.one_of(there).name,
            cpu=dice.number(1, 2),
            spec={"priority": dice.number(0, 2)},
        )
        for n in range(dice.number(1, 8))
    ]
    world = Looking(*there, *groups, *running, gates=gates)
    count = dice.number(1, 5)
    own = pod_group("g", min_count=dice.number(0, count), priority=dice.number(1, 10))
    world.add(own, *(member(dice, f"g-{n}", "g") for n in range(count))).run(20.0)

    gone = {*world.evicted()}
    for name in ("one", "two"):
        whole = {
            one.name
            for one in running
            if one.spec.scheduling_group and one.spec.scheduling_group.pod_group_name == name
        }
        assert gone & whole in (set(), whole), (name, gone)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([PREEMPTION, ALL]))
def test_victims_that_are_a_group_go_together(seed: int, gates: str) -> None:
    victims_go_whole(seed, gates)
