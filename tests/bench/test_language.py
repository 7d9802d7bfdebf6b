"""Workload files are read strictly, after section 2 of scheduler_perf's description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.bench.catalogue import choose, main_workload, resized, shipped
from stowplan.bench.language import read_workloads
from stowplan.bench.opcodes import CreateNodes, CreatePods, CreatePodSets, UpdateAny
from stowplan.errors import InputError
from tests.bench.playing import MEASURED, written

NODES: dict[str, Any] = {"opcode": "createNodes", "count": 1}


# -- what is filled in ----------------------------------------------------------------------


def test_parameters_are_filled_in(tmp_path: Path) -> None:
    pods = {
        "opcode": "createPods",
        "countParam": "$pods",
        "steadyStateParam": "$steady",
        "durationParam": "$time",
        "collectMetrics": True,
    }
    sets = {
        "opcode": "createPodSets",
        "countParam": "$sets",
        "namespacePrefix": "n",
        "createPodsOp": {"opcode": "createPods", "countParam": "$pods"},
    }
    workload = written(
        tmp_path,
        [{"opcode": "createNodes", "countParam": "$nodes"}, pods, sets],
        params={"nodes": 7, "pods": 9, "steady": True, "time": "10s", "sets": 2},
    )

    nodes, created, created_sets = workload.resolve()
    assert isinstance(nodes, CreateNodes)
    assert nodes.count == 7
    assert isinstance(created, CreatePods)
    assert (created.count, created.steady_state, created.duration) == (9, True, "10s")
    assert isinstance(created_sets, CreatePodSets)
    assert (created_sets.count, created_sets.create_pods_op.count) == (2, 9)


def test_any_ops_count_one_unless_told_otherwise(tmp_path: Path) -> None:
    ops = [{"opcode": "updateAny", "templatePath": "x.yaml"}, MEASURED]

    update, _ = written(tmp_path, ops).resolve()

    assert isinstance(update, UpdateAny)
    assert update.count == 1


def test_a_count_of_zero_by_parameter_is_zero(tmp_path: Path) -> None:
    ops = [{"opcode": "updateAny", "templatePath": "x.yaml", "countParam": "$n"}, MEASURED]

    update, _ = written(tmp_path, ops, params={"n": 0}).resolve()

    assert isinstance(update, UpdateAny)
    assert update.count == 0


def test_gates_and_labels_of_a_workload_add_to_the_case(tmp_path: Path) -> None:
    workloads = [
        {"name": "a", "labels": ["short"], "featureGates": {"One": False, "Two": True}},
        {"name": "b"},
    ]
    file = tmp_path / "cases.yaml"
    case = {
        "name": "Case",
        "labels": ["performance"],
        "featureGates": {"One": True},
        "workloadTemplate": [MEASURED],
        "workloads": workloads,
    }
    file.write_text(json.dumps([case]))

    first, second = read_workloads(file)

    assert first.labels == {"performance", "short"}
    assert first.feature_gates == {"One": False, "Two": True}
    assert second.labels == {"performance"}
    assert second.feature_gates == {"One": True}


def test_a_threshold_may_depend_on_the_topic(tmp_path: Path) -> None:
    file = tmp_path / "dra.yaml"
    case = {
        "name": "Case",
        "workloadTemplate": [MEASURED],
        "workloads": [
            {"name": "a", "threshold": {"dra": 40, "misc": 50}},
            {"name": "b", "threshold": {"other": 40}},
            {"name": "c", "threshold": 7},
        ],
    }
    file.write_text(json.dumps([case]))

    assert [workload.threshold for workload in read_workloads(file)] == [40, 0, 7]


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "params", "problem"),
    [
        ([{**NODES, "colour": 1}, MEASURED], {}, "unknown field `colour`"),
        ([{"opcode": "createUnicorns"}, MEASURED], {}, "createUnicorns"),
        ([NODES], {}, "collects no metrics"),
        ([{"opcode": "stopCollectingMetrics"}, MEASURED], {}, "without a start"),
        ([MEASURED], {"spare": 1}, "no op uses the parameter 'spare'"),
        ([{**NODES, "count": 0, "countParam": "$n"}, MEASURED], {}, "no parameter 'n'"),
        ([{**NODES, "count": 0, "countParam": "n"}, MEASURED], {}, "must be `\\$` and"),
        ([{**NODES, "countParam": "$n"}, MEASURED], {"n": 2}, "exclude each other"),
        ([{**NODES, "count": 0, "countParam": "$n"}, MEASURED], {"n": "x"}, "a whole number"),
        ([{**NODES, "count": -1}, MEASURED], {}, "must not be negative"),
        ([{**MEASURED, "skipWaitToCompletion": True}], {}, "excludes collectMetrics"),
        (
            [{**MEASURED, "collectMetrics": False, "skipWaitToCompletion": True}, MEASURED],
            {},
            "",
        ),
        ([{**MEASURED, "persistentVolumeTemplatePath": "x"}], {}, "go together"),
        ([{"opcode": "sleep", "duration": "soon"}, MEASURED], {}, "duration"),
        (
            [{"opcode": "churn", "mode": "recreate", "templatePaths": ["x"]}, MEASURED],
            {},
            "needs a number above 0",
        ),
        (
            [{"opcode": "churn", "mode": "shake", "templatePaths": ["x"]}, MEASURED],
            {},
            "mode must be one of create, recreate",
        ),
        (
            [{"opcode": "barrier", "stageRequirement": "Tried"}, MEASURED],
            {},
            "stageRequirement must be one of Scheduled, Attempted",
        ),
        (
            [{"opcode": "startCollectingMetrics", "namespaces": []}, MEASURED],
            {},
            "namespaces must not be empty",
        ),
        (
            [
                {
                    **NODES,
                    "uniqueNodeLabelStrategy": {"labelKey": "a"},
                    "labelNodePrepareStrategy": {"labelKey": "a", "labelValues": ["b"]},
                },
                MEASURED,
            ],
            {},
            "only one strategy",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    tmp_path: Path, ops: list[dict[str, Any]], params: dict[str, Any], problem: str
) -> None:
    if not problem:
        written(tmp_path, ops, params=params)
        return
    with pytest.raises(InputError, match=problem) as info:
        written(tmp_path, ops, params=params)

    assert "workloads.yaml" in info.value.where
    assert "Case" in info.value.where


@pytest.mark.parametrize("text", ["{}", "a: 1", "[]\n---\n[]", "[1]", "- name: x"])
def test_a_file_is_one_list_of_cases(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(text)

    with pytest.raises(InputError, match=r".") as info:
        read_workloads(file)

    assert "cases.yaml" in str(info.value)


def test_names_come_once(tmp_path: Path) -> None:
    case = {"name": "Case", "workloadTemplate": [MEASURED], "workloads": [{"name": "a"}]}
    file = tmp_path / "cases.yaml"

    file.write_text(json.dumps([case, case]))
    with pytest.raises(InputError, match="the case 'Case' comes twice"):
        read_workloads(file)
    file.write_text(json.dumps([{**case, "workloads": [{"name": "a"}, {"name": "a"}]}]))
    with pytest.raises(InputError, match="the workload 'a' comes twice"):
        read_workloads(file)


# -- choosing -------------------------------------------------------------------------------


def test_a_case_stands_for_its_first_performance_workload() -> None:
    (workload,) = choose(["SchedulingBasic"], shipped())

    assert workload.full_name == "SchedulingBasic/5000Nodes_10000Pods"


def test_a_pattern_stands_for_all_that_match_in_order_and_once() -> None:
    found = choose(["TopologySpreading/5Nodes*", "TopologySpreading/*"], shipped())

    names = [workload.full_name for workload in found]
    assert names[:2] == [
        "TopologySpreading/5Nodes",
        "TopologySpreading/5Nodes_QueueingHintsEnabled",
    ]
    assert len(names) == len(set(names))
    assert all(name.startswith("TopologySpreading/") for name in names)


def test_a_case_without_performance_workloads_runs_its_largest(tmp_path: Path) -> None:
    small = written(tmp_path, [MEASURED])

    assert main_workload([small]) is small


def test_a_wrong_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(InputError, match="no workload 'SchedulingBasics'") as info:
        choose(["SchedulingBasics"], shipped())

    assert "'SchedulingBasic'" in info.value.hint


def test_sizes_can_be_changed() -> None:
    (workload,) = choose(["SchedulingBasic"], shipped())

    changed = resized(workload, nodes=5, pods=6, init_pods=7)

    assert changed.params == {"initNodes": 5, "measurePods": 6, "initPods": 7}


def test_a_size_that_the_workload_does_not_have_is_refused() -> None:
    (workload,) = choose(["SchedulingDaemonset"], shipped())

    with pytest.raises(InputError, match="has no parameter 'initPods'"):
        resized(workload, nodes=None, pods=None, init_pods=7)
