"""Where the time goes: latencies, throughput, and which phase holds the scheduler up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import (
    CYCLE,
    LATENCY_S,
    QUEUE_WAIT,
    THRESHOLDS_S,
    Bottlenecks,
    Report,
)
from stowplan.errors import Conflict
from stowplan.framework.histogram import Histogram
from stowplan.framework.timing import Recorders
from stowplan.objects.api import Bind
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a, make_plugin

durations = st.lists(st.floats(2e-6, 600.0), min_size=1, max_size=2000)


@given(durations, st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_quantiles_are_right_within_a_tenth(seconds: list[float], share: float) -> None:
    latencies = Histogram(LATENCY_S)
    for each in seconds:
        latencies.observe(each)

    exact = float(np.quantile(seconds, share, method="inverted_cdf"))

    assert min(latencies.quantile(share), latencies.max) == pytest.approx(exact, rel=0.1)
    assert latencies.count == len(seconds)
    assert latencies.sum == pytest.approx(sum(seconds))
    assert latencies.max == max(seconds)


@given(durations, durations)
def test_merged_latencies_are_those_of_both(first: list[float], second: list[float]) -> None:
    both, one, other = Histogram(LATENCY_S), Histogram(LATENCY_S), Histogram(LATENCY_S)
    for each in first:
        one.observe(each)
        both.observe(each)
    for each in second:
        other.observe(each)
        both.observe(each)

    one.merge(other)

    assert (one.count, one.max) == (both.count, both.max)
    assert one.sum == pytest.approx(both.sum)
    assert one.quantile(0.95) == both.quantile(0.95)


def test_no_latencies_have_quantiles_of_nothing() -> None:
    assert Histogram(LATENCY_S).quantile(0.95) == 0.0


class Watch:
    """A stopwatch that tests move by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def report_of(watch: Watch, point: str, *seconds: float) -> Report:
    bottlenecks = Bottlenecks(watch)
    bottlenecks.points(point, "default-scheduler", "Success", list(seconds))
    return bottlenecks.report()


@pytest.mark.parametrize(
    ("times", "severity"),
    [(0.5, ""), (1.2, "Low"), (2.5, "Medium"), (6, "High"), (20, "Critical")],
)
def test_how_bad_a_phase_is_goes_by_how_far_it_is_over(times: float, severity: str) -> None:
    threshold_s = THRESHOLDS_S["Filter"]

    [phase] = report_of(Watch(), "Filter", *[threshold_s * times] * 100).phases

    assert (phase.name, phase.severity) == ("Filter", severity)


def test_it_is_the_95th_percentile_that_counts() -> None:
    threshold_s = THRESHOLDS_S["Score"]
    quick = [threshold_s / 10]

    [phase] = report_of(Watch(), "Score", *quick * 96, *[10.0] * 4).phases
    assert phase.severity == ""
    [phase] = report_of(Watch(), "Score", *quick * 94, *[10.0] * 6).phases
    assert phase.severity == "Critical"
    assert phase.max_s == 10.0


def test_the_worst_comes_first_and_the_text_names_it() -> None:
    bottlenecks = Bottlenecks(Watch())
    for _ in range(10):
        bottlenecks.points("Filter", "", "", [0.012])
        bottlenecks.points("Bind", "", "", [2.0])
        bottlenecks.points("Score", "", "", [0.001])
        bottlenecks.plugin("NodeAffinity", "Filter", "Success", 0.010)
        bottlenecks.plugin("NodePorts", "Filter", "Success", 0.001)

    report = bottlenecks.report()

    assert [phase.name for phase in report.bottlenecks] == ["Bind", "Filter"]
    assert report.text.splitlines()[1:] == [
        "Critical: Bind p95 2000 ms, should stay below 50 ms",
        "Medium: Filter p95 12 ms, should stay below 5 ms, mostly NodeAffinity",
    ]
    assert [row["plugin"] for row in report.plugins] == ["NodeAffinity", "NodePorts"]


def test_a_quiet_scheduler_has_no_bottleneck() -> None:
    assert Bottlenecks(Watch()).report().text.splitlines()[1:] == ["no bottleneck"]


def test_the_report_is_plain_data() -> None:
    data = json.loads(json.dumps(report_of(Watch(), "Bind", 2.0).to_dict()))

    assert data["bottlenecks"] == ["Bind"]
    [phase] = data["phases"]
    assert (phase["severity"], phase["count"], phase["p95_s"]) == ("Critical", 1, 2.0)


# -- listening to a scheduler -----------------------------------------------------------------


def observed(watch: Watch, *plugins: type, cpu: str = "32") -> tuple[Cluster, Bottlenecks]:
    bottlenecks = Bottlenecks(watch)
    cluster = Cluster(
        node("node-1", cpu=cpu),
        node("node-2", cpu=cpu),
        plugins=plugins,
        log=AttemptLog(bottlenecks),
        recorder=Recorders(bottlenecks),
    )
    return cluster, bottlenecks


def phases(report: Report) -> dict[str, int]:
    return {phase.name: phase.count for phase in report.phases}


def test_every_phase_of_every_attempt_is_measured() -> None:
    quiet = make_plugin(
        "Quiet", reserve=lambda *_: None, unreserve=lambda *_: None, permit=lambda *_: None
    )
    cluster, bottlenecks = observed(Watch(), quiet)

    for n in range(20):
        cluster.add(pod(f"web-{n}", cpu="1"))

    counted = phases(bottlenecks.report())
    for point in ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Bind"):
        assert counted[point] == 20, point
    assert counted[CYCLE] == counted[QUEUE_WAIT] == 20
    # One cycle in ten has its plugins timed one by one.
    filters = {row["plugin"] for row in bottlenecks.report().plugins if row["point"] == "Filter"}
    assert "NodeResourcesFit" in filters


def test_throughput_and_outcomes_are_counted() -> None:
    watch = Watch()
    cluster, bottlenecks = observed(watch, cpu="1")
    cluster.api.fail(is_a(Bind, "unlucky"), Conflict("no"), times=1)

    cluster.add(pod("a", cpu="1"), pod("b", cpu="1"), pod("big", cpu="64"))
    cluster.delete("a")
    cluster.add(pod("unlucky", cpu="1"))
    watch.now_s = 4.0

    report = bottlenecks.report()
    assert report.results["scheduled"] == 2
    assert report.results["error"] == 1
    assert report.results["unschedulable"] >= 1
    assert report.scheduled_per_s == 0.5
    assert report.attempts_per_s == sum(report.results.values()) / 4


def test_a_slow_plugin_is_named() -> None:
    watch = Watch()

    def dawdle(self: Any, cycle: Any, pod: Any, info: Any) -> None:
        watch.now_s += 0.1

    cluster, bottlenecks = observed(watch, make_plugin("Dawdler", filter_node=dawdle))

    for n in range(20):
        cluster.add(pod(f"web-{n}"))

    [worst, *_] = [phase for phase in bottlenecks.report().bottlenecks if phase.name == "Filter"]
    assert (worst.severity, worst.slowest_plugin) == ("Critical", "Dawdler")


def test_waiting_for_a_turn_is_measured_but_not_waiting_for_room() -> None:
    cluster, bottlenecks = observed(Watch(), cpu="1")
    cluster.driver.active = False
    cluster.add(pod("late", cpu="1"))
    cluster.run(7)
    cluster.driver.active = True
    cluster.settle()
    cluster.add(pod("big", cpu="64"))
    cluster.run(1000)

    [wait] = [phase for phase in bottlenecks.report().phases if phase.name == QUEUE_WAIT]

    assert (wait.count, wait.max_s) == (2, 7.0)


def test_a_plugins_errors_are_counted_by_name() -> None:
    def boom(*_: Any) -> None:
        raise ValueError("boom")

    cluster, bottlenecks = observed(Watch(), make_plugin("Broken", filter_node=boom))
    cluster.add(pod("web"))

    report = bottlenecks.report()
    assert report.plugin_errors == {"Broken": 1}
    assert "1 errors of plugin Broken" in report.text


def test_only_two_windows_are_remembered() -> None:
    watch = Watch()
    bottlenecks = Bottlenecks(watch)
    seen = []
    for window in range(3):
        watch.now_s = 10.0 * window
        if window:
            bottlenecks.rotate()
        bottlenecks.points(f"phase {window}", "", "", [1.0])
        seen.append(sorted(phases(bottlenecks.report())))

    assert seen == [["phase 0"], ["phase 0", "phase 1"], ["phase 1", "phase 2"]]
    watch.now_s = 25.0
    assert bottlenecks.report().seconds == 15.0
