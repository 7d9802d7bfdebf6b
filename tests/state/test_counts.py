"""Counts that are kept up to date equal counts made from scratch, whatever happens in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.objects.labels import selector_from_map
from stowplan.state import count_index, counts, pod_sorts
from stowplan.state.count_index import CountQuery, DomainQuery
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable, Rows
from stowplan.state.pod_info import PodInfo, PodKind
from stowplan.state.pod_sorts import NO_PODS, PodsCarrying, PodsMatching, PodSort
from stowplan.state.pod_table import TermUse
from stowplan.state.row_set import ALL_NODES, Mask, Member, all_nodes
from tests.builders import World, node, pod

ZONE = "zone"
HOSTNAME = "kubernetes.io/hostname"
WEB, DB = selector_from_map({"app": "web"}), selector_from_map({"app": "db"})


DISLIKES_DB = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
        * 2
    }
}
SORTS: dict[str, PodSort] = {
    "web": PodsMatching(frozenset({(frozenset({"default"}), WEB)}), with_terminating=False),
    "db": PodsMatching(frozenset({(None, DB)})),
    "dislikes db": PodsCarrying(
        "required_anti_affinity",
        PodInfo(pod(spec={"affinity": DISLIKES_DB})).kind.required_anti_affinity[0],
    ),
    "nothing": NO_PODS,
}


def ssd_nodes(table: NodeTable, rows: Rows) -> Mask:
    disk = table.label("disk")
    return (
        disk.ids[rows] == disk.id_of("ssd") if "ssd" in disk.values else np.zeros(len(rows), bool)
    )


MEMBERS: dict[str, tuple[Member, Callable[[NodeInfo], bool]]] = {
    ALL_NODES: (all_nodes, lambda info: True),
    "ssd": (ssd_nodes, lambda info: info.labels.get("disk") == "ssd"),
}


class Queries:
    def __init__(self) -> None:
        self.columns = {name: CountQuery(sort) for name, sort in SORTS.items()}
        self.domains = {
            (name, key, rows_key): DomainQuery(CountQuery(sort), key, rows_key, member)
            for name, sort in SORTS.items()
            for key in (ZONE, HOSTNAME)
            for rows_key, (member, _) in MEMBERS.items()
        }


def weigh(name: str, kind: PodKind) -> int:
    app = kind.labels.get("app")
    if name == "web":
        return int(app == "web" and kind.namespace == "default" and not kind.terminating)
    if name == "db":
        return int(app == "db")
    if name == "dislikes db":
        return 2 * int(app == "shy" and kind.namespace == "default")
    return 0


def recount(infos: list[NodeInfo], name: str, key: str, rows_key: str) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for info in infos:
        if key in info.labels and MEMBERS[rows_key][1](info):
            sums[info.labels[key]] += sum(weigh(name, p.kind) for p in info.pods.values())
    return dict(sums)


def check(world: World, queries: Queries) -> None:
    table = world.table
    infos = [info for info in world.cache.nodes.values() if info.node is not None]
    for name, asked in queries.columns.items():
        per_row = asked.ask(table).per_row
        for info in infos:
            assert per_row[info.row] == sum(weigh(name, p.kind) for p in info.pods.values())
        assert not per_row[~table.alive].any()
    for (name, key, rows_key), query in queries.domains.items():
        found = query.ask(table)
        wanted = recount(infos, name, key, rows_key)
        present = {found.label.values[n]: int(found.sums[n]) for n in found.domains.present}
        assert present == wanted
        assert found.total == sum(wanted.values()) == found.sums.sum()
        assert found.domains.domain_count == len(wanted)
        chosen = [info for info in infos if key in info.labels and MEMBERS[rows_key][1](info)]
        assert found.domains.node_count == len(chosen)
        assert found.lowest() == min(wanted.values(), default=0)
        assert found.sums[-1] == 0
        assert len(found.sums) == len(found.label.values) + 1


def apply(world: World, queries: Queries, op: tuple[Any, ...]) -> None:
    cache = world.cache
    what, number, choice = op
    name = f"n{number % 5}"
    known = cache.nodes.get(name)
    if what == "node":
        zone, disk = choice % 4, choice % 3
        labels = {**({ZONE: f"z{zone}"} if zone else {}), **({"disk": "ssd"} if disk else {})}
        cache.add_node(node(name, labels=labels))
    elif what == "gone":
        if known is not None and known.node is not None:
            cache.remove_node(name)
    elif what == "pod":
        labels = {"app": ("web", "db", "shy")[choice % 3]}
        terminating = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if choice > 9 else {}
        spec = {"affinity": DISLIKES_DB} if labels["app"] == "shy" else {}
        namespace = "other" if choice % 5 == 0 else "default"
        cache.add_pod(
            pod(node=name, namespace=namespace, labels=labels, spec=spec, metadata=terminating)
        )
    elif what == "ended":
        uids = cache.pod_uids()
        if uids:
            info = cache.pod(uids[number % len(uids)])
            assert info is not None
            cache.remove_pod(info.pod)
    else:
        world.table.refresh(cache)
        if what == "ask":
            # Some are asked for earlier than others, and not all are equally up to date.
            list(queries.domains.values())[choice % len(queries.domains)].ask(world.table)


OPS = st.lists(
    st.tuples(
        st.sampled_from(["node", "gone", "pod", "pod", "pod", "ended", "refresh", "ask", "ask"]),
        st.integers(0, 19),
        st.integers(0, 11),
    ),
    max_size=40,
)


@pytest.fixture(params=[None, 0], ids=["few-labels", "many-labels"])
def labels_max(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kinds of pods with many labels are filed in another way; 0 makes it the way of all."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            patch.setattr(pod_sorts, "_LABELS_MAX", request.param)
        yield


@pytest.mark.usefixtures("labels_max")
@pytest.mark.parametrize("few", [0, 1000], ids=["added-up-anew", "moved-one-by-one"])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(OPS, OPS)
def test_counts_follow_pods_and_nodes(few: int, before: list[Any], after: list[Any]) -> None:
    world, queries = World(), Queries()
    kept, counts.FEW = counts.FEW, few
    try:
        for ops in (before, after):
            for op in ops:
                apply(world, queries, op)
            world.table.refresh(world.cache)
            check(world, queries)
    finally:
        counts.FEW = kept


def test_a_table_that_grows_keeps_its_counts() -> None:
    world, queries = (
        World(node("n0", labels={ZONE: "a"}), pod(node="n0", labels={"app": "web"})),
        Queries(),
    )
    check(world, queries)

    for n in range(1, 200):
        world.add(
            node(f"n{n}", labels={ZONE: f"z{n % 7}"}), pod(node=f"n{n}", labels={"app": "web"})
        )

    check(world, queries)


def test_counts_that_nobody_asked_for_since_the_nodes_changed() -> None:
    world, queries = World(node("n0")), Queries()
    check(world, queries)
    world.add(node("n1"), node("n2"))
    queries.domains["web", HOSTNAME, ALL_NODES].ask(world.table)

    world.add(pod(node="n2", labels={"app": "db"}))

    check(world, queries)


def test_counts_that_were_dropped_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_index, "_COUNTS_MIN", 4)
    monkeypatch.setattr(count_index, "_BYTES_MAX", 0)
    monkeypatch.setattr(count_index, "_DOMAINS_MAX", 3)
    world, queries = (
        World(node("n0", labels={ZONE: "a"}), pod(node="n0", labels={"app": "web"})),
        Queries(),
    )
    others = [
        DomainQuery(
            CountQuery(PodsMatching(frozenset({(frozenset({"default", f"ns{n}"}), WEB)}))), ZONE
        )
        for n in range(9)
    ]
    check(world, queries)

    for other in others:
        assert other.ask(world.table).sums.tolist() == [1, 0]
        world.add(pod(node="n0", labels={"app": "db"}))

    check(world, queries)
    assert len(world.table.counts._columns) <= 4
    assert len(world.table.counts._domain_counts) <= 4
    assert len(world.table.counts._domains) <= 3


def test_a_label_whose_values_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world, queries = World(node("n0", labels={ZONE: "a"})), Queries()
    check(world, queries)
    for n in range(1100):
        world.add(node("n0", labels={ZONE: f"z{n}"}))

    assert world.table.label(ZONE).values == ["z1099"]
    check(world, queries)


def test_two_tables_may_hold_the_same_kind_of_pod() -> None:
    worlds = [World(node("n0", labels={ZONE: "a"})) for _ in range(2)]
    queries = [Queries(), Queries()]
    for world in (*worlds, *worlds, worlds[0]):
        world.add(pod(node="n0", labels={"app": "web"}))

    for world, asked in zip(worlds, queries, strict=True):
        check(world, asked)
    assert [
        q.columns["web"].ask(w.table).per_row.tolist() for w, q in zip(worlds, queries, strict=True)
    ] == [[3], [2]]


@pytest.mark.usefixtures("labels_max")
def test_terms_in_use_are_found_by_the_pods_they_match() -> None:
    def carrier(term: dict[str, Any]) -> PodInfo:
        stanza = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, **term}]}
        return PodInfo(pod(spec={"affinity": {"podAntiAffinity": stanza}}))

    apps = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
    carriers = [
        carrier({"labelSelector": {"matchLabels": {"app": "web"}}}),
        carrier({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["a", "b"]}),
        carrier({"labelSelector": apps, "namespaceSelector": {"matchLabels": {"team": "x"}}}),
        carrier({"labelSelector": apps, "namespaceSelector": {}}),
        carrier({"labelSelector": {}}),
        carrier({}),
    ]
    terms = [c.kind.required_anti_affinity[0] for c in carriers]
    use = TermUse()
    for term in (*terms, *terms):
        use.add(term, 1)

    for namespace, labels, namespace_labels in (
        ("default", {"app": "web", "tier": "front"}, {}),
        ("default", {"app": "db"}, {"team": "x"}),
        ("b", {"app": "web"}, {"team": "x"}),
        ("c", {}, {}),
    ):
        kind = PodInfo(pod(namespace=namespace, labels=labels)).kind
        wanted = {t for t in terms if t.matches(namespace, labels, namespace_labels)}
        found = use.matching(kind, namespace_labels)
        assert set(found) == wanted
        assert len(found) == len(wanted)

    for term in (*terms, *terms):
        use.add(term, -1)
    assert not use.terms
    assert not use._at
