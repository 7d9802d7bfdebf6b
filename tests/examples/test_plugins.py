"""The plugins of docs/plugins.md: the first version and the fast one decide alike."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from examples.plugins import cheap_nodes, team_nodes
from examples.plugins.fast import cheap_nodes as cheap_nodes_fast
from examples.plugins.fast import team_nodes as team_nodes_fast
from stowplan.cli import main
from stowplan.config import load_config
from stowplan.core.decision import Decision
from stowplan.errors import ConfigError
from stowplan.framework import Action, Cycle, Hint, NodeInfo, PodInfo, Reads, Resource, Status
from stowplan.objects.base import KubeObject
from stowplan.objects.manifests import read_manifests
from stowplan.offline import build_cluster
from stowplan.plugins import IN_TREE
from tests.builders import World, node, pod
from tests.deciding import Deciding
from tests.plugins.asking import filtered, hint, raw_scores

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
TEAM, PRICE = team_nodes.TEAM, cheap_nodes.PRICE


class KeptTeamNodes(team_nodes.TeamNodes):
    """One node at a time, and answers kept: the step between the two examples."""

    reads = Reads.NODE


class KeptCheapNodes(cheap_nodes.CheapNodes):
    reads = Reads.NODE


VERSIONS = [
    pytest.param(team_nodes.TeamNodes, cheap_nodes.CheapNodes, id="one-node"),
    pytest.param(KeptTeamNodes, KeptCheapNodes, id="one-node-kept"),
    pytest.param(team_nodes_fast.TeamNodes, cheap_nodes_fast.CheapNodes, id="all-nodes"),
]


def decide(objects: list[KubeObject], *plugins: type, config: Any = None) -> list[Decision]:
    """As the profile of the example decides, with these versions of its plugins."""
    registry = {**IN_TREE, **{plugin.name: plugin for plugin in plugins}}  # type: ignore[attr-defined]
    loaded = load_config(config or EXAMPLES / "scheduler.yaml")
    run = Deciding(objects, config=loaded, registry=registry, random=Random(0), tie_break="name")
    return list(run.decide())


@pytest.mark.parametrize(("team", "cheap"), VERSIONS)
def test_the_example_cluster(team: type, cheap: type) -> None:
    manifests = read_manifests((EXAMPLES / "cluster.yaml").read_bytes(), "cluster.yaml")

    blue, anyone, large = decide(build_cluster(manifests), team, cheap)

    assert (blue.node, anyone.node, large.node) == ("blue-1", "cheap", "")
    assert large.message == (
        "0/3 nodes are available: 1 node(s) belonged to another team, 2 Insufficient cpu."
    )
    assert large.unschedulable_plugins == ("NodeResourcesFit", "TeamNodes")
    # 100 * (50 - price) / 50, times the weight of 5.
    assert {name: scores["CheapNodes"] for name, scores in anyone.to_dict()["scores"].items()} == {
        "cheap": 400,
        "dear": 50,
    }


labels = st.fixed_dictionaries(
    {},
    optional={
        TEAM: st.sampled_from(["blue", "red", ""]),
        PRICE: st.sampled_from(["0", "7", "49", "50", "51", "-3", "free"]),
    },
)
clusters = st.lists(labels, min_size=1, max_size=8).map(
    lambda found: [node(f"n{i}", labels=each, cpu=2) for i, each in enumerate(found)]
)
waiting = st.lists(labels, max_size=6).map(
    lambda found: [pod(f"p{i}", labels=each, cpu=1) for i, each in enumerate(found)]
)


@given(clusters, waiting)
def test_every_version_decides_alike(nodes: list[Any], pods: list[Any]) -> None:
    first, kept, fast = (
        [decision.to_dict() for decision in decide([*nodes, *pods], *version.values)]
        for version in VERSIONS
    )

    assert first == kept == fast


@given(clusters, labels)
def test_the_two_forms_agree(nodes: list[Any], of_pod: dict[str, str]) -> None:
    world, asked = World(*nodes), pod(labels=of_pod)

    filtered(team_nodes_fast.TeamNodes(), world, asked)
    raw_scores(cheap_nodes_fast.CheapNodes({"highestPrice": 50}, world.handle), world, asked)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, {}, Hint.QUEUE, id="new-node-for-all"),
        pytest.param(None, {TEAM: "blue"}, Hint.QUEUE, id="new-node-of-the-team"),
        pytest.param(None, {TEAM: "red"}, Hint.SKIP, id="new-node-of-others"),
        pytest.param({TEAM: "red"}, {}, Hint.QUEUE, id="given-up"),
        pytest.param({}, {PRICE: "3"}, Hint.SKIP, id="was-open-before"),
    ],
)
def test_a_node_wakes_a_pod_that_it_takes_now(
    old: dict[str, str] | None, new: dict[str, str], expected: Hint
) -> None:
    plugin = team_nodes_fast.TeamNodes()
    before = None if old is None else node("n", labels=old)
    action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL

    asked = pod(labels={TEAM: "blue"})

    assert hint(plugin, Resource.NODE, action, asked, before, node("n", labels=new)) is expected


def test_a_pod_is_woken_by_its_own_labels_only() -> None:
    plugin = team_nodes_fast.TeamNodes()
    mine, other = pod("mine"), pod("other")
    event = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)

    assert hint(plugin, *event, mine, mine, mine) is Hint.QUEUE
    assert hint(plugin, *event, mine, other, other) is Hint.SKIP


@pytest.mark.parametrize("cheap", [cheap_nodes.CheapNodes, cheap_nodes_fast.CheapNodes])
def test_wrong_args_are_told_when_the_profile_is_built(cheap: type) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "CheapNodes"}]}},
                "pluginConfig": [{"name": "CheapNodes", "args": {"highestPrice": 0}}],
            }
        ],
    }

    with pytest.raises(ConfigError, match='initializing plugin "CheapNodes": highestPrice is 0'):
        decide([], cheap, config=config)


class Raises(team_nodes.TeamNodes):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.pod.metadata.name == "unlucky":
            raise LookupError("no such team")
        return None


def test_an_error_fails_that_pod_only() -> None:
    objects = [node("n"), pod("unlucky"), pod("lucky")]

    unlucky, lucky = decide(objects, Raises, cheap_nodes.CheapNodes)

    told = 'running "TeamNodes" filter plugin: LookupError: no such team'
    assert unlucky.error.startswith(f"{told} ({__file__}:")
    assert (unlucky.node, lucky.node) == ("", "n")


def test_the_form_for_all_nodes_needs_the_other_one() -> None:
    fast = team_nodes_fast.TeamNodes
    methods = {name: value for name, value in vars(fast).items() if name != "filter_node"}
    half = type("TeamNodes", (), methods)

    with pytest.raises(ConfigError, match='"TeamNodes": it has filter_nodes and lacks filter_node'):
        decide([], half, cheap_nodes.CheapNodes)


@pytest.mark.parametrize("folder", [EXAMPLES, EXAMPLES / "fast"], ids=["one-node", "all-nodes"])
def test_the_command_line_takes_the_folder(folder: Path) -> None:
    files = ["-f", str(EXAMPLES / "cluster.yaml"), "--config", str(EXAMPLES / "scheduler.yaml")]

    result = CliRunner().invoke(main, ["dry-run", *files, "--plugin-path", str(folder)])

    assert result.exit_code == 0, result.stderr
    assert "node(s) belonged to another team" in result.stdout
