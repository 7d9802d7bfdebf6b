"""Label keys and values are judged as upstream does, in its words."""

from __future__ import annotations

import pytest

from stowplan.config.names import label_key_problems, label_value_problems
from stowplan.objects.names import label_key_problem, label_value_problem

KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("cpu", []),
        ("example.com/gpu", []),
        ("a" * 63, []),
        ("", ["name part must be non-empty", f"name part {KEY_RULE}"]),
        ("-a", [f"name part {KEY_RULE}"]),
        ("a\n", [f"name part {KEY_RULE}"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Example/a", [f"prefix part {SUBDOMAIN_RULE}"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
        (
            "a/b/c",
            [
                (
                    f"a valid label key {KEY_RULE} with an optional DNS subdomain prefix and '/' "
                    "(e.g. 'example.com/MyName')"
                )
            ],
        ),
    ],
)
def test_label_key(key: str, problems: list[str]) -> None:
    assert label_key_problems(key) == problems


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ("", []),
        ("ssd", []),
        ("a b", [VALUE_RULE]),
        ("a" * 64, ["must be no more than 63 bytes"]),
    ],
)
def test_label_value(value: str, problems: list[str]) -> None:
    assert label_value_problems(value) == problems


@pytest.mark.parametrize("text", ["", "a", "a/b", "A/b", "a/b/c", "/a", "a/", "-", "a" * 64, "é"])
def test_objects_and_configuration_agree_on_what_is_a_name(text: str) -> None:
    assert bool(label_key_problems(text)) == bool(label_key_problem(text))
    assert bool(label_value_problems(text)) == bool(label_value_problem(text))
