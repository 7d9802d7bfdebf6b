"""Long lists in pages that show one moment: `limit` and `continue`.

What remains of a list is kept, as references to immutable objects, until the client comes back
for it; only so many, the oldest go first.  A token that is no longer known is answered with 410,
and clients list again from the start, as they do after a compaction.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from stowplan.apiserver.http.encoding import Item
from stowplan.errors import BadRequest, Gone

LISTS_MAX = 64
ITEMS_MAX = 2_000_000
"""References kept in all of them together."""

_Key = tuple[str, ...]


class _Token(msgspec.Struct):
    serial: int
    """Which list."""
    start: int


@dataclass(frozen=True, slots=True)
class Page:
    items: list[Item]
    resource_version: str
    token: str = ""
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class _List:
    key: _Key
    items: list[Item]
    resource_version: str


class Pages:
    def __init__(self) -> None:
        self._lists: OrderedDict[int, _List] = OrderedDict()
        self._serial = 0

    def first(self, key: _Key, items: list[Item], resource_version: str, limit: int) -> Page:
        """The beginning of a list; `key` says what was asked, so that a token fits no other."""
        if limit <= 0 or len(items) <= limit:
            return Page(items, resource_version)
        self._serial += 1
        self._lists[self._serial] = _List(key, items, resource_version)
        self._drop_oldest()
        return self._page(self._serial, 0, limit)

    def following(self, key: _Key, token: str, limit: int) -> Page:
        found = _decode(token)
        known = self._lists.get(found.serial)
        if known is None:
            raise Gone(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        if known.key != key or not 0 <= found.start < len(known.items):
            raise BadRequest("continue key is not valid: it belongs to another list")
        return self._page(found.serial, found.start, limit)

    def _page(self, serial: int, start: int, limit: int) -> Page:
        known = self._lists[serial]
        self._lists.move_to_end(serial)
        end = len(known.items) if limit <= 0 else min(len(known.items), start + limit)
        items, remaining = known.items[start:end], len(known.items) - end
        token = _encode(_Token(serial, end)) if remaining else ""
        return Page(items, known.resource_version, token, remaining)

    def _drop_oldest(self) -> None:
        total = sum(len(known.items) for known in self._lists.values())
        while len(self._lists) > LISTS_MAX or (total > ITEMS_MAX and len(self._lists) > 1):
            _, dropped = self._lists.popitem(last=False)
            total -= len(dropped.items)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise BadRequest(f"continue key is not valid: {text[:64]!r}") from None
