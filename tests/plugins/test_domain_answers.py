"""What is kept of domains, classes of rows and verdicts equals what a walk from node to node finds.

A cluster lives through a random history: nodes come, go and change their labels; pods come, go and
are given other labels.  At any moment the two cluster-wide plugins must say of all nodes, by the
short ways they know, what their one-node forms and the formulas of the specification say.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.framework.cycle import Cycle
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, Service
from stowplan.plugins import pod_topology_spread
from stowplan.plugins._shared import kept_columns
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins.inter_pod_affinity import (
    InterPodAffinity,
    affinity_filtering,
    affinity_scoring,
)
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.pod_topology_spread.row_classes import RowClasses
from stowplan.state.pod_info import PodInfo
from tests.builders import World, node, pod
from tests.plugins.asking import normal_scores, skips

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RACK = "rack"
NODES = 9
WEIGHT = 3


def spread(when: str, *keys: str) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1 + n,
                "topologyKey": key,
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
            for n, key in enumerate(keys)
        ]
    }


def affinity(stanza: str, *terms: tuple[str, str]) -> dict[str, Any]:
    """Required terms: (key, app) each."""
    written = [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for key, app in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": written}
    return {"affinity": {stanza: required}}


def preferred(stanza: str, *terms: tuple[str, str]) -> dict[str, Any]:
    """Preferred terms, of growing weight."""
    written = [
        {
            "weight": 1 + 6 * n,
            "podAffinityTerm": {
                "topologyKey": key,
                "labelSelector": {"matchLabels": {"app": app}},
            },
        }
        for n, (key, app) in enumerate(terms)
    ]
    return {"affinity": {stanza: {"preferredDuringSchedulingIgnoredDuringExecution": written}}}


def infos(*specs: dict[str, Any]) -> list[PodInfo]:
    return [PodInfo(pod(labels={"app": app}, spec=s)) for app in ("web", "db") for s in specs]


PLAIN = infos({})
SOFT = infos(
    spread("ScheduleAnyway", ZONE),
    spread("ScheduleAnyway", HOST, ZONE),
    spread("ScheduleAnyway", ZONE, HOST, RACK),
)
HARD = infos(spread("DoNotSchedule", ZONE), spread("DoNotSchedule", HOST, ZONE))
NEAR = infos(
    affinity("podAffinity", (ZONE, "web")),
    affinity("podAffinity", (HOST, "web")),
    affinity("podAffinity", (ZONE, "web"), (HOST, "web")),
)
FAR = infos(
    affinity("podAntiAffinity", (HOST, "web")),
    affinity("podAntiAffinity", (ZONE, "db")),
)
LIKING = infos(
    preferred("podAffinity", (HOST, "web")),
    preferred("podAffinity", (HOST, "web"), (HOST, "db")),
    preferred("podAntiAffinity", (ZONE, "web")),
    preferred("podAntiAffinity", (HOST, "web"), (ZONE, "db")),
)
SORTS = (PLAIN, SOFT, HARD, NEAR, FAR, LIKING)

PODS = 40
STEPS = 100
CHANGES = (
    *("add",) * 12,
    *("remove",) * 4,
    *("relabel",) * 4,
    "node",
    "node",
    "drop node",
    "renumber",
)


class Lived:
    def __init__(self, node_count: int = NODES) -> None:
        service = {"metadata": {"name": "web", "namespace": "default"}}
        given = msgspec.convert({**service, "spec": {"selector": {"app": "web"}}}, Service)
        self.world = World(given)
        handle = self.world.handle
        spread_args = SimpleNamespace(defaulting_type="System", default_constraints=())
        affinity_args = SimpleNamespace(
            hard_pod_affinity_weight=5, ignore_preferred_terms_of_existing_pods=False
        )
        self.spread = PodTopologySpread(spread_args, handle)
        self.affinity = InterPodAffinity(affinity_args, handle)
        for number in range(node_count):
            self.set_node(number, 3 + number % 3)
        self.world.table.refresh(self.world.cache)

    def set_node(self, number: int, look: int) -> None:
        name = f"node-{number}"
        labels = {HOST: name if look != 11 else "shared", ZONE: f"z{look % 3}"}
        labels |= {RACK: f"r{look % 5}"} if look % 4 else {}
        # Some nodes have no zone, and no host name.
        labels = {key: value for key, value in labels.items() if look or key == RACK}
        self.world.cache.add_node(node(name, metadata={"labels": labels}))

    def change(self, random: Random) -> None:
        what = random.choice(CHANGES)
        cache, table = self.world.cache, self.world.table
        # One node has many pods.
        number = random.choice((0, random.randrange(NODES)))
        name, uid = f"node-{number}", f"uid-{random.randrange(PODS)}"
        running = cache.pod(uid)
        if what == "node":
            self.set_node(number, random.choice((0, 1, 2, 3, 4, 5, 11, 11, 11)))
        elif what == "drop node":
            if name in table.row_of and table.node_count > 1:
                cache.remove_node(name)
        elif what == "add":
            if running is None and name in table.row_of:
                cache.add_pod(_placed(random.choice(random.choice(SORTS)).pod, uid, name))
        elif what == "remove":
            if running is not None:
                cache.remove_pod(running.pod)
        elif what == "relabel":
            if running is not None:
                labels = {"app": random.choice(("web", "db")), "zone": random.choice("abc")}
                metadata = msgspec.structs.replace(running.pod.metadata, labels=labels)
                cache.update_pod(msgspec.structs.replace(running.pod, metadata=metadata))
        elif what == "renumber":
            self.renumber()
        table.refresh(cache)

    def renumber(self) -> None:
        """Ask for more labels than are kept: those in use get new numbers when next asked for."""
        for n in range(260):
            self.world.table.label(f"unheard-of-{n}")


def _placed(like: Pod, uid: str, on: str) -> Pod:
    metadata = msgspec.structs.replace(like.metadata, name=uid, uid=uid)
    spec = msgspec.structs.replace(like.spec, node_name=on)
    return msgspec.structs.replace(like, metadata=metadata, spec=spec)


def check_filter(plugin: Any, world: World, asked: PodInfo, other: PodInfo | None = None) -> None:
    """As things are, and with another pod on some node."""
    cycle, table = world.cycle(), world.table
    if skips(plugin.pre_filter(cycle, asked)):
        return
    compare_filters(plugin, world, cycle, asked)
    if other is not None:
        trial = cycle.clone()
        plugin.add_pod(trial, asked, other, table.info(min(table.row_of.values())))
        compare_filters(plugin, world, trial, asked)


def compare_filters(plugin: Any, world: World, cycle: Cycle, asked: PodInfo) -> None:
    table = world.table
    verdict = plugin.filter_nodes(cycle, asked, table, slice(0, table.size))
    single = {n: plugin.filter_node(cycle, asked, table.info(r)) for n, r in table.row_of.items()}
    assert {n: verdict.status(r) for n, r in table.row_of.items()} == single
    if verdict.all_passed:
        assert not any(single.values())


def check_scores(
    plugin: Any, world: World, asked: PodInfo, rows: Any, normal: Callable[[list[Any]], list[int]]
) -> None:
    cycle, table = world.cycle(), world.table
    if skips(plugin.pre_score(cycle, asked, rows)):
        return
    found = normal_scores(plugin, cycle, asked, rows)
    keys = [c.topology_key for c in asked.kind.spec.topology_spread_constraints or ()]
    infos = [table.info(row) for row in rows.tolist()]
    lacking = [
        plugin.name == "PodTopologySpread" and any(k not in i.labels for k in keys) for i in infos
    ]
    raw = [plugin.score_node(cycle, asked, info) for info in infos]
    counted = normal([score for score, lacks in zip(raw, lacking, strict=True) if not lacks])[::-1]
    assert found.tolist() == [0 if lacks else counted.pop() for lacks in lacking]


def few_are_good(raw: list[int]) -> list[int]:
    """PodTopologySpread's: the lowest gets 100, the others less by what they have more."""
    highest, lowest = max(raw, default=0), min(raw, default=0)
    return [100 * (highest + lowest - score) // highest if highest else 100 for score in raw]


def many_are_good(raw: list[int]) -> list[int]:
    """InterPodAffinity's: from the lowest, 0, to the highest, 100."""
    lowest, highest = min(raw, default=0), max(raw, default=0)
    width = highest - lowest
    return [int(100 * ((score - lowest) / width)) if width else 0 for score in raw]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), values_max=st.sampled_from((4, 64)))
def test_short_ways_lead_where_a_walk_from_node_to_node_does(seed: int, values_max: int) -> None:
    """Few values, or many: so few nodes can have both only by another idea of few."""
    with (
        patch.object(affinity_filtering, "VALUES_MAX", values_max),
        patch.object(pod_topology_spread, "VALUES_MAX", values_max),
        patch.object(affinity_scoring, "_FEW_DOMAINS", values_max),
    ):
        live_through(Random(seed))


def live_through(random: Random) -> None:
    lived = Lived()
    asked = [random.choice(sort) for sort in SORTS]
    full = {*random.sample(range(NODES), random.randrange(NODES))}
    if random.random() < 0.5:
        full = {row for row in range(NODES) if row % 3 == 1}  # All of a zone, to begin with.
    known: dict[tuple[int, ...], Any] = {}
    for _ in range(STEPS):
        lived.change(random)
        everyone = tuple(sorted(lived.world.table.row_of.values()))
        feasible = tuple(row for row in everyone if row not in full) or everyone
        # Most of the time the same nodes are feasible, and the same array says so.
        chosen = random.choice((everyone, *(feasible,) * 5))
        rows = known.setdefault(chosen, np.array(chosen, np.intp))
        for kind in random.sample(asked, 3):
            for plugin in (lived.spread, lived.affinity):
                check_filter(plugin, lived.world, kind, random.choice(PLAIN))
            check_scores(lived.spread, lived.world, kind, rows, few_are_good)
            check_scores(lived.affinity, lived.world, kind, rows, many_are_good)


def test_a_verdict_is_not_mistaken_for_one_by_other_numbers_of_the_same_label() -> None:
    lived = Lived(node_count=0)
    for name, zone in (("node-0", "a"), ("node-1", "b"), ("node-0", "b"), ("node-1", "a")):
        lived.world.add(node(name, labels={ZONE: zone}))
    asked, first = PodInfo(web := HARD[0].pod), _placed(web, "uid-first", "node-0")

    lived.world.add(first)
    check_filter(lived.spread, lived.world, asked)
    lived.renumber()
    lived.world.cache.remove_pod(first)
    lived.world.add(_placed(web, "uid-second", "node-1"))

    check_filter(lived.spread, lived.world, asked)


@patch.object(affinity_filtering, "VALUES_MAX", 0)
def test_what_is_kept_by_host_follows_a_namespace_that_comes_to_match() -> None:
    lived = Lived(node_count=3)
    shy = preferred("podAffinity", (HOST, "web"))
    term = shy["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    about = term["podAffinityTerm"]
    about["namespaceSelector"] = {"matchLabels": {"team": "devops"}}
    shy["affinity"]["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [about]}
    elsewhere = pod("elsewhere", namespace="other", spec=shy, node="node-1")
    lived.world.add(_placed(LIKING[0].pod, "uid-near", "node-2"), elsewhere)

    def check() -> None:
        check_scores(lived.affinity, lived.world, LIKING[0], np.arange(3), many_are_good)
        check_filter(lived.affinity, lived.world, FAR[0])

    check()
    labels = {"name": "default", "labels": {"team": "devops"}}
    lived.world.add(msgspec.convert({"metadata": labels}, Namespace))
    check()


def test_columns_go_with_their_kind_and_the_oldest_when_there_are_too_many() -> None:
    world = World(node("node-1"))
    room = 12
    each = kept_columns._FIXED_BYTES + 8 * world.table.capacity
    kept = KeptColumns(RowClasses, bytes_per_row=8, bytes_max=room * each)
    kinds = [PodInfo(pod(labels={"n": str(n)})).kind for n in range(4 * room)]

    first = kept.of(kinds[0], world.table)
    for kind in kinds:
        world.add(pod(node="node-1"))  # Time goes by.
        column = kept.of(kind, world.table)
        assert kept.of(kinds[0], world.table) is first
        assert kept.of(kind, world.table) is column
        assert len(kept) <= room

    del kinds[1:], kind
    gc.collect()
    assert len(kept) == 1
