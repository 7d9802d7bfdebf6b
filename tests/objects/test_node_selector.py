"""Node selectors: terms, names, and what a bad term does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.objects.labels import SelectorError
from stowplan.objects.node_selector import (
    compile_node_selector,
    compile_preferred,
    metadata_name_values,
    required_node_affinity,
)
from stowplan.objects.pod import NodeSelector, Pod, PreferredSchedulingTerm

LABELS = {"zone": "a", "cores": "8"}


def want(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def labels(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(requirements)}


def fields(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"matchFields": list(requirements)}


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


IN_A = labels(want("zone", "In", "a"))
IN_B = labels(want("zone", "In", "b"))
BAD = labels(want("zone", "In"))
NAMED = fields(want("metadata.name", "In", "n1"))


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([], False, id="no-terms"),
        pytest.param([{}], False, id="an-empty-term"),
        pytest.param([labels()], False, id="an-empty-list"),
        pytest.param([IN_A], True, id="label"),
        pytest.param([IN_B], False, id="other-label"),
        pytest.param([IN_B, IN_A], True, id="one-term-is-enough"),
        pytest.param([{}, IN_A], True, id="beside-an-empty-term"),
        pytest.param([BAD], False, id="a-bad-term"),
        pytest.param([BAD, IN_A], True, id="beside-a-bad-term"),
        pytest.param([labels(want("zone", "In", "a"), want("x", "Exists"))], False, id="all-of"),
        pytest.param([labels(want("cores", "Gt", "4"))], True, id="gt"),
        pytest.param([labels(want("cores", "Lt", "8"))], False, id="lt"),
        pytest.param([labels(want("zone", "Gt", "4"))], False, id="gt-of-text"),
        pytest.param([NAMED], True, id="name"),
        pytest.param([fields(want("metadata.name", "NotIn", "n1"))], False, id="not-the-name"),
        pytest.param([fields(want("metadata.name", "In", "n1", "n2"))], False, id="two-names"),
        pytest.param([fields(want("metadata.name", "Exists"))], False, id="name-exists"),
        pytest.param([fields(want("metadata.uid", "In", ""))], True, id="other-fields-are-empty"),
        pytest.param([fields(want("metadata.uid", "In", "x"))], False, id="other-field"),
        pytest.param([{**IN_A, **NAMED}], True, id="label-and-name"),
        pytest.param([{**IN_B, **NAMED}], False, id="name-without-label"),
    ],
)
def test_matches(terms: list[dict[str, Any]], matches: bool) -> None:
    compiled = compile_node_selector(selector(*terms))

    assert compiled is not None
    assert compiled.matches(LABELS, "n1") is matches


def test_fields_are_ignored_for_a_node_without_a_name() -> None:
    compiled = compile_node_selector(
        selector({**IN_A, **fields(want("metadata.name", "In", "n9"))})
    )

    assert compiled is not None
    assert compiled.matches(LABELS, "")
    assert not compiled.matches(LABELS, "n1")
    assert not compiled.matches({}, "")


def test_no_selector_is_no_restriction() -> None:
    assert compile_node_selector(None) is None


def test_problems_are_kept_for_those_who_refuse() -> None:
    compiled = compile_node_selector(selector(IN_A, BAD, fields(want("metadata.name", "Gt", "1"))))

    assert compiled is not None
    assert len(compiled.problems) == 2
    assert "values set can't be empty" in compiled.problems[0]
    assert "'Gt' is not a valid node field selector operator" in compiled.problems[1]
    assert [term.never_matches for term in compiled.terms] == [False, True, True]


def preferred(weight: int, term: dict[str, Any]) -> PreferredSchedulingTerm:
    return msgspec.convert({"weight": weight, "preference": term}, PreferredSchedulingTerm)


def test_preferred_terms_that_cannot_count_are_left_out() -> None:
    compiled = compile_preferred(
        [preferred(5, IN_A), preferred(0, IN_A), preferred(7, {}), preferred(3, IN_B)]
    )

    assert [weight for weight, _ in compiled] == [5, 3]
    assert [term.matches(LABELS, "n1") for _, term in compiled] == [True, False]
    assert compile_preferred(None) == ()


def test_a_bad_preferred_term_raises_unless_it_weighs_nothing() -> None:
    assert compile_preferred([preferred(0, BAD)]) == ()
    with pytest.raises(SelectorError, match="values set can't be empty"):
        compile_preferred([preferred(1, IN_A), preferred(1, BAD)])


def pod(spec: dict[str, Any]) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": {"nodeAffinity": node_affinity}}


@pytest.mark.parametrize(
    ("spec", "matches", "trivial"),
    [
        ({}, True, True),
        ({"nodeSelector": {}}, True, True),
        ({"affinity": {}}, True, True),
        ({"affinity": {"nodeAffinity": {}}}, True, True),
        ({"nodeSelector": {"zone": "a"}}, True, False),
        ({"nodeSelector": {"zone": "b"}}, False, False),
        (affinity(IN_A), True, False),
        (affinity(), False, False),
        ({"nodeSelector": {"zone": "a"}, **affinity(IN_B)}, False, False),
        ({"nodeSelector": {"cores": "8"}, **affinity(IN_A)}, True, False),
    ],
)
def test_required_node_affinity(spec: dict[str, Any], matches: bool, trivial: bool) -> None:
    required = required_node_affinity(pod(spec))

    assert required.matches(LABELS, "n1") is matches
    assert required.is_trivial is trivial


def test_equal_affinities_are_one_key() -> None:
    one = required_node_affinity(pod({"nodeSelector": {"a": "1", "b": "2"}, **affinity(IN_A)}))
    other = required_node_affinity(pod({"nodeSelector": {"b": "2", "a": "1"}, **affinity(IN_A)}))

    assert {one: 1}[other] == 1


def test_names_per_term_for_narrowing() -> None:
    terms = selector(
        IN_A,
        fields(want("metadata.name", "In", "n1", "n2"), want("metadata.name", "In", "n2", "n3")),
        fields(want("metadata.name", "In", "n1"), want("metadata.name", "In", "n2")),
        fields(want("metadata.name", "NotIn", "n1")),
        {},
    )

    assert metadata_name_values(terms) == (None, frozenset({"n2"}), frozenset(), None, None)
