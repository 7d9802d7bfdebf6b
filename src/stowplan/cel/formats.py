"""Named formats: `format.dns1123Label().validate(text)` gives the problems, or nothing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from stowplan.cel.network import request_uri
from stowplan.cel.times import parse_timestamp
from stowplan.cel.values import NONE, KubernetesValue, Optional, Value

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATE_TIME_SIZE = 85

Check = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class NamedFormat(KubernetesValue):
    name: str
    pattern_size: int
    """What upstream's cost model takes for the length of its pattern."""
    problems: Check = field(compare=False)

    cel_type = "kubernetes.NamedFormat"
    hashable = False


def _regex_problem(rule: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{it}'" for it in examples)
    return f"{rule} (e.g. {shown}, regex used for validation is '{pattern}')"


def _dns(pattern: str, length_max: int, rule: str, *examples: str) -> Check:
    compiled = re.compile(pattern)

    def check(text: str) -> list[str]:
        found = []
        if len(text.encode()) > length_max:
            found.append(f"must be no more than {length_max} characters")
        if not compiled.fullmatch(text):
            dotted = pattern == _LABEL and _DOTTED.fullmatch(text)
            problem = "must not contain dots" if dotted else ""
            found.append(problem or _regex_problem(rule, pattern, *examples))
        return found

    return check


_DOTTED = re.compile(_SUBDOMAIN)
_dns_label = _dns(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    *("my-name", "123-abc"),
)
_dns_subdomain = _dns(
    _SUBDOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    "example.com",
)
_dns_1035_label = _dns(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    *("my-name", "abc-123"),
)


def _prefix(check: Check) -> Check:
    """A prefix of generated names may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text[-1] == "-" else text)


def _label_value(text: str) -> list[str]:
    found = []
    if len(text.encode()) > 63:
        found.append("must be no more than 63 bytes")
    if not re.fullmatch(f"({_NAME})?", text):
        rule = f"a valid label must be an empty string or {_NAME_RULE.removeprefix('must ')}"
        found.append(_regex_problem(rule, f"({_NAME})?", "MyValue", "my_value", "12345"))
    return found


def _qualified_name(text: str) -> list[str]:
    found = []
    rule = _regex_problem(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.partition("/")
    if "/" in name:
        tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule} {tail}"]
    if not slash:
        name = prefix
    elif not prefix:
        found.append("prefix part must be non-empty")
    else:
        found += [f"prefix part {it}" for it in _dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        found.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        found.append(f"name part {rule}")
    return found


def _uri(text: str) -> list[str]:
    try:
        request_uri(text)
    except ValueError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        if _DATE.fullmatch(text):
            date.fromisoformat(text)
            return []
    except ValueError:
        pass
    return ["invalid date"]


def _datetime(text: str) -> list[str]:
    return ["invalid datetime"] if parse_timestamp(text.upper()) is None else []


FORMATS = {
    it.name: it
    for it in (
        NamedFormat("dns1123Label", 30, _dns_label),
        NamedFormat("dns1123Subdomain", 60, _dns_subdomain),
        NamedFormat("dns1035Label", 30, _dns_1035_label),
        NamedFormat("qualifiedName", 60, _qualified_name),
        NamedFormat("dns1123LabelPrefix", 30, _prefix(_dns_label)),
        NamedFormat("dns1123SubdomainPrefix", 60, _prefix(_dns_subdomain)),
        NamedFormat("dns1035LabelPrefix", 30, _prefix(_dns_1035_label)),
        NamedFormat("labelValue", 40, _label_value),
        NamedFormat("uri", 1100, _uri),
        NamedFormat("uuid", 78, _uuid),
        NamedFormat("byte", 92, _byte),
        NamedFormat("date", _DATE_TIME_SIZE, _date),
        NamedFormat("datetime", _DATE_TIME_SIZE, _datetime),
    )
}


def named(name: str) -> Value:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found, True)


def validate(by: NamedFormat, text: str) -> Value:
    problems: list[Value] = list(by.problems(text))
    return Optional(problems, True) if problems else NONE


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "format-named": named,
    "format-validate": validate,
    **{f"format.{name}": lambda found=found: found for name, found in FORMATS.items()},
}
