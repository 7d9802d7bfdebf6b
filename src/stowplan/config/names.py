"""What is wrong with a label key or value, in the words kube-scheduler refuses a file with.

`objects.names` answers the same question for objects, faster and shorter; here the texts are
upstream's, because people search for them.  An empty list means the name is fine.

Mirrors `apimachinery/pkg/api/validate/content/{kube,dns,errors}.go`.
"""

from __future__ import annotations

import re

_KEY_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_PATTERN = f"({_KEY_PATTERN})?"
_SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PART_BYTES_MAX = 63
_SUBDOMAIN_BYTES_MAX = 253

_CHARACTERS = (
    "consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_RULE = (
    f"must {_CHARACTERS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY_PATTERN}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or {_CHARACTERS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{_VALUE_PATTERN}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_PATTERN}')"
)


def label_key_problems(key: str) -> list[str]:
    """`name` or `prefix/name`: a label key, a topology key, or the name of a resource.

    >>> label_key_problems("example.com/gpu")
    []
    >>> label_key_problems("/gpu")
    ['prefix part must be non-empty']
    """
    parts = key.split("/")
    if len(parts) > 2:
        optional_prefix = (
            "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return [f"a valid label key {_KEY_RULE} {optional_prefix}"]
    problems = [f"prefix part {p}" for p in _prefix_problems(parts[0])] if len(parts) == 2 else []
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > _PART_BYTES_MAX:
        problems.append(f"name part {_too_long(_PART_BYTES_MAX)}")
    if not re.fullmatch(_KEY_PATTERN, name):
        problems.append(f"name part {_KEY_RULE}")
    return problems


def label_value_problems(value: str) -> list[str]:
    problems = []
    if len(value.encode()) > _PART_BYTES_MAX:
        problems.append(_too_long(_PART_BYTES_MAX))
    if not re.fullmatch(_VALUE_PATTERN, value):
        problems.append(_VALUE_RULE)
    return problems


def _prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    problems = []
    if len(prefix.encode()) > _SUBDOMAIN_BYTES_MAX:
        problems.append(_too_long(_SUBDOMAIN_BYTES_MAX))
    if not re.fullmatch(_SUBDOMAIN_PATTERN, prefix):
        problems.append(_SUBDOMAIN_RULE)
    return problems


def _too_long(bytes_max: int) -> str:
    return f"must be no more than {bytes_max} bytes"
