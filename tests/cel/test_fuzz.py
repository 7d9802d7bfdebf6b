"""Arbitrary text is refused or evaluated; nothing else happens."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cel import CompileError, Device, EvaluationError, Version, compile_expression
from stowplan.cel.declarations import functions

DEVICES = [
    Device("d"),
    Device("d", {"a": "x", "b": -1, "c": False, "v": Version("1.0.0-rc.1")}, {"m": "1500m"}),
    Device("e", {"d/a": 3, "d/b": "b", "d/c": "2020-01-01T00:00:00Z"}, {"d/m": "1Gi"}, True),
]
WORDS = [
    *("device", "attributes", "capacity", "driver", "true", "false", "null", "in", "x", "y", "cel"),
    *("all", "exists", "exists_one", "map", "filter", "bind", "has", "optMap", "sortBy"),
    *("transformList", "transformMap", "transformMapEntry", "optional", "of", "none"),
    *(it.rpartition(".")[2] for it in functions() if it.isidentifier() or "." in it),
]
SIGNS = [*"()[]{}.,:?!<>+-*/%\"'`", "&&", "||", "==", "!=", "<=", ">=", "[?", ".?", " ", "\n", "//"]
LITERALS = [
    '"a"',
    "1",
    "-1",
    "2u",
    "1.5",
    'b"z"',
    "[1, 2]",
    '{"a": 1}',
    '"%s"',
    '"1h"',
    "0x1F",
    "1e400",
]
VALUES = [
    *('device.attributes["d"].a', 'device.attributes["d"].b', 'device.attributes["d"].v'),
    *('device.capacity["d"].m', "device", "dyn(1)", "optional.none()", '["b", "a"]', "[[1], []]"),
]

soup = st.lists(st.sampled_from([*WORDS, *SIGNS, *LITERALS, *VALUES]), max_size=25).map("".join)


def calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(sorted(it for it in functions() if it[-1].isalnum() and "@" not in it))
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "<", ">=", "in", "&&", "||", "!="])
    several = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("{}.{}({})".format, inner, names, several),
        st.builds("{}({})".format, names, several),
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}.map(x, {})".format, inner, inner),
        st.builds("cel.bind(x, {}, {})".format, inner, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    )


shaped = st.recursive(st.sampled_from([*LITERALS, *VALUES, "x"]), calls, max_leaves=12)


def refused_or_answered(text: str) -> None:
    try:
        expression = compile_expression(text)
    except CompileError as refusal:
        lines = str(refusal).split("\n")
        assert len(lines) == 1, lines
        return
    for device in DEVICES:
        with suppress(EvaluationError):
            assert expression.matches(device) in (True, False)


@settings(deadline=2000)
@given(st.text())
def test_any_text(text: str) -> None:
    refused_or_answered(text)


@settings(deadline=2000, max_examples=300)
@given(soup)
def test_words_and_signs(text: str) -> None:
    refused_or_answered(text)


@settings(deadline=2000, max_examples=500)
@given(shaped)
def test_calls_of_everything_with_anything(text: str) -> None:
    refused_or_answered(f"dyn({text}) == 1")
    refused_or_answered(text)
