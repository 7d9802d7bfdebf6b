"""`tune` finds what serves the ends, and says so on pods that it has not seen."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.sim.tune import UTILISATION, WAIT, Trial, _front, _nearest, tune
from tests.sim.making import pod_template, trace

STRATEGY = {
    "arguments": {
        "NodeResourcesFit": {"scoringStrategy.type": ["LeastAllocated", "MostAllocated"]}
    },
    "weights": {"NodeResourcesBalancedAllocation": [0]},
}


def packing() -> Any:
    """Every round four small pods come, then a large one that needs a whole node for itself."""
    pods: list[tuple[float, float, int]] = []
    for number in range(8):
        pods += [(400.0 * number + n, 300.0, 0) for n in range(4)]
        pods.append((400.0 * number + 10.0, 300.0, 1))
    return trace(pods, templates=[pod_template("1"), pod_template("4")], nodes=2)


@pytest.mark.slow
def test_packing_is_found_where_large_pods_need_whole_nodes(tmp_path: Path) -> None:
    tuning = tune(packing(), sweep=STRATEGY, trials=6, seed=1, ends="service", samples=20)
    tuning.write(tmp_path)

    chosen = tuning.trials[tuning.chosen]
    assert chosen.values["type"] == "MostAllocated"
    assert chosen.ends[WAIT] < 1 < tuning.trials[0].ends[WAIT]
    given, best = (run.summary["wait"]["p99"] for run in tuning.validation.runs)
    assert best < 1 < given, "it holds for what was held back"
    still_there, later = 3, 12
    for run in tuning.validation.runs:
        assert run.summary["pods"]["arrived"] == still_there + later
    assert yaml.safe_load((tmp_path / "chosen.yaml").read_text()) == chosen.config
    data = json.loads((tmp_path / "pareto.json").read_text())
    assert (len(data["trials"]), data["chosen"]) == (7, tuning.chosen)
    assert (tmp_path / "pareto.svg").read_text().count("<circle") == 7
    report = (tmp_path / "validation" / "report.html").read_text()
    assert report.count('class="chosen"') == 1, "the same picture is in the report"
    assert "type=MostAllocated" in report


@pytest.mark.slow
def test_the_same_seed_makes_the_same_trials() -> None:
    one, two = (tune(packing(), trials=3, seed=5, ends="service", samples=5) for _ in range(2))

    assert one.trials == two.trials
    assert len({str(trial.values) for trial in one.trials}) > 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_nothing_beats_the_front_and_the_front_has_the_chosen(ends: list[tuple[int, int]]) -> None:
    trials = [Trial({}, None, {UTILISATION: float(a), WAIT: float(b)}) for a, b in ends]

    front = _front(trials)

    for number, (share, wait_s) in enumerate(ends):
        is_beaten = any(a >= share and b <= wait_s and (a, b) != (share, wait_s) for a, b in ends)
        assert (number in front) == (not is_beaten)
    assert _nearest(trials, front) in front


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"held_back": 1}, "held_back is 1"),
        ({"sweep": {"nodes": [3]}}, "says nothing of nodes"),
        ({"sweep": {"weights": {"Nope": [1]}}}, "weights.Nope[0]"),
        ({"config": "missing.yaml"}, "No such file"),
    ],
)
def test_wrong_input_is_one_clear_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as found:
        tune(packing(), **options)

    assert text in str(found.value)


def test_a_trace_of_one_moment_cannot_be_divided() -> None:
    with pytest.raises(InputError, match="cannot be divided"):
        tune(trace([(0.0, math.inf, 0)] * 3))


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)

    with pytest.raises(InputError, match=r"pip install stowplan\[tune\]"):
        tune(packing(), sweep=STRATEGY, trials=1)
