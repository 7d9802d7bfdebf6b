"""Cutting, scaling, shuffling and superposing keep what they promise to keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.sim.trace import Change, Trace
from stowplan.sim.transform import cut, scale, shuffle, superpose
from tests.sim.traces import steady, traces

quick = settings(max_examples=50, deadline=None)


def pod_rows(trace: Trace) -> Counter[tuple[object, ...]]:
    """Pods without their names, as a multiset; nan is written out, since it equals nothing."""
    return Counter(
        (str(trace.pod_templates[template]), arrival, run, str(end), outcome)
        for template, arrival, run, end, outcome in zip(
            trace.pod_template.tolist(),
            trace.pod_arrival_s.tolist(),
            trace.pod_run_s.tolist(),
            trace.pod_end_s.tolist(),
            trace.pod_outcome.tolist(),
            strict=True,
        )
    )


@pytest.mark.slow
@quick
@given(traces())
def test_the_parts_of_a_trace_superposed_are_the_trace(trace: Trace) -> None:
    parts = [cut(trace, namespaces=names) for names in ({"a", "c"}, {"b", "d"})]

    together = superpose(parts, nodes="first")

    assert pod_rows(together) == pod_rows(trace)
    assert together.node_names == trace.node_names


@pytest.mark.slow
@quick
@given(traces(), st.integers(0, 9000), st.integers(1, 5000), st.integers(1, 5000))
def test_a_window_of_a_window_is_a_window(trace: Trace, first: int, more: int, rest: int) -> None:
    outer = cut(trace, from_s=first, to_s=first + more + rest)

    inner = cut(outer, from_s=0, to_s=more)

    assert replace(inner, name="") == replace(cut(trace, from_s=first, to_s=first + more), name="")


def test_all_of_a_trace_is_the_trace() -> None:
    trace = steady()

    assert cut(trace) == trace
    assert superpose([trace]) == trace


def test_a_window_opens_with_what_was_there() -> None:
    trace = replace(
        steady(),
        start_s=1000.0,
        changes=(
            Change(
                0.0, "apply", {"kind": "Service", "metadata": {"name": "s", "labels": {"v": "1"}}}
            ),
            Change(
                60.0, "apply", {"kind": "Service", "metadata": {"name": "s", "labels": {"v": "2"}}}
            ),
            Change(3660.0, "delete", {"kind": "Service", "metadata": {"name": "s"}}),
            Change(9000.0, "apply", {"kind": "Service", "metadata": {"name": "t"}}),
        ),
    )

    window = cut(trace, from_s=3630, to_s=4000)

    # A pod a minute for an hour: those of minutes 1 to 60 run, 61 to 66 arrive.
    assert window.pod_count == 66
    assert window.start_s == 4630.0
    assert window.pod_run_s[0] == 30.0
    assert window.pod_end_s[0] == 30.0
    assert window.pod_arrival_s[:61].tolist() == [0.0] * 60 + [30.0]
    assert [(c.time_s, c.verb) for c in window.changes] == [(0.0, "apply"), (30.0, "delete")]
    assert window.changes[0].object["metadata"]["labels"] == {"v": "2"}


@pytest.mark.slow
@quick
@given(traces(), st.floats(0.05, 5), st.integers(0, 5))
def test_scaling_keeps_the_mix_to_less_than_one(trace: Trace, factor: float, seed: int) -> None:
    scaled = scale(trace, factor, seed=seed)

    for column, count in (
        ("pod_template", len(trace.pod_templates)),
        ("node_template", len(trace.node_templates)),
    ):
        before = np.bincount(getattr(trace, column), minlength=count)
        after = np.bincount(getattr(scaled, column), minlength=count)
        assert (np.abs(after - before * factor) <= 1).all()
        assert abs(after.sum() - before.sum() * factor) <= 1
    assert scaled == scale(trace, factor, seed=seed)


def test_scaling_by_one_changes_nothing_but_recorded_places() -> None:
    trace = steady()

    assert scale(trace, 1.0, seed=3) == trace


def test_copies_arrive_near_the_original_and_have_names() -> None:
    trace = replace(steady(), pod_names=tuple(f"p{n}" for n in range(100)))

    scaled = scale(trace, 3.0, seed=1, jitter_s=600)

    arrival_s = dict(zip(scaled.pod_names or (), scaled.pod_arrival_s.tolist(), strict=True))
    assert len(arrival_s) == 300
    assert all(abs(arrival_s[f"p{n}-{k}"] - 60 * n) <= 600 for n in range(100) for k in (2, 3))
    assert np.allclose(scaled.pod_end_s - scaled.pod_arrival_s, 3600)


def test_changes_of_nodes_that_are_gone_go_with_them() -> None:
    changes = tuple(
        Change(1.0, "apply", {"kind": "Node", "metadata": {"name": f"n{n}"}}) for n in range(10)
    )

    scaled = scale(replace(steady(), changes=changes), 0.3, seed=1)

    assert {c.object["metadata"]["name"] for c in scaled.changes} == set(scaled.node_names)


@pytest.mark.slow
@quick
@given(traces(), st.integers(0, 5))
def test_shuffling_keeps_pods_and_moments(trace: Trace, seed: int) -> None:
    shuffled = shuffle(trace, seed=seed)

    assert np.array_equal(shuffled.pod_arrival_s, trace.pod_arrival_s)
    assert np.array_equal(np.sort(shuffled.pod_run_s), np.sort(trace.pod_run_s))
    assert np.array_equal(np.bincount(shuffled.pod_template), np.bincount(trace.pod_template))
    assert shuffled == shuffle(trace, seed=seed)


def test_shuffling_does_something() -> None:
    assert shuffle(steady(), seed=1) != shuffle(steady(), seed=2)


def test_superposed_traces_keep_apart_what_shares_a_name() -> None:
    trace = replace(steady(pods=2, nodes=2), pod_names=("a", "a-2"))

    both = superpose([trace, trace])

    assert sorted(both.pod_names or ()) == ["a", "a-2", "a-2-2", "a-3"]
    assert sorted(both.node_names) == ["n0", "n0-2", "n1", "n1-2"]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_absurd_factors_are_refused(factor: float) -> None:
    with pytest.raises(InputError, match="is no factor"):
        scale(steady(), factor)


def test_a_share_is_drawn_from_the_seed() -> None:
    half = cut(steady(), share=0.5, seed=1)

    assert half.pod_count == 50
    assert half == cut(steady(), share=0.5, seed=1)
    assert half != cut(steady(), share=0.5, seed=2)
    with pytest.raises(InputError, match="is no share"):
        cut(steady(), share=1.5)
