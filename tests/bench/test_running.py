"""A run in real time, on a cluster of a few nodes; what the result says, not how fast it was."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.bench.alone import perform, perform_alone
from stowplan.bench.run import Options, scheduler_config
from tests.bench.playing import MEASURED, written

REQUEST = {"workload": "SchedulingBasic/5Nodes", "file": None, "pods": 40}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return perform(REQUEST, Options())


def test_all_pods_are_counted(result: dict[str, Any]) -> None:
    assert (result["nodes"], result["init_pods"], result["pods"]) == (5, 5, 40)
    assert result["attempts"] == {"scheduled": 40}


def test_rates_agree_with_the_time_they_are_made_of(result: dict[str, Any]) -> None:
    # Times are given to the tenth of a millisecond.
    assert result["duration_s"] == pytest.approx(40 / result["pods_per_s"], abs=0.0001)
    assert result["cpu_s"] == pytest.approx(40 / result["pods_per_cpu_s"], abs=0.0001)
    assert 0 < result["attempt_p50_ms"] <= result["attempt_p99_ms"]
    assert result["peak_rss_mib"] > 10


def test_the_yardstick_is_beside_it(result: dict[str, Any]) -> None:
    kernel = result["yardstick"]["kept_per_cpu_s"]

    assert result["ratio"] == pytest.approx(result["pods_per_cpu_s"] / kernel, rel=0.01)


def test_the_scheduler_s_own_histograms_are_about_the_measured_pods(
    result: dict[str, Any],
) -> None:
    attempts = result["histograms"]["scheduler_scheduling_attempt_duration_seconds"]

    assert attempts["scheduled"]["count"] == 40


def test_replicas_are_served_from_kept_answers(result: dict[str, Any]) -> None:
    assert result["kept"]["hit_rate"] > 0.9


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []

    perform(REQUEST, Options(yardstick=False, progress=lambda *now: told.append(now)))

    assert told
    assert all(0 <= done <= 45 for _, done, _ in told)


@pytest.mark.slow
def test_alone_it_is_the_same(result: dict[str, Any]) -> None:
    alone = perform_alone(REQUEST)

    assert set(alone) == set(result)
    assert alone["pods"] == 40


@pytest.mark.slow
def test_a_failure_alone_is_told() -> None:
    alone = perform_alone({**REQUEST, "workload": "Nonsense"})

    assert alone["workload"] == "Nonsense"
    assert "no workload 'Nonsense'" in alone["error"]


def test_start_on_a_filled_cluster() -> None:
    found = perform({"workload": "StartUp/5Nodes_40Pods", "pods": 10}, Options(yardstick=False))

    # The pods of the store, and the one that was waiting for the scheduler.
    assert (found["nodes"], found["init_pods"], found["pods"]) == (5, 41, 10)
    assert found["first_bind_s"] > 0
    assert found["first_bind_cpu_s"] > 0


def test_a_gate_that_is_locked_is_named_and_left_alone(tmp_path: Any) -> None:
    gates = {"SchedulerQueueingHints": False, "NodeDeclaredFeatures": False, "Unheard": True}
    workload = written(tmp_path, [MEASURED], featureGates=gates)

    config, ignored = scheduler_config(workload)

    assert ignored == ["SchedulerQueueingHints=false", "Unheard=true"]
    assert config is not None
