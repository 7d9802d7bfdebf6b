"""VolumeZone: pods go to the zones of their volumes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP, SKIP_ALWAYS, unresolvable
from stowplan.plugins.volume_zone import VolumeZone
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint
from tests.plugins.volume_objects import claim, mounting, storage_class, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = "failure-domain.beta.kubernetes.io/"
BETA_ZONE, BETA_REGION = f"{BETA}zone", f"{BETA}region"
KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)

NO_ZONE = unresolvable("node(s) had no available volume zone")
PLUGIN = VolumeZone()


@pytest.mark.parametrize(
    ("of_volume", "of_node", "passes"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="same"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="other"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one-of-several"),
        pytest.param({ZONE: " a __b"}, {ZONE: "a"}, True, id="blanks-are-trimmed"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="an-empty-part-voids-the-label"),
        pytest.param({ZONE: "a"}, {}, True, id="node-without-any-zone"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="node-with-only-a-region"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="beta-volume-on-node-of-today"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="never-the-other-way-round"),
        pytest.param(
            {BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="own-beta-label-wins"
        ),
        pytest.param(
            {ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="both-must-hold"
        ),
    ],
)
def test_one_volume(of_volume: dict[str, str], of_node: dict[str, str], passes: bool) -> None:
    world = World(node("n", labels=of_node), claim("c", volume="v"), volume("v", labels=of_volume))

    assert filtered(PLUGIN, world, mounting("c")) == {"n": None if passes else NO_ZONE}


@pytest.mark.parametrize(
    ("asking", "status"),
    [
        pytest.param(pod(), SKIP_ALWAYS, id="no-volumes"),
        pytest.param(mounting("plain"), SKIP, id="no-zone"),
        pytest.param(mounting("waiting"), SKIP, id="waits-for-a-node"),
        pytest.param(mounting("zonal"), None, id="zone"),
        pytest.param(mounting(""), "PersistentVolumeClaim had no name", id="no-name"),
        pytest.param(mounting("x"), 'persistentvolumeclaim "x" not found', id="no-claim"),
        pytest.param(mounting("lost"), 'persistentvolume "gone" not found', id="no-volume"),
        pytest.param(
            mounting("bare"),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="no-class",
        ),
        pytest.param(
            mounting("typo"), 'storageclass.storage.k8s.io "typo" not found', id="unknown-class"
        ),
        pytest.param(
            mounting("modeless"),
            'VolumeBindingMode not set for StorageClass "modeless"',
            id="class-without-mode",
        ),
        pytest.param(mounting("now"), "PersistentVolume had no name", id="immediate"),
    ],
)
def test_pre_filter(asking: Any, status: Any) -> None:
    world = World(
        volume("plain"),
        volume("zonal", labels={ZONE: "a"}),
        storage_class("waiting"),
        storage_class("modeless", mode=None),
        storage_class("now", mode="Immediate"),
        claim("plain", volume="plain"),
        claim("zonal", volume="zonal"),
        claim("lost", volume="gone"),
        claim("bare"),
        *(claim(name, storage_class=name) for name in ("waiting", "typo", "modeless", "now")),
    )

    expected = unresolvable(status) if isinstance(status, str) else status
    assert PLUGIN.pre_filter(world.cycle(), info(asking)) == expected


def test_events() -> None:
    asking = mounting("c")
    zonal, moved = volume("v", labels={ZONE: "a"}), volume("v", labels={ZONE: "b"})
    claims = Resource.PERSISTENT_VOLUME_CLAIM
    volumes = Resource.PERSISTENT_VOLUME

    def said(resource: str, action: Action, old: Any, new: Any) -> Hint | None:
        return hint(PLUGIN, resource, action, asking, old, new)

    assert said(Resource.STORAGE_CLASS, Action.ADD, None, storage_class("s")) == Hint.QUEUE
    immediate = storage_class("s", mode="Immediate")
    assert said(Resource.STORAGE_CLASS, Action.ADD, None, immediate) == Hint.SKIP
    assert said(Resource.NODE, Action.ADD, None, node("n")) == Hint.QUEUE
    assert said(Resource.NODE, Action.UPDATE_NODE_LABEL, node("n"), node("n")) == Hint.QUEUE
    assert said(claims, Action.ADD, None, claim("c")) == Hint.QUEUE
    assert said(claims, Action.UPDATE, claim("c"), claim("c", volume="v")) == Hint.QUEUE
    assert said(claims, Action.ADD, None, claim("d")) == Hint.SKIP
    assert said(claims, Action.ADD, None, claim("c", namespace="x")) == Hint.SKIP
    assert said(volumes, Action.ADD, None, volume("v")) == Hint.QUEUE
    assert said(volumes, Action.UPDATE, zonal, moved) == Hint.QUEUE
    assert said(volumes, Action.UPDATE, zonal, zonal) == Hint.SKIP


values = st.sampled_from(["a", "b", "c"])
node_labels = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
volume_labels = st.dictionaries(
    st.sampled_from(KEYS), st.lists(values, min_size=1).map("__".join), max_size=3
)


def reachable(node: dict[str, str], wanted: dict[str, str]) -> bool:
    if not node:
        return True
    today = {BETA_ZONE: ZONE, BETA_REGION: REGION}
    return all(
        (node.get(key) or node.get(today.get(key, key))) in allowed.split("__")
        for key, allowed in wanted.items()
    )


@given(st.lists(node_labels, min_size=1, max_size=5), st.lists(volume_labels, max_size=2))
def test_same_answer_as_the_definition(
    nodes: list[dict[str, str]], volumes: list[dict[str, str]]
) -> None:
    world = World(*(node(f"n{n}", labels=labels) for n, labels in enumerate(nodes)))
    for n, labels in enumerate(volumes):
        world.add(volume(f"v{n}", labels=labels), claim(f"c{n}", volume=f"v{n}"))

    found = filtered(PLUGIN, world, mounting(*(f"c{n}" for n in range(len(volumes)))))

    expected = [all(reachable(labels, wanted) for wanted in volumes) for labels in nodes]
    assert [found[f"n{n}"] is None for n in range(len(nodes))] == expected
