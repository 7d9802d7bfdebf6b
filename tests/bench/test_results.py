"""Results as JSON, as a table, and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.bench import report
from stowplan.bench.goals import GOALS, LIMITS, share_of_goal
from stowplan.bench.results import read_results, to_json
from stowplan.errors import InputError

FIELDS = {
    "workload",
    "nodes",
    "init_pods",
    "pods",
    "pods_per_s",
    "attempt_p50_ms",
    "attempt_p99_ms",
    "peak_rss_mib",
    "phases_us",
    "plugins_us",
}
"""Of the issue: what others read."""


def result(**changes: Any) -> dict[str, Any]:
    return {
        "workload": "SchedulingBasic/5000Nodes_10000Pods",
        "nodes": 5000,
        "init_pods": 1000,
        "pods": 10000,
        "pods_per_s": 4000.0,
        "attempt_p50_ms": 0.2,
        "attempt_p99_ms": 1.0,
        "peak_rss_mib": 100.0,
        "phases_us": {"Score": 20.0},
        "plugins_us": {"NodeResourcesFit": 10.0},
        "pods_per_cpu_s": 4400.0,
        "ratio": 0.1,
        "kept": {"hit_rate": 1.0, "rows_asked_per_pod": 1.0},
        "throughput": None,
        "attempts": {"scheduled": 10000},
        **changes,
    }


def test_results_have_the_fields_others_read_and_no_more() -> None:
    document = json.loads(to_json([result()]))

    (found,) = document["results"]
    assert set(found) == FIELDS
    details = document["details"]["SchedulingBasic/5000Nodes_10000Pods"]
    assert details["pods_per_cpu_s"] == 4400.0
    assert not FIELDS & set(details)


def test_a_failed_workload_is_an_error_and_no_result() -> None:
    document = json.loads(to_json([{"workload": "A/b", "error": "too slow"}]))

    assert document["results"] == []
    assert document["errors"] == {"A/b": "too slow"}


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(to_json([result()]))

    assert read_results(file) == {"SchedulingBasic/5000Nodes_10000Pods": result()}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"results": [{}]}', '{"results": 7}', "null"])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)

    with pytest.raises(InputError, match="these are no results") as info:
        read_results(file)

    assert str(file) in info.value.where


def test_comparing_shows_how_many_times_better() -> None:
    now = result(
        pods_per_s=8000.0, pods_per_cpu_s=8800.0, ratio=0.3, attempt_p99_ms=0.5, peak_rss_mib=50.0
    )

    (line,) = report.compare([now], {now["workload"]: result()})

    assert dict(zip(report.COMPARED, line, strict=True)) == {
        "WORKLOAD": "SchedulingBasic/5000Nodes_10000Pods",
        "PODS/S": "8,000",
        "BEFORE": "4,000",
        "RATIO": "2.00",
        "BY CPU": "2.00",
        "BY KERNEL": "3.00",
        "P99": "2.00",
        "MEMORY": "2.00",
    }


def test_a_result_with_only_the_fields_of_the_issue_can_be_compared() -> None:
    bare = {name: value for name, value in result().items() if name in FIELDS}

    (line,) = report.compare([result()], {bare["workload"]: bare})

    assert line[3:6] == ["1.00", "-", "-"]


def test_only_what_both_have_is_compared() -> None:
    assert report.compare([result(workload="A/b")], {"A/c": result(workload="A/c")}) == []
    assert report.compare([{"workload": "A/b", "error": "x"}], {"A/b": result()}) == []


def test_the_goal_is_a_share_of_the_kernel() -> None:
    # 8,000 of the 48,000 that the kernel did where the goals were set.
    assert share_of_goal(result(ratio=1 / 6)) == pytest.approx(1.0, abs=0.001)
    assert share_of_goal(result(ratio=1 / 12)) == pytest.approx(0.5, abs=0.001)


def test_on_fewer_nodes_there_is_no_goal() -> None:
    assert share_of_goal(result(nodes=500)) is None


def test_the_table_has_goal_and_kube_scheduler_beside_the_rate() -> None:
    line = dict(zip(report.TITLES, report.row(result(ratio=1 / 12)), strict=True))

    assert line["PODS/S"] == "4,000"
    assert line["PODS/CPU-S"] == "4,400"
    assert line["OF KERNEL"] == "8.3 %"
    assert line["GOAL"] == "8,000"
    assert line["OF GOAL"] == "50 %"
    assert line["KUBE-SCHEDULER"] == "814"
    assert line["KEPT"] == "100 %"


def test_a_failed_workload_is_a_line_without_numbers() -> None:
    line = report.row({"workload": "A/b", "error": "x"})

    assert line == ["A/b", *["-"] * (len(report.TITLES) - 1)]


def test_starts_are_held_against_their_limits() -> None:
    start = result(workload="StartUp/5000Nodes_50000Pods", first_bind_s=2.5, first_bind_cpu_s=2.0)

    line = report.start_row(start)

    assert line == ["StartUp/5000Nodes_50000Pods", "2.50", "2.00", "5", "100", "-"]


def test_every_goal_of_the_issue_is_there() -> None:
    """The table of issue 7, row by row, and the goals of issues 16 and 17."""
    goals = {goal.workload: goal.pods_per_s for goal in GOALS}
    by_case: dict[str, set[float]] = {}
    for name, rate in goals.items():
        by_case.setdefault(name.partition("/")[0], set()).add(round(rate))

    assert by_case == {
        "SchedulingBasic": {8000},
        "SchedulingAnySize": {2500},
        "TopologySpreading": {3500},
        "PreferredTopologySpreading": {3500},
        "DefaultTopologySpreading": {3500},
        "SchedulingPodAntiAffinity": {3500},
        "SchedulingPodAffinity": {3500},
        "SchedulingPreferredPodAffinity": {3500},
        "SchedulingPreferredPodAntiAffinity": {3500},
        "SchedulingNodeAffinity": {3000},
        "SchedulingSecrets": {3000},
        "SchedulingCSIPVs": {3000},
        "MixedSchedulingBasePod": {3000},
        "PreemptionBasic": {1000},
        "Unschedulable": {1000},
        "SchedulingLarge": {5000, 2000, 1667},
        "DeviceClaims": {1500},
        "Gangs": {1000 * 10 / 4},
        "GangsInRacks": {100 * 100 / 5},
        "GangOfThousand": {1000},
        "GangTooLarge": {3500},
        "GangTooLargeForRacks": {3500},
    }
    assert [(limit.first_bind_s, limit.mib) for limit in LIMITS] == [
        (5.0, 0.0),
        (0.0, 1024.0),
        (0.0, 8192.0),
    ]


def test_the_plot_is_as_high_as_the_fastest_moment() -> None:
    lines = list(report.plot([0.0, 500.0, 1000.0], 0.1))

    assert lines[0].startswith("1,000 ┤")
    assert [line[7:] for line in lines[: report.PLOT_HEIGHT]] == ["  █"] * 3 + [" ██"] * 3
    assert lines[-1].strip() == "0.3 s"


def test_a_long_plot_is_squeezed_and_an_empty_one_left_out() -> None:
    assert len(next(report.plot([5.0] * 1000, 0.1))) <= report.PLOT_WIDTH + 10
    assert list(report.plot([], 0.1)) == []
    assert list(report.plot([0.0, 0.0], 0.1)) == []


def test_times_per_phase_and_plugin_stand_side_by_side_and_are_cut_short() -> None:
    many = {f"phase {n}": float(100 - n) for n in range(20)}

    lines = report.breakdown(result(phases_us=many, plugins_us={"Fit": 7.0}))

    assert lines[0] == ("phase 0", "100.0", "Fit", "7.0")
    assert lines[1] == ("phase 1", "99.0", "", "")
    assert lines[-1][0] == "6 more"
    assert lines[-1][1] == f"{sum(100 - n for n in range(14, 20)):.1f}"


def test_details_tell_the_hit_rate_of_kept_answers() -> None:
    text = "\n".join(report.details(result(kept={"hit_rate": 0.75, "rows_asked_per_pod": 3.5})))

    assert "75.0 %" in text
    assert "3.5 nodes" in text
