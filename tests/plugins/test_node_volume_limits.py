"""NodeVolumeLimits: as many volumes on a node as its CSI drivers can attach, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stowplan.framework.errors import PluginFailed
from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP_ALWAYS, Status, error, unresolvable, unschedulable
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.objects.storage import VolumeAttachment as Attachment
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint
from tests.plugins.volume_objects import (
    DRIVER,
    attachment,
    claim,
    csi_node,
    mounting,
    owned_by,
    storage_class,
    volume,
)

FULL = unschedulable("node(s) exceed max volume count")
EBS = "ebs.csi.aws.com"

JSON = dict[str, Any]


def refused(asking: Pod, *objects: KubeObject, limits: dict[str, int | None]) -> bool:
    """Whether node `n` with these limits has no room for the pod's volumes."""
    world = World(node("n"), csi_node("n", limits), *objects)
    found = filtered(NodeVolumeLimits(None, world.handle), world, asking)["n"]
    assert found in (None, FULL)
    return found is not None


def bound(name: str, **rest: Any) -> list[KubeObject]:
    return [claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", phase="Bound", **rest)]


TWO_USED = [*bound("a"), *bound("b"), mounting("a", "b", node="n")]


@pytest.mark.parametrize(
    ("asking", "more", "limit", "full"),
    [
        pytest.param(mounting("c"), bound("c"), 3, False, id="room"),
        pytest.param(mounting("c"), bound("c"), 2, True, id="no-room"),
        pytest.param(mounting("c"), bound("c", driver="other"), 2, False, id="other-driver"),
        pytest.param(mounting("a"), [], 2, False, id="in-use-here-already"),
        pytest.param(mounting("a"), [], 1, False, id="nothing-new-is-never-checked"),
        pytest.param(mounting("a", "c"), bound("c"), 2, True, id="one-new-one-old"),
        pytest.param(
            mounting("c"), bound("c", handle="handle-pv-a"), 2, False, id="two-claims-one-volume"
        ),
        pytest.param(mounting("c", "c"), bound("c"), 3, False, id="mounted-twice"),
        pytest.param(
            mounting("w"),
            [claim("w", storage_class="s"), storage_class("s")],
            2,
            True,
            id="unbound",
        ),
        pytest.param(
            mounting("w"),
            [claim("w", volume="gone", storage_class="s"), storage_class("s")],
            2,
            True,
            id="volume-missing-goes-by-class",
        ),
        pytest.param(mounting("w"), [claim("w")], 2, False, id="no-class-no-volume"),
        pytest.param(mounting("w"), [claim("w", storage_class="s")], 2, False, id="unknown-class"),
        pytest.param(
            mounting("c"), bound("c", source={"nfs": {}}), 2, False, id="volume-without-driver"
        ),
        pytest.param(
            mounting(inline=[{"csi": {"driver": DRIVER}}, {"ephemeral": {}}], name="p"),
            [claim("p-i1")],
            2,
            False,
            id="inline-csi-is-not-counted",
        ),
        pytest.param(
            mounting("c"),
            [*bound("c"), attachment("x", "n", "pv-a")],
            3,
            False,
            id="attached-known",
        ),
        pytest.param(
            mounting("c"),
            [*bound("c"), volume("other"), attachment("x", "n", "other")],
            3,
            True,
            id="attached-by-others",
        ),
        pytest.param(
            mounting("c"),
            [*bound("c"), attachment("x", "n", "pv-c")],
            3,
            True,
            id="attachment-alone-does-not-make-it-old",
        ),
        pytest.param(
            mounting("c"),
            [*bound("c"), volume("other"), attachment("x", "m", "other")],
            3,
            False,
            id="attached-elsewhere",
        ),
        pytest.param(
            mounting("c"), [*bound("c"), attachment("x", "n", None)], 3, False, id="attached-inline"
        ),
    ],
)
def test_two_volumes_are_on_the_node(
    asking: Pod, more: list[KubeObject], limit: int, full: bool
) -> None:
    objects = [obj for obj in more if obj.name != "p-i1"]
    if len(objects) < len(more):
        objects.append(claim("p-i1", metadata=owned_by(asking)))

    assert refused(asking, *TWO_USED, *objects, limits={DRIVER: limit}) == full


EBS_DISK = {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        pytest.param(EBS_DISK, EBS, id="aws-ebs"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", id="gce-pd"),
        pytest.param({"azureDisk": {"diskURI": "u"}}, "disk.csi.azure.com", id="azure-disk"),
        pytest.param({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org", id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com", id="portworx"),
        pytest.param({"vsphereVolume": {"volumePath": "d"}}, "", id="vsphere-not-translated"),
        pytest.param({"azureFile": {"shareName": "d"}}, "", id="azure-file-not-translated"),
    ],
)
def test_in_tree_volumes_count_for_the_driver_that_took_over(source: JSON, driver: str) -> None:
    limits: dict[str, int | None] = {driver or "csi.vsphere.vmware.com": 0, "file.csi.azure.com": 0}

    assert refused(mounting("c"), *bound("c", source=source), limits=limits) == bool(driver)
    assert refused(mounting(inline=[source]), limits=limits) == bool(driver)


def test_an_in_tree_disk_and_its_csi_volume_are_one() -> None:
    csi = bound("c", driver=EBS, handle="vol-1")
    running = mounting(inline=[EBS_DISK], node="n")

    assert not refused(mounting("c"), *csi, running, limits={EBS: 1})
    assert refused(mounting("c"), *bound("c", driver=EBS), running, limits={EBS: 1})


def test_an_in_tree_class_counts_for_the_driver() -> None:
    ebs = storage_class("s", provisioner="kubernetes.io/aws-ebs")
    vsphere = storage_class("s", provisioner="kubernetes.io/vsphere-volume")
    waiting = claim("c", storage_class="s")

    assert refused(mounting("c"), waiting, ebs, limits={EBS: 0})
    assert not refused(mounting("c"), waiting, vsphere, limits={"csi.vsphere.vmware.com": 0})


def test_a_node_without_limits_takes_everything() -> None:
    world = World(node("a"), node("b"), node("c"), csi_node("b", {DRIVER: None}), *bound("c"))
    world.add(csi_node("c", {DRIVER: 0}))

    found = filtered(NodeVolumeLimits(None, world.handle), world, mounting("c"))

    assert found == {"a": None, "b": None, "c": FULL}


@pytest.mark.parametrize(
    ("asking", "skips"),
    [
        pytest.param(pod(), True, id="no-volumes"),
        pytest.param(mounting("c"), False, id="claim"),
        pytest.param(mounting(inline=[{"ephemeral": {}}]), False, id="ephemeral"),
        pytest.param(mounting(inline=[EBS_DISK]), False, id="migratable"),
        pytest.param(mounting(inline=[{"csi": {"driver": DRIVER}}]), True, id="inline-csi"),
        pytest.param(mounting(inline=[{"rbd": {"image": "x"}}]), True, id="not-migratable"),
    ],
)
def test_pre_filter(asking: Pod, skips: bool) -> None:
    world = World(node("n"))
    plugin = NodeVolumeLimits(None, world.handle)

    assert (plugin.pre_filter(world.cycle(), info(asking)) == SKIP_ALWAYS) == skips


def test_a_missing_claim_fits_nowhere() -> None:
    world = World(node("n"))

    found = filtered(NodeVolumeLimits(None, world.handle), world, mounting("x"))

    missing = 'looking up PVC default/x: persistentvolumeclaim "x" not found'
    assert found == {"n": unresolvable(missing)}


@pytest.mark.parametrize(
    ("inline", "problem"),
    [
        pytest.param(
            {"ephemeral": {}},
            "PVC default/p-i0 was not created for pod default/p (pod is not owner)",
            id="not-its-own-claim",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}},
            "converting volume(i0) from inline to csi: failed to translate Kubernetes ID to EBS "
            "Volume ID Invalid format for AWS volume (aws://zone/disk)",
            id="no-ebs-volume",
        ),
    ],
)
def test_errors(inline: JSON, problem: str) -> None:
    world = World(node("n"), claim("p-i0"))
    plugin = NodeVolumeLimits(None, world.handle)
    asking, cycle = info(mounting(inline=[inline], name="p")), world.cycle()

    assert plugin.pre_filter(cycle, asking) is None
    assert plugin.filter_node(cycle, asking, world.table.info(0)) == error(problem)
    with pytest.raises(PluginFailed) as failed:
        plugin.filter_nodes(cycle, asking, world.table, slice(0, 1))
    assert str(failed.value) == f'running "NodeVolumeLimits" filter plugin: {problem}'


def test_events() -> None:
    plugin = NodeVolumeLimits(None, World().handle)
    asking, disk = mounting("c"), mounting(inline=[EBS_DISK])

    def said(resource: str, action: Action, old: Any, new: Any = None, pod: Pod = asking) -> Any:
        return hint(plugin, resource, action, pod, old, new)

    def raised(old: int | None, new: int | None) -> Any:
        nodes = csi_node("n", {DRIVER: old}), csi_node("n", {DRIVER: new})
        return said(Resource.CSI_NODE, Action.UPDATE, *nodes)

    assert said(Resource.CSI_NODE, Action.ADD, None, csi_node("n", {})) == Hint.QUEUE
    assert [raised(1, 2), raised(None, 1)] == [Hint.QUEUE, Hint.QUEUE]
    assert [raised(1, 1), raised(2, 1), raised(1, None)] == [Hint.SKIP] * 3
    assert said(Resource.POD, Action.DELETE, mounting("x", node="n")) == Hint.QUEUE
    assert said(Resource.POD, Action.DELETE, mounting(inline=[EBS_DISK], node="n")) == Hint.QUEUE
    assert said(Resource.POD, Action.DELETE, mounting("x")) == Hint.SKIP
    assert said(Resource.POD, Action.DELETE, pod(node="n")) == Hint.SKIP
    claims = Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD
    assert said(*claims, None, claim("c")) == Hint.QUEUE
    assert said(*claims, None, claim("d")) == Hint.SKIP
    own = mounting(inline=[{"ephemeral": {}}], name="p")
    assert said(*claims, None, claim("p-i0"), own) == Hint.QUEUE
    detached = Resource.VOLUME_ATTACHMENT, Action.DELETE
    assert said(*detached, attachment("x", "n", "v")) == Hint.QUEUE
    assert said(*detached, attachment("x", "n", "v", EBS), None, disk) == Hint.QUEUE
    assert said(*detached, attachment("x", "n", "v"), None, disk) == Hint.SKIP


# -- whatever comes and goes, the columns say what the definition says -----------------------

NODES, CLAIMS, VOLUMES = ("n0", "n1", "n2"), ("c0", "c1", "c2", "p0-i0"), ("v0", "v1", "v2")
DRIVERS = (DRIVER, EBS)


def volume_of(world: World, key: str, owner: Pod | None) -> tuple[str, str] | None:
    """The definition of what a claim stands for."""
    found = world.objects.get(PersistentVolumeClaim, key)
    if found is None or (
        owner and owner.uid not in [o.uid for o in found.metadata.owner_references or ()]
    ):
        return None
    name = found.spec.volume_name
    existing = world.objects.get(PersistentVolume, name) if name else None
    if existing is not None:
        if existing.spec.csi is not None:
            return existing.spec.csi.driver, existing.spec.csi.volume_handle
        disk = existing.spec.aws_elastic_block_store
        return None if disk is None else (EBS, disk.volume_id)
    of_class = world.objects.get(StorageClass, found.spec.storage_class_name or "")
    return None if of_class is None else (of_class.provisioner, f"new {key}")


def volumes_of(world: World, pod: Pod) -> set[tuple[str, str]]:
    found = set()
    for each in pod.spec.volumes or ():
        if each.persistent_volume_claim is not None:
            key = f"default/{each.persistent_volume_claim.claim_name}"
            found.add(volume_of(world, key, None))
        elif each.ephemeral is not None:
            found.add(volume_of(world, f"default/{pod.name}-{each.name}", pod))
        elif each.aws_elastic_block_store is not None:
            found.add((EBS, each.aws_elastic_block_store.volume_id.removeprefix("aws://z/")))
    return {volume for volume in found if volume is not None}


def expected(world: World, asking: Pod, name: str) -> Status | None:
    wanted = volumes_of(world, asking)
    running = [p.pod for p in world.cache.nodes[name].pods.values()]
    used = set().union(*(volumes_of(world, p) for p in running))
    attached = set(used)
    for each in world.objects.all(Attachment).values():
        existing = world.objects.get(
            PersistentVolume, each.spec.source.persistent_volume_name or ""
        )
        if each.spec.node_name == name and existing is not None and existing.spec.csi is not None:
            attached.add((each.spec.attacher, existing.spec.csi.volume_handle))
    host = world.objects.get(CSINode, name)
    for driver in (host.spec.drivers or ()) if host is not None else ():
        limit = driver.allocatable.count if driver.allocatable is not None else None
        new = {v for v in wanted - used if v[0] == driver.name}
        if (
            limit is not None
            and new
            and len(new) + sum(v[0] == driver.name for v in attached) > limit
        ):
            return FULL
    return None


class Comings(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.world = World()
        self.plugin = NodeVolumeLimits(None, self.world.handle)
        self.running: list[Pod] = []
        for name in NODES:
            self.node_comes(name)
            self.limits(name, 1, None)
        for name, of in zip(CLAIMS, VOLUMES, strict=False):
            self.claim_comes(name, of, None)
            self.volume_comes(of, "g", "a")

    @rule(name=st.sampled_from(NODES))
    def node_comes(self, name: str) -> None:
        self.world.add(node(name))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: str) -> None:
        if name in self.world.table.row_of:
            self.world.cache.remove_node(name)
            self.world.add()

    @rule(name=st.sampled_from(NODES), one=st.integers(0, 3), other=st.none() | st.integers(0, 2))
    def limits(self, name: str, one: int, other: int | None) -> None:
        self.world.add(csi_node(name, dict(zip(DRIVERS, (one, other), strict=True))))

    @rule(
        name=st.sampled_from(NODES),
        claims=st.lists(st.sampled_from(CLAIMS[:3]), max_size=2),
        inline=st.lists(
            st.sampled_from([{"ephemeral": {}}, {"awsElasticBlockStore": {"volumeID": "h"}}]),
            max_size=1,
        ),
    )
    def pod_comes(self, name: str, claims: list[str], inline: list[JSON]) -> None:
        running = mounting(*claims, inline=inline, name="p0", node=name)
        self.world.add(running)
        self.running.append(running)

    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        if self.running:
            gone = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
            self.world.cache.remove_pod(gone)
            self.world.add()

    @rule(
        name=st.sampled_from(CLAIMS),
        of=st.sampled_from(["", *VOLUMES]),
        by_class=st.sampled_from([None, "s"]),
    )
    def claim_comes(self, name: str, of: str, by_class: str | None) -> None:
        metadata = owned_by(self.running[-1]) if name == CLAIMS[3] and self.running else None
        self.world.add(claim(name, volume=of, storage_class=by_class, metadata=metadata))

    @rule(
        name=st.sampled_from(VOLUMES),
        handle=st.sampled_from("gh"),
        at=st.sampled_from(["a", "b", "ebs"]),
    )
    def volume_comes(self, name: str, handle: str, at: str) -> None:
        disk = {"awsElasticBlockStore": {"volumeID": handle}} if at == "ebs" else None
        self.world.add(
            volume(name, handle=handle, driver=EBS if at == "b" else DRIVER, source=disk)
        )

    @rule(there=st.booleans())
    def class_changes(self, there: bool) -> None:
        self.world.add(storage_class("s"))
        if not there:
            self.world.objects.remove(storage_class("s"))

    @rule(name=st.sampled_from("xy"), at=st.sampled_from(NODES), of=st.sampled_from(VOLUMES))
    def attached(self, name: str, at: str, of: str) -> None:
        self.world.add(attachment(name, at, of))

    @rule(
        gone=st.sampled_from(
            [claim(CLAIMS[0]), volume(VOLUMES[0]), attachment("x", "", None), csi_node("n0", {})]
        )
    )
    def object_goes(self, gone: KubeObject) -> None:
        self.world.objects.remove(gone)

    @invariant()
    def same_answer_as_the_definition(self) -> None:
        for claims in (["c0", "c1"], ["c2"]):
            if all(f"default/{c}" in self.world.objects.all(PersistentVolumeClaim) for c in claims):
                asking = mounting(*claims, inline=[EBS_DISK])
                wanted = {n: expected(self.world, asking, n) for n in self.world.table.row_of}
                assert filtered(self.plugin, self.world, asking) == wanted


Comings.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestComings = Comings.TestCase


def test_far_behind_everything_is_looked_at_again() -> None:
    world = World(node("n"), csi_node("n", {DRIVER: 1}), *bound("a"), mounting("a", node="n"))
    plugin = NodeVolumeLimits(None, world.handle)
    world.add(*bound("c"))
    assert filtered(plugin, world, mounting("c")) == {"n": FULL}

    world.add(volume("pv-a", driver="other"), csi_node("n", {DRIVER: 2}))
    world.add(*(obj for n in range(5000) for obj in (claim(f"x{n}"), volume(f"x{n}"))))

    assert filtered(plugin, world, mounting("c")) == {"n": None}
