"""What an API server sends, decoded straight into typed structs.

Once, that is: the C decoder goes from the bytes of a list or of a watch's line to structs of the
right kind.  Only what does not fit at first (a null where a value belongs, a Status in place of an
object) is looked at again, the slow way.  Whatever cannot be read at all is `Unavailable`: a
server in that state is one to come back to later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from stowplan.cluster.port import WatchEvent
from stowplan.errors import ApiError, Unavailable, api_error
from stowplan.objects.base import KubeObject, ObjectMeta, Struct
from stowplan.objects.codec import decode_json
from stowplan.objects.kinds import Kind

LINE_BYTES_MAX = 16 * 2**20
"""A watch event larger than this is no Kubernetes object."""

Thing = TypeVar("Thing")


class _Status(Struct, frozen=True):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


class _ListMeta(Struct, frozen=True):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _List(Struct, Generic[Thing], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[Thing] | None = None


class _Event(Struct, Generic[Thing], frozen=True):
    object: Thing
    type: str = ""


class _Bookmark(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Page:
    items: list[KubeObject]
    resource_version: str
    next: str
    """Empty on the last page."""


NOT_READABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, or none of the wanted shape."""

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


@cache
def _page_decoder(struct: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_List[struct])  # type: ignore[valid-type]


@cache
def _event_decoder(struct: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Event[struct])  # type: ignore[valid-type]


def decode_answer(raw: bytes, kind: Kind) -> KubeObject | None:
    """The object; None where the API answers with a bare Status."""
    try:
        found: KubeObject = decode_json(raw, kind.struct)
    except NOT_READABLE:
        if _parse(raw, _Status).kind == "Status":
            return None
        raise _unreadable(kind.name) from None
    return None if found.kind == "Status" else found


_HEAD = re.compile(
    rb'\{"kind":"\w+","apiVersion":"[^"\\]*","metadata":\{[^{}]{,999}"continue":"([\w=-]+)"'
)
"""How kube-apiserver begins a list of which there is more."""


def next_page(raw: bytes) -> str:
    """Where the list goes on, if its first words say so: known before the rest is decoded."""
    head = _HEAD.match(raw)
    return head[1].decode() if head is not None else ""


def decode_page(raw: bytes, kind: Kind) -> Page:
    try:
        page = _page_decoder(kind.struct).decode(raw)
        items = page.items
    except NOT_READABLE:
        page = _parse(raw, _List[msgspec.Raw])
        items = [_parse(bytes(item), kind.struct) for item in page.items or ()]
    return Page(items or [], page.metadata.resource_version, page.metadata.next)


def decode_data(raw: bytes) -> dict[str, Any]:
    """What is no object of ours, as JSON data."""
    found: dict[str, Any] = _parse(raw, dict)
    return found


def decode_event(line: bytes, kind: Kind) -> WatchEvent:
    """One line of a watch; an event that tells of an error is raised as one."""
    try:
        event = _event_decoder(kind.struct).decode(line)
    except NOT_READABLE:
        return _odd_event(line, kind)
    if event.type not in _CHANGES:
        return _odd_event(line, kind)
    found: KubeObject = event.object
    return WatchEvent(event.type, found, found.metadata.resource_version)


def _odd_event(line: bytes, kind: Kind) -> WatchEvent:
    event = _parse(line, _Event[msgspec.Raw])
    raw = bytes(event.object)
    if event.type == "ERROR":
        status = _parse(raw, _Status)
        message = status.message or status.reason or "no reason given"
        raise api_error(status.code or 500, status.reason, message)
    if event.type == "BOOKMARK":
        meta = _parse(raw, _Bookmark).metadata
        return WatchEvent("BOOKMARK", KubeObject(metadata=meta), meta.resource_version)
    if event.type not in _CHANGES:
        raise _unreadable("watch event")
    found: KubeObject = _parse(raw, kind.struct)
    return WatchEvent(event.type, found, found.metadata.resource_version)


def decode_failure(code: int, reason: str, body: bytes, *, retry_after: str = "") -> ApiError:
    """The Status object of a failed answer, or as much as can be said without one."""
    retry_after_s = None
    if code in (429, 503) and retry_after.isdecimal():
        retry_after_s = float(retry_after)
    try:
        status = decode_json(body, _Status)
        word, message = status.reason, status.message
    except NOT_READABLE:
        # A page of some proxy, perhaps: in one line, as every message is.
        word, message = "", " ".join(body[:200].decode(errors="replace").split())
    message = message or reason or "no reason given"
    return api_error(code, word, message, retry_after_s=retry_after_s)


def _parse(raw: bytes, shape: Any) -> Any:
    try:
        return decode_json(raw, shape)
    except NOT_READABLE:
        raise _unreadable(getattr(shape, "__name__", str(shape))) from None


def _unreadable(wanted: str) -> Unavailable:
    return Unavailable(f"the API server sent something that is no {wanted}")


class Lines:
    """Complete lines out of pieces, each of which is looked at once: a line may have many."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        first, *others = piece.split(b"\n")
        self._begun.append(first)
        self._size += len(first)
        lines = []
        if others:
            *whole, rest = others
            lines = [line for line in (b"".join(self._begun), *whole) if line.strip()]
            self._begun, self._size = [rest], len(rest)
        if self._size > LINE_BYTES_MAX:
            raise Unavailable(f"a watch event of over {LINE_BYTES_MAX} bytes")
        return lines
