"""Small languages: quantities, selectors, times, durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.selectors import predicate
from stowplan.cluster.port import ListOptions
from stowplan.config.duration import Duration
from stowplan.errors import BadRequest
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.labels import SelectorError
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.selector_text import parse_selector
from stowplan.objects.times import TimeError, parse_time
from tests.builders import pod
from tests.fuzz.inputs import refused

DIGITS_MORE = 40
"""How many more digits an amount in nanos may have than its text: an exponent must not add many."""

anything = st.text(max_size=40)
quantities = (
    st.text("0123456789.+-eEinumkKMGTP ", max_size=20)
    | anything
    | st.builds(
        "{}{}".format, st.integers(), st.sampled_from(["", "m", "Ki", "E", "e9", "e-9", "Ei"])
    )
)
selectors = st.lists(
    st.sampled_from(
        [
            "a",
            "app",
            "=",
            "==",
            "!=",
            "in",
            "notin",
            "(",
            ")",
            ",",
            "!",
            " ",
            "x/y",
            ">",
            "<",
            "1",
            "",
        ]
    ),
    max_size=12,
).map("".join)
fields = st.lists(
    st.sampled_from(["metadata.name", "spec.nodeName", "=", "!=", "==", ",", "\\", "\\,", "x", ""]),
    max_size=10,
).map("".join)


@given(quantities)
def test_quantities(text: str) -> None:
    with refused(QuantityError):
        assert abs(parse_quantity(text)) < 10 ** (len(text) + DIGITS_MORE)


@pytest.mark.parametrize(
    "text", ["1e999999999", "1e-999999999", "9" * 10_000, "0." + "0" * 10_000 + "1"]
)
def test_a_quantity_that_would_fill_the_memory(text: str) -> None:
    with refused(QuantityError):
        assert abs(parse_quantity(text)) < 10 ** (len(text) + DIGITS_MORE)


@given(selectors | anything)
def test_label_selectors(text: str) -> None:
    with refused(SelectorError):
        parse_selector(text).matches({"app": "web"})


@given(fields | anything, selectors, st.sampled_from([POD, NODE]))
def test_selectors_of_a_list(field_selector: str, label_selector: str, kind: object) -> None:
    options = ListOptions(field_selector=field_selector, label_selector=label_selector)
    with refused(BadRequest):
        selects = predicate(kind, options)  # type: ignore[arg-type]
        if selects is not None and kind is POD:
            selects(pod("web"))


@given(st.text("0123456789-T:Z.+ ", max_size=30) | anything)
def test_times(text: str) -> None:
    with refused(TimeError):
        parse_time(text)


@given(st.text("0123456789.hmsunµ-+ ", max_size=20) | anything)
def test_durations(text: str) -> None:
    with refused(ValueError):
        found = Duration.parse(text)
        assert Duration.parse(str(found)) == found
