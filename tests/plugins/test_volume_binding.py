"""VolumeBinding: pods go where their volumes are, or where volumes for them can be had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP, SKIP_ALWAYS, Code, error, unresolvable
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.objects.quantity import parse_quantity
from stowplan.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from stowplan.plugins.volume_binding import REASONS, VolumeBinding
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint
from tests.plugins.volume_objects import (
    DRIVER,
    claim,
    csi_driver,
    csi_node,
    mounting,
    owned_by,
    pool,
    storage_class,
    volume,
)

AFFINITY, BIND, SPACE, GONE = REASONS
SELECTED = "volume.kubernetes.io/selected-node"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"

JSON = dict[str, Any]


def plugin(world: World, **args: Any) -> VolumeBinding:
    given = {"bind_timeout_seconds": 600, "shape": None, **args}
    return VolumeBinding(SimpleNamespace(**given), world.handle)


def turned_down(world: World, asking: Pod) -> dict[str, tuple[str, ...]]:
    """Nodes that do not pass, and why; all of them for good."""
    found = filtered(plugin(world), world, asking)
    rejected = {name: status for name, status in found.items() if status is not None}
    codes = {status.code for status in rejected.values()}
    assert codes <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    return {name: status.reasons for name, status in rejected.items()}


# -- PreFilter -------------------------------------------------------------------------------

EPHEMERAL = pod("p", spec={"volumes": [{"name": "v", "ephemeral": {}}]})


@pytest.mark.parametrize(
    ("asking", "objects", "status"),
    [
        pytest.param(pod(), [], SKIP_ALWAYS, id="no-volumes"),
        pytest.param(mounting(inline=[{"secret": {}}]), [], SKIP_ALWAYS, id="no-claims"),
        pytest.param(
            mounting("c"), [], unresolvable('persistentvolumeclaim "c" not found'), id="no-claim"
        ),
        pytest.param(
            EPHEMERAL,
            [],
            unresolvable(
                'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
            ),
            id="no-ephemeral-claim-yet",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("p-v", volume="v")],
            unresolvable("PVC default/p-v was not created for pod default/p (pod is not owner)"),
            id="not-its-own-claim",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("p-v", volume="v", metadata=owned_by(EPHEMERAL)), volume("v")],
            SKIP,
            id="its-own-claim",
        ),
        pytest.param(
            mounting("c"),
            [claim("c", volume="v", phase="Lost")],
            unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
            id="lost",
        ),
        pytest.param(
            mounting("c"),
            [claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            unresolvable('persistentvolumeclaim "c" is being deleted'),
            id="being-deleted",
        ),
        pytest.param(mounting("c"), [claim("c")], "immediate", id="no-class"),
        pytest.param(mounting("c"), [claim("c", storage_class="x")], "immediate", id="bad-class"),
        pytest.param(mounting("c"), [claim("c", storage_class="now")], "immediate", id="immediate"),
        pytest.param(
            mounting("c"),
            [claim("c", volume="v", annotations={}, storage_class="wait")],
            "immediate",
            id="prebound-but-not-completed",
        ),
        pytest.param(mounting("c"), [claim("c", storage_class="wait")], None, id="delayed"),
        pytest.param(
            mounting("c"),
            [
                claim(
                    "c",
                    storage_class="now",
                    annotations={"volume.beta.kubernetes.io/storage-class": "wait"},
                )
            ],
            None,
            id="the-annotation-wins",
        ),
        pytest.param(
            mounting("c"),
            [claim("c", storage_class="modeless")],
            error('VolumeBindingMode not set for StorageClass "modeless"'),
            id="class-without-mode",
        ),
        pytest.param(
            mounting("c"), [claim("c", volume="v"), volume("v")], SKIP, id="reachable-from-anywhere"
        ),
        pytest.param(
            mounting("c"), [claim("c", volume="v"), volume("v", on={"z": ["a"]})], None, id="bound"
        ),
    ],
)
def test_pre_filter(asking: Pod, objects: list[KubeObject], status: Any) -> None:
    world = World(node("n"), *objects)
    world.add(storage_class("wait"), storage_class("now", mode="Immediate"))
    world.add(storage_class("modeless", mode=None))

    if status == "immediate":
        status = unresolvable("pod has unbound immediate PersistentVolumeClaims")
    assert plugin(world).pre_filter(world.cycle(), info(asking)) == status


# -- bound claims ----------------------------------------------------------------------------


def zones() -> list[KubeObject]:
    return [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"}), node("c")]


def test_bound_volumes_tie_the_pod_to_their_nodes() -> None:
    world = World(*zones(), claim("c", volume="v"), volume("v", on={"zone": ["z1"]}))

    assert turned_down(world, mounting("c")) == {"b": (AFFINITY,), "c": (AFFINITY,)}


def test_the_first_bound_claim_that_fails_decides() -> None:
    world = World(*zones(), claim("c", volume="v"), volume("v", on={"zone": ["z1"]}))
    world.add(claim("d", volume="gone"))

    found = turned_down(world, mounting("c", "d"))
    assert found == {"a": (GONE,), "b": (AFFINITY,), "c": (AFFINITY,)}
    assert turned_down(world, mounting("d", "c")) == dict.fromkeys("abc", (GONE,))


def test_conditions_on_fields_always_hold_for_volumes() -> None:
    elsewhere = {"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}
    term = {"matchFields": [elsewhere]}
    by_field = volume("v", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    world = World(*zones(), claim("c", volume="v"), by_field)

    assert turned_down(world, mounting("c")) == {}


def test_an_empty_selector_matches_no_node() -> None:
    world = World(node("a"), claim("c", volume="v"))
    world.add(volume("v", nodeAffinity={"required": {"nodeSelectorTerms": []}}))

    assert turned_down(world, mounting("c")) == {"a": (AFFINITY,)}


EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GA, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("disk", "unmigrated", "migrated"),
    [
        pytest.param(volume("v", source=EBS, on={GA: ["z"]}), "b", "a", id="affinity"),
        pytest.param(volume("v", source=EBS, on={BETA: ["z"]}), "ab", "a", id="beta-affinity"),
        pytest.param(volume("v", source=EBS, labels={GA: "z"}), "", "a", id="zone-label"),
        pytest.param(volume("v", source=EBS, labels={BETA: "y__z"}), "", "a", id="beta-label"),
        pytest.param(
            volume("v", source=EBS, on={GA: ["z"]}, labels={GA: "y"}), "b", "a", id="affinity-first"
        ),
        pytest.param(
            volume("v", source=EBS, on={"disk": ["x"]}, labels={GA: "z"}), "ab", "ab", id="and-both"
        ),
        pytest.param(volume("v", on={GA: ["z"]}), "b", "b", id="csi-stays-as-it-is"),
        pytest.param(
            volume("v", source={"azureDisk": {"diskURI": "u"}}, on={GA: ["z"]}),
            "b",
            "b",
            id="azure-keeps-its-labels",
        ),
    ],
)
def test_in_tree_volumes_are_where_their_driver_says(
    disk: PersistentVolume, unmigrated: str, migrated: str
) -> None:
    """Node `a` has the driver's zone label, node `b` that of Kubernetes."""
    nodes = node("a", labels={EBS_ZONE: "z"}), node("b", labels={GA: "z"})
    world = World(*nodes, claim("c", volume="v"), disk)
    expected = {"b": "a", "a": "b", "": "", "ab": "ab"}
    assert "".join(turned_down(world, mounting("c"))) == expected[unmigrated]

    plugins = "kubernetes.io/azure-disk,kubernetes.io/aws-ebs"
    world.add(csi_node("a", {}, migrated=plugins), csi_node("b", {}, migrated=plugins))

    assert "".join(turned_down(world, mounting("c"))) == expected[migrated]


def test_a_volume_that_cannot_be_translated_is_an_error() -> None:
    broken = volume("v", source={"gcePersistentDisk": {"pdName": "d"}}, labels={GA: "a__b"})
    world = World(node("n"), claim("c", volume="v"), broken)
    world.add(csi_node("n", {}, migrated="kubernetes.io/gce-pd"))
    binding, cycle, asking = plugin(world), world.cycle(), info(mounting("c"))
    binding.pre_filter(cycle, asking)

    status = binding.filter_node(cycle, asking, world.table.info(0))

    assert status is not None
    assert status.code == Code.ERROR
    assert status.message.startswith("could not translate pv: failed to get region from zones")
    with pytest.raises(Exception, match='running "VolumeBinding" filter plugin: could not tr'):
        binding.filter_nodes(cycle, asking, world.table, slice(0, 1))


# -- claims that wait for a node -------------------------------------------------------------


def waiting(name: str = "c", **rest: Any) -> PersistentVolumeClaim:
    return claim(name, storage_class="s", **rest)


def free(name: str = "v", **rest: Any) -> PersistentVolume:
    return volume(name, storage_class="s", **rest)


def static(*objects: KubeObject) -> World:
    """Two nodes, and a class of volumes that nobody makes."""
    nodes = node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})
    made = storage_class("s", provisioner="kubernetes.io/no-provisioner")
    return World(*nodes, made, *objects)


REFERENCE = {"namespace": "default", "name": "c", "uid": "uid-c"}
LABELLED: JSON = {"selector": {"matchLabels": {"tier": "fast"}}}


@pytest.mark.parametrize(
    ("wanted", "offered", "passed"),
    [
        pytest.param(waiting(), free(), "ab", id="any-volume"),
        pytest.param(waiting(), free(on={"zone": ["z1"]}), "a", id="where-it-is"),
        pytest.param(waiting(size="2Gi"), free(), "", id="too-small"),
        pytest.param(waiting(), free(phase="Released"), "", id="not-available"),
        pytest.param(waiting(), volume("v", storage_class="t"), "", id="other-class"),
        pytest.param(waiting(modes=("ReadWriteMany",)), free(), "", id="access-mode"),
        pytest.param(waiting(volumeMode="Block"), free(), "", id="volume-mode"),
        pytest.param(waiting(volumeMode="Filesystem"), free(), "ab", id="default-volume-mode"),
        pytest.param(waiting(volumeAttributesClassName="gold"), free(), "", id="attributes-class"),
        pytest.param(waiting(**LABELLED), free(), "", id="selector"),
        pytest.param(waiting(**LABELLED), free(labels={"tier": "fast"}), "ab", id="selected"),
        pytest.param(
            waiting(),
            free(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "",
            id="being-deleted",
        ),
        pytest.param(
            waiting(), free(claimRef={**REFERENCE, "name": "other"}), "", id="somebody-elses"
        ),
        pytest.param(
            waiting(), free(claimRef={**REFERENCE, "uid": "before"}), "", id="its-predecessors"
        ),
        pytest.param(
            waiting(modes=("ReadWriteMany",)),
            free(claimRef=REFERENCE, phase="Pending", on={"zone": ["z2"]}),
            "b",
            id="prebound-whatever-its-phase",
        ),
    ],
)
def test_one_claim_one_volume(
    wanted: PersistentVolumeClaim, offered: PersistentVolume, passed: str
) -> None:
    found = turned_down(static(wanted, offered), mounting("c"))

    assert found == {name: (BIND,) for name in "ab" if name not in passed}


def test_a_prebound_volume_rules_out_all_others() -> None:
    prebound = free("v", claimRef=REFERENCE, on={"zone": ["z1"]})

    assert turned_down(static(waiting(), prebound, free("w")), mounting("c")) == {"b": (BIND,)}


def test_two_claims_need_two_volumes() -> None:
    world = static(waiting("c"), waiting("d"), free("v"), free("w", on={"zone": ["z1"]}))

    assert turned_down(world, mounting("c", "d")) == {"b": (BIND,)}


def chosen(world: World, *claims: str, on: str = "a") -> dict[str, str]:
    """Claim -> the volume Reserve gives it."""
    cycle, asking, binding = world.cycle(), info(mounting(*claims)), plugin(world)
    assert binding.pre_filter(cycle, asking) is None
    assert binding.reserve(cycle, asking, on) is None
    writes = cycle.data["VolumeBinding"].writes
    return {b.claim.name: b.volume.name for b in writes.bindings}


def test_small_claims_are_served_first_each_with_the_smallest_volume() -> None:
    world = static(waiting("big", size="2Gi"), waiting("small"))
    world.add(free("w", size="3Gi"), free("v", size="2Gi"), free("u", size="2Gi"))

    assert chosen(world, "big", "small") == {"small": "u", "big": "v"}


def test_both_reasons_in_order() -> None:
    world = static(claim("e", volume="v"), volume("v", on={"zone": ["z1"]}), waiting("c"))

    assert turned_down(world, mounting("e", "c")) == {"a": (BIND,), "b": (AFFINITY, BIND)}


def dynamic(*objects: KubeObject, zones: list[str] | None = None) -> World:
    nodes = node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})
    return World(*nodes, storage_class("s", zones=zones), *objects)


GIB = {"a": {"zone": "z1"}, "b": {"zone": "z2"}}


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param(dynamic(waiting()), {}, id="made-anywhere"),
        pytest.param(dynamic(waiting(), zones=["z1"]), {"b": (BIND,)}, id="allowed-topologies"),
        pytest.param(
            dynamic(waiting(annotations={SELECTED: "b"}), free()),
            {"a": (BIND,)},
            id="already-being-made-for-b",
        ),
        pytest.param(
            dynamic(waiting(annotations={SELECTED: ""})),
            {"a": (BIND,), "b": (BIND,)},
            id="an-empty-choice-is-a-choice",
        ),
        pytest.param(
            dynamic(waiting(), csi_driver(), pool("p", "s", "2Gi", on=GIB["a"])),
            {"b": (SPACE,)},
            id="space",
        ),
        pytest.param(
            dynamic(waiting(), csi_driver(), pool("p", "s", "1Gi", on={}, maximum="1Mi")),
            {"a": (SPACE,), "b": (SPACE,)},
            id="largest-volume-beats-capacity",
        ),
        pytest.param(
            dynamic(waiting(), csi_driver(), pool("p", "s", "1Gi"), pool("q", "s", None, on={})),
            {"a": (SPACE,), "b": (SPACE,)},
            id="unreachable-or-unknown",
        ),
        pytest.param(
            dynamic(waiting(), csi_driver(), pool("p", "t", "1Gi", on={})),
            {"a": (SPACE,), "b": (SPACE,)},
            id="pool-of-another-class",
        ),
        pytest.param(dynamic(waiting(), csi_driver(capacity=False)), {}, id="nobody-keeps-count"),
        pytest.param(dynamic(waiting(size=None), csi_driver()), {}, id="nothing-asked-for"),
        pytest.param(
            dynamic(waiting(), csi_driver(), free(on=GIB["b"] and {"zone": ["z2"]})),
            {"a": (SPACE,)},
            id="a-free-volume-needs-no-space",
        ),
        pytest.param(
            dynamic(waiting("c"), waiting("d"), csi_driver(), pool("p", "s", "1Gi", on={})),
            {},
            id="capacity-is-checked-per-claim",
        ),
        pytest.param(
            dynamic(waiting("c"), waiting("d"), csi_driver(), zones=["z1"]),
            {"a": (SPACE,), "b": (BIND,)},
            id="the-first-failure-of-a-claim",
        ),
    ],
)
def test_new_volumes(world: World, expected: dict[str, tuple[str, ...]]) -> None:
    claims = [
        name for name in ("c", "d") if f"default/{name}" in world.objects.all(PersistentVolumeClaim)
    ]

    assert turned_down(world, mounting(*claims)) == expected


# -- the same as the definition, on random clusters ------------------------------------------

ZONES = ("z1", "z2")
maybe_zone = st.none() | st.lists(st.sampled_from(ZONES), min_size=1, max_size=2, unique=True)
sizes = st.sampled_from(["1Gi", "2Gi", "3Gi"])
volumes = st.tuples(
    sizes,
    maybe_zone,
    st.sampled_from(["s", "t"]),
    st.sampled_from([None, "c0", "x"]),
    st.booleans(),
)
claims = st.tuples(sizes, st.sampled_from(["s", "t"]), st.sampled_from([None, None, "n0", "n1"]))
pools = st.tuples(st.sampled_from(["s", "t"]), sizes, st.none() | st.sampled_from(ZONES))


def definition(world: World, name: str, asked: list[Any]) -> str | None:
    """FindPodVolumes for unbound claims, straight from the specification."""
    labels = world.cache.nodes[name].labels
    nano = parse_quantity

    def all_of(struct: type[Any]) -> list[Any]:
        return sorted(world.objects.all(struct).values(), key=lambda obj: str(obj.name))

    def reaches(selector: Any) -> bool:
        return selector is None or all(
            any(labels.get(e.key) in e.values for e in term.match_expressions)
            for term in selector.required.node_selector_terms
        )

    selected = [c.metadata.annotations.get(SELECTED) for c in asked]
    if any(at not in (None, name) for at in selected):
        return BIND
    to_make = [c for c, at in zip(asked, selected, strict=True) if at is not None]
    taken: set[str] = set()
    for each in sorted(
        (c for c in asked if c not in to_make),
        key=lambda c: nano(c.spec.resources.requests["storage"]),
    ):
        best: Any = None
        for v in all_of(PersistentVolume):
            size, reference = nano(v.spec.capacity["storage"]), v.spec.claim_ref
            ours = reference is not None and reference.name == each.name
            if v.name in taken or v.spec.storage_class_name != each.spec.storage_class_name:
                continue
            if (reference is not None and not ours) or size < nano(
                each.spec.resources.requests["storage"]
            ):
                continue
            if ours:
                best = v if reaches(v.spec.node_affinity) else None
                break
            suits = v.status.phase == "Available" and reaches(v.spec.node_affinity)
            if suits and (best is None or size < nano(best.spec.capacity["storage"])):
                best = v
        if best is None:
            to_make.append(each)
        else:
            taken.add(best.name)
    for each in to_make:
        if each.spec.storage_class_name == "t":
            return BIND
        fits = [
            p
            for p in all_of(CSIStorageCapacity)
            if p.storage_class_name == "s"
            and nano(p.capacity) >= nano(each.spec.resources.requests["storage"])
            and p.node_topology is not None
            and p.node_topology.match_labels["zone"] == labels.get("zone")
        ]
        if not fits:
            return SPACE
    return None


@settings(max_examples=150)
@given(
    st.lists(st.none() | st.sampled_from(ZONES), min_size=1, max_size=3),
    st.lists(volumes, max_size=6),
    st.lists(claims, min_size=1, max_size=3),
    st.lists(pools, max_size=3),
)
def test_same_answer_as_the_definition(
    at: list[str | None], offered: list[Any], asked: list[Any], space: list[Any]
) -> None:
    world = World(storage_class("s"), storage_class("t", provisioner=""), csi_driver())
    for n, zone in enumerate(at):
        world.add(node(f"n{n}", labels={"zone": zone} if zone else {}))
    for n, (size, on, of_class, reference, available) in enumerate(offered):
        extra: JSON = {"claimRef": {"namespace": "default", "name": reference}} if reference else {}
        where = None if on is None else {"zone": on}
        phase = "Available" if available else "Bound"
        world.add(
            volume(f"v{n}", size=size, on=where, storage_class=of_class, phase=phase, **extra)
        )
    wanted = [
        claim(f"c{n}", size=size, storage_class=of_class, annotations={SELECTED: on} if on else {})
        for n, (size, of_class, on) in enumerate(asked)
    ]
    world.add(*wanted)
    for n, (of_class, size, zone) in enumerate(space):
        world.add(pool(f"p{n}", of_class, size, on={"zone": zone} if zone else None))

    found = filtered(plugin(world), world, mounting(*(c.name for c in wanted)))

    reasons = {name: status.reasons[0] if status else None for name, status in found.items()}
    assert reasons == {name: definition(world, name, wanted) for name in found}


# -- events ----------------------------------------------------------------------------------


def test_events() -> None:
    binding = plugin(World())
    asking = mounting("c", inline=[{"csi": {"driver": DRIVER}}])
    update = Action.UPDATE

    def said(resource: str, action: Action, old: Any, new: Any, pod: Pod = asking) -> Any:
        return hint(binding, resource, action, pod, old, new)

    classes, claims_, csi_nodes = (
        Resource.STORAGE_CLASS,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
    )
    plain, zonal = storage_class("s"), storage_class("s", zones=["z"])
    assert said(classes, Action.ADD, None, plain) == Hint.QUEUE
    assert said(classes, update, plain, zonal) == Hint.QUEUE
    assert said(classes, update, zonal, zonal) == Hint.SKIP
    assert said(claims_, update, claim("c"), claim("c")) == Hint.QUEUE
    assert said(claims_, Action.ADD, None, claim("d")) == Hint.SKIP
    assert said(claims_, Action.ADD, None, claim("c", namespace="x")) == Hint.SKIP
    assert said(claims_, Action.ADD, None, claim("p-v"), EPHEMERAL) == Hint.QUEUE
    assert said(Resource.PERSISTENT_VOLUME, Action.ADD, None, free()) == Hint.QUEUE
    assert said(Resource.PERSISTENT_VOLUME, update, free(), free()) == Hint.QUEUE
    assert said(Resource.NODE, Action.ADD, None, node("n")) == Hint.QUEUE
    assert said(Resource.NODE, Action.UPDATE_NODE_LABEL, node("n"), node("n")) == Hint.QUEUE
    assert said(Resource.NODE, Action.UPDATE_NODE_TAINT, node("n"), node("n")) is None
    before, after = csi_node("n", {DRIVER: 1}), csi_node("n", {DRIVER: 2}, migrated="x")
    assert said(csi_nodes, Action.ADD, None, before) == Hint.QUEUE
    assert said(csi_nodes, update, before, after) == Hint.QUEUE
    assert said(csi_nodes, update, before, csi_node("n", {})) == Hint.SKIP


def test_events_about_capacity() -> None:
    binding = plugin(World())
    asking = mounting(inline=[{"csi": {"driver": DRIVER}}])
    drivers = Resource.CSI_DRIVER, Action.UPDATE
    on_, off = csi_driver(), csi_driver(capacity=None)

    assert hint(binding, *drivers, asking, on_, off) == Hint.QUEUE
    assert hint(binding, *drivers, asking, off, on_) == Hint.SKIP
    assert hint(binding, *drivers, mounting("c"), on_, off) == Hint.SKIP

    def grown(old: Any, new: Any) -> Hint | None:
        action = Action.ADD if old is None else Action.UPDATE
        return hint(binding, Resource.CSI_STORAGE_CAPACITY, action, asking, old, new)

    small, large = pool("p", "s", "1Gi"), pool("p", "s", "2Gi")
    assert grown(None, small) == Hint.QUEUE
    assert grown(small, large) == Hint.QUEUE
    assert grown(pool("p", "s", None), small) == Hint.QUEUE
    assert grown(large, small) == Hint.SKIP
    assert grown(large, large) == Hint.SKIP
    assert grown(small, pool("p", "s", "9Gi", maximum="1Gi")) == Hint.SKIP
