"""YAML means what it means to kubectl, and mistakes are found with file and line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml, read_yaml_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            (word, True)
            for word in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "TRUE")
        ],
        *[(word, False) for word in ("n", "N", "no", "No", "off", "OFF", "false", "False")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        ("yEs", "yEs"),
        ("nULL", "nULL"),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("!!str yes", "yes"),
        ("!!int 5", 5),
        ("!!float 5", 5),
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("012", 10),
        ("-012", -10),
        ("0o12", 10),
        ("0x1F", 31),
        ("0b101", 5),
        ("08", 8),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5),
        ("-1.5e-3", -0.0015),
        ("1e400", "1e400"),
        ("18446744073709551615", 18446744073709551615),
        ("18446744073709551616", 18446744073709551616),
        ("-9223372036854775808", -9223372036854775808),
        ("100000000000000000000000", 1e23),
        ("1:30", "1:30"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("-", [None]),
        ("0x", "0x"),
        ("=", "="),
        ("| \n  a\n  b\n", "a\nb\n"),
        ("[a, 1, yes]", ["a", 1, True]),
    ],
)
def test_what_a_value_means(text: str, value: Any) -> None:
    (found,) = read_yaml(f"value: {text}" if text != "-" else "value:\n-", "f.yaml")

    assert found == {"value": value}
    assert type(found["value"]) is type(value)


@pytest.mark.parametrize(
    ("key", "name"), [("1", "1"), ("yes", "true"), ("off", "false"), ("1.5", "1.5"), ("'1'", "1")]
)
def test_keys_become_text(key: str, name: str) -> None:
    assert read_yaml(f"{key}: x", "f.yaml") == [{name: "x"}]


def test_documents() -> None:
    text = b"---\na: 1\n---\n---\n# only a comment\n---\n- 2\n...\n"

    assert next(read_yaml_documents(text, "f.yaml")) == (2, {"a": 1})
    assert read_yaml(text, "f.yaml") == [{"a": 1}, None, None, [2]]
    assert read_yaml("", "f.yaml") == []


def test_anchors_and_merge_keys() -> None:
    text = """
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, b: 9}
two: {<<: [*base, *more]}
three: *base
"""
    (found,) = read_yaml(text, "f.yaml")

    assert found["one"] == {"a": 1, "b": 9}
    assert found["two"] == {"a": 1, "b": 2, "c": 4}
    assert found["three"] == {"a": 1, "b": 2}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3", "the key 'a' comes twice"),
        ("x:\n  1: a\n  '1': b", "f.yaml:3", "the key '1' comes twice"),
        ("a: [1, 2", "f.yaml:", "not readable as YAML"),
        ("a:\n\t- b", "f.yaml:2", "not readable as YAML"),
        ("a: b: c", "f.yaml:1", "mapping values are not allowed"),
        ("a: *b", "f.yaml:1", "undefined alias"),
        ("a: &a [*a]", "f.yaml:1", "nested too deep"),
        (BOMB, "f.yaml:", "far more text"),
        ("a: " + "[" * 300 + "]" * 300, "f.yaml:1", "nested too deep"),
        ("a: .inf", "f.yaml:1", ".inf cannot be written in JSON"),
        ("a: .NaN", "f.yaml:1", ".NaN cannot be written in JSON"),
        ("a: !!binary aGk=", "f.yaml:1", "has no meaning in a Kubernetes object"),
        ("a: !custom {}", "f.yaml:1", "has no meaning in a Kubernetes object"),
        ("a: !!set {b}", "f.yaml:1", "has no meaning in a Kubernetes object"),
        ("a: !!int x", "f.yaml:1", "'x' is not of the type that its tag says: int"),
        ("~: a", "f.yaml:1", "a key must be text, not null"),
        ("? [a]\n: b", "f.yaml:1", "a key must be text, not a list or a mapping"),
        ("a: {<<: 1}", "f.yaml:1", "'<<' needs a mapping"),
        ("a: \x07", "f.yaml", "not readable as YAML"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_refused_with_file_and_line(text: str, where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read_yaml(text, "f.yaml")

    assert caught.value.where.startswith(where)
    assert problem in caught.value.problem


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="not readable as YAML"):
        read_yaml(b"a: \xff\xfe\xfa", "f.yaml")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(json_values)
def test_quoted_and_tagged_values_are_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"')

    assert read_yaml(text, "f.yaml") == [value]
