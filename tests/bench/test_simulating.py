"""Traces in virtual time as workloads of `stowplan bench`."""

from __future__ import annotations

import pytest

from stowplan.bench import report, simulating
from stowplan.bench.goals import SIMULATIONS, share_of_goal
from stowplan.bench.results import FIELDS
from stowplan.bench.run import Options
from stowplan.errors import InputError
from tests.sim.making import pod_template, trace


def test_a_trace_is_run_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    small = trace([(10.0 * n, 50.0, 0) for n in range(30)], nodes=2)
    monkeypatch.setitem(simulating.TRACES, "149Days", lambda: small)

    result = simulating.run_simulation("Simulation", Options())

    assert result.keys() >= set(FIELDS)
    assert (result["workload"], result["nodes"], result["pods"]) == ("Simulation/149Days", 2, 30)
    assert result["ratio"] > 0
    assert result["attempts"]["made"] >= 30
    assert len(report.row(result)) == len(report.TITLES)
    assert list(report.details(result)) == [f"Attempts: {result['attempts']['made']} made."]


def test_every_goal_is_of_a_trace_there_is() -> None:
    wanted = [goal.workload for goal in SIMULATIONS]
    assert [*wanted, simulating.UNEVEN] == simulating.names()


def test_uneven_sizes_are_held_against_equal_ones() -> None:
    sizes = [pod_template("1"), pod_template("2")]
    small = trace([(10.0 * n, 50.0, n % 2) for n in range(30)], templates=sizes, nodes=2)
    equal = simulating.of_one_size(small)

    result = simulating.compare_sizes(small, Options())

    assert (equal.pod_count, equal.node_count) == (30, 2)
    assert len(set(equal.pod_template)) == len(set(equal.node_template)) == 1
    assert (result["workload"], result["nodes"], result["pods"]) == ("Uneven", 2, 30)
    assert share_of_goal(result) == pytest.approx(2 / result["times_equal"], abs=0.001)
    assert "times what one of equal pods" in "".join(report.details(result))


def test_others_are_refused() -> None:
    with pytest.raises(InputError, match="no workload 'Simulation/Nope'"):
        simulating.trace_named("Simulation/Nope")
