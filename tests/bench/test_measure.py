"""Sampling and averaging, after section 4 of scheduler_perf's description."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.bench.measure import Throughput, percentile
from stowplan.bench.run import summary
from stowplan.framework.histogram import Histogram
from tests.bench.playing import play, written


def rates(*counts: int) -> list[float]:
    throughput = Throughput()
    for second, count in enumerate(counts):
        throughput.tick(float(second), count)
    return throughput.rates


def test_nothing_counts_before_the_first_pod_and_that_tick_is_only_the_baseline() -> None:
    assert rates(0, 0, 0, 50, 150, 350) == [100.0, 200.0]


def test_a_tick_without_progress_is_made_up_for_with_the_averaged_rate() -> None:
    # 0 -> 100 in one second, then nothing for two ticks, then 300 in three seconds.
    assert rates(10, 110, 110, 110, 410) == [100.0, 100.0, 100.0, 100.0]


def test_the_tail_after_the_last_tick_is_lost() -> None:
    assert rates(10, 110, 110) == [100.0]


def test_a_short_run_has_no_samples() -> None:
    throughput = Throughput()
    throughput.tick(0.0, 1000)

    assert throughput.summary() is None


def test_summary_has_the_mean_and_percentiles_from_the_slow_end() -> None:
    throughput = Throughput()
    throughput.rates = [400.0, 100.0, 300.0, 200.0]

    assert throughput.summary() == {
        "average": 250.0,
        "p50": 200.0,
        "p90": 400.0,
        "p95": 400.0,
        "p99": 400.0,
    }


@pytest.mark.parametrize(
    ("count", "percent", "element"), [(100, 99, 98), (100, 50, 49), (1, 99, 0), (10, 90, 8)]
)
def test_a_percentile_is_the_element_at_the_rounded_up_share(
    count: int, percent: int, element: int
) -> None:
    assert percentile([float(n) for n in range(count)], percent) == element


def test_quantiles_are_interpolated_within_buckets() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 0.5, 1.5, 1.5, 3.0, 3.0, 3.0, 3.0):
        histogram.observe(value)

    assert histogram.quantile(0.25) == 1.0
    assert histogram.quantile(0.5) == 2.0
    assert histogram.quantile(0.75) == 3.0
    found = summary(histogram)
    assert found["count"] == 8
    assert found["average_ms"] == 2000.0


def test_the_rate_is_from_the_first_creation_to_the_last_confirmation(tmp_path: Path) -> None:
    played = play(
        written(
            tmp_path,
            [
                {"opcode": "createNodes", "count": 1},
                {"opcode": "startCollectingMetrics", "namespaces": ["a"]},
                {"opcode": "createPods", "count": 10, "namespace": "a"},
                {"opcode": "sleep", "duration": "5s"},
                {"opcode": "createPods", "count": 10, "namespace": "a"},
                {"opcode": "stopCollectingMetrics"},
            ],
        )
    )

    assert played.result["pods"] == 20
    assert played.result["duration_s"] == pytest.approx(5.0, abs=0.05)
    assert played.result["pods_per_s"] == pytest.approx(4.0, abs=0.05)


def test_pods_count_once_and_only_when_they_have_a_node(tmp_path: Path) -> None:
    """On a node for four pods, six are created: two wait until the first four are deleted."""
    node = """
apiVersion: v1
kind: Node
metadata: {name: four}
status: {capacity: {cpu: 4, memory: 32Gi, pods: 4}}
"""
    pod = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: pause, image: pause}]}
"""
    ops = [
        {"opcode": "createNodes", "count": 1, "nodeTemplatePath": "node.yaml"},
        {"opcode": "startCollectingMetrics", "namespaces": ["first", "then"]},
        {"opcode": "createPods", "count": 4, "namespace": "first"},
        {"opcode": "createPods", "count": 2, "namespace": "then", "skipWaitToCompletion": True},
        {"opcode": "deletePods", "namespace": "first"},
        {"opcode": "barrier"},
        {"opcode": "stopCollectingMetrics"},
    ]

    templates = {"node.yaml": node, "pod.yaml": pod}
    played = play(written(tmp_path, ops, templates, defaultPodTemplatePath="pod.yaml"))

    assert played.result["pods"] == 6
    assert played.placed("then") == {"four": 2}
    assert played.result["attempts"]["scheduled"] == 6


def test_of_several_measurements_the_last_one_counts(tmp_path: Path) -> None:
    def pods(count: int) -> dict[str, object]:
        return {"opcode": "createPods", "count": count, "collectMetrics": True}

    played = play(written(tmp_path, [{"opcode": "createNodes", "count": 1}, pods(3), pods(5)]))

    assert (played.result["init_pods"], played.result["pods"]) == (3, 5)
    assert played.result["attempts"] == {"scheduled": 5}
