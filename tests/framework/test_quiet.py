"""The short way: on most pods node-local plugins alone decide, and nobody else is asked.

That it leads to the same nodes and scores as the long one is shown in `test_kept_answers`; here,
when it is open and when it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stowplan.config import load_config
from stowplan.core.algorithm import Algorithm, Search
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Nominate
from stowplan.framework.status import SKIP, Status
from stowplan.framework.timing import NoRecorder
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod
from tests.core.harness import make_plugin
from tests.deciding import Deciding

TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
ANTI_AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


class Cluster(Deciding):
    """Three nodes in two zones; a pod of 100m has been decided on."""

    def __init__(self, *plugins: type, **algorithm: Any) -> None:
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

    def shortcut(self, name: str = "next", cpu: str = "100m", **more: Any) -> Search | None:
        self.table.refresh(self.cache)
        given = PodInfo(pod(name, cpu=cpu, labels={"app": "web"}, **more))
        return self.quick.search_quietly(self.framework, Cycle(self.framework.handle), given)

    def add(self, *pods: Pod) -> None:
        for thing in pods:
            self.cache.add_pod(thing)


def test_a_replica_goes_the_short_way_to_the_emptiest_node() -> None:
    cluster = Cluster()
    search = cluster.shortcut()

    assert search is not None
    assert cluster.table.names[search.row] == "node-1"
    assert (search.feasible_count, search.evaluated_count) == (3, 3)


def test_so_does_a_pod_of_another_size() -> None:
    assert Cluster().shortcut(cpu="250m") is not None


def test_but_not_one_of_a_size_that_other_plugins_have_a_word_to_say_of() -> None:
    """NodeResourcesBalancedAllocation leaves pods without requests to others."""
    assert Cluster().shortcut(cpu="0") is None


def test_one_that_fits_on_a_single_node_is_not_scored() -> None:
    cluster = Cluster()
    cluster.add(*(pod(f"big-{n}", cpu="800m", node=f"node-{n}") for n in (0, 1)))
    search = cluster.shortcut(cpu="300m")

    assert search is not None
    assert (cluster.table.names[search.row], search.score) == ("node-2", None)


def test_one_that_fits_nowhere_is_told_why() -> None:
    search = Cluster().shortcut(cpu="2")

    assert search is not None
    assert search.row == -1
    assert search.diagnosis is not None
    assert search.diagnosis.histogram() == {"Insufficient cpu": 3}


def _node_changes(cluster: Cluster) -> None:
    cluster.cache.add_node(node("node-1", cpu="1", labels={"zone": "zone-9"}))


def _somebody_is_nominated(cluster: Cluster) -> None:
    cluster.nominator.add(PodInfo(pod("other")), Nominate("node-1"))


def _terms_appear(cluster: Cluster) -> None:
    cluster.add(pod("hermit", node="node-2", spec={"affinity": ANTI_AFFINITY}))


@pytest.mark.parametrize("change", [_node_changes, _somebody_is_nominated, _terms_appear])
def test_it_is_closed_once_others_might_have_something_to_say(
    change: Callable[[Cluster], None],
) -> None:
    cluster = Cluster()
    change(cluster)
    assert cluster.shortcut() is None


def test_it_is_closed_to_pods_with_other_traits() -> None:
    cluster = Cluster()
    assert cluster.shortcut(spec={"affinity": ANTI_AFFINITY}) is None
    assert cluster.shortcut(spec={"nodeSelector": {"zone": "zone-1"}}) is None
    assert cluster.shortcut(status={"nominatedNodeName": "node-1"}) is None


def test_it_is_closed_where_less_is_looked_at() -> None:
    assert Cluster(percentage_of_nodes_to_score=50).shortcut() is None


def test_it_is_closed_while_plugins_are_timed() -> None:
    cluster = Cluster()
    recorder = NoRecorder()
    recorder.sampled = True
    cluster.framework.recorder = recorder
    assert cluster.shortcut() is None


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"filter_node": lambda *_: None}, id="filter"),
        pytest.param({"score_node": lambda *_: 1}, id="score"),
        pytest.param({"pre_filter": lambda *_: None}, id="pre-filter"),
    ],
)
def test_it_is_closed_with_a_plugin_that_wants_to_be_asked_each_time(
    members: dict[str, Any],
) -> None:
    assert Cluster(make_plugin("Busy", **members)).shortcut() is None


def test_raw_scores_that_pods_change_keep_it_closed() -> None:
    """A plugin that normalises and reads the pods on a node: flat now, perhaps not later."""
    crowded = make_plugin(
        "Crowded",
        signature=lambda *_: 1,
        score_node=lambda self, cycle, pod, info: 0 if len(info.pods) < 2 else 7,
        normalize_scores=lambda self, cycle, pod, nodes, rows, scores: 100 - scores,
    )
    cluster = Cluster(crowded)
    assert cluster.shortcut() is None


def test_what_a_node_local_pre_filter_wrote_is_there_on_the_short_way() -> None:
    def pre_filter(self: Any, cycle: Any, pod: Any) -> None:
        cycle.data["Writer"] = 41

    writer = make_plugin(
        "Writer",
        signature=lambda *_: 1,
        pre_filter=pre_filter,
        score_node=lambda self, cycle, pod, info: cycle.data["Writer"] + len(info.pods),
    )
    cluster = Cluster(writer)
    search = cluster.shortcut()
    assert search is not None
    assert search.board is not None
    assert dict(search.board.kept)["Writer"] == 1
    assert search.board.of_plugin("Writer").tolist() == [42, 41, 41]


@pytest.mark.parametrize("is_steady", [True, False])
def test_of_pods_that_fit_nowhere_only_those_are_asked_again_who_may_change_their_mind(
    is_steady: bool,
) -> None:
    asked: list[str] = []

    def pre_filter(self: Any, cycle: Any, pod: PodInfo) -> Status:
        asked.append(pod.pod.metadata.name)
        return SKIP

    members = {"skips_steadily": lambda *_: True} if is_steady else {}
    cluster = Cluster(make_plugin("Asked", pre_filter=pre_filter, filter_node=_never, **members))
    asked.clear()
    for name in ("one", "two"):
        cycle = Cycle(cluster.framework.handle)
        too_large = PodInfo(pod(name, cpu="9", labels={"app": "other"}))
        assert cluster.framework.pre_filter(cycle, too_large).status is None
        assert "Asked" in cycle.skip_filter

    assert asked == (["one"] if is_steady else ["one", "two"])


def _never(*_: Any) -> Status:
    raise AssertionError("its PreFilter skipped it")
