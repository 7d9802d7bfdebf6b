"""`simulate`: nothing is lost, equal seeds give equal bytes, and what happens is what should."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan as sp
from stowplan.errors import InputError
from stowplan.sim.results import read_result
from stowplan.sim.trace import Change
from tests.sim.making import node_template, pod_template, trace

INF = math.inf

lives = st.sampled_from([0.0, 1.0, 7.0, 50.0, 400.0, INF])
some_pods = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 5.0, 60.0, 200.0]), lives, st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


def templates() -> list[dict[str, Any]]:
    return [
        pod_template("1"),
        pod_template("3", priority=100),
        pod_template("9"),  # It fits nowhere.
    ]


@settings(max_examples=25, deadline=None)
@given(
    pods=some_pods,
    ends=st.sampled_from(["recorded", "service"]),
    evicted=st.sampled_from(["return", "lost"]),
    failures=st.sampled_from([None, "mean=100s,repair=30s"]),
    seed=st.integers(1, 3),
)
def test_every_pod_is_in_one_place_and_the_series_agree(
    pods: Any, ends: str, evicted: str, failures: str | None, seed: int
) -> None:
    result = sp.simulate(
        trace(pods, templates=templates(), name="any"),
        ends=ends,
        evicted=evicted,
        failures=failures,
        seeds=[seed],
        until=300,
        samples=31,
    )

    run = result.runs[0]
    counts, columns, times = run.summary["pods"], run.pods, run.series["time_s"]
    assert counts["arrived"] == len(pods) == sum(
        counts[state] for state in ("pending", "running", "ended", "lost")
    )  # fmt: skip
    left_s = np.where(np.isnan(columns["left_s"]), INF, columns["left_s"])
    there = (columns["arrival_s"][:, None] <= times) & (times < left_s[:, None])
    assert run.series["pods.there"].tolist() == there.sum(axis=0).tolist()
    assert run.series["pods.running"][-1] == counts["running"]
    assert run.series["pods.pending"][-1] == counts["pending"]
    assert (run.series["cpu.requested"] <= run.series["cpu.demand"]).all()
    assert (run.series["cpu.requested"] <= run.series["cpu.allocatable"]).all()
    assert all((cells[cells != 255] <= 100).all() for cells in run.heat.percent.values()), (
        "no node is given more than it has"
    )
    if failures is None:
        assert run.summary["evictions"] == run.series["pods.evicted"][-1]


def files(folder: Path) -> dict[str, bytes]:
    """All but how long it took."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


def busy() -> Any:
    pods = [(float(n), 30.0 + 7 * (n % 5), n % 2) for n in range(60)]
    return trace(pods, templates=templates())


PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ]
        }
    ],
}


def simulated(folder: Path, workers: int) -> None:
    sp.simulate(
        busy(),
        config={"default": None, "packed": PACKED},
        seeds=2,
        ends="service",
        arrivals="shuffle",
        inflate=1.2,
        failures="mean=200s,repair=20s",
        folder=folder,
        workers=workers,
    ).write(folder)


@pytest.mark.slow
def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path) -> None:
    simulated(tmp_path / "one", 1)
    simulated(tmp_path / "two", 2)

    one = files(tmp_path / "one")
    assert one == files(tmp_path / "two")
    assert {"summary.json", "report.html", "runs/packed/seed-2/heat.npz"} <= one.keys()


@pytest.mark.slow
def test_finished_runs_are_kept_and_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stowplan.sim import workers

    simulated(tmp_path / "whole", 1)
    done = []
    real = workers.do_task

    def interrupted(inputs: Any, task: Any, told: Any = None) -> Any:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(task)
        return real(inputs, task, told)

    monkeypatch.setattr(workers, "do_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulated(tmp_path / "cut", 1)
    assert len(read_result(tmp_path / "cut").runs) == 3
    done.clear()
    simulated(tmp_path / "cut", 1)

    assert len(done) == 1
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_folder_with_other_results_is_refused(tmp_path: Path) -> None:
    sp.simulate(trace([(0, 1, 0)]), folder=tmp_path)

    with pytest.raises(InputError, match="results of another simulation"):
        sp.simulate(trace([(0, 2, 0)]), folder=tmp_path)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    result = sp.simulate(busy(), seeds=2)
    result.write(tmp_path)

    found = read_result(tmp_path)

    assert found.summary() == result.summary()
    for one, other in zip(result.runs, found.runs, strict=True):
        assert one.series.keys() == other.series.keys()
        assert all(np.array_equal(one.series[n], other.series[n]) for n in one.series)
        assert one.pods["node"].tolist() == other.pods["node"].tolist()
        assert one.heat.node_names == other.heat.node_names
        assert np.array_equal(one.heat.percent["cpu"], other.heat.percent["cpu"])


def test_a_pod_waits_for_room_and_runs_its_service_time() -> None:
    pods = [(0.0, 100.0, 0), (10.0, 100.0, 0)]
    found = sp.simulate(
        trace(pods, templates=[pod_template("3")], nodes=1), ends="service", until=300
    ).runs[0].pods  # fmt: skip

    assert found["state"].tolist() == ["ended", "ended"]
    assert found["started_s"][0] == 0
    assert 100 <= found["started_s"][1] <= 111, "freed at 100, and at most one backoff later"
    assert found["left_s"][1] == found["started_s"][1] + 100


def test_recorded_ends_come_whatever_became_of_the_pod() -> None:
    pods = [(0.0, 100.0, 0), (10.0, 20.0, 0)]
    found = sp.simulate(trace(pods, templates=[pod_template("3")], nodes=1)).runs[0]

    assert found.pods["state"].tolist() == ["ended", "lost"]
    assert found.pods["left_s"].tolist() == [100, 30]


def test_a_preempted_pod_returns_and_its_work_is_lost() -> None:
    low, high = pod_template("3"), pod_template("3", priority=1000)
    made = trace([(0.0, 100.0, 0), (50.0, 10.0, 1)], templates=[low, high], nodes=1)

    run = sp.simulate(made, ends="service", until=300).runs[0]

    assert run.pods["evictions"].tolist() == [1, 0]
    assert run.pods["lost_s"][0] == 50
    assert run.pods["state"].tolist() == ["ended", "ended"]
    assert run.pods["left_s"][0] >= 60 + 100
    assert run.summary["lost_work_s"] == 50


def test_the_autoscaler_brings_nodes_after_their_boot_time_and_takes_empty_ones_away() -> None:
    pool = {"name": "big", "cpu": 8, "memory": "32Gi", "max": 3, "boot": "60s", "price": 2.0}
    pods = [(0.0, 300.0, 0)] * 3 + [(5.0, 300.0, 0)]
    made = trace(pods, templates=[pod_template("6")], nodes=1)

    run = sp.simulate(
        made, ends="service", until=2000, autoscaler={"pools": [pool], "idle": "100s"}, samples=201
    ).runs[0]

    assert sorted(run.pods["state"].tolist()) == ["ended"] * 4
    started = sorted(run.pods["started_s"].tolist())
    assert 60 < started[0] <= 80, "ordered after 10 s, there after 60 more"
    assert max(started[:3]) <= 80 < started[3], "the pool has three nodes, the fourth pod waits"
    nodes = run.series["nodes"].tolist()
    assert max(nodes) == 4
    assert nodes[-1] == 1, "what is empty goes"
    assert 0 < run.summary["cost"] < 3 * 2.0 * 2000 / 3600


def test_nodes_fail_and_return_from_the_seed() -> None:
    pods = [(0.0, INF, 0)] * 4
    made = trace(pods, templates=[pod_template("1")], nodes=3)

    def run(seed: int) -> Any:
        return sp.simulate(
            made, failures="mean=100s,repair=50s", until=1000, seeds=[seed]
        ).runs[0]  # fmt: skip

    assert run(1).summary == run(1).summary
    assert run(1).summary["nodes"]["failures"] > 5
    assert run(1).pods["evictions"].sum() > 0
    assert run(1).series["nodes"].tolist() != run(2).series["nodes"].tolist()


def test_changes_of_the_trace_are_made_when_they_came() -> None:
    cordoned = {**node_template(), "metadata": {"name": "node-0"}, "spec": {"unschedulable": True}}
    made = trace(
        [(0.0, INF, 0), (20.0, INF, 0)], nodes=1, changes=(Change(10.0, "apply", cordoned),)
    )

    run = sp.simulate(made, until=100).runs[0]

    assert run.pods["state"].tolist() == ["running", "pending"]
    assert run.series["pending.NodeUnschedulable"][-1] == 1


def test_a_pod_that_never_fits_costs_no_more_than_its_retries() -> None:
    """Every five minutes, as kube-scheduler does; not more often."""
    made = trace([(0.0, INF, 0)], templates=[pod_template("99")])

    run = sp.simulate(made, until="1d").runs[0]

    assert run.summary["decisions"] <= 86400 / 300 + 5


def test_nodes_of_a_file_take_the_place_of_the_trace() -> None:
    node = {**node_template("64"), "metadata": {"name": "huge"}}

    run = sp.simulate(busy(), nodes=[node], until=50).runs[0]

    assert run.heat.node_names == ("huge",)
    assert set(run.pods["node"].tolist()) <= {"huge", ""}


def test_hostile_names_are_text_in_the_report(tmp_path: Path) -> None:
    nasty = '"><script>alert(1)</script>\x1b[31m'
    made = trace([(0.0, 5.0, 0)], name=nasty)

    sp.simulate(made, config={nasty: None, "b": None}).write(tmp_path)

    html = (tmp_path / "report.html").read_text()
    assert "<script" not in html
    assert "\x1b" not in html
    assert "http" not in html.replace('http-equiv="Content-Security-Policy"', "")
    assert [path.name[:2] for path in sorted((tmp_path / "runs").iterdir())] == ["b", "x-"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"until": "soon"}, "no length of time"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "different seeds"),
        ({"arrivals": "sorted"}, "arrivals is 'sorted'"),
        ({"inflate": -1}, "inflate is -1"),
        ({"failures": "often"}, "how nodes fail"),
        ({"autoscaler": {"pools": []}}, "no list of pools"),
        ({"autoscaler": {"pools": [{"name": "a", "size": 3}]}}, "no setting 'size'"),
        ({"workers": 0}, "workers is 0"),
        ({"nodes": [pod_template()]}, "Node"),
        ({"config": "missing.yaml"}, "No such file"),
        ({"scheduler": "tcp://x"}, "Dask"),
    ],
)
def test_wrong_input_is_one_clear_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as found:
        sp.simulate(trace([(0.0, 1.0, 0)]), **options)

    assert text in f"{found.value} {found.value.hint}"


def test_bad_pods_and_nodes_of_a_trace_are_named() -> None:
    wrong = pod_template()
    wrong["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"

    with pytest.raises(InputError, match="pod template 0"):
        sp.simulate(trace([(0.0, 1.0, 0)], templates=[wrong]))
