"""InterPodAffinity: who must, may not and would rather be near whom."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import Code, Status, unresolvable, unschedulable
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace
from stowplan.plugins.inter_pod_affinity import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
    affinity_terms,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo, Term
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint, normal_scores, raw_scores, reasons, skips

ZONE = "zone"
HOST = "kubernetes.io/hostname"
NAMESPACE = "default"


def term(app: str | None = "web", key: str = ZONE, **more: Any) -> dict[str, Any]:
    selector = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologyKey": key, **selector, **more}


def affine(
    *required: dict[str, Any],
    anti: tuple[dict[str, Any], ...] = (),
    likes: tuple[tuple[int, dict[str, Any]], ...] = (),
    dislikes: tuple[tuple[int, dict[str, Any]], ...] = (),
) -> dict[str, Any]:
    def stanza(required: Any, preferred: Any) -> dict[str, Any]:
        weighted = [{"weight": weight, "podAffinityTerm": each} for weight, each in preferred]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": weighted,
        }

    return {
        "affinity": {
            "podAffinity": stanza(required, likes),
            "podAntiAffinity": stanza(anti, dislikes),
        }
    }


def made(world: World, *, hard_weight: int = 1, ignore: bool = False) -> InterPodAffinity:
    args = SimpleNamespace(
        hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignore
    )
    return InterPodAffinity(args, world.handle)


def namespace(name: str, **labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)


def zoned(**zones: str) -> list[Node]:
    """Nodes by name with their zone; "-" for none."""
    return [node(n, labels={} if zone == "-" else {ZONE: zone}) for n, zone in zones.items()]


def scores(plugin: InterPodAffinity, world: World, asking: Pod) -> dict[str, int] | None:
    cycle, table = world.cycle(), world.table
    rows = np.array(list(table.row_of.values()), np.intp)
    status = plugin.pre_score(cycle, info(asking), rows)
    if skips(status):
        return None
    assert status is None
    normal = normal_scores(plugin, cycle, info(asking), rows)
    return {table.names[row]: int(score) for row, score in zip(rows, normal, strict=True)}


# -- Filter -------------------------------------------------------------------------------------


def test_affinity_and_its_codes() -> None:
    world = World(
        *zoned(a1="a", a2="a", b="b", x="-"), pod(node="a1", labels={"app": "db"}),
        pod(node="x", labels={"app": "db"}),
    )  # fmt: skip

    near = filtered(made(world), world, pod(spec=affine(term("db"))))
    away = filtered(made(world), world, pod(spec=affine(anti=(term("db"),))))

    far = unresolvable(AFFINITY)
    assert near == {"a1": None, "a2": None, "b": far, "x": far}
    close = unschedulable(ANTI_AFFINITY)
    assert away == {"a1": close, "a2": close, "b": None, "x": None}


def test_running_pods_keep_newcomers_away() -> None:
    world = World(*zoned(a1="a", a2="a", b="b"), pod(node="a1", spec=affine(anti=(term(),))))
    plugin = made(world)

    assert set(reasons(plugin, world, pod(labels={"app": "web"}))) == {"a1", "a2"}
    assert filtered(plugin, world, pod(labels={"app": "web"}))["a2"] == unschedulable(
        EXISTING_ANTI_AFFINITY
    )
    assert not reasons(plugin, world, pod(labels={"app": "db"}))
    assert not reasons(plugin, world, pod(labels={"app": "web"}, namespace="other"))


def test_one_pod_must_satisfy_all_affinity_terms() -> None:
    both = pod(labels={"tier": "x"}, spec=affine(term(), term("db", HOST)))
    world = World(
        *zoned(a="a"), pod(node="a", labels={"app": "web"}), pod(node="a", labels={"app": "db"})
    )

    assert reasons(made(world), world, both) == {"a": (AFFINITY,)}


def test_the_first_of_a_series_may_go_anywhere_it_has_the_keys() -> None:
    own = pod(labels={"app": "web"}, spec=affine(term()))
    world = World(*zoned(a="a", x="-"), pod(node="x", labels={"app": "web"}))
    plugin = made(world)

    # A match on a node without the key leaves the map empty.
    assert reasons(plugin, world, own) == {"x": (AFFINITY,)}
    assert set(reasons(plugin, world, pod(spec=affine(term())))) == {"a", "x"}
    world.add(node("b", labels={ZONE: "b"}), pod(node="b", labels={"app": "web"}))
    assert set(reasons(plugin, world, own)) == {"a", "x"}


def test_only_the_first_reason_is_given() -> None:
    hermit = affine(anti=(term("new"),))
    world = World(*zoned(a="a", b="b"), pod(node="a", labels={"app": "web"}, spec=hermit))
    picky = affine(term("nobody"), anti=(term(),))

    assert reasons(made(world), world, pod(labels={"app": "new"}, spec=picky)) == {
        "a": (AFFINITY,), "b": (AFFINITY,)
    }  # fmt: skip
    shy = pod(labels={"app": "new"}, spec=affine(anti=(term(),)))
    assert reasons(made(world), world, shy) == {"a": (ANTI_AFFINITY,)}


@pytest.mark.parametrize(
    ("selector", "reached"),
    [
        pytest.param({"namespaces": ["blue"]}, "b", id="listed"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "x"}}}, "r", id="selected"),
        pytest.param(
            {"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "x"}}}, "br",
            id="listed-or-selected",
        ),
        pytest.param({"namespaceSelector": {}}, "bdru", id="all"),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [
                {"key": "team", "operator": "NotIn", "values": ["x", "y"]}]}}, "bdru",
            id="what-no-labels-satisfy-takes-in-all",
        ),
        pytest.param({}, "d", id="its-own"),
    ],
)  # fmt: skip
def test_namespaces_of_the_incoming_pods_terms(selector: dict[str, Any], reached: str) -> None:
    homes = {"d": "default", "b": "blue", "r": "red", "u": "unknown"}
    world = World(
        *zoned(**{name: name for name in homes}), namespace("blue", team="y"),
        namespace("red", team="x"), namespace("default"),
        *(pod(node=n, namespace=ns, labels={"app": "web"}) for n, ns in homes.items()),
    )  # fmt: skip

    found = reasons(made(world), world, pod(spec=affine(anti=(term(**selector),))))

    assert "".join(sorted(found)) == reached


def test_namespaces_may_change() -> None:
    selector: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    theirs = pod(node="a", namespace="red", labels={"app": "web"})
    world = World(
        *zoned(a="a"), theirs, pod(node="a", spec=affine(anti=(term("new", **selector),)))
    )
    plugin = made(world)
    mine = pod(spec=affine(anti=(term(**selector),)))
    new = pod(namespace="red", labels={"app": "new"})

    assert not reasons(plugin, world, mine)
    assert not reasons(plugin, world, new)
    world.add(namespace("red", team="x"))
    assert reasons(plugin, world, mine) == {"a": (ANTI_AFFINITY,)}
    assert reasons(plugin, world, new) == {"a": (EXISTING_ANTI_AFFINITY,)}
    world.add(namespace("red", team="y"))
    assert not reasons(plugin, world, mine)
    assert not reasons(plugin, world, new)


def test_nothing_to_do_is_skipped_and_so_are_terms_on_nodes_without_the_key() -> None:
    plain = info(pod(labels={"app": "web"}))
    world = World(*zoned(x="-", a="a"))
    assert skips(made(world).pre_filter(world.cycle(), plain))
    world.add(pod(node="x", spec=affine(anti=(term(),))))
    assert skips(made(world).pre_filter(world.cycle(), plain))
    world.add(pod(node="a", spec=affine(anti=(term(),))))
    assert made(world).pre_filter(world.cycle(), plain) is None


def test_a_bad_selector_is_beyond_help() -> None:
    bad: dict[str, Any] = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    }
    world = World(*zoned(a="a"))

    status = made(world).pre_filter(world.cycle(), info(pod(spec=affine(term(None, **bad)))))

    assert status is not None
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith("parsing pod: ")


# -- AddPod, RemovePod --------------------------------------------------------------------------


def test_moves_on_a_clone_leave_the_original_alone() -> None:
    world = World(*zoned(a="a", b="b"), pod("v", node="a", labels={"app": "web"}))
    plugin, cycle, asking = made(world), world.cycle(), info(pod(spec=affine(anti=(term(),))))
    a = world.table.info(world.row("a"))
    (victim,) = a.pods.values()
    assert plugin.pre_filter(cycle, asking) is None

    trial = cycle.clone()
    plugin.remove_pod(trial, asking, victim, a)

    assert plugin.filter_node(trial, asking, a) is None
    assert plugin.filter_node(cycle, asking, a) == unschedulable(ANTI_AFFINITY)
    hermit = info(pod(spec=affine(anti=(term(None, HOST, labelSelector={}),))))
    plugin.add_pod(trial, asking, hermit, a)  # with a key that no running pod has
    assert plugin.filter_node(trial, asking, a) == unschedulable(EXISTING_ANTI_AFFINITY)
    whole = plugin.filter_nodes(trial, asking, world.table, slice(0, 2))
    assert whole.status(a.row) == unschedulable(EXISTING_ANTI_AFFINITY)


def test_when_the_last_match_leaves_the_pod_is_the_first_of_its_series() -> None:
    world = World(*zoned(a="a", b="b"), pod("v", node="a", labels={"app": "web"}))
    plugin, cycle = made(world), world.cycle()
    asking = info(pod(labels={"app": "web"}, spec=affine(term())))
    a, b = (world.table.info(world.row(name)) for name in "ab")
    assert plugin.pre_filter(cycle, asking) is None
    assert plugin.filter_node(cycle, asking, b) == unresolvable(AFFINITY)

    plugin.remove_pod(cycle, asking, next(iter(a.pods.values())), a)

    assert plugin.filter_node(cycle, asking, b) is None


# -- Score --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([-10, 0, 30], [0, 25, 100]),
        ([5, 5], [0, 0]),
        ([0, 29, 100], [0, 28, 100]),
        ([0, 29, *[0] * 200, 100], [0, 28, *[0] * 200, 100]),
    ],
)
def test_normalizing_divides_first(raw: list[int], expected: list[int]) -> None:
    world = World()
    rows = np.arange(len(raw), dtype=np.intp)

    normal = made(world).normalize_scores(
        world.cycle(), info(pod()), world.table, rows, np.array(raw, np.int64)
    )

    assert normal.tolist() == expected
    assert normal.dtype == np.int64


def test_preferences_of_both_sides_add_up() -> None:
    world = World(
        *zoned(a="a", b="b", c="c"), pod(node="a", labels={"app": "db"}),
        pod(node="b", labels={"app": "db"}, spec=affine(likes=((3, term()),))),
        pod(node="c", spec=affine(term(), dislikes=((7, term()),))),
    )  # fmt: skip
    mine = pod(labels={"app": "web"}, spec=affine(likes=((10, term("db")),)))
    disliking = pod(labels={"app": "web"}, spec=affine(dislikes=((10, term("db")),)))

    assert raw_scores(made(world), world, mine) == {"a": 10, "b": 13, "c": -6}
    assert raw_scores(made(world), world, disliking) == {"a": -10, "b": -7, "c": -6}
    assert raw_scores(made(world, hard_weight=0), world, mine) == {"a": 10, "b": 13, "c": -7}
    assert raw_scores(made(world, hard_weight=50), world, mine) == {"a": 10, "b": 13, "c": 43}
    plain = pod(labels={"app": "web"})
    assert raw_scores(made(world), world, plain) == {"a": 0, "b": 3, "c": -6}
    assert raw_scores(made(world, ignore=True), world, plain) is None
    assert raw_scores(made(world, ignore=True), world, mine) == {"a": 10, "b": 13, "c": -6}
    assert raw_scores(made(world), world, pod(labels={"app": "other"})) is None


# -- hints --------------------------------------------------------------------------------------

LIKES = pod(labels={"app": "me"}, spec=affine(term("web"), term("web", HOST)))
DISLIKES = pod(labels={"app": "me"}, spec=affine(anti=(term("web"),)))
LIKES_ITSELF = pod(labels={"app": "web"}, spec=affine(term("web")))
UNREADABLE = pod(
    spec=affine(
        term(None, labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    )
)
PLAIN = pod(labels={"app": "me"})
RUNNING = pod(node="a", labels={"app": "web"})
RUNNING_OTHER = pod(node="a", labels={"app": "db"})
HERMIT = pod(node="a", spec=affine(anti=(term("me"),)))
PENDING = pod(labels={"app": "web"})
NOMINATED = pod(labels={"app": "web"}, status={"nominatedNodeName": "a"})
LABEL = Action.UPDATE_POD_LABEL


@pytest.mark.parametrize(
    ("mine", "action", "old", "new", "expected"),
    [
        pytest.param(LIKES, Action.ADD, None, RUNNING, Hint.QUEUE, id="one-we-like-came"),
        pytest.param(LIKES, Action.ADD, None, NOMINATED, Hint.QUEUE, id="one-we-like-nominated"),
        pytest.param(LIKES, Action.ADD, None, PENDING, Hint.SKIP, id="one-we-like-is-pending"),
        pytest.param(LIKES, Action.ADD, None, RUNNING_OTHER, Hint.SKIP, id="another-came"),
        pytest.param(DISLIKES, Action.ADD, None, RUNNING, Hint.SKIP, id="one-we-dislike-came"),
        pytest.param(LIKES, LABEL, RUNNING_OTHER, RUNNING, Hint.QUEUE, id="now-we-like-it"),
        pytest.param(LIKES, LABEL, RUNNING, RUNNING_OTHER, Hint.SKIP, id="no-longer-liked"),
        pytest.param(DISLIKES, LABEL, RUNNING, RUNNING_OTHER, Hint.QUEUE, id="no-more-disliked"),
        pytest.param(DISLIKES, LABEL, RUNNING_OTHER, RUNNING, Hint.SKIP, id="now-disliked"),
        pytest.param(DISLIKES, LABEL, DISLIKES, DISLIKES, Hint.QUEUE, id="our-own-labels"),
        pytest.param(DISLIKES, Action.DELETE, RUNNING, None, Hint.QUEUE, id="disliked-went"),
        pytest.param(LIKES, Action.DELETE, RUNNING, None, Hint.SKIP, id="liked-went"),
        pytest.param(LIKES_ITSELF, Action.DELETE, RUNNING, None, Hint.QUEUE, id="now-the-first"),
        pytest.param(
            LIKES_ITSELF, Action.DELETE, RUNNING_OTHER, None, Hint.SKIP, id="not-its-sort"
        ),
        pytest.param(LIKES_ITSELF, LABEL, RUNNING, RUNNING_OTHER, Hint.QUEUE, id="first-by-label"),
        pytest.param(LIKES_ITSELF, LABEL, RUNNING, RUNNING, Hint.SKIP, id="still-not-the-first"),
        pytest.param(UNREADABLE, Action.ADD, None, RUNNING_OTHER, Hint.QUEUE, id="unreadable"),
        pytest.param(PLAIN, Action.DELETE, HERMIT, None, Hint.QUEUE, id="hermit-went"),
        pytest.param(PLAIN, Action.DELETE, RUNNING, None, Hint.SKIP, id="some-pod-went"),
    ],
)
def test_pod_events(
    mine: Pod, action: Action, old: Pod | None, new: Pod | None, expected: Hint
) -> None:
    assert hint(made(World()), Resource.POD, action, mine, old, new) == expected


A, B, NO_ZONE = (*zoned(n="a"), *zoned(n="b"), *zoned(n="-"))
NODE_LABEL = Action.UPDATE_NODE_LABEL


@pytest.mark.parametrize(
    ("mine", "action", "old", "new", "expected"),
    [
        pytest.param(LIKES, Action.ADD, None, A, Hint.QUEUE, id="added"),
        pytest.param(
            pod(spec=affine(term())), Action.ADD, None, NO_ZONE, Hint.SKIP, id="added-without-key"
        ),
        pytest.param(DISLIKES, Action.ADD, None, NO_ZONE, Hint.QUEUE, id="any-new-node"),
        pytest.param(PLAIN, Action.ADD, None, A, Hint.SKIP, id="no-terms"),
        pytest.param(LIKES, NODE_LABEL, NO_ZONE, A, Hint.QUEUE, id="key-gained"),
        pytest.param(LIKES, NODE_LABEL, A, B, Hint.QUEUE, id="value-changed"),
        pytest.param(LIKES, NODE_LABEL, A, NO_ZONE, Hint.SKIP, id="key-lost"),
        pytest.param(LIKES, NODE_LABEL, A, A, Hint.SKIP, id="another-label"),
        pytest.param(DISLIKES, NODE_LABEL, A, NO_ZONE, Hint.QUEUE, id="disliked-key-lost"),
        pytest.param(DISLIKES, NODE_LABEL, A, B, Hint.QUEUE, id="disliked-value-changed"),
        pytest.param(DISLIKES, NODE_LABEL, NO_ZONE, A, Hint.SKIP, id="disliked-key-gained"),
        pytest.param(LIKES_ITSELF, NODE_LABEL, A, NO_ZONE, Hint.QUEUE, id="now-the-first"),
        pytest.param(LIKES_ITSELF, NODE_LABEL, NO_ZONE, NO_ZONE, Hint.SKIP, id="no-zone-before"),
        pytest.param(UNREADABLE, NODE_LABEL, A, A, Hint.QUEUE, id="unreadable"),
        pytest.param(LIKES, Action.UPDATE_NODE_TAINT, A, A, None, id="not-registered"),
    ],
)
def test_node_events(
    mine: Pod, action: Action, old: Node | None, new: Node, expected: Hint | None
) -> None:
    assert hint(made(World()), Resource.NODE, action, mine, old, new) == expected


@pytest.mark.parametrize(
    ("mine", "action", "old", "new", "expected"),
    [
        pytest.param(PLAIN, Action.ADD, None, B, Hint.QUEUE, id="any-new-node"),
        pytest.param(PLAIN, NODE_LABEL, A, B, Hint.QUEUE, id="value-changed"),
        pytest.param(PLAIN, NODE_LABEL, A, NO_ZONE, Hint.QUEUE, id="key-lost"),
        pytest.param(PLAIN, NODE_LABEL, NO_ZONE, A, Hint.SKIP, id="key-gained"),
        pytest.param(PLAIN, NODE_LABEL, A, A, Hint.SKIP, id="another-label"),
        pytest.param(RUNNING_OTHER, NODE_LABEL, A, B, Hint.SKIP, id="nobody-keeps-it-away"),
    ],
)
def test_node_events_for_a_pod_that_a_running_one_keeps_away(
    mine: Pod, action: Action, old: Node | None, new: Node, expected: Hint
) -> None:
    """Found by simulation, seeds 22119 and 22803: upstream's hint does not look at these."""
    world = World(*zoned(a="a"), HERMIT)
    assert hint(made(world), Resource.NODE, action, mine, old, new) == expected


# -- random clusters against the plain definition -----------------------------------------------

Pairs = Counter[tuple[str, str]]


class Plain:
    """The definition, one pod and one term at a time."""

    def __init__(self, world: World, asking: PodInfo) -> None:
        self.infos = [world.table.info(row) for row in world.table.row_of.values()]
        self.namespaces = {
            name: each.metadata.labels or {} for name, each in world.objects.all(Namespace).items()
        }
        self.asking = asking.kind

    def mine(self, term: Term, other: PodInfo) -> bool:
        """A term of the incoming pod: expanded, then matched without namespace labels."""
        names = set(term.namespaces)
        if not term.namespace_selector.is_everything:
            names |= {n for n, ls in self.namespaces.items() if term.namespace_selector.matches(ls)}
        kind = other.kind
        in_namespace = kind.namespace in names or term.namespace_selector.matches({})
        return in_namespace and term.selector.matches(kind.labels)

    def theirs(self, term: Term) -> bool:
        kind = self.asking
        labels = self.namespaces.get(kind.namespace, {})
        return term.matches(kind.namespace, kind.labels, labels)

    def pairs(self, moved: list[tuple[PodInfo, NodeInfo, int]]) -> tuple[Pairs, Pairs, Pairs]:
        existing, liked, disliked = Pairs(), Pairs(), Pairs()
        kind = self.asking
        everybody = [(p, at, 1) for at in self.infos for p in at.pods.values()]
        for other, at, sign in (*everybody, *moved):

            def note(pairs: Pairs, term: Term, at: NodeInfo = at, sign: int = sign) -> None:
                if term.topology_key in at.labels:
                    pairs[term.topology_key, at.labels[term.topology_key]] += sign

            for term in other.kind.required_anti_affinity:
                if self.theirs(term):
                    note(existing, term)
            if all(self.mine(term, other) for term in kind.required_affinity):
                for term in kind.required_affinity:
                    note(liked, term)
            for term in kind.required_anti_affinity:
                if self.mine(term, other):
                    note(disliked, term)
        return +existing, +liked, +disliked

    def filter(self, moved: list[tuple[PodInfo, NodeInfo, int]]) -> dict[str, Status | None]:
        existing, liked, disliked = self.pairs(moved)
        kind = self.asking
        me = PodInfo(kind.pod)
        first = not liked and all(self.mine(term, me) for term in kind.required_affinity)
        answers: dict[str, Status | None] = {}
        for at in self.infos:
            here = set(at.labels.items())
            keys = [term.topology_key for term in kind.required_affinity]
            near = all(key in at.labels and (key, at.labels[key]) in liked for key in keys)
            disliked_here = {
                (term.topology_key, at.labels.get(term.topology_key, ""))
                for term in kind.required_anti_affinity
                if term.topology_key in at.labels
            }
            if not near and not (first and all(key in at.labels for key in keys)):
                answers[at.name] = unresolvable(AFFINITY)
            elif disliked_here & set(disliked):
                answers[at.name] = unschedulable(ANTI_AFFINITY)
            elif here & set(existing):
                answers[at.name] = unschedulable(EXISTING_ANTI_AFFINITY)
            else:
                answers[at.name] = None
        return answers

    def scores(self, hard_weight: int) -> dict[str, int]:
        totals: Pairs = Pairs()
        kind = self.asking
        for at in self.infos:
            for other in at.pods.values():
                weighted = [(t.weight, t) for t in kind.preferred_affinity if self.mine(t, other)]
                weighted += [
                    (-t.weight, t) for t in kind.preferred_anti_affinity if self.mine(t, other)
                ]
                theirs = other.kind
                weighted += [(hard_weight, t) for t in theirs.required_affinity if self.theirs(t)]
                weighted += [(t.weight, t) for t in theirs.preferred_affinity if self.theirs(t)]
                weighted += [
                    (-t.weight, t) for t in theirs.preferred_anti_affinity if self.theirs(t)
                ]
                for weight, term in weighted:
                    if term.topology_key in at.labels:
                        totals[term.topology_key, at.labels[term.topology_key]] += weight
        return {
            at.name: sum(totals[key, value] for key, value in at.labels.items())
            for at in self.infos
        }


SELECTORS: list[dict[str, Any] | None] = [
    None,
    {},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "db"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
]
NAMESPACE_SELECTORS: list[dict[str, Any] | None] = [
    None,
    None,
    {},
    {"matchLabels": {"team": "x"}},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]},
]
TERMS = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from([ZONE, HOST]),
        "labelSelector": st.sampled_from(SELECTORS),
        "namespaces": st.sampled_from([None, None, ["default"], ["red", "blue"]]),
        "namespaceSelector": st.sampled_from(NAMESPACE_SELECTORS),
    }
)
REQUIRED = st.lists(TERMS, max_size=2)
PREFERRED = st.lists(st.tuples(st.integers(1, 9), TERMS), max_size=2).map(tuple)
AFFINITIES = st.one_of(
    st.just({}),
    st.builds(
        lambda required, anti, likes, dislikes: affine(
            *required, anti=tuple(anti), likes=likes, dislikes=dislikes
        ),
        REQUIRED,
        REQUIRED,
        PREFERRED,
        PREFERRED,
    ),
)
PODS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["default", "red", "unknown"]),
        st.sampled_from(["web", "db"]),
        AFFINITIES,
    ),
    max_size=6,
)


def placed(pods: list[Any], node_count: int) -> list[Pod]:
    return [
        pod(node=f"n{at % node_count}", namespace=ns, labels={"app": app}, spec=spec)
        for at, ns, app, spec in pods
    ]


def check(world: World, plugin: InterPodAffinity, asking: PodInfo, hard_weight: int) -> None:
    plain = Plain(world, asking)
    assert filtered(plugin, world, asking.pod) == plain.filter([])
    wanted = plain.scores(hard_weight)
    found = raw_scores(plugin, world, asking.pod)
    assert found == wanted or (found is None and not any(wanted.values()))
    cycle = world.cycle()
    if skips(plugin.pre_filter(cycle, asking)):
        return
    extra = info(pod(labels={"app": "web"}, spec=affine(anti=(term("web", HOST),))))
    for at in plain.infos:
        trial, moved = cycle.clone(), []
        for victim in at.pods.values():
            plugin.remove_pod(trial, asking, victim, at)
            moved.append((victim, at, -1))
        for other in (extra, *list(at.pods.values())[:1]):
            plugin.add_pod(trial, asking, other, at)
            moved.append((other, at, 1))
        answers = plain.filter(moved)
        whole = plugin.filter_nodes(trial, asking, world.table, slice(0, world.table.size))
        for each in plain.infos:
            assert plugin.filter_node(trial, asking, each) == answers[each.name]
            assert whole.status(each.row) == answers[each.name]


@given(
    st.lists(st.sampled_from(["a", "b", "-"]), min_size=1, max_size=5),
    PODS,
    PODS,
    st.tuples(st.sampled_from(["default", "red"]), AFFINITIES),
    st.sampled_from([0, 1, 5]),
    st.booleans(),
    st.sampled_from([0, 1, 16]),
)
def test_as_defined(
    zones: list[str],
    before: list[Any],
    after: list[Any],
    mine: Any,
    hard_weight: int,
    namespaces_change: bool,
    terms_max: int,
) -> None:
    """With few terms, counted each by itself, and with many, counted as one."""
    with patch.object(affinity_terms, "_TERMS_MAX", terms_max):
        live(zones, before, after, mine, hard_weight, namespaces_change)


def live(
    zones: list[str],
    before: list[Any],
    after: list[Any],
    mine: Any,
    hard_weight: int,
    namespaces_change: bool,
) -> None:
    nodes = zoned(**{f"n{n}": zone for n, zone in enumerate(zones)})
    world = World(*nodes, *placed(before, len(nodes)), namespace("red", team="x"))
    plugin = made(world, hard_weight=hard_weight)
    asking = info(pod(namespace=mine[0], labels={"app": "web"}, spec=mine[1]))
    check(world, plugin, asking, hard_weight)

    # Later: more pods, a node in another zone, perhaps a namespace with another label.
    world.add(*placed(after, len(nodes)), node("n0", labels={ZONE: "b"}))
    if namespaces_change:
        world.add(namespace("red", team="y"), namespace("blue", team="x"))
    check(world, plugin, asking, hard_weight)
