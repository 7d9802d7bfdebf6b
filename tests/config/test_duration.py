"""Durations are read and written by Go's rules."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stowplan.config import Duration

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("15s", 15 * SECOND),
        ("1m30s", 90 * SECOND),
        ("2h", 7200 * SECOND),
        ("1h2m3s4ms5us6ns", 3_723_004_005_006),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("100ms", 100_000_000),
        ("7µs", 7_000),
        ("7μs", 7_000),
        ("-10s", -10 * SECOND),
        ("+10s", 10 * SECOND),
        ("0.3333333333333333333h", 1_200 * SECOND),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_reads(text: str, ns: int) -> None:
    assert Duration.parse(text).ns == ns


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1s2", 'time: missing unit in duration "1s2"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_refuses_in_the_words_of_go(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^time: ") as caught:
        Duration.parse(text)

    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (15 * SECOND, "15s"),
        (90 * SECOND, "1m30s"),
        (600 * SECOND, "10m0s"),
        (3600 * SECOND + SECOND // 2, "1h0m0.5s"),
        (-15 * SECOND, "-15s"),
    ],
)
def test_writes(ns: int, text: str) -> None:
    assert str(Duration(ns)) == text


@given(st.integers(-(2**63) + 1, 2**63 - 1))
@example(1)
def test_what_is_written_reads_back_to_the_nanosecond(ns: int) -> None:
    # Go's own fraction goes through floats, which hold the nine digits below a second exactly.
    assert Duration.parse(str(Duration(ns))).ns == ns


def test_knows_its_seconds() -> None:
    assert Duration.of_seconds(15).seconds == 15.0
    assert Duration.of_seconds(2) < Duration.of_seconds(3)
