"""The text format that Prometheus reads, checked with two readers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stowplan.framework.histogram import Histogram, exponential
from stowplan.printable import printable_lines
from stowplan.runtime.exposition import (
    Family,
    Kind,
    Level,
    Spec,
    number,
    text_of,
)
from tests.runtime.prometheus import parse

COUNTER = Spec("a_total", Kind.COUNTER, ("x", "y"), Level.STABLE, "Help.")
HISTOGRAM = Spec("a_seconds", Kind.HISTOGRAM, ("x",), Level.ALPHA, "Help.", (0.1, 1.0))


def test_a_counter() -> None:
    family = Family(COUNTER)
    family.add("1", "2")
    family.add("1", "2", amount=2)

    assert text_of([family]) == (
        '# HELP a_total [STABLE] Help.\n# TYPE a_total counter\na_total{x="1",y="2"} 3\n'
    )


def test_a_histogram_counts_up_to_and_including_its_bounds() -> None:
    family = Family(HISTOGRAM)
    for value in (0.05, 0.1, 0.11, 1.0, 7.0):
        family.observe("1", value=value)

    assert text_of([family]).splitlines()[2:] == [
        'a_seconds_bucket{x="1",le="0.1"} 2',
        'a_seconds_bucket{x="1",le="1"} 4',
        'a_seconds_bucket{x="1",le="+Inf"} 5',
        'a_seconds_sum{x="1"} 8.26',
        'a_seconds_count{x="1"} 5',
    ]


def test_a_family_without_values_is_still_named() -> None:
    assert set(parse(text_of([Family(COUNTER), Family(HISTOGRAM)]))) == {"a_total", "a_seconds"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.0, "3"), (0.1, "0.1"), (1e-05, "1e-05"), (2.5e-7, "2.5e-07"), (-2, "-2")],
)
def test_numbers_are_written_as_go_does(value: float, text: str) -> None:
    assert number(value) == text


@given(st.text(), st.text())
def test_any_label_survives_the_way(one: str, other: str) -> None:
    """Controls written out: nobody's terminal is to obey them."""
    family = Family(COUNTER)
    family.add(one, other)

    (read,) = text_string_to_metric_families(text_of([family]))

    (sample,) = read.samples
    shown = {"x": printable_lines(one), "y": printable_lines(other)}
    assert sample.labels == shown


@given(st.lists(st.floats(0, 10)))
def test_many_at_once_are_counted_as_one_by_one(values: list[float]) -> None:
    bounds = exponential(0.001, 2, 12)
    single, together = Histogram(bounds), Histogram(bounds)
    for value in values:
        single.observe(value)

    together.take(waiting := list(values))

    assert together.counts == single.counts
    assert together.sum == pytest.approx(single.sum)
    assert waiting == []


def test_bounds_have_the_digits_of_go() -> None:
    """The bound is part of a series' name: 1.5 times over and over, not powers of 1.5."""
    assert [number(bound) for bound in exponential(0.00001, 1.5, 5)] == [
        "1e-05",
        "1.5000000000000002e-05",
        "2.2500000000000005e-05",
        "3.375000000000001e-05",
        "5.062500000000001e-05",
    ]
