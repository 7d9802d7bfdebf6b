"""Choosing a node: PreFilter's word, the promised node, how many nodes are looked at, and which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.framework.kept import LocalAnswers
from stowplan.framework.plugin import Nominate, PostFilterResult, PreFilterResult
from stowplan.framework.status import (
    SKIP,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.objects.pod import Pod
from tests.builders import node, pod
from tests.core.harness import Cluster, make_plugin

FIT_ONLY: dict[str, Any] = {
    "plugins": {
        "multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [
                {"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")
            ],
        }
    }
}
"""A profile of next to nothing: one filter, which also scores."""


def with_plugins(*names: str, **points: list[str]) -> dict[str, Any]:
    multi = [{"name": name} for name in ("PrioritySort", "DefaultBinder", *names)]
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": multi}}
    for point, disabled in points.items():
        plugins[point] = {"disabled": [{"name": name} for name in disabled]}
    return {"plugins": plugins}


def narrowing(name: str, *nodes: str) -> type:
    return make_plugin(
        name,
        pre_filter=lambda *_: PreFilterResult(frozenset(nodes)),
        filter_node=lambda *_: None,
        events_to_register=lambda self: (),
    )


def answering(name: str, answer: Any, asked: list[str] | None = None) -> type:
    def pre_filter(self: Any, cycle: Any, pod: Any) -> Any:
        if asked is not None:
            asked.append(name)
        return answer

    return make_plugin(name, pre_filter=pre_filter, events_to_register=lambda self: ())


NODES = [node(f"node-{n}", cpu="1") for n in range(1, 5)]


# -- PreFilter --------------------------------------------------------------------------------


def test_pre_filters_narrow_the_nodes_together() -> None:
    plugins = (
        narrowing("A", "node-1", "node-2", "elsewhere"),
        narrowing("B", "node-2", "node-3", "elsewhere"),
    )
    cluster = Cluster(*NODES, plugins=plugins)

    cluster.add(pod("web", cpu="1"), pod("next", cpu="1"))

    assert cluster.node_of("web") == "node-2"
    # The others were not looked at, and the message says whose doing that was.
    assert cluster.condition("next").message == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [A B]. "
        "no new claims to deallocate, preemption: 0/4 nodes are available: "
        "1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    assert cluster.rejectors("next") == {"A", "B", "NodeResourcesFit"}


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        ((narrowing("A"),), "node(s) didn't satisfy plugin A"),
        (
            (narrowing("A", "node-1"), narrowing("B", "node-2")),
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
        ),
    ],
)
def test_nothing_left_to_look_at(plugins: tuple[type, ...], text: str) -> None:
    cluster = Cluster(*NODES, plugins=plugins)

    cluster.add(pod("web"))

    assert cluster.condition("web").message.startswith(f"0/4 nodes are available: {text}. ")
    assert cluster.rejectors("web") == {plugin.name for plugin in plugins}  # type: ignore[attr-defined]


def test_a_pre_filter_that_skips_leaves_its_filter_out() -> None:
    def never(*_: Any) -> Status:
        return unschedulable("asked")

    skipping = make_plugin("Skipping", pre_filter=lambda *_: SKIP, filter_node=never)
    cluster = Cluster(*NODES, plugins=(skipping,))

    cluster.add(pod("web"))

    assert cluster.place("web") == "bound"


def test_unresolvable_stops_the_pre_filters_unschedulable_does_not() -> None:
    asked: list[str] = []
    plugins = (
        answering("Soft", unschedulable("soft no"), asked),
        answering("Softer", unschedulable("softer no"), asked),
        answering("Hard", unresolvable("hard no"), asked),
        answering("Late", None, asked),
    )
    cluster = Cluster(*NODES, plugins=plugins)

    cluster.add(pod("web"))

    assert asked == ["Soft", "Softer", "Hard"]
    assert cluster.condition("web").message.startswith("0/4 nodes are available: hard no. ")
    assert cluster.rejectors("web") == {"Hard"}


def test_the_last_unschedulable_counts_and_preemption_looks_at_every_node() -> None:
    asked: list[str] = []
    plugins = (
        answering("Soft", unschedulable("soft no"), asked),
        answering("Softer", unschedulable("softer no"), asked),
        answering("Late", None, asked),
    )
    cluster = Cluster(*NODES, plugins=plugins)

    cluster.add(pod("web"))

    assert asked == ["Soft", "Softer", "Late"]
    assert cluster.rejectors("web") == {"Softer"}
    assert cluster.condition("web").message == (
        "0/4 nodes are available: softer no. no new claims to deallocate, preemption: "
        "0/4 nodes are available: 4 No preemption victims found for incoming pod."
    )


@pytest.mark.parametrize("answer", [error("oh no"), Status(Code.PENDING, ("oh no",))])
def test_any_other_answer_of_a_pre_filter_is_an_error(answer: Status) -> None:
    cluster = Cluster(*NODES, plugins=(answering("Odd", answer),))

    cluster.add(pod("web"))

    assert cluster.condition("web").reason == "SchedulerError"
    assert cluster.condition("web").message == 'running PreFilter plugin "Odd": oh no'


# -- Filter -----------------------------------------------------------------------------------


def test_of_several_filters_the_first_to_refuse_is_named() -> None:
    no = make_plugin("No", filter_node=lambda *_: unschedulable("no"))
    never = make_plugin("Never", filter_node=lambda *_: unschedulable("never"))
    cluster = Cluster(*NODES, plugins=(no, never), profile=with_plugins("No", "Never"))

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "0/4 nodes are available: 4 no."
    assert cluster.rejectors("web") == {"No"}


def test_a_pending_filter_sends_the_pod_back_without_backoff() -> None:
    answers = [Status(Code.PENDING, ("a moment",))]

    def filter_node(self: Any, cycle: Any, pod: Any, info: Any) -> Status | None:
        return answers[0] if answers else None

    waiting = make_plugin("Waiting", filter_node=filter_node)
    cluster = Cluster(
        node("node-1"),
        plugins=(waiting,),
        profile=with_plugins("Waiting"),
        podInitialBackoffSeconds=10,
    )
    # Something else to do, or the backoff would not be waited out.
    cluster.driver.active = True
    cluster.add(pod("web"))
    queued = cluster.machine.queue.get("default/web")
    assert queued is not None
    assert (queued.unschedulable_plugins, queued.pending_plugins) == ({"Waiting"}, {"Waiting"})

    answers.clear()
    cluster.driver.active = False
    cluster.add(node("node-2"))

    assert cluster.place("web") == "active"


def test_reasons_are_counted_per_node_and_sorted_as_text() -> None:
    def refuse(self: Any, cycle: Any, pod: Any, info: Any) -> Status:
        return unschedulable("rare") if info.name == "node-00" else unschedulable("usual")

    picky = make_plugin("Picky", filter_node=refuse)
    nodes = [node(f"node-{n:02}") for n in range(11)]
    cluster = Cluster(*nodes, plugins=(picky,), profile=with_plugins("Picky"))

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "0/11 nodes are available: 1 rare, 10 usual."


# -- PostFilter -------------------------------------------------------------------------------


def making_room(name: str, result: PostFilterResult | None, status: Status | None) -> type:
    def post_filter(self: Any, cycle: Any, pod: Any) -> Iterator[Any]:
        return result, status  # type: ignore[return-value]
        yield

    return make_plugin(name, post_filter=post_filter)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([unschedulable("a"), unschedulable("b")], "a, b"),
        ([unschedulable("a"), None, unschedulable("c")], ""),
        ([unschedulable("a"), unresolvable("b"), unschedulable("c")], "b"),
        ([unschedulable("a"), error("b"), unschedulable("c")], "b"),
    ],
    ids=["all refuse", "the second succeeds", "the second is sure", "the second fails"],
)
def test_post_filters_are_asked_until_one_settles_it(
    answers: list[Status | None], message: str
) -> None:
    plugins = tuple(making_room(f"P{n}", None, answer) for n, answer in enumerate(answers))
    no = make_plugin("No", filter_node=lambda *_: unschedulable("no"))
    cluster = Cluster(
        node("node-1"),
        plugins=(no, *plugins),
        profile=with_plugins("No", *[plugin.name for plugin in plugins]),  # type: ignore[attr-defined]
    )

    cluster.add(pod("web"))

    expected = "0/1 nodes are available: 1 no."
    assert cluster.condition("web").message == (f"{expected} {message}" if message else expected)
    assert cluster.condition("web").reason == "Unschedulable"


def test_without_post_filters_a_promise_is_withdrawn() -> None:
    cluster = Cluster(node("node-1", cpu="1"), profile=FIT_ONLY)

    cluster.add(pod("web", cpu="2", status={"nominatedNodeName": "node-1"}))

    assert cluster.nominated("web") == ""


# -- the promised node ------------------------------------------------------------------------


def promised(name: str, node_name: str, **options: Any) -> Pod:
    return pod(name, status={"nominatedNodeName": node_name}, **options)


def test_the_promised_node_is_taken_without_comparing() -> None:
    scored: list[str] = []
    scoring = make_plugin("Scoring", score_node=lambda self, c, p, info: scored.append("x") or 1)
    cluster = Cluster(*NODES, plugins=(scoring,))

    cluster.add(promised("web", "node-3"))

    assert cluster.node_of("web") == "node-3"
    assert scored == []


def test_the_promised_node_is_tried_even_if_pre_filter_left_it_out() -> None:
    cluster = Cluster(*NODES, plugins=(narrowing("A", "node-1"),))

    cluster.add(promised("web", "node-3"))

    assert cluster.node_of("web") == "node-3"


def test_a_promised_node_that_does_not_fit_or_exist_is_passed_over() -> None:
    cluster = Cluster(*NODES)
    cluster.add(pod("there", cpu="1", node="node-3"))

    cluster.add(promised("web", "node-3", cpu="1"), promised("other", "elsewhere", cpu="1"))

    assert cluster.node_of("web") not in ("", "node-3")
    assert cluster.node_of("other") not in ("", "node-3")


def test_why_the_promised_node_failed_is_told_although_it_was_left_out() -> None:
    cluster = Cluster(*NODES, plugins=(narrowing("A", "node-1"),))
    cluster.add(pod("one", cpu="1", node="node-1"), pod("three", cpu="1", node="node-3"))

    cluster.add(promised("web", "node-3", cpu="1"))

    # Of the first attempt; it loses its promise by that, and is tried again without.
    assert cluster.notes_of("web")[0].startswith(
        "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [A]. "
    )


def test_a_promise_to_others_is_counted_in_and_left_out() -> None:
    """Both passes must succeed: with the promised pods (anti-affinity), and without (affinity)."""
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    cluster = Cluster(node("node-1", cpu="4"), node("node-2", cpu="1"))
    cluster.add(pod("filler", node="node-2", cpu="1"))
    blocked = promised("db", "node-1", cpu="8", labels={"app": "db"}, spec={"priority": 10})
    cluster.add(blocked)
    waiting = cluster.machine.pods["default/db"]
    cluster.machine.queue.nominator.add(waiting, Nominate("node-1"))

    cluster.add(pod("apart", spec={"affinity": {"podAntiAffinity": rule}}, cpu="1"))
    cluster.add(pod("beside", spec={"affinity": {"podAffinity": rule}}, cpu="1"))

    assert cluster.place("apart") == "unschedulable"
    assert cluster.place("beside") == "unschedulable"


# -- how many, and from where -----------------------------------------------------------------


def chosen(cluster: Cluster, count: int) -> list[str]:
    for n in range(count):
        cluster.add(pod(f"web-{n}"))
    return [cluster.node_of(f"web-{n}") for n in range(count)]


def test_by_default_every_node_is_looked_at() -> None:
    cluster = Cluster(*[node(f"node-{n:03}") for n in range(300)], profile=FIT_ONLY)

    cluster.add(pod("web"))

    decision = cluster.machine.decision_of("default/web")
    assert decision is not None
    assert (decision.feasible_count, decision.evaluated_count) == (300, 300)
    assert cluster.machine.algorithm.start_index == 0


@pytest.mark.parametrize(
    ("nodes", "percentage", "feasible"),
    [(99, 1, 99), (150, 10, 100), (300, 50, 150), (300, 100, 300)],
)
def test_with_a_percentage_only_so_many_are_found(
    nodes: int, percentage: int, feasible: int
) -> None:
    cluster = Cluster(
        *[node(f"node-{n:03}") for n in range(nodes)],
        profile=FIT_ONLY,
        percentageOfNodesToScore=percentage,
    )

    cluster.add(pod("web"))

    decision = cluster.machine.decision_of("default/web")
    assert decision is not None
    assert decision.feasible_count == feasible


def test_a_profiles_own_percentage_wins() -> None:
    cluster = Cluster(
        *[node(f"node-{n:03}") for n in range(300)],
        profile={**FIT_ONLY, "percentageOfNodesToScore": 50},
        percentageOfNodesToScore=100,
    )

    cluster.add(pod("web"))

    decision = cluster.machine.decision_of("default/web")
    assert decision is not None
    assert decision.feasible_count == 150


def test_the_next_search_begins_where_the_last_one_stopped() -> None:
    """150 nodes of which every third is full: 100 hits take 150 looks, whatever the start."""
    nodes = [node(f"node-{n:03}", cpu="1") for n in range(300)]
    full = [pod(cpu="1", node=f"node-{n:03}") for n in range(0, 300, 3)]
    cluster = Cluster(*nodes, *full, profile=FIT_ONLY, percentageOfNodesToScore=10)
    algorithm = cluster.machine.algorithm

    starts = []
    for n in range(4):
        cluster.add(pod(f"web-{n}", cpu="100m"))
        starts.append(algorithm.start_index)

    # 0, 1 in a row are free of (full, free, free): the 101st hit is the 152nd node.
    assert starts[0] == 151
    assert starts[1] == (151 + 150) % 300
    assert all(0 <= start < 300 for start in starts)


def test_with_nothing_to_compare_the_first_hit_is_taken_and_nodes_take_turns() -> None:
    cluster = Cluster(
        *[node(f"node-{n}") for n in range(5)],
        profile=with_plugins("NodeResourcesFit", score=["*"]),
        percentageOfNodesToScore=50,
    )

    assert chosen(cluster, 7) == [
        *("node-0", "node-1", "node-2", "node-3", "node-4"),
        *("node-0", "node-1"),
    ]


def test_nodes_are_visited_zone_by_zone_in_turn() -> None:
    zones = ["a", "a", "a", "b", "b"]
    nodes = [
        node(f"node-{n}", labels={"topology.kubernetes.io/zone": zone})
        for n, zone in enumerate(zones)
    ]
    cluster = Cluster(
        *nodes,
        profile=with_plugins("NodeResourcesFit", score=["*"]),
        percentageOfNodesToScore=50,
    )

    assert chosen(cluster, 5) == ["node-0", "node-3", "node-1", "node-4", "node-2"]


def test_a_promised_node_does_not_turn_the_order() -> None:
    cluster = Cluster(
        *[node(f"node-{n}") for n in range(5)],
        profile=with_plugins("NodeResourcesFit", score=["*"]),
        percentageOfNodesToScore=50,
    )
    cluster.add(promised("first", "node-3"))

    cluster.add(pod("second"))

    assert cluster.node_of("second") == "node-0"


# -- pods a plugin wants tried ----------------------------------------------------------------


def stashing(**methods: Any) -> type:
    """A plugin that wants `sleeper` in the active queue whenever another pod is reserved."""

    def reserve(self: Any, cycle: Any, pod: Any, node: str) -> None:
        sleeper = self.handle.pod_by_key("default/sleeper")
        if sleeper is not None and pod.key != sleeper.key:
            cycle.activate.append(sleeper)

    return make_plugin(
        "Stashing",
        reserve=reserve,
        unreserve=lambda *_: None,
        events_to_register=lambda self: (),
        **methods,
    )


def test_stashed_pods_are_tried_again_after_a_cycle_that_succeeded() -> None:
    cluster = Cluster(node("node-1", cpu="2"), plugins=(stashing(),))
    cluster.add(pod("sleeper", cpu="4"))
    assert cluster.place("sleeper") == "unschedulable"
    cluster.run(30)

    cluster.add(pod("web", cpu="1"))

    assert cluster.notes.begun == ["sleeper", "web", "sleeper"]


def test_those_stashed_while_it_is_bound_are_tried_once_it_is() -> None:
    def stash(self: Any, cycle: Any, pod: Any, node: str) -> None:
        sleeper = self.handle.pod_by_key("default/sleeper")
        if pod.key != sleeper.key:
            cycle.activate.append(sleeper)

    late = make_plugin("Late", post_bind=stash)
    cluster = Cluster(node("node-1", cpu="2"), plugins=(late,))
    cluster.add(pod("sleeper", cpu="4"))
    cluster.run(30)

    cluster.add(pod("web", cpu="1"))

    assert cluster.notes.begun == ["sleeper", "web", "sleeper"]


def test_but_not_after_one_that_failed() -> None:
    denying = {"permit": lambda self, cycle, pod, node: unschedulable("no")}
    cluster = Cluster(node("node-1", cpu="2"), plugins=(stashing(**denying),))
    cluster.add(pod("sleeper", cpu="4"))
    cluster.run(30)

    cluster.add(pod("web", cpu="1"))

    assert cluster.notes.begun == ["sleeper", "web"]


# -- plugins that have nothing to say ---------------------------------------------------------


def test_plugins_that_skip_a_kind_of_pod_are_asked_again_when_a_node_changes() -> None:
    """The guard keeps web away from its zone, but its node is in none at first."""
    guard = pod(
        "guard",
        node="node-1",
        spec={
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
                    ]
                }
            }
        },
    )
    cluster = Cluster(node("node-1"), node("node-2", labels={"zone": "a"}), guard)
    cluster.add(*(pod(f"web-{n}", labels={"app": "web"}) for n in range(40)))
    assert all(cluster.node_of(f"web-{n}") for n in range(40))

    cluster.patch_node("node-1", {"metadata": {"labels": {"zone": "a"}}})
    cluster.add(pod("web-40", labels={"app": "web"}))

    assert not cluster.node_of("web-40")
    assert "anti-affinity" in cluster.condition("web-40").message


def test_a_plugin_that_does_not_skip_steadily_is_asked_about_every_pod() -> None:
    asked: list[str] = []
    cluster = Cluster(*NODES, plugins=(answering("Fickle", SKIP, asked),))

    cluster.add(*(pod(f"web-{n}") for n in range(5)))

    assert len(asked) == 5


# -- ties -------------------------------------------------------------------------------------

CHI_SQUARED_MAX = 16.27
"""With three degrees of freedom; even chances exceed it once in a thousand times."""


def chi_squared(counts: list[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


@pytest.mark.parametrize("way", ["kept", "general"])
def test_each_of_the_best_nodes_is_equally_likely(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four equally good nodes among forty, side by side and apart."""
    drawn: list[int] = []
    draw = LocalAnswers.one_of_the_best

    def noting(answers: LocalAnswers, chance: Any) -> int:
        drawn.append(row := draw(answers, chance))
        return row

    monkeypatch.setattr(LocalAnswers, "one_of_the_best", noting)
    best = ("node-03", "node-04", "node-05", "node-30")
    names = [f"node-{n:02}" for n in range(40)]
    even = make_plugin("Even", score_node=lambda self, cycle, pod, node: int(node.name in best))
    cluster = Cluster(
        *[node(name, cpu="64" if way == "kept" and name in best else "2") for name in names],
        plugins=(even,) if way == "general" else (),
        profile=FIT_ONLY if way == "kept" else with_plugins("NodeResourcesFit", "Even"),
        seed=7,
    )
    counts = dict.fromkeys(best, 0)

    for number in range(1200):
        cluster.add(pod(f"p{number}", cpu="1"))
        counts[cluster.node_of(f"p{number}")] += 1
        cluster.delete(f"p{number}")

    assert len(drawn) == (1200 if way == "kept" else 0), "it went the other way"
    assert chi_squared(list(counts.values())) < CHI_SQUARED_MAX, counts


def test_those_that_are_left_of_the_best_are_equally_likely() -> None:
    """Pods that stay take nodes out of the best: over seeds the third has any of those left."""
    counts = dict.fromkeys(("n1", "n2", "n3", "n4"), 0)
    for seed in range(400):
        cluster = Cluster(*[node(name, cpu="8") for name in counts], seed=seed)
        for number in range(3):
            cluster.add(pod(f"p{number}", cpu="1"))
        counts[cluster.node_of("p2")] += 1

    assert chi_squared(list(counts.values())) < CHI_SQUARED_MAX, counts
