"""The text of selectors, as `kubectl get -l` and query strings have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.labels import (
    EVERYTHING,
    Requirement,
    Selector,
    SelectorError,
    make_requirement,
    parse_selector,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("a", "a"),
        ("!a", "!a"),
        ("! a", "!a"),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        (" a = b ", "a=b"),
        ("a!=b", "a!=b"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a in (b)", "a=b"),
        ("a in (y,x)", "a in (x,y)"),
        ("a in(x,y)", "a in (x,y)"),
        ("a notin ( x , y )", "a notin (x,y)"),
        ("a in ()", "a="),
        ("a in (,x)", "a in (,x)"),
        ("a>5", "a>5"),
        ("a < 5", "a<5"),
        ("in", "in"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("c,b!=1,example.com/a=x", "b!=1,c,example.com/a=x"),
        ("a=b,c!=d,e in (x,y),!f,g", "a=b,c!=d,e in (x,y),!f,g"),
    ],
)
def test_valid(text: str, canonical: str) -> None:
    assert str(parse_selector(text)) == canonical


def test_no_text_is_everything() -> None:
    assert parse_selector("") is EVERYTHING


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "found '', expected: identifier"),
        ("!=b", "found '!=', expected: !, identifier, or 'end of string'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a==!b", "found '!', expected: identifier"),
        ("a in", "found '' expected: '('"),
        ("a in x", "found 'x' expected: '('"),
        ("a in (x", "found '', expected: ',' or ')'"),
        ("a in (x y)", "found 'y', expected: ',' or ')'"),
        ("a in (x,=)", "found '=', expected: identifier"),
        ("a in (x))", "found ')', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a>", "must be an integer"),
        ("a>x", "must be an integer"),
        ("a b=c", "expected: in, notin"),
        ("-a=c", "label key '-a' is not valid"),
        ("a=%", "label value '%'"),
        ("a" * 70_000, "too long"),
    ],
)
def test_refused(text: str, problem: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)

    assert problem in str(caught.value)


words = st.sampled_from(["a", "b", "example.com/c", "in", "notin"])
requirements = st.one_of(
    st.builds(
        make_requirement,
        words,
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["", "x", "y-z", "in"]), min_size=1, max_size=3),
    ),
    st.builds(make_requirement, words, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        make_requirement,
        words,
        st.sampled_from(["Gt", "Lt"]),
        st.integers(0, 99).map(lambda number: [str(number)]),
    ),
)


@given(st.lists(requirements, max_size=4))
def test_what_is_written_is_read_back(wanted: list[Requirement]) -> None:
    written = Selector(wanted)

    assert parse_selector(str(written)) == written


@given(st.text("ab=!,()<> in", max_size=20))
def test_anything_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        parsed = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(parsed)) == parsed
