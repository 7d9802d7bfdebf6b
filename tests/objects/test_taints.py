"""Which toleration covers which taint."""

from __future__ import annotations

import pytest

from stowplan.objects.node import Taint
from stowplan.objects.pod import Toleration
from stowplan.objects.taints import first_untolerated, parse_canonical_integer, tolerates

TAINT = Taint(key="team", value="red", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(Toleration(key="team", value="red"), True, id="no-operator-is-equal"),
        pytest.param(Toleration(key="team", operator="Equal", value="red"), True, id="equal"),
        pytest.param(
            Toleration(key="team", operator="Equal", value="blue"), False, id="other-value"
        ),
        pytest.param(Toleration(key="team", operator="Exists"), True, id="exists"),
        pytest.param(Toleration(key="crew", operator="Exists"), False, id="other-key"),
        pytest.param(Toleration(operator="Exists"), True, id="no-key-is-every-key"),
        pytest.param(Toleration(value="red"), True, id="no-key-still-compares-values"),
        pytest.param(Toleration(), False, id="no-key-and-no-value"),
        pytest.param(
            Toleration(key="team", operator="Exists", effect="NoSchedule"), True, id="same-effect"
        ),
        pytest.param(
            Toleration(key="team", operator="Exists", effect="NoExecute"), False, id="other-effect"
        ),
        pytest.param(Toleration(key="team", operator="exists"), False, id="unknown-operator"),
        pytest.param(Toleration(key="team", operator="Gt", value="1"), False, id="gate-is-off"),
    ],
)
def test_tolerates(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, TAINT) is covers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10", 10),
        ("-3", -3),
        ("0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("010", None),
        ("+10", None),
        ("-0", None),
        ("red", None),
        ("", None),
    ],
)
def test_canonical_integers(text: str, number: int | None) -> None:
    assert parse_canonical_integer(text) == number


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_values_are_not_compared(operator: str) -> None:
    node_taint = Taint(key="sla", value="7", effect="NoSchedule")

    assert not any(
        tolerates(Toleration(key="sla", operator=operator, value=value), node_taint)
        for value in ("5", "7", "9")
    )


def test_the_first_hard_taint_nobody_covers_is_named() -> None:
    soft = Taint(key="a", effect="PreferNoSchedule")
    covered = Taint(key="b", effect="NoExecute")
    second = Taint(key="d", effect="NoSchedule")

    found = first_untolerated(
        [soft, covered, TAINT, second], [Toleration(key="b", operator="Exists")]
    )

    assert found is TAINT


@pytest.mark.parametrize("taints", [None, [], [Taint(key="a", effect="PreferNoSchedule")]])
def test_no_hard_taint_needs_no_toleration(taints: list[Taint] | None) -> None:
    assert first_untolerated(taints, None) is None
