"""PodTopologySpread: skews, minimum domains, inclusion policies, defaults, scores and hints."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import floor, log
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import Code, Status, unresolvable, unschedulable
from stowplan.objects.labels import Selector
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod, TopologySpreadConstraint
from stowplan.objects.taints import first_untolerated
from stowplan.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from stowplan.plugins.pod_topology_spread import MISSING_LABEL, NOT_MATCHED, PodTopologySpread
from stowplan.plugins.pod_topology_spread.default_selector import DefaultSelectors
from stowplan.plugins.pod_topology_spread.spread_constraint import Constraint, parse_constraints
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint, normal_scores, raw_scores, reasons, skips

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def constraint(key: str = ZONE, when: str = HARD, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": WEB,
        **more,
    }


def web(*constraints: dict[str, Any], **more: Any) -> Pod:
    spec = {"topologySpreadConstraints": list(constraints), **more.pop("spec", {})}
    return pod(labels={"app": "web"}, spec=spec, **more)


def made(world: World, *defaults: dict[str, Any], system: bool = False) -> PodTopologySpread:
    args = SimpleNamespace(
        defaulting_type="System" if system else "List",
        default_constraints=msgspec.convert(defaults, list[TopologySpreadConstraint]),
    )
    return PodTopologySpread(args, world.handle)


def zoned(**zones: str) -> list[Node]:
    """Nodes by name with their zone; "-" for none."""
    return [node(n, labels={} if zone == "-" else {ZONE: zone}) for n, zone in zones.items()]


def running(counts: dict[str, int], **more: Any) -> list[Pod]:
    more.setdefault("labels", {"app": "web"})
    return [pod(node=name, **more) for name, count in counts.items() for _ in range(count)]


def scores(
    plugin: PodTopologySpread, world: World, given: Pod, *names: str
) -> dict[str, int] | None:
    """Normalised, of the feasible nodes `names`."""
    cycle, asking, table = world.cycle(), info(given), world.table
    rows = np.array([world.row(name) for name in names or table.row_of], np.intp)
    status = plugin.pre_score(cycle, asking, rows)
    if skips(status):
        return None
    assert status is None
    normal = normal_scores(plugin, cycle, asking, rows)
    return {table.names[row]: int(score) for row, score in zip(rows, normal, strict=True)}


# -- Filter -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        pytest.param(constraint(), "ab", id="skew-of-one"),
        pytest.param(constraint(maxSkew=2), "a", id="skew-of-two"),
        pytest.param(constraint(maxSkew=3), "", id="skew-of-three"),
        pytest.param(constraint(labelSelector=None), "", id="no-selector-matches-nothing"),
        pytest.param(constraint(labelSelector={}), "", id="match-everything-counts-nobody"),
        pytest.param(constraint(minDomains=4, maxSkew=2), "a", id="too-few-domains"),
        pytest.param(constraint(minDomains=3, maxSkew=2), "a", id="enough-domains"),
    ],
)
def test_a_domain_may_not_run_ahead(asked: dict[str, Any], refused: str) -> None:
    world = World(*zoned(a="a", b="b", c="c"), *running({"a": 2, "b": 1}))

    assert "".join(reasons(made(world), world, web(asked))) == refused


def test_too_few_domains_make_the_minimum_zero() -> None:
    world = World(*zoned(a="a", b="b"), *running({"a": 2, "b": 2}))

    assert not reasons(made(world), world, web(constraint(minDomains=2)))
    assert len(reasons(made(world), world, web(constraint(minDomains=3)))) == 2


def test_a_node_without_the_label_is_beyond_help_unless_an_earlier_constraint_fails() -> None:
    labels = {"rack": "r"}
    world = World(
        node("a1", labels={**labels, ZONE: "a"}), node("a2", labels={ZONE: "a"}),
        node("b1", labels={**labels, ZONE: "b"}), *running({"a1": 2}),
    )  # fmt: skip

    found = filtered(made(world), world, web(constraint(), constraint("rack", maxSkew=9)))

    assert found == {"a1": unschedulable(NOT_MATCHED), "a2": unschedulable(NOT_MATCHED), "b1": None}
    found = filtered(made(world), world, web(constraint("rack", maxSkew=9), constraint()))
    assert found["a2"] == unresolvable(MISSING_LABEL)


def test_only_nodes_with_all_keys_count() -> None:
    world = World(
        node("a", labels={ZONE: "a", "rack": "r"}), node("b", labels={ZONE: "b", "rack": "r"}),
        node("b2", labels={ZONE: "b"}), *running({"a": 1, "b2": 5}),
    )  # fmt: skip

    found = reasons(made(world), world, web(constraint(), constraint("rack", maxSkew=99)))

    assert found == {"a": (NOT_MATCHED,), "b2": (MISSING_LABEL,)}


def test_inclusion_policies() -> None:
    taint = [{"key": "busy", "value": "", "effect": "NoSchedule"}]
    world = World(
        node("a", labels={ZONE: "a", "disk": "ssd"}), node("b", labels={ZONE: "b"}),
        node("c", labels={ZONE: "c", "disk": "ssd"}, taints=taint), *running({"a": 1}),
    )  # fmt: skip
    plugin, picky = made(world), {"nodeSelector": {"disk": "ssd"}}

    def refused(**more: Any) -> str:
        return "".join(reasons(plugin, world, web(constraint(**more), spec=picky)))

    assert refused() == "a"  # b is out, c is in
    assert refused(nodeTaintsPolicy="Honor") == ""  # only a is left
    assert refused(nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore") == "a"


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    world = World(
        *zoned(a="a", b="b"), *running({"a": 3}, metadata=gone), *running({"a": 3}, namespace="x")
    )

    assert not reasons(made(world), world, web(constraint()))


def test_match_label_keys_narrow_the_selector() -> None:
    world = World(
        *zoned(a="a", b="b"), *running({"a": 2}, labels={"app": "web", "hash": "old"}),
        *running({"b": 1}, labels={"app": "web", "hash": "new"}),
    )  # fmt: skip
    new = pod(
        labels={"app": "web", "hash": "new"},
        spec={"topologySpreadConstraints": [constraint(matchLabelKeys=["hash", "absent"])]},
    )

    assert reasons(made(world), world, new) == {"b": (NOT_MATCHED,)}


def test_a_bad_selector_fails_the_attempt() -> None:
    bad = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    world = World(*zoned(a="a"))
    plugin, cycle = made(world), world.cycle()
    rows = np.array([0], np.intp)

    hard = plugin.pre_filter(cycle, info(web(constraint(labelSelector=bad))))
    soft = plugin.pre_score(cycle, info(web(constraint(labelSelector=bad, when=SOFT))), rows)

    assert hard is not None
    assert hard.code == Code.ERROR
    assert hard.message.startswith("obtaining pod's hard topology spread constraints: ")
    assert soft is not None
    assert soft.code == Code.ERROR


# -- AddPod, RemovePod --------------------------------------------------------------------------


def test_moves_on_a_clone_leave_the_original_alone() -> None:
    world = World(*zoned(a="a", b="b", c="c"), *running({"a": 2, "b": 1}))
    plugin, cycle, asking = made(world), world.cycle(), info(web(constraint()))
    assert plugin.pre_filter(cycle, asking) is None
    a, b = (world.table.info(world.row(name)) for name in "ab")
    victims = list(a.pods.values())

    trial = cycle.clone()
    assert plugin.filter_node(trial, asking, a) == unschedulable(NOT_MATCHED)
    for victim in victims:
        plugin.remove_pod(trial, asking, victim, a)
    assert plugin.filter_node(trial, asking, a) is None
    plugin.add_pod(trial, asking, victims[0], a)
    assert plugin.filter_node(trial, asking, a) == unschedulable(NOT_MATCHED)
    assert plugin.filter_node(cycle, asking, b) == unschedulable(NOT_MATCHED)
    for name in "abc":
        plugin.add_pod(trial, asking, victims[0], world.table.info(world.row(name)))
    found = {n: plugin.filter_node(trial, asking, world.table.info(world.row(n))) for n in "abc"}
    assert [n for n, status in found.items() if status is None] == ["c"]  # 2, 2, 1


def test_filling_the_emptiest_domain_raises_the_minimum() -> None:
    world = World(*zoned(a="a", b="b", c="c"), *running({"b": 1, "c": 1}))
    plugin, cycle, asking = made(world), world.cycle(), info(web(constraint()))
    a, b = (world.table.info(world.row(name)) for name in "ab")
    assert plugin.pre_filter(cycle, asking) is None
    assert plugin.filter_node(cycle, asking, b) == unschedulable(NOT_MATCHED)

    plugin.add_pod(cycle, asking, info(web()), a)
    plugin.add_pod(cycle, asking, info(web()), a)

    assert plugin.filter_node(cycle, asking, b) is None


def test_a_match_everything_selector_does_count_moved_pods() -> None:
    world = World(*zoned(a="a", b="b"))
    plugin, cycle = made(world), world.cycle()
    asking = info(web(constraint(labelSelector={})))
    assert plugin.pre_filter(cycle, asking) is None
    a = world.table.info(world.row("a"))
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    plugin.add_pod(cycle, asking, info(pod(labels={"x": "y"}, metadata=gone)), a)
    plugin.add_pod(cycle, asking, info(pod(namespace="other")), a)

    assert plugin.filter_node(cycle, asking, a) == unschedulable(NOT_MATCHED)


# -- Score --------------------------------------------------------------------------------------


def test_the_examples_of_the_spec() -> None:
    service = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}},
        Service,
    )
    world = World(*zoned(n1="a", n2="a", n3="b"), *running({"n1": 2, "n3": 1}), service)
    plugin = made(world, system=True)
    assert raw_scores(plugin, world, web()) == {"n1": 12, "n2": 9, "n3": 9}
    assert scores(plugin, world, web()) == {"n1": 75, "n2": 100, "n3": 100}

    world = World(*zoned(n1="a", n2="b", n3="-"), *running({"n1": 3, "n2": 1}))
    own = web(constraint(when=SOFT))
    assert raw_scores(made(world), world, own) == {"n1": 4, "n2": 1, "n3": 0}
    assert scores(made(world), world, own) == {"n1": 25, "n2": 100, "n3": 0}

    world = World(*zoned(n1="a", n2="b"))
    assert scores(made(world), world, own) == {"n1": 100, "n2": 100}


def test_only_feasible_nodes_make_domains_but_all_nodes_are_counted() -> None:
    world = World(*zoned(n1="a", n2="b", n3="c", n4="b"), *running({"n1": 3, "n4": 3}))
    plugin, own = made(world), web(constraint(when=SOFT))

    # ln(2 + 2) * 3 = 4.16 each, for n4 is not asked about but its pods are there
    assert scores(plugin, world, own, "n1", "n2") == {"n1": 100, "n2": 100}
    assert scores(plugin, world, own, "n2", "n3") == {"n2": 0, "n3": 100}


def test_no_soft_constraint_no_score() -> None:
    world = World(*zoned(n1="a"), *running({"n1": 1}))

    assert scores(made(world), world, web(constraint())) is None
    assert scores(made(world, system=True), world, web()) is None  # nobody selects the pod


# -- defaults -----------------------------------------------------------------------------------


def test_defaults_apply_to_pods_without_constraints_of_any_action() -> None:
    service = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}},
        Service,
    )
    defaults = [{**constraint(when=when), "labelSelector": None} for when in (HARD, SOFT)]
    world = World(*zoned(a="a", b="b"), *running({"a": 2}))
    plugin = made(world, *defaults)
    assert not reasons(plugin, world, web())

    world.add(service)

    assert reasons(plugin, world, web()) == {"a": (NOT_MATCHED,)}
    assert scores(plugin, world, web()) == {"a": 0, "b": 100}
    assert not reasons(plugin, world, web(constraint(HOST, when=SOFT)))
    assert scores(plugin, world, web(constraint(HOST))) is None
    world.objects.remove(service)
    assert not reasons(plugin, world, web())


def test_the_default_selector_follows_services_and_the_owner() -> None:
    def service(name: str, **selector: str) -> Service:
        data = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}}
        return msgspec.convert(data, Service)

    def owner(struct: Any, selector: Any) -> Any:
        data = {"metadata": {"name": "o", "namespace": "default"}, "spec": {"selector": selector}}
        return msgspec.convert(data, struct)

    def owned(api_version: str, kind: str) -> PodInfo:
        reference = {"apiVersion": api_version, "kind": kind, "name": "o", "controller": True}
        return info(
            pod(labels={"app": "web", "tier": "x"}, metadata={"ownerReferences": [reference]})
        )

    world = World()
    selectors = DefaultSelectors(world.objects, world.handle.kept)
    by_rc, by_rs = owned("v1", "ReplicationController"), owned("apps/v1", "ReplicaSet")
    by_set, by_other = owned("apps/v1", "StatefulSet"), owned("batch/v1", "Job")

    def texts() -> list[str]:
        return [str(selectors.of(each.kind)) for each in (by_rc, by_rs, by_set, by_other)]

    assert texts() == ["", "", "", ""]
    world.add(
        service("web", app="web"), service("both", app="web", tier="x"), service("no", app="db"),
        service("empty"), owner(ReplicationController, {"rc": "1", "app": "other"}),
        owner(ReplicaSet, {"matchExpressions": [{"key": "rs", "operator": "Exists"}]}),
        owner(StatefulSet, {"matchLabels": {"app": "web"}}),
    )  # fmt: skip
    services = "app=web,tier=x"
    assert texts() == ["app=other,rc=1,tier=x", "app=web,rs,tier=x", services, services]
    known = selectors.of(by_rs.kind)
    world.add(owner(ReplicaSet, {"matchExpressions": [{"key": "rs", "operator": "Exists"}]}))
    assert selectors.of(by_rs.kind) is known
    world.objects.remove(service("both"))
    world.add(owner(ReplicaSet, None), service("web", tier="x"))
    assert texts() == ["app=other,rc=1,tier=x", "tier=x", "app=web,tier=x", "tier=x"]


# -- hints --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, pod(labels={"app": "web"}, node="a"), Hint.QUEUE, id="new"),
        pytest.param(Action.ADD, None, pod(labels={"app": "db"}, node="a"), Hint.SKIP, id="other"),
        pytest.param(Action.ADD, None, pod(labels={"app": "web"}), Hint.SKIP, id="unassigned"),
        pytest.param(
            Action.ADD, None,
            pod(labels={"app": "web"}, status={"nominatedNodeName": "a"}), Hint.QUEUE,
            id="nominated",
        ),
        pytest.param(
            Action.ADD, None, pod(labels={"app": "web"}, node="a", namespace="x"), Hint.SKIP,
            id="another-namespace",
        ),
        pytest.param(
            Action.DELETE, pod(labels={"app": "web"}, node="a"), None, Hint.QUEUE, id="deleted"
        ),
        pytest.param(
            Action.UPDATE_POD_LABEL, pod(labels={"app": "web"}, node="a"),
            pod(labels={"app": "db"}, node="a"), Hint.QUEUE, id="no-longer-matches",
        ),
        pytest.param(
            Action.UPDATE_POD_LABEL, pod(labels={"app": "web"}, node="a"),
            pod(labels={"app": "web", "x": "y"}, node="a"), Hint.SKIP, id="still-matches",
        ),
    ],
)  # fmt: skip
def test_pod_events(action: Action, old: Pod | None, new: Pod | None, expected: Hint) -> None:
    assert hint(made(World()), Resource.POD, action, web(constraint()), old, new) == expected


def test_a_toleration_of_our_own_helps_where_taints_are_honoured() -> None:
    plugin, tolerations = made(World()), {"tolerations": [{"operator": "Exists"}]}
    for policy, expected in (("Honor", Hint.QUEUE), ("Ignore", Hint.SKIP)):
        old = web(constraint(nodeTaintsPolicy=policy), metadata={"uid": "u"})
        new = web(constraint(nodeTaintsPolicy=policy), metadata={"uid": "u"}, spec=tolerations)
        action = Action.UPDATE_POD_TOLERATION
        assert hint(plugin, Resource.POD, action, new, old, new) == expected


TAINTED = node("a", labels={ZONE: "a"}, taints=[{"key": "k", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.ADD, None, zoned(a="a")[0], Hint.QUEUE, id="added"),
        pytest.param(Action.ADD, None, zoned(a="-")[0], Hint.SKIP, id="added-without-zone"),
        pytest.param(Action.DELETE, zoned(a="a")[0], None, Hint.QUEUE, id="deleted"),
        pytest.param(Action.DELETE, zoned(a="-")[0], None, Hint.SKIP, id="deleted-without-zone"),
        pytest.param(
            Action.UPDATE_NODE_LABEL, zoned(a="-")[0], zoned(a="a")[0], Hint.QUEUE, id="gained"
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL, zoned(a="b")[0], zoned(a="a")[0], Hint.QUEUE, id="moved"
        ),
        pytest.param(
            Action.UPDATE_NODE_LABEL, zoned(a="a")[0], zoned(a="a")[0], Hint.SKIP, id="the-same"
        ),
        pytest.param(
            Action.UPDATE_NODE_TAINT, TAINTED, zoned(a="a")[0], Hint.QUEUE, id="taint-gone"
        ),
        pytest.param(
            Action.UPDATE_NODE_TAINT, TAINTED, zoned(a="-")[0], Hint.QUEUE, id="label-lost"
        ),
        pytest.param(Action.UPDATE_NODE_CONDITION, TAINTED, TAINTED, None, id="not-registered"),
    ],
)
def test_node_events(
    action: Action, old: Node | None, new: Node | None, expected: Hint | None
) -> None:
    assert hint(made(World()), Resource.NODE, action, web(constraint()), old, new) == expected


def test_a_label_that_changes_matters_on_nodes_that_have_all_keys() -> None:
    plugin, asking = made(World()), web(constraint(), constraint("rack"))
    labels = [
        {key: value for key, value in ((ZONE, zone), ("rack", rack)) if value}
        for zone in ("", "a", "b")
        for rack in ("", "x", "y")
    ]
    for before, after in product(labels, labels):
        old, new = node("a", labels=before), node("a", labels=after)
        counted = len(before) == 2 or len(after) == 2
        expected = Hint.QUEUE if counted and before != after else Hint.SKIP
        action = Action.UPDATE_NODE_LABEL
        assert hint(plugin, Resource.NODE, action, asking, old, new) == expected


# -- random clusters against the plain definition -----------------------------------------------


def included(c: Constraint, asking: PodInfo, at: NodeInfo) -> bool:
    kind = asking.kind
    if c.honor_affinity and not kind.required_node_affinity.matches(at.labels, at.name):
        return False
    return not c.honor_taints or first_untolerated(at.taints, kind.tolerations) is None


def matching(selector: Selector, asking: PodInfo, at: NodeInfo) -> int:
    if selector.is_everything:
        return 0
    return sum(
        p.kind.namespace == asking.kind.namespace
        and not p.kind.terminating
        and selector.matches(p.kind.labels)
        for p in at.pods.values()
    )


def has_all(constraints: list[Constraint], at: NodeInfo) -> bool:
    return all(c.topology_key in at.labels for c in constraints)


def plain_filter(
    infos: list[NodeInfo], asking: PodInfo, hard: list[Constraint], moved: list[Any]
) -> dict[str, Status | None]:
    """`moved` are (pod, node, 1 or -1), as AddPod and RemovePod see them."""
    sums: list[Counter[str]] = []
    for c in hard:
        domains: Counter[str] = Counter()
        for at in infos:
            if has_all(hard, at) and included(c, asking, at):
                domains[at.labels[c.topology_key]] += matching(c.selector, asking, at)
        for other, at, delta in moved:
            same = other.kind.namespace == asking.kind.namespace
            counts = same and has_all(hard, at) and included(c, asking, at)
            if counts and c.selector.matches(other.kind.labels):
                domains[at.labels[c.topology_key]] += delta
        sums.append(domains)
    answers: dict[str, Status | None] = {}
    for at in infos:
        answers[at.name] = None
        for c, domains in zip(hard, sums, strict=True):
            value = at.labels.get(c.topology_key)
            if value is None:
                answers[at.name] = unresolvable(MISSING_LABEL)
                break
            lowest = min(domains.values(), default=0) if len(domains) >= c.min_domains else 0
            own = int(c.selector.matches(asking.kind.labels))
            if domains.get(value, 0) + own - lowest > c.max_skew:
                answers[at.name] = unschedulable(NOT_MATCHED)
                break
    return answers


def plain_scores(
    infos: list[NodeInfo],
    feasible: list[NodeInfo],
    asking: PodInfo,
    soft: list[Constraint],
    *,
    require_all: bool,
) -> dict[str, tuple[int, int]]:
    """Raw and normalised."""
    ignored = {at.name for at in feasible if require_all and not has_all(soft, at)}
    raw: dict[str, float] = {at.name: 0.0 for at in feasible}
    for c in soft:
        valid = [at for at in feasible if at.name not in ignored]
        sums = {at.labels.get(c.topology_key, ""): 0 for at in valid}
        size = len(valid) if c.topology_key == HOST else len(sums)
        for at in infos:
            value = at.labels.get(c.topology_key, "")
            counts = included(c, asking, at) and (not require_all or has_all(soft, at))
            if counts and value in sums:
                sums[value] += matching(c.selector, asking, at)
        for at in valid:
            if c.topology_key in at.labels:
                count = sums[at.labels[c.topology_key]]
                if c.topology_key == HOST:
                    count = matching(c.selector, asking, at)
                raw[at.name] += count * log(size + 2) + float(c.max_skew - 1)
    rounded = {name: floor(score + 0.5) for name, score in raw.items()}
    valid_scores = [score for name, score in rounded.items() if name not in ignored]
    highest, lowest = max(valid_scores, default=0), min(valid_scores, default=0)
    return {
        name: (score, 0 if name in ignored else 100)
        if highest == 0 or name in ignored
        else (score, 100 * (highest + lowest - score) // highest)
        for name, score in rounded.items()
    }


SELECTORS = [
    None,
    {},
    WEB,
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
]
NODES = st.lists(
    st.fixed_dictionaries(
        {
            ZONE: st.sampled_from(["a", "b", "c", "", None]),
            HOST: st.sampled_from(["own", "own", "own", "shared", None]),
            "disk": st.sampled_from(["ssd", None]),
            "taint": st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)
PODS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["default", "default", "other"]),
        st.sampled_from(["web", "web", "db", None]),
        st.integers(0, 4).map(lambda n: n == 0),
    ),
    max_size=12,
)
SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
]
CONSTRAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 3),
            "topologyKey": st.sampled_from([ZONE, HOST, "disk"]),
            "whenUnsatisfiable": st.sampled_from([HARD, SOFT]),
            "labelSelector": st.sampled_from(SELECTORS),
            "minDomains": st.sampled_from([None, 1, 2, 3]),
            "nodeAffinityPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from([None, "Honor", "Ignore"]),
            "matchLabelKeys": st.sampled_from([None, ["hash"], ["absent"]]),
        }
    ),
    max_size=3,
)


def cluster(nodes: list[dict[str, Any]]) -> list[Node]:
    made = []
    for n, wanted in enumerate(nodes):
        labels = {key: wanted[key] for key in (ZONE, HOST, "disk") if wanted[key] is not None}
        if labels.get(HOST) == "own":
            labels[HOST] = f"n{n}"
        taints = [{"key": "k", "effect": "NoSchedule"}] if wanted["taint"] else []
        made.append(node(f"n{n}", metadata={"labels": labels}, taints=taints))
    return made


def placed(pods: list[Any], node_count: int) -> list[Pod]:
    return [
        pod(
            node=f"n{at % node_count}",
            namespace=namespace,
            labels={**({"app": app} if app else {}), "hash": "1" if at % 2 else "2"},
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {},
        )
        for at, namespace, app, terminating in pods
    ]


def check_filter(plugin: PodTopologySpread, world: World, asking: PodInfo, hard: Any) -> None:
    infos = [world.table.info(row) for row in world.table.row_of.values()]
    found = filtered(plugin, world, asking.pod)
    assert found == plain_filter(infos, asking, hard, [])
    if not hard:
        return
    cycle: Cycle = world.cycle()
    assert plugin.pre_filter(cycle, asking) is None
    extra = info(pod(labels={"app": "web", "hash": "1"}))
    for at in infos:
        trial, moved = cycle.clone(), []
        for victim in at.pods.values():
            plugin.remove_pod(trial, asking, victim, at)
            moved.append((victim, at, -1))
        for other in (extra, *list(at.pods.values())[:1]):
            plugin.add_pod(trial, asking, other, at)
            moved.append((other, at, 1))
        answers = plain_filter(infos, asking, hard, moved)
        whole = plugin.filter_nodes(trial, asking, world.table, slice(0, world.table.size))
        for each in infos:
            assert plugin.filter_node(trial, asking, each) == answers[each.name]
            assert whole.status(each.row) == answers[each.name]


def check_scores(
    plugin: PodTopologySpread,
    world: World,
    asking: PodInfo,
    soft: Any,
    feasible: list[str],
    *,
    require_all: bool,
) -> None:
    infos = [world.table.info(row) for row in world.table.row_of.values()]
    chosen = [world.table.info(world.row(name)) for name in feasible]
    found = scores(plugin, world, asking.pod, *feasible)
    if not soft:
        assert found is None
        return
    plain = plain_scores(infos, chosen, asking, soft, require_all=require_all)
    assert found == {name: normal for name, (_, normal) in plain.items()}
    if len(chosen) == len(infos):
        assert raw_scores(plugin, world, asking.pod) == {n: raw for n, (raw, _) in plain.items()}


@given(NODES, PODS, PODS, CONSTRAINTS, st.data())
def test_own_constraints_as_defined(
    nodes: list[Any], before: list[Any], after: list[Any], asked: list[Any], data: st.DataObject
) -> None:
    world = World(*cluster(nodes), *placed(before, len(nodes)))
    plugin = made(world)
    spec = data.draw(st.sampled_from(SPECS))
    asking = info(
        pod(labels={"app": "web", "hash": "1"}, spec={"topologySpreadConstraints": asked, **spec})
    )
    given = msgspec.convert(asked, list[TopologySpreadConstraint])
    hard, soft = (list(parse_constraints(given, asking.kind.labels, a)) for a in (HARD, SOFT))
    names = list(world.table.row_of)
    feasible = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    check_filter(plugin, world, asking, hard)
    check_scores(plugin, world, asking, soft, feasible, require_all=True)

    # Later, with more pods and a node that changed: the counts that are kept must follow.
    world.add(*placed(after, len(nodes)), *cluster(nodes[::-1])[:1])
    check_filter(plugin, world, asking, hard)
    check_scores(plugin, world, asking, soft, names, require_all=True)


@given(NODES, PODS, st.data())
def test_system_defaults_as_defined(nodes: list[Any], pods: list[Any], data: st.DataObject) -> None:
    service = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}},
        Service,
    )
    world = World(*cluster(nodes), *placed(pods, len(nodes)), service)
    plugin, asking = made(world, system=True), info(pod(labels={"app": "web"}))
    selector = DefaultSelectors(world.objects, world.handle.kept).of(asking.kind)
    soft = [Constraint(3, HOST, selector), Constraint(5, ZONE, selector)]
    names = list(world.table.row_of)
    feasible = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))

    for each in (feasible, names):
        check_scores(plugin, world, asking, soft, each, require_all=False)
