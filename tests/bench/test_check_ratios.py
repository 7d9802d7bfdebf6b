"""`make bench-check` fails when, and only when, something has become slower."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowplan.bench.catalogue import choose, resized, shipped
from tests.bench import check_ratios
from tests.bench.check_ratios import FILE, MARGIN, TRIES, regressions

ENTRY = {"workload": "SchedulingBasic/500Nodes", "nodes": 5, "pods": 7, "ratio": 0.1}


def measuring(monkeypatch: pytest.MonkeyPatch, *ratios: float) -> list[dict[str, Any]]:
    """The next runs find these; answers with what was asked for."""
    asked: list[dict[str, Any]] = []
    coming = iter(ratios)

    def perform(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"ratio": next(coming)}

    monkeypatch.setattr(check_ratios, "perform_alone", perform)
    return asked


def test_as_fast_as_before_is_fine_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measuring(monkeypatch, 0.1)

    assert regressions([ENTRY]) == []
    assert asked == [{"workload": "SchedulingBasic/500Nodes", "nodes": 5, "pods": 7}]


def test_a_slow_moment_is_no_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measuring(monkeypatch, 0.01, 0.1 * MARGIN)

    assert regressions([ENTRY]) == []
    assert len(asked) == 2


def test_slow_every_time_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring(monkeypatch, *[0.099 * MARGIN] * TRIES)

    (problem,) = regressions([ENTRY])

    assert "SchedulingBasic, 5 nodes, 7 pods fell to 0.59" in problem


def test_the_stored_workloads_exist_and_can_have_these_sizes() -> None:
    for entry in json.loads(FILE.read_text()):
        (workload,) = choose([entry["workload"]], shipped())
        resized(
            workload, nodes=entry["nodes"], pods=entry["pods"], init_pods=entry["init_pods"]
        ).resolve()
        assert entry["ratio"] > 0
