"""The secure port: TLS, who asks and whether they may, and the answer.

One after the other, as kube-scheduler's chain has it: a failure here harms no one else, every
request is logged at -v 6, the caller is known (401) and allowed (403), then `runtime.endpoints`
answers.  Long answers are sent in pieces, and the scheduler has its turn between two of them.

Made by `runtime.live`, from a `Surface`, and run on the thread of `runtime.upkeep`: health is
answered while the scheduler is busy, everything else is read on the scheduler's own thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any

import msgspec
from aiohttp import web

from stowplan.errors import ApiError, InputError, Timeout, TooManyRequests
from stowplan.runtime.auth import Gatekeeper
from stowplan.runtime.endpoints import JSON, TEXT, Endpoints, Question, Reply
from stowplan.runtime.page_port import PagePort
from stowplan.runtime.serving_tls import REFRESH_S, ServingTls
from stowplan.runtime.surface import ServingOptions, Surface

BODY_BYTES_MAX = 1024
HEADER_BYTES_MAX = 16 * 1024
PIECE_BYTES = 64 * 1024
REQUESTS_MAX = 64
"""Being answered at one time; these are questions of people and of one or two scrapers."""
BODY_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 90.0
"""A connection may be silent for so long, also before or within the head of a request."""
WRITE_TIMEOUT_S = 60.0
SCHEDULER_TIMEOUT_S = 10.0
"""For what only the scheduler knows."""
DRAIN_S = 5.0
ACCESS_LOG_LEVEL = 6

_HEADERS = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
    # Instead of the versions of Python and aiohttp.
    "Server": "stowplan",
}


class SecureServer:
    def __init__(self, options: ServingOptions, surface: Surface) -> None:
        self.port = options.port
        self._options = options
        self._log = surface.log
        self._tls = ServingTls(options, surface.clock, surface.log)
        self._on_scheduler = surface.on_scheduler
        self._gatekeeper = Gatekeeper(surface.reviews, surface.clock, surface.log, options.auth)
        self._endpoints = Endpoints(surface)
        self._page = None
        if surface.page is not None:
            self._page = PagePort(surface.page, self._gatekeeper, self._tls.names)
        self._requests = 0
        self._runner: web.ServerRunner | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        server = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            # Nobody unpacks what a caller sends, known or not: a number is all there is to send.
            auto_decompress=False,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=DRAIN_S)
        await runner.setup()
        address, context = self._options.bind_address, self._tls.context
        site = web.TCPSite(runner, address, self._options.port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise InputError(
                f"cannot listen on {address}:{self._options.port}: {error.strerror or error}",
                where="--bind-address, --secure-port",
                hint="another process has this port? choose another, or 0 for no server",
            ) from None
        self._runner = runner
        self.port = int(runner.addresses[0][1])
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        self._log.info(0, "Serving securely", address=f"{address}:{self.port}")

    async def stop(self) -> None:
        """Take no more requests; those under way have a few seconds to end."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await self._refreshing
        if self._page is not None:
            await self._page.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            self._tls.refresh()

    # -- one request ------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        started_s = perf_counter()
        self._requests += 1
        entered = None
        try:
            if self._page is not None and self._page.is_at(request.path):
                self._check_room(request.path)
                entered = await self._page.admit(request)
                reply = Reply(200, "")
            else:
                reply = await self._reply(request)
        except ApiError as error:
            reply = refusal(error)
        except Exception as error:
            self._log.error("Failed to answer", error, path=request.path)
            reply = Reply(500, "This request caused the scheduler to fail; see its log\n")
        finally:
            self._requests -= 1
        if self._page is not None and entered is not None:
            # It has limits of its own, and some of its answers last as long as somebody looks.
            return await self._page.answer(request, entered)
        response = await self._send(request, reply)
        if self._log.enabled(ACCESS_LOG_LEVEL, "server"):
            self._log.info(
                ACCESS_LOG_LEVEL,
                "HTTP",
                verb=request.method,
                URI=request.path,
                resp=reply.status,
                srcIP=request.remote,
                latency=f"{(perf_counter() - started_s) * 1000:.3f}ms",
            )
        return response

    def _check_room(self, path: str) -> None:
        # Health is answered in any case: a probe that fails under load would restart us.
        if self._requests > REQUESTS_MAX and not self._gatekeeper.is_open(path):
            raise TooManyRequests("too many requests, please try again later")

    async def _reply(self, request: web.BaseRequest) -> Reply:
        path = request.path
        self._check_room(path)
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        await self._gatekeeper.admit(request.method, path, request.headers, certificate)
        query = {name: request.query.getall(name) for name in request.query}
        accept = request.headers.get("Accept", "")
        body = await _body(request)
        question = Question(request.method, path, query, accept, body)
        if not self._endpoints.is_about_scheduler(path):
            return self._endpoints.answer(question)
        reply: Reply = await self._read(lambda: self._endpoints.answer(question))
        return reply

    async def _read(self, action: Callable[[], Any]) -> Any:
        """Of the scheduler, which is not waited for longer than a decision should take."""
        try:
            async with asyncio.timeout(SCHEDULER_TIMEOUT_S):
                return await self._on_scheduler(action)
        except TimeoutError:
            raise Timeout("the scheduler is busy with a decision") from None

    async def _send(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        headers = {**_HEADERS, "Content-Type": reply.content_type}
        if isinstance(reply.body, str):
            return web.Response(status=reply.status, body=reply.body.encode(), headers=headers)
        response = web.StreamResponse(status=reply.status, headers=headers)
        pieces = _gathered(reply.body)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await response.prepare(request)
                while request.method != "HEAD":
                    piece = await self._read(lambda: next(pieces, b""))
                    if not piece:
                        break
                    await response.write(piece)
                    # `write` waits only while the buffer is full: let others go on in any case.
                    await asyncio.sleep(0)
                await response.write_eof()
        except (TimeoutError, Timeout):
            if request.transport is not None:
                request.transport.abort()
        return response


async def _body(request: web.BaseRequest) -> bytes:
    """A promised body that does not come would else keep one of the few places for requests."""
    if not request.can_read_body:
        return b""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.content.read(BODY_BYTES_MAX)
    except TimeoutError:
        raise Timeout("the body of the request did not come in time") from None


def refusal(error: ApiError) -> Reply:
    """The Status object that Kubernetes answers with; a failure of ours is plain text."""
    if error.code == 500:
        return Reply(500, f"{error.message}\n", TEXT)
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
    }
    if error.code == 403:
        status["details"] = {}
    return Reply(error.code, msgspec.json.encode({**status, "code": error.code}).decode(), JSON)


def _gathered(pieces: Iterable[str]) -> Iterator[bytes]:
    """Small pieces together, so that each is worth a packet."""
    buffer: list[str] = []
    size = 0
    for piece in pieces:
        buffer.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield "".join(buffer).encode()
            buffer, size = [], 0
    if buffer:
        yield "".join(buffer).encode()
