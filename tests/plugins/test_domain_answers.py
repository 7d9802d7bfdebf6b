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

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.framework.status import SKIP
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, Service
from stowplan.plugins._shared import kept_columns
from stowplan.plugins._shared.affinity_scoring import HostScores
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.state.pod_info import PodInfo
from tests.builders import World, node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RACK = "rack"
NODES = 7
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


SPECS: tuple[dict[str, Any], ...] = (
    {},
    spread("ScheduleAnyway", ZONE),
    spread("ScheduleAnyway", HOST, ZONE),
    spread("ScheduleAnyway", ZONE, HOST, RACK),
    spread("DoNotSchedule", ZONE),
    spread("DoNotSchedule", HOST, ZONE),
    affinity("podAffinity", (ZONE, "web")),
    affinity("podAffinity", (ZONE, "web"), (HOST, "web")),
    affinity("podAntiAffinity", (ZONE, "db")),
    affinity("podAntiAffinity", (HOST, "web")),
    preferred("podAffinity", (HOST, "web")),
    preferred("podAffinity", (HOST, "web"), (HOST, "db")),
    preferred("podAntiAffinity", (ZONE, "web")),
    preferred("podAntiAffinity", (HOST, "web"), (ZONE, "db")),
)
WANTED = [
    PodInfo(pod(f"wanted-{app}-{n}", labels={"app": app}, spec=spec))
    for app in ("web", "db")
    for n, spec in enumerate(SPECS)
]

PODS = 40
STEPS = 100
CHANGES = (*("add",) * 12, *("remove",) * 4, *("relabel",) * 4, "node", "drop node", "renumber")


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
            self.set_node(number, random.choice((0, 1, 2, 3, 4, 5, 11)))
        elif what == "drop node":
            if name in table.row_of and table.node_count > 1:
                cache.remove_node(name)
        elif what == "add":
            if running is None and name in table.row_of:
                cache.add_pod(_placed(random.choice(WANTED).pod, uid, name))
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


def check_filter(plugin: Any, world: World, asked: PodInfo) -> None:
    cycle, table = world.cycle(), world.table
    if plugin.pre_filter(cycle, asked) is SKIP:
        return
    verdict = plugin.filter_nodes(cycle, asked, table, slice(0, table.size))
    single = {n: plugin.filter_node(cycle, asked, table.info(r)) for n, r in table.row_of.items()}
    assert {n: verdict.status(r) for n, r in table.row_of.items()} == single
    if verdict.all_passed:
        assert not any(single.values())


def check_scores(
    plugin: Any, world: World, asked: PodInfo, rows: Any, normal: Callable[[list[Any]], list[int]]
) -> None:
    cycle, table = world.cycle(), world.table
    if plugin.pre_score(cycle, asked, rows) is SKIP:
        return
    found = plugin.weighted_scores(cycle, asked, table, rows, WEIGHT)
    found = [found] * len(rows) if isinstance(found, int) else found.tolist()
    keys = [c.topology_key for c in asked.kind.spec.topology_spread_constraints or ()]
    infos = [table.info(row) for row in rows.tolist()]
    lacking = [
        plugin.name == "PodTopologySpread" and any(k not in i.labels for k in keys) for i in infos
    ]
    raw = [plugin.score_node(cycle, asked, info) for info in infos]
    counted = normal([score for score, lacks in zip(raw, lacking, strict=True) if not lacks])[::-1]
    assert found == [0 if lacks else WEIGHT * counted.pop() for lacks in lacking]


def few_are_good(raw: list[int]) -> list[int]:
    """PodTopologySpread's: the lowest gets 100, the others less by what they have more."""
    highest, lowest = max(raw, default=0), min(raw, default=0)
    return [100 * (highest + lowest - score) // highest if highest else 100 for score in raw]


def many_are_good(raw: list[int]) -> list[int]:
    """InterPodAffinity's: from the lowest, 0, to the highest, 100."""
    lowest, highest = min(raw, default=0), max(raw, default=0)
    width = highest - lowest
    return [int(100 * ((score - lowest) / width)) if width else 0 for score in raw]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_short_ways_lead_where_a_walk_from_node_to_node_does(seed: int) -> None:
    random, lived = Random(seed), Lived()
    asked = random.sample(WANTED, 4)
    for _ in range(STEPS):
        lived.change(random)
        everyone = sorted(lived.world.table.row_of.values())
        some = random.sample(everyone, random.randint(1, len(everyone)))
        for kind in asked:
            for plugin in (lived.spread, lived.affinity):
                check_filter(plugin, lived.world, kind)
            for rows in (np.array(everyone, np.intp), np.array(sorted(some), np.intp)):
                check_scores(lived.spread, lived.world, kind, rows, few_are_good)
                check_scores(lived.affinity, lived.world, kind, rows, many_are_good)


def test_a_verdict_is_not_mistaken_for_one_by_other_numbers_of_the_same_label() -> None:
    lived = Lived(node_count=0)
    for name, zone in (("node-0", "a"), ("node-1", "b"), ("node-0", "b"), ("node-1", "a")):
        lived.world.add(node(name, labels={ZONE: zone}))
    asked, first = PodInfo(web := WANTED[4].pod), _placed(web, "uid-first", "node-0")

    lived.world.add(first)
    check_filter(lived.spread, lived.world, asked)
    lived.renumber()
    lived.world.cache.remove_pod(first)
    lived.world.add(_placed(web, "uid-second", "node-1"))

    check_filter(lived.spread, lived.world, asked)


def test_scores_by_host_follow_a_namespace_that_comes_to_match() -> None:
    lived = Lived(node_count=3)
    shy = preferred("podAffinity", (HOST, "web"))
    term = shy["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    term["podAffinityTerm"]["namespaceSelector"] = {"matchLabels": {"team": "devops"}}
    elsewhere = pod("elsewhere", namespace="other", spec=shy, node="node-1")
    asked, rows = WANTED[10], np.arange(3)
    lived.world.add(_placed(asked.pod, "uid-near", "node-2"), elsewhere)
    check_scores(lived.affinity, lived.world, asked, rows, many_are_good)

    labels = {"name": "default", "labels": {"team": "devops"}}
    lived.world.add(msgspec.convert({"metadata": labels}, Namespace))

    check_scores(lived.affinity, lived.world, asked, rows, many_are_good)


def test_columns_go_with_their_kind_and_the_oldest_when_there_are_too_many() -> None:
    world = World(node("node-1"))
    room = 12
    each = kept_columns._FIXED_BYTES + kept_columns._BYTES_PER_ROW * world.table.capacity
    kept: KeptColumns[HostScores] = KeptColumns(HostScores, bytes_max=room * each)
    kinds = [PodInfo(pod(labels={"n": str(n)})).kind for n in range(4 * room)]

    for kind in kinds:
        world.add(pod(node="node-1"))  # Time goes by.
        column = kept.of(kind, world.table)
        assert kept.of(kinds[0], world.table) is kept.of(kinds[0], world.table)
        assert kept.of(kind, world.table) is column
        assert len(kept) <= room
    first = kept.of(kinds[0], world.table)
    assert first is kinds[0].kept[kept]
    held = sum(kept in kind.kept for kind in kinds)
    assert held == len(kept)

    del kinds[1:], kind, column
    gc.collect()
    assert len(kept) == 1
