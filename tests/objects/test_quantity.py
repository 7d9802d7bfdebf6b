"""Quantities are read exactly as apimachinery reads them, and rounded only when asked."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.quantity import (
    INT64_MAX,
    QuantityError,
    ceil_milli,
    ceil_value,
    parse_quantity,
)

NANO = 10**9


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("0n", 0),
        ("-0", 0),
        ("+0.0", 0),
        ("00012", 12 * NANO),
        ("100n", 100),
        ("100u", 100_000),
        ("100m", 100_000_000),
        ("1", NANO),
        ("1k", 10**12),
        ("1M", 10**15),
        ("1G", 10**18),
        ("1T", 10**21),
        ("1P", 10**24),
        ("1E", 10**27),
        ("1Ki", 1024 * NANO),
        ("1Mi", 2**20 * NANO),
        ("1Gi", 2**30 * NANO),
        ("1Ti", 2**40 * NANO),
        ("1Pi", 2**50 * NANO),
        ("1Ei", 2**60 * NANO),
        (".5", NANO // 2),
        ("5.", 5 * NANO),
        ("1.Gi", 2**30 * NANO),
        ("1.5Gi", 1610612736 * NANO),
        ("0.5Mi", 524288 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1e+3", 1000 * NANO),
        ("1E-3", NANO // 1000),
        ("12.34e2", 1234 * NANO),
        ("-1.5", -1_500_000_000),
        ("+1m", 1_000_000),
        ("  1Gi\n", 2**30 * NANO),
        (2, 2 * NANO),
        (0.5, NANO // 2),
        (0.1, 100_000_000),
        (1e22, 10**31),
        (1e-7, 100),
        (-3, -3 * NANO),
    ],
)
def test_valid(text: str | float, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1.1n", 2),
        ("0.5n", 1),
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
        ("1e-20", 1),
        ("1e-999999999", 1),
        ("0e-999999999", 0),
        ("0e999999999", 0),
        ("1.0000000000000000001Ki", 1024 * NANO + 1),
    ],
)
def test_finer_than_nano_is_rounded_up_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("8Ei", INT64_MAX),
        ("-8Ei", -INT64_MAX),
        ("9223372036854775807Ki", INT64_MAX),
        ("7.9999Ei", ceil(Fraction("7.9999") * 2**60)),
    ],
)
def test_binary_amounts_are_capped_at_64_bits(text: str, units: int) -> None:
    assert ceil_value(parse_quantity(text)) == units


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " ",
            ".",
            "+",
            "-",
            "E",
            "Ki",
            "m",
            "e3",
            "aoeu",
            "1.1.1",
            "1+1",
            "1-1",
            "--1",
            "+-1",
        ],
        *["5K", "1mi", "0.1mi", "0.1am", ".5i", "1i", "-3.01i", "1KI", "1kI", "1Zi", "1Bi", "1B"],
        *["1 Gi", "1G i", "1_000", "1,5", "0x10", "1e", "1e+", "-3.01e-", "1e1.5", "1e3Mi", "1mm"],
        *["٣", "1\u00a0Gi", "nan", "inf", "1e999999999", "9" * 600, float("nan"), float("inf")],
    ],
)
def test_invalid_is_named_and_says_what_is_right(text: str | float) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert repr(text)[:20] in str(caught.value)
    assert "for example 100m, 1.5Gi, 2" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "units", "millis"),
    [
        ("100u", 1, 1),
        ("0.1", 1, 100),
        ("1500m", 2, 1500),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1n", 1, 1),
        ("-1500m", -2, -1500),
        ("-1n", -1, -1),
        ("0", 0, 0),
        ("1E", 10**18, INT64_MAX),
        ("100E", INT64_MAX, INT64_MAX),
        ("-100E", -INT64_MAX, -INT64_MAX),
    ],
)
def test_value_and_milli_value_round_away_from_zero(text: str, units: int, millis: int) -> None:
    nanos = parse_quantity(text)

    assert (ceil_value(nanos), ceil_milli(nanos)) == (units, millis)


SUFFIXES = {
    "": Fraction(1),
    **{
        s: Fraction(10) ** e
        for s, e in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{s}i": Fraction(2) ** (10 * n) for n, s in enumerate("KMGTPE", 1)},
    **{f"e{n}": Fraction(10) ** n for n in (-12, -9, 0, 5, 12)},
}


def away_from_zero(value: Fraction) -> int:
    return ceil(value) if value >= 0 else -ceil(-value)


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.text("0123456789", max_size=12),
    fraction=st.none() | st.text("0123456789", max_size=14),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_the_same_as_exact_fractions(
    sign: str, whole: str, fraction: str | None, suffix: str
) -> None:
    digits = whole + (fraction or "")
    text = f"{sign}{whole}{'' if fraction is None else '.' + fraction}{suffix}"
    if not digits:
        with pytest.raises(QuantityError):
            parse_quantity(text)
        return
    magnitude = Fraction(int(digits), 10 ** len(fraction or "")) * SUFFIXES[suffix]
    if suffix.endswith("i"):
        magnitude = min(magnitude, Fraction(INT64_MAX))
    exact = -magnitude if sign == "-" else magnitude

    nanos = parse_quantity(text)

    assert nanos == away_from_zero(exact * NANO)
    if abs(exact) < 10**12:
        assert ceil_value(nanos) == away_from_zero(Fraction(nanos, NANO))
        assert ceil_milli(nanos) == away_from_zero(Fraction(nanos, NANO) * 1000)


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_anything_is_a_number_or_a_quantity_error(value: str | float) -> None:
    try:
        nanos = parse_quantity(value)
    except QuantityError:
        return
    assert isinstance(nanos, int)
