"""Which toleration covers which taint."""

from __future__ import annotations

import pytest

from stowplan.objects.node import Taint
from stowplan.objects.pod import Toleration
from stowplan.objects.taints import first_untolerated, tolerates

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
    ("operator", "taint", "toleration", "covers"),
    [
        ("Gt", "10", "5", True),
        ("Gt", "5", "5", False),
        ("Lt", "-3", "0", True),
        ("Lt", "5", "5", False),
        ("Gt", "9223372036854775807", "1", True),
        ("Gt", "9223372036854775808", "1", False),
        ("Gt", "010", "5", False),
        ("Gt", "+10", "5", False),
        ("Lt", "-0", "5", False),
        ("Lt", "red", "5", False),
        ("Lt", "1", "", False),
    ],
)
def test_comparison_needs_canonical_integers(
    operator: str, taint: str, toleration: str, covers: bool
) -> None:
    node_taint = Taint(key="sla", value=taint, effect="NoSchedule")
    pod_toleration = Toleration(key="sla", operator=operator, value=toleration)

    assert tolerates(pod_toleration, node_taint, comparison_operators=True) is covers
    assert not tolerates(pod_toleration, node_taint)


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
