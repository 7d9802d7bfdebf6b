"""A table refreshed step by step equals one built from scratch, and costs what changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.objects.labels import selector_from_map
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.cache import Cache
from stowplan.state.consistency import table_problems
from stowplan.state.count_index import CountQuery, DomainQuery
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo
from stowplan.state.pod_sorts import PodsMatching
from stowplan.state.row_follower import RowFollower
from tests.builders import node, pod

ZONE = "topology.kubernetes.io/zone"
NODES = [f"node-{n}" for n in range(6)]
APPS = ["web", "db"]
RESOURCES = ["cpu", "memory", "example.com/gpu"]
PORTS = [("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), ("0.0.0.0", "UDP", 53)]
IMAGES = ["app:1", "db:1"]

Step = tuple[str, int, int, int]
steps = st.tuples(
    st.sampled_from(
        (
            *("set node", "heartbeat", "remove node", "add pod", "confirm"),
            *("update pod", "remove pod", "refresh", "refresh"),
        )
    ),
    st.integers(0, len(NODES) - 1),
    st.integers(0, 7),
    st.integers(0, 6),
)


def a_node(number: int, look: int) -> Node:
    return node(
        NODES[number],
        labels={ZONE: f"zone-{look % 2}"} if look else {},
        cpu=str(4 + look),
        allocatable={"example.com/gpu": look} if look > 2 else {},
        taints=[{"key": "k", "value": str(look % 3), "effect": "NoSchedule"}] if look else [],
        unschedulable=look == 1,
        status={"images": [{"names": IMAGES[: look % 3], "sizeBytes": 10 + look}]},
    )


def a_pod(number: int, on: int, look: int) -> Pod:
    ports = [{"containerPort": 1, "hostIP": ip, "protocol": p, "hostPort": n} for ip, p, n in PORTS]
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{look}"}}
    requests = {"cpu": "100m", **({"example.com/gpu": 1} if look == 4 else {})}
    container = {"name": "c", "resources": {"requests": requests}, "ports": ports[look:]}
    return pod(
        f"pod-{number}",
        node=NODES[on],
        labels={"app": APPS[look % 2]},
        metadata={"uid": f"uid-{number}"},
        spec={
            "containers": [container],
            "volumes": [claim] if look in (1, 2) else [],
            "affinity": anti if look == 3 else None,
        },
    )


class Cluster:
    def __init__(self) -> None:
        self.cache = Cache()
        self.table = NodeTable()
        web = PodsMatching(frozenset({(None, selector_from_map({"app": "web"}))}))
        self.web_by_zone = DomainQuery(CountQuery(web), ZONE)

    def do(self, step: Step) -> None:
        what, number, other, look = step
        cache, name, uid = self.cache, NODES[number], f"uid-{other}"
        known = cache.pod(uid)
        if what == "set node":
            cache.add_node(a_node(number, look))
        elif what == "heartbeat":
            if name in cache.nodes and cache.nodes[name].node is not None:
                cache.add_node(_with_new_version(cache.nodes[name].node))
        elif what == "remove node":
            if name in cache.nodes and cache.nodes[name].node is not None:
                cache.remove_node(name)
        elif what == "add pod":
            if known is None:
                cache.assume_pod(PodInfo(a_pod(other, number, look)))
        elif what == "confirm":
            if known is not None and cache.is_assumed(uid):
                cache.add_pod(a_pod(other, number, look) if look else known.pod)
        elif what == "update pod":
            if known is not None and not cache.is_assumed(uid):
                cache.update_pod(a_pod(other, NODES.index(known.node_name), look))
        elif what == "remove pod":
            if known is not None:
                cache.remove_pod(known.pod)
        else:
            self.refresh()

    def refresh(self) -> None:
        self.table.refresh(self.cache)
        self.read(self.table)

    def read(self, table: NodeTable) -> dict[str, Any]:
        """Everything plugins may read, by node name: makes every column there is."""
        rows = list(table.row_of.items())
        zones = table.label(ZONE)
        columns: dict[str, Any] = {
            **{f"allocatable {r}": table.allocatable(r) for r in RESOURCES},
            **{f"requested {r}": table.requested(r) for r in RESOURCES},
            "pods": table.pod_count,
            "cpu for scoring": table.nonzero_milli_cpu,
            "unschedulable": table.unschedulable,
        }
        data: dict[str, Any] = {
            what: {name: int(column[row]) for name, row in rows} for what, column in columns.items()
        }
        data["zones"] = {n: [*zones.values, None][zones.ids[row]] for n, row in rows}
        data["taints"] = {n: table.taint_lists[table.taint_list[row]] for n, row in rows}
        for port in PORTS:
            used = table.port_used(*port)
            data[f"port {port}"] = {n for n, row in rows if used is not None and used[row]}
        data["claims"] = dict(table.pods.claims)
        data["terms"] = dict(table.pods.required_anti_affinity.terms)
        counts = self.web_by_zone.ask(table)
        label = counts.domains.label
        data["web"] = {v: int(counts.sums[n]) for n, v in enumerate(label.values) if counts.sums[n]}
        for name in IMAGES:
            table.image(name)
        return data


def _with_new_version(known: Node | None) -> Node:
    assert known is not None
    metadata = msgspec.structs.replace(known.metadata, resource_version="next")
    return msgspec.structs.replace(known, metadata=metadata)


@settings(max_examples=150)
@given(st.lists(steps, max_size=60))
def test_refreshing_equals_building_from_scratch(plan: list[Step]) -> None:
    cluster = Cluster()

    for step in plan:
        cluster.do(step)
    cluster.refresh()

    assert table_problems(cluster.table, cluster.cache) == []
    found = cluster.read(cluster.table)
    fresh = NodeTable()
    fresh.rebuild(cluster.cache)
    other = Cluster()
    assert other.read(fresh) == found
    assert [fresh.names[row] for row in fresh.order] == cluster.cache.tree.names()


@settings(max_examples=60)
@given(st.lists(steps, max_size=30), st.lists(steps, max_size=30))
def test_a_rebuilt_table_lives_on(before: list[Step], after: list[Step]) -> None:
    cluster = Cluster()
    for step in before:
        cluster.do(step)
    cluster.refresh()
    follower, node_follower = RowFollower(), RowFollower(of_nodes=True)
    for each in (follower, node_follower):
        each.changed(cluster.table)

    cluster.table.rebuild(cluster.cache)

    assert table_problems(cluster.table, cluster.cache) == []
    fresh = NodeTable()
    fresh.rebuild(cluster.cache)
    assert cluster.read(cluster.table) == Cluster().read(fresh)
    every = set(range(cluster.table.size))
    for each in (follower, node_follower):
        assert set(each.changed(cluster.table) or ()) == every
    for step in after:
        cluster.do(step)
    cluster.refresh()
    assert table_problems(cluster.table, cluster.cache) == []


def test_a_pod_that_mounts_another_claim_now() -> None:
    cluster = Cluster()
    cluster.do(("set node", 0, 0, 1))

    def mounting(claim: str) -> Pod:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
        spec = {"volumes": [volume]}
        return pod("p", node=NODES[0], metadata={"uid": "uid-p"}, spec=spec)

    cluster.cache.add_pod(mounting("before"))
    cluster.refresh()
    cluster.cache.update_pod(mounting("after"))
    cluster.refresh()

    assert [*cluster.table.pods.claims] == ["default/after"]
    assert table_problems(cluster.table, cluster.cache) == []


def filled(node_count: int, pods_each: int) -> Cluster:
    cluster = Cluster()
    for n in range(node_count):
        cluster.cache.add_node(node(f"n-{n}", labels={ZONE: f"z-{n % 3}"}))
        for m in range(pods_each):
            cluster.cache.add_pod(pod(f"p-{n}-{m}", node=f"n-{n}", cpu="10m"))
    cluster.refresh()
    return cluster


def written(cluster: Cluster) -> int:
    before = cluster.table.version
    cluster.table.refresh(cluster.cache)
    return cluster.table.version - before


def test_cost_follows_the_nodes_that_changed() -> None:
    cluster = filled(500, 2)

    assert written(cluster) == 0
    for n in range(7):
        for m in range(5):
            cluster.cache.add_pod(pod(f"new-{n}-{m}", node=f"n-{n}"))
    assert written(cluster) == 7
    cluster.cache.remove_node("n-8")
    assert written(cluster) == 1
    assert cluster.table.node_count == 499


def test_heartbeats_and_newer_objects_of_pods_write_nothing() -> None:
    cluster = filled(20, 1)
    version, node_version = cluster.table.version, cluster.table.node_version

    for info in list(cluster.cache.nodes.values()):
        cluster.cache.add_node(_with_new_version(info.node))
        for known in list(info.pods.values()):
            cluster.cache.update_pod(known.pod)

    assert written(cluster) == 0
    assert (cluster.table.version, cluster.table.node_version) == (version, node_version)
    assert all(
        info is None or info.node is n
        for info, n in zip(cluster.table.infos, cluster.table._nodes, strict=True)
    )


@pytest.mark.parametrize(
    ("labels", "rows", "web"), [({"zone": "z-1"}, 0, 0), ({"app": "web"}, 1, 2)]
)
def test_a_row_changes_with_the_labels_of_a_pod_only_where_somebody_counts_by_them(
    labels: dict[str, str], rows: int, web: int
) -> None:
    cluster = filled(6, 2)
    table, version = cluster.table, cluster.table.version
    assert not cluster.web_by_zone.ask(table).total
    [*known] = cluster.cache.nodes["n-4"].pods.values()

    for info in known:
        metadata = msgspec.structs.replace(info.pod.metadata, labels=labels)
        cluster.cache.update_pod(msgspec.structs.replace(info.pod, metadata=metadata))

    assert (written(cluster), table.version) == (rows, version + rows)
    counts = cluster.web_by_zone.ask(table)
    assert counts.sums[counts.label.id_of("z-1")] == counts.total == web
    assert table_problems(table, cluster.cache) == []


def test_the_number_of_nodes_with_an_image_is_as_old_as_the_row() -> None:
    # Upstream copies it when the node's entry is copied, so unchanged nodes show an old number.
    image = {"images": [{"names": ["app:1"], "sizeBytes": 10}]}
    cluster = Cluster()
    cluster.cache.add_node(node("node-a", status=image))
    cluster.table.refresh(cluster.cache)

    cluster.cache.add_node(node("node-b", status=image))
    cluster.table.refresh(cluster.cache)
    stale = image_counts(cluster.table)
    cluster.cache.add_pod(pod(node="node-a"))
    cluster.table.refresh(cluster.cache)

    assert stale == {"node-a": 1, "node-b": 2}
    assert image_counts(cluster.table) == {"node-a": 2, "node-b": 2}


def image_counts(table: NodeTable) -> dict[str, int]:
    columns = table.image("app:1")
    assert columns is not None
    return {name: int(columns[1][row]) for name, row in table.row_of.items()}


def test_a_change_of_zone_alone_does_not_reorder_the_nodes() -> None:
    cluster = Cluster()
    for n, zone in enumerate("aabb"):
        cluster.cache.add_node(node(f"node-{n}", labels={ZONE: zone}))
    cluster.table.refresh(cluster.cache)
    order = [cluster.table.names[row] for row in cluster.table.order]

    cluster.cache.add_node(node("node-0", labels={ZONE: "b"}))
    cluster.table.refresh(cluster.cache)

    assert order == ["node-0", "node-2", "node-1", "node-3"]
    assert [cluster.table.names[row] for row in cluster.table.order] == order
    assert cluster.cache.tree.names() == ["node-1", "node-2", "node-3", "node-0"]


CORRUPTIONS = {
    "a sum": lambda t: t._requested["cpu"].__setitem__(3, 7),
    "a dead row": lambda t: t._columns["alive"].__setitem__(2, False),
    "a label": lambda t: t._labels.find(ZONE)._ids.__setitem__(1, 2),
    "a pod's row": lambda t: t.pods._rows.__setitem__(0, 9),
    "a lost node": lambda t: t.row_of.pop("n-4"),
    "a taint list": lambda t: t._columns["taint_list"].__setitem__(0, t._taint_list((TAINT,))),
}
TAINT = a_node(0, 2).spec.taints[0]  # type: ignore[index]


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_check_finds_what_is_wrong_and_repairs_it(corruption: str) -> None:
    cluster = filled(10, 2)
    before = cluster.read(cluster.table)
    CORRUPTIONS[corruption](cluster.table)

    problems = cluster.table.check(cluster.cache)

    assert problems
    assert cluster.table.check(cluster.cache) == []
    assert cluster.read(cluster.table) == before


def test_a_missing_node_is_told_in_upstreams_words_and_healed() -> None:
    cluster = filled(3, 0)
    lost = cluster.cache.nodes["n-1"]
    cluster.table._free_row(lost, ())

    problem = cluster.table.heal(cluster.cache)

    assert problem == (
        "snapshot state is not consistent, length of NodeInfoList=2 not equal to length of nodes "
        "in tree=3 , length of NodeInfoMap=2, length of nodes in cache=3, trying to recover"
    )
    assert cluster.table.heal(cluster.cache) == ""
    assert table_problems(cluster.table, cluster.cache) == []


def test_ports_and_images_that_nobody_has_leave_nothing_behind() -> None:
    cluster = Cluster()
    cluster.cache.add_node(a_node(0, 2))
    cluster.cache.add_pod(a_pod(1, 0, 0))
    cluster.refresh()

    cluster.cache.remove_pod(a_pod(1, 0, 0))
    cluster.cache.add_node(a_node(0, 0))
    cluster.refresh()

    assert not cluster.table.ports.of_rows
    assert len(cluster.table.images) == 0


def test_rows_without_a_node_have_no_numbers_of_lists_that_are_gone() -> None:
    """Found by the soak: nodes whose taints are all different come and go, and some rows stay free.

    Once the lists are numbered anew there are fewer of them, and whoever looks at all rows at once
    must not look beyond.
    """
    cache, table = Cache(), NodeTable()

    def come(name: str, serial: int) -> Node:
        taint = {"key": "candidate", "value": str(serial), "effect": "NoSchedule"}
        made = node(name, taints=[taint], status={"declaredFeatures": [f"F{serial}"]})
        cache.add_node(made)
        table.refresh(cache)
        return made

    first = [come(f"first-{number}", number) for number in range(20)]
    for gone in first[5:]:
        cache.remove_node(gone.metadata.name)
    table.refresh(cache)
    renumbered = 0
    for serial in range(100, 400):
        lists = table.taint_lists
        made = come("passing", serial)
        renumbered += table.taint_lists is not lists
        assert table.taint_list.max() < len(table.taint_lists)
        assert table.feature_list.max() < len(table.feature_lists)
        cache.remove_node(made.metadata.name)
        table.refresh(cache)

    assert renumbered
    assert table_problems(table, cache) == []


def test_a_table_that_grows_forgets_nothing() -> None:
    cluster = Cluster()
    for number in range(len(NODES)):
        cluster.do(("set node", number, 0, 5 - number))
        cluster.do(("add pod", number, number, number % 3))
    cluster.refresh()
    capacity = cluster.table.capacity

    for number in range(2 * capacity):
        cluster.cache.add_node(node(f"more-{number}", labels={ZONE: f"zone-{number % 2}"}))
        if number % 100 == 0:
            cluster.refresh()
    cluster.refresh()

    assert cluster.table.capacity > capacity
    assert not table_problems(cluster.table, cluster.cache)
    fresh = NodeTable()
    fresh.rebuild(cluster.cache)
    assert cluster.read(cluster.table) == cluster.read(fresh)
    for name in IMAGES:
        found, known = cluster.table.image(name), fresh.image(name)
        assert found is not None
        assert known is not None
        for ours, theirs in zip(found, known, strict=True):
            for each, row in cluster.table.row_of.items():
                assert ours[row] == theirs[fresh.row_of[each]]
