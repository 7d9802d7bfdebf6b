"""Plans get shorter by what plugins say: in the end node-local ones alone are left.

That what a short plan leads to is right is shown in `test_kept_answers` and by the recorded
clusters; here, when a plan is short, and when it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stowplan.config import load_config
from stowplan.core.algorithm import Algorithm, Search
from stowplan.framework.cycle import Cycle
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP, SKIP_ALWAYS, SKIP_STEADILY, Status, unschedulable
from stowplan.framework.timing import NoRecorder
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod
from tests.core.harness import make_plugin
from tests.deciding import Deciding

OTHER = {"terminationGracePeriodSeconds": 7}
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
ANTI_AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


class Cluster(Deciding):
    """Three nodes in two zones; a pod of 100m has been decided on."""

    def __init__(self, *plugins: type, **algorithm: Any) -> None:
        self.held: list[PodInfo] = []
        nodes = [node(f"node-{n}", cpu="1", labels={"zone": f"zone-{n % 2}"}) for n in range(3)]
        config = load_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {"plugins": {"multiPoint": {"enabled": [{"name": p.name} for p in plugins]}}}  # type: ignore[attr-defined]
                ],
            }
        )
        registry = {**IN_TREE, **{plugin.name: plugin for plugin in plugins}}  # type: ignore[attr-defined]
        super().__init__(
            [*nodes, pod("first", cpu="100m", labels={"app": "web"})],
            config=config,
            registry=registry,
            random=Random(0),
            tie_break="name",
            detail=False,
        )
        (self.framework,) = self.frameworks.values()
        self.quick = Algorithm(tie_break="name", **algorithm)
        list(self.decide())

    def search(self, name: str = "next", cpu: str = "100m", **more: Any) -> tuple[Cycle, Search]:
        self.table.refresh(self.cache)
        given = PodInfo(pod(name, cpu=cpu, labels={"app": "web"}, **more))
        # What is known of a sort of pods goes with the last of them.
        self.held.append(given)
        cycle = Cycle(self.framework.handle, self.framework.handle.nodes)
        steps = self.quick.search(self.framework, cycle, given)
        try:
            next(steps)
        except StopIteration as stop:
            return cycle, stop.value
        raise AssertionError("nobody is to be asked outside")

    def is_short(self, name: str = "next", cpu: str = "100m", **more: Any) -> bool:
        """Whether nobody cluster-wide is asked about such a pod."""
        outline = self.search(name, cpu, **more)[0].plan.outline
        return not (outline.steps or outline.cluster_filters or outline.cluster_scores)

    def add(self, *pods: Pod) -> None:
        for thing in pods:
            self.cache.add_pod(thing)


def test_about_a_replica_nobody_is_asked() -> None:
    cluster = Cluster()
    _, search = cluster.search()

    assert cluster.is_short()
    assert cluster.table.names[search.row] == "node-1"
    assert (search.feasible_count, search.evaluated_count) == (3, 3)


def test_nor_about_a_pod_of_another_size() -> None:
    assert Cluster().is_short(cpu="250m")


def test_one_that_fits_on_a_single_node_is_not_scored() -> None:
    cluster = Cluster()
    cluster.add(*(pod(f"big-{n}", cpu="800m", node=f"node-{n}") for n in (0, 1)))
    _, search = cluster.search(cpu="300m")

    assert cluster.is_short(cpu="300m")
    assert (cluster.table.names[search.row], search.score) == ("node-2", None)


def test_one_that_fits_nowhere_is_told_why() -> None:
    _, search = Cluster().search(cpu="2")

    assert search.row == -1
    assert search.diagnosis is not None
    assert search.diagnosis.histogram() == {"Insufficient cpu": 3}


def _node_changes(cluster: Cluster) -> None:
    cluster.cache.add_node(node("node-1", cpu="1", labels={"zone": "zone-9"}))


def _terms_appear(cluster: Cluster) -> None:
    cluster.add(pod("hermit", node="node-2", spec={"affinity": ANTI_AFFINITY}))


@pytest.mark.parametrize("change", [_node_changes, _terms_appear])
def test_all_are_asked_once_others_might_have_something_to_say(
    change: Callable[[Cluster], None],
) -> None:
    cluster = Cluster()
    change(cluster)
    assert not cluster.is_short()


def test_what_was_said_of_pods_with_other_traits_does_not_count() -> None:
    cluster = Cluster()
    assert not cluster.is_short(spec={"affinity": ANTI_AFFINITY})
    assert not cluster.is_short(spec={"nodeSelector": {"zone": "zone-1"}})


def test_all_are_asked_while_plugins_are_timed() -> None:
    cluster = Cluster()
    recorder = NoRecorder()
    recorder.sampled = True
    cluster.framework.recorder = recorder
    assert not cluster.is_short()


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"filter_node": lambda *_: None}, id="filter"),
        pytest.param({"score_node": lambda *_: 1}, id="score"),
        pytest.param({"pre_filter": lambda *_: None}, id="pre-filter"),
    ],
)
def test_a_plugin_that_says_nothing_of_what_it_reads_is_asked_each_time(
    members: dict[str, Any],
) -> None:
    assert not Cluster(make_plugin("Busy", **members)).is_short()


def test_raw_scores_are_normalised_again_when_pods_change_them() -> None:
    """A plugin that normalises and reads the pods on a node: flat now, but not later."""
    crowded = make_plugin(
        "Crowded",
        reads=Reads.PODS,
        score_node=lambda self, cycle, pod, info: 0 if len(info.pods) < 2 else 7,
        normalize_scores=lambda self, cycle, pod, nodes, rows, scores: 100 - scores,
    )
    cluster = Cluster(crowded)
    _, search = cluster.search()
    assert search.board is not None
    assert search.board.of_plugin("Crowded").tolist() == [100, 100, 100]

    cluster.add(*(pod(f"more-{n}", node="node-2") for n in range(2)))
    _, search = cluster.search()
    assert search.board is not None
    assert search.board.of_plugin("Crowded").tolist() == [100, 100, 93]


def test_what_a_node_local_pre_filter_wrote_is_there_on_the_short_way() -> None:
    def pre_filter(self: Any, cycle: Any, pod: Any) -> None:
        cycle.data["Writer"] = 41

    writer = make_plugin(
        "Writer",
        reads=Reads.PODS,
        pre_filter=pre_filter,
        score_node=lambda self, cycle, pod, info: cycle.data["Writer"] + len(info.pods),
    )
    cluster = Cluster(writer)
    _, search = cluster.search()
    assert cluster.is_short()
    assert search.board is not None
    assert dict(search.board.kept)["Writer"] == 1
    assert search.board.of_plugin("Writer").tolist() == [42, 41, 41]


@pytest.mark.parametrize(
    ("answer", "members", "asked_of"),
    [
        pytest.param(SKIP, {"reads": Reads.CLUSTER}, ["one", "two", "three"], id="this time"),
        pytest.param(SKIP_STEADILY, {"reads": Reads.CLUSTER}, ["one", "three"], id="steadily"),
        pytest.param(SKIP_ALWAYS, {"reads": Reads.CLUSTER}, ["one"], id="always"),
        pytest.param(SKIP_ALWAYS, {}, ["one", "two", "three"], id="reads anything"),
        pytest.param(
            SKIP_ALWAYS,
            {"reads": Reads.CLUSTER | Reads.SIZE},
            ["one", "two", "three"],
            id="reads the size",
        ),
    ],
)
@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
def test_who_skips_is_asked_again_when_it_may_change_its_mind(
    point: str, answer: Status, members: dict[str, Any], asked_of: list[str]
) -> None:
    """Three pods of different size; before the third, a node changes."""
    asked: list[str] = []

    def skip(self: Any, cycle: Any, pod: PodInfo, *rows: Any) -> Status:
        asked.append(pod.pod.metadata.name)
        return answer

    plugin = make_plugin(
        "Asked", filter_node=_never, score_node=_never, pre_filter=_skip, pre_score=_skip, **members
    )
    setattr(plugin, point, skip)
    cluster = Cluster(plugin)
    asked.clear()
    for number, name in enumerate(("one", "two", "three")):
        if name == "three":
            _node_changes(cluster)
        cycle, _ = cluster.search(
            name, cpu=f"{number + 1}m", spec={"terminationGracePeriodSeconds": 7}
        )
        assert "Asked" in cycle.skip_filter

    assert asked == asked_of


def test_a_plugin_that_always_skips_is_left_out_at_every_point() -> None:
    def reserve(self: Any, cycle: Any, pod: Any, node: Any) -> None:
        raise AssertionError("it has nothing to do with such pods")

    plugin = make_plugin(
        "Away",
        reads=Reads.CLUSTER,
        pre_filter=lambda *_: SKIP_ALWAYS,
        filter_node=_never,
        score_node=_never,
        reserve=reserve,
        unreserve=lambda *_: None,
    )
    cluster = Cluster(plugin)
    for name in ("other", "another"):
        cycle, search = cluster.search(name, spec=OTHER)
        assert cycle.plan.outline.reserve == ()
        assert search.board is not None
        assert "Away" not in search.board.plugins


def test_pods_of_one_kind_are_told_apart_by_annotations_if_somebody_reads_them() -> None:
    plugin = make_plugin(
        "Named",
        reads=Reads.NODE | Reads.ANNOTATIONS,
        signature=lambda self, pod: (pod.pod.metadata.annotations or {}).get("on", ""),
        filter_node=lambda self, cycle, pod, info: (
            None
            if info.name == (pod.pod.metadata.annotations or {}).get("on", info.name)
            else unschedulable("another one")
        ),
    )
    cluster = Cluster(plugin)
    for name in ("node-2", "node-0", "node-2", "node-1"):
        _, search = cluster.search(metadata={"annotations": {"on": name}})
        assert cluster.table.names[search.row] == name


def _skip(*_: Any) -> Status:
    return SKIP


def _never(*_: Any) -> Status:
    raise AssertionError("its PreFilter or PreScore skipped it")
