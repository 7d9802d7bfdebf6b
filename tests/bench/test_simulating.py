"""Traces in virtual time as workloads of `stowplan bench`."""

from __future__ import annotations

import pytest

from stowplan.bench import report, simulating
from stowplan.bench.goals import SIMULATIONS
from stowplan.bench.results import FIELDS
from stowplan.bench.run import Options
from stowplan.errors import InputError
from tests.sim.making import trace


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
    assert [goal.workload for goal in SIMULATIONS] == simulating.names()


def test_others_are_refused() -> None:
    with pytest.raises(InputError, match="no workload 'Simulation/Nope'"):
        simulating.trace_named("Simulation/Nope")
