"""A trace that is made up is like its source, and comes from its seed alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stowplan as sp
from stowplan.errors import InputError
from stowplan.sim.files import write_trace
from stowplan.sim.summary import mean_load, summary
from stowplan.sim.synthesise import synthesise
from stowplan.sim.trace import Trace
from tests.sim.traces import steady


@pytest.fixture(scope="module")
def openb() -> Trace:
    return sp.read_trace("openb")


@pytest.mark.slow
def test_a_made_up_trace_is_like_its_source(openb: Trace) -> None:
    made = synthesise(openb, nodes=1000, pods=50_000, days=28, seed=1)

    assert (made.pod_count, made.node_count) == (50_000, 1000)
    assert made.pod_arrival_s[-1] < 28 * 86400
    for column in ("pod_template", "node_template"):
        shares = [
            np.bincount(getattr(t, column), minlength=200) / len(getattr(t, column))
            for t in (openb, made)
        ]
        assert np.abs(shares[0] - shares[1]).max() < 0.01
    for quantile in (0.1, 0.5, 0.9, 0.99):
        was, became = (np.quantile(t.pod_run_s, quantile) for t in (openb, made))
        assert became == pytest.approx(was, rel=0.15)
    hours = [np.array(summary(t)["arrivals"]["by_hour_of_day"]) for t in (openb, made)]
    assert np.corrcoef(hours[0], hours[1])[0, 1] > 0.9


def test_the_same_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path, openb: Trace) -> None:
    made = synthesise(openb, nodes=50, pods=2000, days=7, seed=42)
    write_trace(made, tmp_path / "a.stowtrace")
    write_trace(synthesise(openb, nodes=50, pods=2000, days=7, seed=42), tmp_path / "b.stowtrace")

    assert (tmp_path / "a.stowtrace").read_bytes() == (tmp_path / "b.stowtrace").read_bytes()
    assert made != synthesise(openb, nodes=50, pods=2000, days=7, seed=43)
    columns = (made.pod_template, made.pod_arrival_s, made.pod_run_s, made.node_template)
    digest = hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest()
    assert digest[:16] == "2f45e561c8c9e015"


def test_lifetimes_follow_the_load_that_is_wanted(openb: Trace) -> None:
    made = synthesise(openb, nodes=20, pods=1000, days=7, seed=1, load=0.5)

    assert mean_load(made, 7 * 86400.0) == pytest.approx(0.5, abs=0.01)


def test_batches_stay_together_and_what_never_ends_does_not_end() -> None:
    arrival_s = np.repeat(np.arange(25) * 600.0, 4)
    source = replace(
        steady(),
        pod_arrival_s=arrival_s,
        pod_run_s=np.full(100, np.inf),
        pod_end_s=np.full(100, np.nan),
    )

    made = synthesise(source, nodes=3, pods=400, days=1, seed=1)

    _, sizes = np.unique(made.pod_arrival_s, return_counts=True)
    assert (sizes % 4 == 0).all()
    assert np.isinf(made.pod_run_s).all()


@pytest.mark.parametrize(
    "wrong", [{"nodes": 0}, {"pods": -1}, {"days": 0.0}, {"days": float("nan")}, {"load": 0.0}]
)
def test_absurd_wishes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        synthesise(steady(), **({"nodes": 1, "pods": 1, "days": 1.0} | wrong))


def test_nothing_can_be_fitted_to_nothing() -> None:
    with pytest.raises(InputError, match="nothing to fit"):
        synthesise(steady(pods=0), nodes=1, pods=1, days=1)


def test_a_summary_says_what_is_asked_for_over_time() -> None:
    found = summary(steady(pods=60, nodes=10, templates=1))

    # Pods of one core, one more each minute until the hour; 120 cores for 119 minutes.
    assert found["demand"]["cpu"]["peak"] == 60_000
    assert found["demand"]["cpu"]["capacity"] == 120_000
    assert found["demand"]["cpu"]["mean"] == pytest.approx(60_000 * 60 / 119, rel=1e-6)
    assert found["arrivals"]["per_hour_max"] == 60
    assert found["lifetimes_s"]["p50"] == 3600.0
