"""`Page`: every request under `/ui/`, from whichever server it comes, and its answer.

A page has one source.  `handle` is for a server without routing of its own, as all of ours are:
it lets in who may come in (`guard`), and sends a file, the stream, or what a view says (`routes`).
What goes wrong is one line of JSON, never a traceback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from stowplan.errors import (
    ApiError,
    BadRequest,
    InputError,
    StowplanError,
    TooManyRequests,
)
from stowplan.printable import logger
from stowplan.web.asking import Ask
from stowplan.web.assets import assets
from stowplan.web.changes import Changes
from stowplan.web.guard import COOKIE, HEADERS, KEY, Guard
from stowplan.web.paths import MethodNotAllowed, Paths
from stowplan.web.replay import Replay, ReplayPaths
from stowplan.web.routes import Routes
from stowplan.web.sources import ClusterSource
from stowplan.web.stream import Stream

log = logger(__name__)

PREFIX = "/ui/"
API = "/ui/api/"
STREAM = "/ui/api/stream"
BODY_BYTES_MAX = 1 << 20
BODY_TIMEOUT_S = 10.0
WRITE_TIMEOUT_S = 30.0
REQUESTS_MAX = 64
JSON = "application/json"


class Page:
    def __init__(
        self, source: ClusterSource | Replay, guard: Guard, *, now: Callable[[], float]
    ) -> None:
        self._source = source
        self._guard = guard
        self._stream, self._paths = _parts(source, now)
        self._requests = 0

    async def start(self) -> None:
        await self._source.start()
        self._stream.start()

    async def close(self) -> None:
        await self._stream.stop()
        await self._source.close()

    @property
    def address_suffix(self) -> str:
        """What the address needs to let its reader in."""
        return self._guard.address_suffix

    @staticmethod
    def is_at(path: str) -> bool:
        """Whether a request for this path is the page's."""
        return path == "/ui" or path.startswith(PREFIX)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._requests += 1
        try:
            if self._requests > REQUESTS_MAX:
                raise TooManyRequests("too many requests at a time")
            return await self._answer(request)
        except ConnectionError:
            raise
        except Exception as error:
            return _failure(request, error)
        finally:
            self._requests -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        self._guard.check_site(request.headers, _reached(request), api=path.startswith(API))
        if path == "/ui":
            return _moved(PREFIX)
        key = request.query.get(KEY, "")
        if path == PREFIX and key:
            return self._let_in(request, key)
        self._guard.check(request.headers, request.cookies)
        if path == STREAM and request.method == "GET":
            return await self._watch(request)
        if path.startswith(API) or path == API.rstrip("/"):
            return await self._api(request)
        return _file(request)

    def _let_in(self, request: web.BaseRequest, key: str) -> web.StreamResponse:
        value = self._guard.exchange(key)
        if value is None:
            self._guard.check(request.headers, request.cookies)
        response = _moved(PREFIX)
        if value is not None:
            response.set_cookie(
                COOKIE,
                value,
                path=PREFIX,
                httponly=True,
                samesite="Strict",
                secure=request.secure,
            )
        return response

    async def _api(self, request: web.BaseRequest) -> web.Response:
        below = request.rel_url.raw_path[len(API) :]
        body = await _body(request) if request.method in ("POST", "PUT") else {}
        ask = Ask(query=dict(request.query), body=body)
        told = await self._paths.answer(request.method, below, ask)
        return _json(told)

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._stream.is_full:
            raise TooManyRequests("too many pages watch already")
        headers = {**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        watcher = self._stream.join()
        # It is not a request that somebody waits for; it has its own limit.
        self._requests -= 1
        try:
            await response.prepare(request)
            await response.write(b"retry: 1000\nevent: hello\ndata: {}\n\n")
            while (message := await watcher.get()) is not None:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.write(message)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._requests += 1
            self._stream.leave(watcher)
        return response


def _parts(source: ClusterSource | Replay, now: Callable[[], float]) -> tuple[Stream, Paths]:
    """What tells of changes, and what answers."""
    if isinstance(source, Replay):
        return Stream(), ReplayPaths(source)
    changes = Changes(source, now)
    return changes, Routes(source, changes)


def _reached(request: web.BaseRequest) -> str:
    """The address at which it arrived."""
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return str(name[0]) if name else ""


def _file(request: web.BaseRequest) -> web.Response:
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(f"{request.method} is not for files")
    asset = assets().get(request.path.removeprefix(PREFIX))
    if asset is None:
        return web.Response(status=404, body=b"there is no such file\n", headers=HEADERS)
    headers = {**HEADERS, "ETag": asset.tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == asset.tag:
        return web.Response(status=304, body=b"", headers=headers)
    headers["Content-Type"] = asset.content_type
    return web.Response(body=asset.body, headers=headers)


async def _body(request: web.BaseRequest) -> dict[str, Any]:
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != JSON:
        raise BadRequest(f"the body must be {JSON}")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.content.iter_any():
                data += piece
                if len(data) > BODY_BYTES_MAX:
                    raise InputError(f"the body is larger than {BODY_BYTES_MAX >> 20} MiB")
    except TimeoutError:
        raise BadRequest("the body did not come in time") from None
    try:
        body = msgspec.json.decode(bytes(data) or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("the body is no JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be an object")
    return body


def _moved(where: str) -> web.Response:
    return web.Response(status=303, body=b"", headers={**HEADERS, "Location": where})


def _json(data: Any, status: int = 200) -> web.Response:
    headers = {**HEADERS, "Content-Type": JSON, "Cache-Control": "no-store"}
    body = msgspec.json.encode(data)
    return web.Response(status=status, body=body, headers=headers)


def _failure(request: web.BaseRequest, error: Exception) -> web.Response:
    if isinstance(error, ApiError):
        status = error.code
    elif isinstance(error, MethodNotAllowed):
        status = 405
    elif isinstance(error, InputError):
        status = 404 if error.problem.startswith("there is no ") else 422
    elif isinstance(error, StowplanError):
        status = 422
    else:
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        return _json({"error": "this request failed; the server's log says why"}, 500)
    told = {"error": error.problem, "where": error.where, "hint": error.hint}
    return _json(told, status)
