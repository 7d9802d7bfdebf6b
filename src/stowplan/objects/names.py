"""The syntax of label keys and values, which also rules resource names and taints.

Mirrors apimachinery's `util/validation`: a key is `name` or `prefix/name`.  And the letters that
generated names are made of; and which hosts are this machine, or one of its names.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names, as upstream: no vowels, so no words; no digits that look like letters."""

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
_NAME_LENGTH_MAX = 63
_PREFIX_LENGTH_MAX = 253

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', must start and end with an "
    f"alphanumeric character and have at most {_NAME_LENGTH_MAX} characters"
)


def letters(number: int, length: int) -> str:
    """The number's last digits, written in `LETTERS`, the lowest first.

    >>> letters(28, 5)
    'ccbbb'
    """
    written = ""
    for _ in range(length):
        number, digit = divmod(number, len(LETTERS))
        written += LETTERS[digit]
    return written


@lru_cache(maxsize=16384)
def label_key_problem(key: str) -> str:
    """What is wrong with the key, or "" for a good one."""
    prefix, slash, name = key.rpartition("/")
    if not slash:
        pass
    elif "/" in prefix:
        return "must be a name, or a DNS prefix and a name with one '/' between them"
    elif len(prefix) > _PREFIX_LENGTH_MAX or _DNS_SUBDOMAIN.fullmatch(prefix) is None:
        return "the part before '/' must be a DNS name in lower case, such as example.com"
    if not name:
        return "the name must not be empty"
    if len(name) > _NAME_LENGTH_MAX or _NAME.fullmatch(name) is None:
        return f"the name {_NAME_RULE}"
    return ""


@lru_cache(maxsize=16384)
def label_value_problem(value: str) -> str:
    """What is wrong with the value, or "" for a good one.  The empty value is good."""
    if not value or (len(value) <= _NAME_LENGTH_MAX and _NAME.fullmatch(value) is not None):
        return ""
    return f"a label value must be empty or {_NAME_RULE}"


def is_loopback(authority: str) -> bool:
    """Whether a host, perhaps with its port, is this machine.

    >>> [is_loopback(it) for it in ("localhost:1", "[::1]:1", "::1", "127.0.0.1", "a.example")]
    [True, True, True, True, False]
    """
    host = host_of(authority)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(authority: str) -> str:
    """A host without its port.

    >>> [host_of(it) for it in ("A.example:1", "[::1]:1", "::1", "127.0.0.1")]
    ['a.example', '::1', '::1', '127.0.0.1']
    """
    host, colon, port = authority.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
        host = authority
    return host.strip("[]").lower()


def is_one_of(authority: str, names: Collection[str]) -> bool:
    """Whether a host, perhaps with its port, is one of these, as certificates have them.

    >>> [is_one_of(it, ["b.example", "*.c.example"]) for it in ("B.example:1", "d.c.example", "e")]
    [True, True, False]
    """
    host = host_of(authority)
    return any(name.lower() in (host, f"*.{host.partition('.')[2]}") for name in names)
