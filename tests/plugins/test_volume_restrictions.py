"""VolumeRestrictions: disks that two pods cannot share, and claims that are for one pod alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP, SKIP_ALWAYS, unresolvable, unschedulable
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint
from tests.plugins.volume_objects import claim, mounting, volume

NO_DISK = unschedulable("node(s) had no available disk")
IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
PLUGIN = VolumeRestrictions()

JSON = dict[str, Any]


def gce(name: str, *, ro: bool = False) -> JSON:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": ro}}


def ebs(name: str, *, ro: bool = False) -> JSON:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": ro}}


def iscsi(iqn: str, *, lun: int = 0, ro: bool = False) -> JSON:
    return {"iscsi": {"targetPortal": "t", "iqn": iqn, "lun": lun, "readOnly": ro}}


def rbd(image: str, *monitors: str, pool: str = "p", ro: bool = False) -> JSON:
    return {"rbd": {"monitors": monitors, "pool": pool, "image": image, "readOnly": ro}}


@pytest.mark.parametrize(
    ("used", "wanted", "clash"),
    [
        pytest.param(gce("a"), gce("a"), True, id="gce"),
        pytest.param(gce("a"), gce("b"), False, id="gce-other-disk"),
        pytest.param(gce("a", ro=True), gce("a"), True, id="gce-one-read-only"),
        pytest.param(gce("a", ro=True), gce("a", ro=True), False, id="gce-both-read-only"),
        pytest.param(ebs("a", ro=True), ebs("a", ro=True), True, id="ebs-even-read-only"),
        pytest.param(ebs("a"), gce("a"), False, id="other-sort"),
        pytest.param(iscsi("i", lun=1), iscsi("i", lun=2), True, id="iscsi-iqn-alone"),
        pytest.param(iscsi("i", ro=True), iscsi("i", ro=True), False, id="iscsi-read-only"),
        pytest.param(rbd("x", "a", "b"), rbd("x", "b", "c"), True, id="rbd-shared-monitor"),
        pytest.param(rbd("x", "a"), rbd("x", "c"), False, id="rbd-no-shared-monitor"),
        pytest.param(rbd("x", "a"), rbd("x", "a", pool="q"), False, id="rbd-other-pool"),
        pytest.param(rbd("x", "a"), rbd("y", "a"), False, id="rbd-other-image"),
        pytest.param(rbd("x", "a", ro=True), rbd("x", "a", ro=True), False, id="rbd-read-only"),
    ],
)
def test_disks(used: JSON, wanted: JSON, clash: bool) -> None:
    world = World(node("a"), node("b"), mounting(inline=[used], node="a"))

    found = filtered(PLUGIN, world, mounting(inline=[wanted]))

    assert found == {"a": NO_DISK if clash else None, "b": None}


def test_a_claim_for_one_pod_is_in_use_everywhere() -> None:
    world = World(node("a"), node("b"), claim("c", modes=("ReadWriteOncePod",)))
    world.add(mounting("c", node="a"))

    assert filtered(PLUGIN, world, mounting("c")) == {"a": IN_USE, "b": IN_USE}


def test_the_disk_is_reported_before_the_claim() -> None:
    world = World(node("a"), node("b"), claim("c", modes=("ReadWriteOncePod",)))
    world.add(mounting("c", inline=[gce("d")], node="a"))

    found = filtered(PLUGIN, world, mounting("c", inline=[gce("d")]))

    assert found == {"a": NO_DISK, "b": IN_USE}


@pytest.mark.parametrize(
    ("asking", "status"),
    [
        pytest.param(pod(), SKIP_ALWAYS, id="no-volumes"),
        pytest.param(mounting("shared"), SKIP, id="no-restriction"),
        pytest.param(mounting("alone"), SKIP, id="not-in-use"),
        pytest.param(mounting("used"), None, id="in-use"),
        pytest.param(mounting(inline=[gce("a")]), None, id="disk"),
        pytest.param(mounting(inline=[{"csi": {"driver": "d"}}]), SKIP, id="other-volume"),
        pytest.param(
            mounting("x"), unresolvable('persistentvolumeclaim "x" not found'), id="no-claim"
        ),
        pytest.param(
            pod(spec={"volumes": [{"name": "e", "ephemeral": {}}]}), SKIP, id="ephemeral-not-asked"
        ),
    ],
)
def test_pre_filter(asking: Any, status: Any) -> None:
    world = World(node("a"), claim("shared"))
    world.add(*(claim(name, modes=("ReadWriteOncePod",)) for name in ("alone", "used")))
    world.add(mounting("used", "shared", node="a"))

    assert PLUGIN.pre_filter(world.cycle(), info(asking)) == status


def test_pods_that_come_and_go_are_counted_whatever_their_namespace() -> None:
    world = World(node("a"), claim("c", modes=("ReadWriteOncePod",)))
    running = mounting("c", node="a")
    world.add(running)
    asking, cycle = info(mounting("c")), world.cycle()
    host = world.table.info(world.row("a"))
    PLUGIN.pre_filter(cycle, asking)

    trial = cycle.clone()
    PLUGIN.remove_pod(trial, asking, info(running), host)
    assert PLUGIN.filter_node(trial, asking, host) is None
    assert PLUGIN.filter_node(cycle, asking, host) == IN_USE
    PLUGIN.add_pod(trial, asking, info(mounting("c", namespace="elsewhere")), host)
    assert PLUGIN.filter_node(trial, asking, host) == IN_USE


@pytest.mark.parametrize(
    ("gone", "queue"),
    [
        pytest.param(mounting("c"), True, id="same-claim"),
        pytest.param(mounting("d"), False, id="other-claim"),
        pytest.param(mounting(inline=[gce("a")]), True, id="same-disk"),
        pytest.param(mounting(inline=[gce("b")]), False, id="other-disk"),
        pytest.param(mounting("c", namespace="elsewhere"), False, id="other-namespace"),
    ],
)
def test_after_a_pod_is_gone(gone: Any, queue: bool) -> None:
    asking = mounting("c", inline=[gce("a")])

    assert hint(PLUGIN, Resource.POD, Action.DELETE, asking, gone) == Hint(queue)


def test_other_events() -> None:
    asking = mounting("c")
    added = Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD

    assert hint(PLUGIN, *added, asking, None, claim("c")) == Hint.QUEUE
    assert hint(PLUGIN, *added, asking, None, claim("d")) == Hint.SKIP
    assert hint(PLUGIN, *added, asking, None, claim("c", namespace="x")) == Hint.SKIP
    assert hint(PLUGIN, Resource.NODE, Action.ADD, asking, None, node("a")) == Hint.QUEUE
    assert hint(PLUGIN, Resource.PERSISTENT_VOLUME, Action.ADD, asking, None, volume("v")) is None


disks = st.one_of(
    st.builds(gce, st.sampled_from("ab"), ro=st.booleans()),
    st.builds(ebs, st.sampled_from("ab"), ro=st.booleans()),
    st.builds(iscsi, st.sampled_from("ab"), ro=st.booleans()),
    st.builds(rbd, st.sampled_from("ab"), st.sampled_from("mn"), ro=st.booleans()),
)


def clash(one: JSON, other: JSON) -> bool:
    if one.keys() != other.keys():
        return False
    [(sort, a)], [(_, b)] = one.items(), other.items()
    if sort == "awsElasticBlockStore":
        return bool(a["volumeID"] == b["volumeID"])
    same = all(a[k] == b[k] for k in a if k in ("pdName", "iqn", "pool", "image"))
    meet = sort != "rbd" or bool({*a["monitors"]} & {*b["monitors"]})
    return same and meet and not (a["readOnly"] and b["readOnly"])


@given(st.lists(st.lists(disks, max_size=3), min_size=1, max_size=4), st.lists(disks, max_size=2))
def test_same_answer_as_the_definition(used: list[list[JSON]], wanted: list[JSON]) -> None:
    world = World(*(node(f"n{n}") for n in range(len(used))))
    first = filtered(PLUGIN, world, mounting(inline=wanted))
    world.add(*(mounting(inline=taken, node=f"n{n}") for n, taken in enumerate(used)))

    found = filtered(PLUGIN, world, mounting(inline=wanted))

    assert not any(first.values())
    expected = [any(clash(w, u) for w in wanted for u in taken) for taken in used]
    assert [found[f"n{n}"] == NO_DISK for n in range(len(used))] == expected
