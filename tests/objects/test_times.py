"""Timestamps agree with the standard library, and impossible ones are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.times import TimeError, format_micro_time, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2024-02-29T23:59:59Z", 1709251199.0),
        ("2026-01-01T12:00:00.25Z", 1767268800.25),
        ("2026-01-01T12:00:00.123456789Z", 1767268800.123456789),
        ("2026-01-01T13:30:00+01:30", 1767268800.0),
        ("2026-01-01T07:00:00-05:00", 1767268800.0),
        ("0001-01-01T00:00:00Z", -62135596800.0),
    ],
)
def test_valid(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            "now",
            "2026-01-01",
            "2026-01-01 12:00:00Z",
            "2026-01-01T12:00:00",
            "20260101T120000Z",
        ],
        *["2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z"],
        *["2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z"],
        *["2026-01-01T00:00:60Z", "2026-01-01T00:00:00.Z", "2026-01-01t00:00:00z"],
    ],
)
def test_invalid_is_shown_with_an_example(text: str) -> None:
    with pytest.raises(TimeError) as caught:
        parse_time(text)

    assert repr(text) in str(caught.value)
    assert "2026-01-31T12:00:00Z" in str(caught.value)


moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)


@given(moments)
def test_writing_and_reading_agree_with_the_standard_library(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    seconds = whole.timestamp()

    assert format_time(seconds) == whole.strftime(f"{whole.year:04d}-%m-%dT%H:%M:%SZ")
    assert parse_time(format_time(seconds)) == seconds


@given(st.integers(0, 4_000_000_000_000_000))
def test_micro_times_survive_a_round_trip(micros: int) -> None:
    text = format_micro_time(micros / 1_000_000)

    assert text[-8:-1] == f".{micros % 1_000_000:06d}"[:7]
    assert round(parse_time(text) * 1_000_000) == micros
