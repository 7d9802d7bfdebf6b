"""One request and its answer: the body read within limits, the answer as bytes.

What every handler gets (`Exchange`) and gives back (`Reply`).  A body that is too large, too slow
or no JSON is refused here, before anything is done.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from stowplan.apiserver.http.auth import User
from stowplan.apiserver.http.held_bytes import HeldBytes, Hold
from stowplan.apiserver.http.negotiation import (
    JSON,
    YAML,
    Wanted,
    decode_body,
    decode_json,
    decode_yaml,
    media_type_of,
    to_yaml,
    wanted_by,
)
from stowplan.apiserver.http.options import Query
from stowplan.apiserver.http.status import too_large
from stowplan.errors import BadRequest, Timeout

BODY_BYTES_MAX = 3 * 1024 * 1024
BODY_TIMEOUT_S = 30.0
AT_ONCE_BYTES_MAX = 32 * 1024
"""Larger YAML is read and written in a thread: it is slow, and others want their turn."""

_JSON_HEADERS = {"Content-Type": JSON}


@dataclass(frozen=True, slots=True)
class Reply:
    body: bytes
    code: int = 200
    headers: dict[str, str] = field(default_factory=lambda: _JSON_HEADERS)
    warnings: tuple[str, ...] = ()


def reply(data: Any, code: int = 200) -> Reply:
    return Reply(msgspec.json.encode(data), code)


class Exchange:
    """A request as handlers see it."""

    __slots__ = ("_held", "_request", "method", "path", "query", "user", "wanted")

    def __init__(self, request: web.BaseRequest, user: User, held: HeldBytes) -> None:
        self._request = request
        self._held = held
        self.user = user
        self.method = request.method
        self.path = request.path
        self.query: Query = request.query if request.query_string else _NO_QUERY
        self.wanted: Wanted = wanted_by(request.headers.get("Accept", ""))

    @property
    def content_type(self) -> str:
        return self._request.headers.get("Content-Type", "")

    @property
    def host(self) -> str:
        return self._request.host

    @property
    def request(self) -> web.BaseRequest:
        return self._request

    async def body(self) -> Any:
        """The body as JSON data; None when there is none."""
        raw = await read_body(self._request, self._held)
        if not raw:
            return None
        media_type = media_type_of(self.content_type)
        if len(raw) > AT_ONCE_BYTES_MAX and "yaml" in media_type:
            data = await asyncio.to_thread(decode_body, raw, media_type)
        else:
            data = decode_body(raw, media_type)
        # As Go reads it, null is an object with nothing in it.
        return {} if data is None else data

    async def patch_body(self, patch_type: str) -> Any:
        raw = await read_body(self._request, self._held)
        # kubectl labels an apply as YAML and sends JSON, which reads much faster.
        if patch_type != "apply" or raw.lstrip()[:1] == b"{":
            return decode_json(raw)
        return await asyncio.to_thread(decode_yaml, raw)

    async def object(self) -> dict[str, Any]:
        body = await self.body()
        if not isinstance(body, dict):
            raise BadRequest("the body of the request must be an object")
        return body


_NO_QUERY: Query = {}


async def read_body(request: web.BaseRequest, held: HeldBytes) -> bytes:
    length = request.content_length
    if length is not None and length > BODY_BYTES_MAX:
        raise too_large(BODY_BYTES_MAX)
    if not request.can_read_body:
        return b""
    if request.headers.get("Expect", "").lower() == "100-continue":
        assert request.transport is not None, "a request in progress has a transport"
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            with held.hold(request.transport) as hold:
                return await _read(request, hold)
    except TimeoutError:
        raise Timeout("Timeout: request did not complete within the allotted timeout") from None
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from None


async def _read(request: web.BaseRequest, hold: Hold) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        hold.grow(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


async def as_yaml(answer: Reply) -> Reply:
    data = msgspec.json.decode(answer.body)
    if len(answer.body) > AT_ONCE_BYTES_MAX:
        text = await asyncio.to_thread(to_yaml, data)
    else:
        text = to_yaml(data)
    return Reply(text, answer.code, {"Content-Type": YAML}, answer.warnings)
