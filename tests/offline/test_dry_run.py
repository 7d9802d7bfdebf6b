"""`stowplan.dry_run`: the whole question in one call."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import stowplan
from stowplan.errors import ConfigError, InputError
from tests.conformance.compare import differences
from tests.conformance.run_golden import scenarios
from tests.offline.data import node, pod, thing, workload

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "mine"}],
}


def test_objects_may_be_a_list_of_dicts_or_a_list_object_or_an_iterator() -> None:
    objects = [node("a"), pod("p")]
    listed = thing("v1", "List", "", items=objects)

    for given in (objects, listed, iter(objects), [listed]):
        (decision,) = stowplan.dry_run(given, tie_break="name")
        assert isinstance(decision, stowplan.Decision)
        assert (decision.pod, decision.node) == ("default/p", "a")


def test_what_is_handed_in_is_not_changed() -> None:
    objects = [node("a"), workload("Deployment", "web", replicas=2), pod("p")]
    before = copy.deepcopy(objects)

    stowplan.dry_run(objects)

    assert objects == before


def test_a_decision_is_json_with_scores_even_for_a_single_node() -> None:
    (decision,) = stowplan.dry_run([node("a"), pod("p")])

    data = decision.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == [
        "pod", "feasible", "rejected", "unschedulablePlugins", "scores", "totals", "chosen",
    ]  # fmt: skip
    assert data["totals"] == {"a": sum(data["scores"]["a"].values())}
    assert data["totals"]["a"] == decision.score


def test_a_seed_repeats_the_choice_among_equals() -> None:
    objects = [*(node(f"n{n}") for n in range(50)), pod("p")]

    def chosen(seed: int) -> str:
        return stowplan.dry_run(objects, seed=seed)[0].node

    assert [chosen(seed) for seed in range(5)] == [chosen(seed) for seed in range(5)]
    assert len({chosen(seed) for seed in range(5)}) > 1
    assert stowplan.dry_run(objects, tie_break="name")[0].node == "n0"


def test_the_configuration_is_a_dict_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    objects = [node("a"), pod("p", schedulerName="mine"), pod("other")]

    for config in (CONFIG, path, str(path)):
        (decision,) = stowplan.dry_run(objects, config)
        assert decision.pod == "default/p"


def test_times_that_a_yaml_library_made_are_understood() -> None:
    created = datetime(2026, 1, 31, 12, tzinfo=UTC)

    (first, second) = stowplan.dry_run(
        [node("a"), pod("new"), pod("old", metadata={"creationTimestamp": created})]
    )

    assert (first.pod, second.pod) == ("default/old", "default/new")


def test_without_detail_a_decision_is_brief() -> None:
    decisions = stowplan.dry_run([node("a"), pod("p"), pod("q", 64)], detail=False)

    assert [decision.has_detail for decision in decisions] == [False, False]
    assert decisions[0].score is not None
    assert decisions[1].reasons == {"Insufficient cpu": 1}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param("cluster.yaml", "objects: found 'str'\n  hint: give Kubernetes", id="a-path"),
        pytest.param(7, "objects: found 'int'\n  hint: give Kubernetes", id="a-number"),
        pytest.param([node("a"), "x"], "objects[1]: found 'x'\n  hint: a Kubern", id="a-string"),
        pytest.param([{"kind": "Pod"}], "objects[0]: `apiVersion` is missing", id="half-an-object"),
        pytest.param([{"kind": object()}], "objects[0]: not readable as JSON", id="no-data"),
        pytest.param([pod("p", "x")], "objects[0]: Pod default/p: spec.cont", id="bad-quantity"),
    ],
)
def test_what_is_no_object_is_refused(objects: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        stowplan.dry_run(objects)

    assert str(refused.value).startswith(message)


def test_a_wrong_tie_break_is_refused() -> None:
    with pytest.raises(InputError, match="tie_break is 'names'\n  hint: it may be 'random' or"):
        stowplan.dry_run([], tie_break="names")  # type: ignore[arg-type]


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such file"):
        stowplan.dry_run([], "nowhere.yaml")


@pytest.mark.parametrize("family", ["mixed", "configured", "preemption"])
def test_it_decides_as_kube_scheduler_does(family: str) -> None:
    for scenario, _ in zip(scenarios(family), range(3), strict=False):
        decisions = stowplan.dry_run(scenario["cluster"], scenario["config"], tie_break="name")

        found = [decision.to_dict() for decision in decisions]
        assert differences(scenario["expected"], found) == [], scenario["name"]


def test_importing_is_cheap() -> None:
    script = "import sys, stowplan; print(sorted({'numpy', 'msgspec', 'yaml'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"


def test_the_public_names() -> None:
    assert set(stowplan.__all__) <= set(dir(stowplan))
    with pytest.raises(AttributeError, match="module 'stowplan' has no attribute 'wet_run'"):
        _ = stowplan.wet_run
