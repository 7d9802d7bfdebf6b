"""Label selectors: what they match, when they are equal, what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.base import LabelSelector
from stowplan.objects.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    compile_selector,
    equality,
    label_key_problem,
    label_value_problem,
    make_requirement,
    selector_from_map,
)


def selector(**data: Any) -> LabelSelector:
    return msgspec.convert(data, LabelSelector)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert compile_selector(selector()) is EVERYTHING
    assert compile_selector(selector(matchLabels={}, matchExpressions=[])) is EVERYTHING
    assert not NOTHING.matches({})
    assert not NOTHING.matches({"a": "b"})
    assert EVERYTHING.matches({})
    assert (EVERYTHING.is_everything, EVERYTHING.is_nothing) == (True, False)
    assert (NOTHING.is_everything, NOTHING.is_nothing) == (False, True)
    assert EVERYTHING != NOTHING


@pytest.mark.parametrize(
    ("requirement", "value", "matches"),
    [
        (make_requirement("a", "In", ["x", "y"]), "x", True),
        (make_requirement("a", "In", ["x", "y"]), "z", False),
        (make_requirement("a", "In", ["x"]), None, False),
        (make_requirement("a", "In", [""]), "", True),
        (make_requirement("a", "In", [""]), None, False),
        (make_requirement("a", "NotIn", ["x"]), None, True),
        (make_requirement("a", "NotIn", ["x"]), "y", True),
        (make_requirement("a", "NotIn", ["x"]), "x", False),
        (make_requirement("a", "Exists"), "", True),
        (make_requirement("a", "Exists"), None, False),
        (make_requirement("a", "DoesNotExist"), None, True),
        (make_requirement("a", "DoesNotExist"), "", False),
        (make_requirement("a", "Gt", ["5"]), "6", True),
        (make_requirement("a", "Gt", ["5"]), "5", False),
        (make_requirement("a", "Gt", ["5"]), "+6", True),
        (make_requirement("a", "Gt", ["5"]), "006", True),
        (make_requirement("a", "Lt", ["5"]), "-6", True),
        (make_requirement("a", "Lt", ["5"]), None, False),
        (make_requirement("a", "Lt", ["5"]), "", False),
        (make_requirement("a", "Lt", ["5"]), "1.5", False),
        (make_requirement("a", "Lt", ["5"]), "1_0", False),
        (make_requirement("a", "Gt", ["5"]), "9223372036854775807", True),
        (make_requirement("a", "Gt", ["5"]), "9223372036854775808", False),
    ],
    ids=str,
)
def test_requirement(requirement: Requirement, value: str | None, matches: bool) -> None:
    labels = {} if value is None else {"a": value}

    assert requirement.matches_value(value) is matches
    assert requirement.matches(labels) is matches
    assert EVERYTHING.and_also(requirement).matches(labels) is matches


def test_labels_and_expressions_must_both_match() -> None:
    both = compile_selector(
        selector(matchLabels={"a": "1"}, matchExpressions=[expression("b", "Exists")])
    )

    assert both.matches({"a": "1", "b": "2"})
    assert not both.matches({"a": "1"})
    assert not both.matches({"b": "2"})


def test_selectors_that_say_the_same_are_equal() -> None:
    one = compile_selector(
        selector(
            matchLabels={"a": "1", "b": "2"},
            matchExpressions=[expression("c", "In", "x", "y"), expression("d", "Exists")],
        )
    )
    other = compile_selector(
        selector(
            matchLabels={"b": "2"},
            matchExpressions=[
                expression("d", "Exists"),
                expression("d", "Exists"),
                expression("c", "In", "y", "x", "y"),
                expression("a", "In", "1"),
            ],
        )
    )

    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "a=1,b=2,c in (x,y),d"
    assert one != compile_selector(selector(matchLabels={"a": "1"}))
    assert one != "a=1,b=2,c in (x,y),d"


def test_numbers_have_an_order_too() -> None:
    low, high = make_requirement("a", "Gt", ["1"]), make_requirement("a", "Gt", ["7"])

    assert EVERYTHING.and_also(low, high) == EVERYTHING.and_also(high, low)


def test_and_also() -> None:
    narrowed = selector_from_map({"a": "1"}).and_also(equality("b", "2"))

    assert narrowed == selector_from_map({"b": "2", "a": "1"})
    assert NOTHING.and_also(equality("b", "2")) is NOTHING
    assert EVERYTHING.and_also() is EVERYTHING
    assert repr(narrowed) == "Selector('a=1,b=2')"
    assert str(NOTHING) == "<none>"


def test_a_map_is_taken_as_it_is() -> None:
    odd = selector_from_map({"not a key": "not a value!"})

    assert odd.matches({"not a key": "not a value!"})
    assert selector_from_map({}) is EVERYTHING


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"matchLabels": {"a b": "c"}}, "label key 'a b' is not valid"),
        ({"matchLabels": {"": "c"}}, "label key '' is not valid"),
        ({"matchLabels": {"a": "-c"}}, "label value '-c' of key 'a' is not valid"),
        ({"matchExpressions": [expression("a", "In")]}, "values set can't be empty"),
        ({"matchExpressions": [expression("a", "NotIn")]}, "values set can't be empty"),
        ({"matchExpressions": [expression("a", "Exists", "x")]}, "values set must be empty"),
        ({"matchExpressions": [expression("a", "DoesNotExist", "x")]}, "must be empty"),
        ({"matchExpressions": [expression("a", "In", "x!")]}, "label value 'x!'"),
        ({"matchExpressions": [expression("a", "Gt", "1")]}, "'Gt' is not a valid label selector"),
        ({"matchExpressions": [expression("a", "")]}, "'' is not a valid label selector operator"),
    ],
)
def test_refused(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        compile_selector(selector(**data))


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        ("Gt", [], "exactly one value"),
        ("Lt", ["1", "2"], "exactly one value"),
        ("Gt", ["x"], "must be an integer; got 'x'"),
        ("Gt", ["-5"], "label value '-5'"),
        ("Gt", ["9223372036854775808"], "must be an integer"),
        ("Near", ["1"], "'Near' is not a valid selector operator"),
    ],
)
def test_node_operators_refused(operator: str, values: list[str], problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        make_requirement("a", operator, values)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("a", True),
        ("A-b_c.9", True),
        ("example.com/a", True),
        ("a" * 63, True),
        (f"{'a' * 253}/b", True),
        ("", False),
        ("-a", False),
        ("a-", False),
        ("a" * 64, False),
        ("/a", False),
        ("a/", False),
        ("a/b/c", False),
        ("Example.com/a", False),
        ("a..b/c", False),
        (f"{'a' * 254}/b", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_label_keys(key: str, good: bool) -> None:
    assert (label_key_problem(key) == "") is good


@pytest.mark.parametrize(
    ("value", "good"),
    [
        *[("", True), ("a", True), ("1.2-3_4", True), ("a" * 63, True)],
        *[("a" * 64, False), (".a", False), ("a ", False), ("a/b", False), ("a\n", False)],
    ],
)
def test_label_values(value: str, good: bool) -> None:
    assert (label_value_problem(value) == "") is good


keys = st.sampled_from("abc")
values = st.sampled_from(["", "x", "y", "z"])
expressions: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3)),
    st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)


def oracle(key: str, operator: str, wanted: list[str], labels: dict[str, str]) -> bool:
    match operator:
        case "In":
            return key in labels and labels[key] in wanted
        case "NotIn":
            return key not in labels or labels[key] not in wanted
        case "Exists":
            return key in labels
        case _:
            return key not in labels


@given(
    st.dictionaries(keys, values, max_size=2),
    st.lists(expressions, max_size=3),
    st.dictionaries(keys, values),
)
def test_the_same_as_the_plain_definition(
    match_labels: dict[str, str],
    match_expressions: list[tuple[str, str, list[str]]],
    labels: dict[str, str],
) -> None:
    compiled = compile_selector(
        selector(
            matchLabels=match_labels,
            matchExpressions=[expression(k, op, *wanted) for k, op, wanted in match_expressions],
        )
    )

    assert compiled.matches(labels) is (
        all(labels.get(key) == value for key, value in match_labels.items())
        and all(oracle(*each, labels) for each in match_expressions)
    )
