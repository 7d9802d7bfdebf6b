"""A request to the API as data: the parameters, checked, and pages of long tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stowplan.errors import InputError

PAGE_ROWS = 100
PAGE_ROWS_MAX = 500


@dataclass(frozen=True, slots=True)
class Ask:
    parts: tuple[str, ...] = ()
    """What the path says beside the fixed words."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, default)

    def number(self, name: str, default: int, most: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isdecimal() or int(text) > most:
            raise InputError(f"{name} is {text!r}", hint=f"a whole number from 0 to {most}")
        return int(text)

    @property
    def offset(self) -> int:
        return self.number("offset", 0, 10**9)

    @property
    def limit(self) -> int:
        return self.number("limit", PAGE_ROWS, PAGE_ROWS_MAX)

    @property
    def descending(self) -> bool:
        return self.query.get("order", "") == "desc"

    def word(self, name: str) -> str:
        """A text of the body that must be there."""
        value = self.body.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{name} is missing", hint="a text")
        return value.strip()


def page_of(rows: Sequence[Any], ask: Ask) -> dict[str, Any]:
    """Some of the rows, and how many there are."""
    return {
        "total": len(rows),
        "offset": ask.offset,
        "rows": list(rows[ask.offset : ask.offset + ask.limit]),
    }
