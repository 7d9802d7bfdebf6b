"""The Kubernetes side of the port: any conformant API server, over HTTP.

Requests are built in `http_request`; here they are sent, within a rate limit and a bounded number
at a time, and answers are decoded straight into typed structs.  Callbacks run on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any

import aiohttp
import msgspec
from aiohttp.connector import AddrInfoType
from yarl import URL

from stowplan.clock import Clock
from stowplan.cluster.credentials import ClientCertificate, Credentials
from stowplan.cluster.http_request import HttpRequest, http_request, list_request, watch_request
from stowplan.cluster.kubeconfig import Connection
from stowplan.cluster.port import (
    Answer,
    Bind,
    Done,
    ListOptions,
    ListResult,
    Request,
    Watch,
    WatchEvent,
    WatchHandlers,
)
from stowplan.cluster.rate_limit import RateLimiter
from stowplan.cluster.tls import client_context
from stowplan.errors import ApiError, Gone, StowplanError, Unavailable, api_error
from stowplan.objects.base import KubeObject, ObjectMeta, Struct
from stowplan.objects.codec import decode_json
from stowplan.objects.kinds import Kind

log = logging.getLogger(__name__)

CALLS_MAX = 64
WATCHES_MAX = 64
"""Connections kept for lists and watches, beside those for calls."""
CALL_TIMEOUT_S = 30.0
LIST_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
WATCH_MIN_S = 300
THROTTLED_TRIES = 10
LINE_BYTES_MAX = 16 * 2**20
"""A watch event larger than this is no Kubernetes object."""
NO_ANSWER = 0
"""In place of a status code."""

OnSent = Callable[[HttpRequest, int, float | None, float], None]
"""(request, code, seconds, seconds it was held back); a watch is told of when it begins."""

_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

_Lines = list[bytes]


class _Status(Struct, frozen=True):
    message: str = ""
    reason: str = ""
    code: int = 0


class _ListMeta(Struct, frozen=True):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _List(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] = msgspec.field(default_factory=list)


class _Event(Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _Bookmark(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class KubernetesClient:
    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        random: Random,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str = "stowplan/scheduler",
        call_timeout_s: float = CALL_TIMEOUT_S,
        on_sent: OnSent | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._random = random
        self._limiter = RateLimiter(clock, qps, burst)
        self._user_agent = user_agent
        self._call_timeout_s = call_timeout_s
        self._on_sent = on_sent
        self._credentials = Credentials(connection, clock)
        self._slots = asyncio.Semaphore(CALLS_MAX)
        self._session: aiohttp.ClientSession | None = None
        self._certificate: ClientCertificate | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def abort(self) -> None:
        """Cut off everything that is under way; nobody is told."""
        for task in list(self._tasks):
            task.cancel()

    async def close(self) -> None:
        self.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    @property
    def server(self) -> str:
        return self._connection.server

    # -- the port ---------------------------------------------------------------------------

    def call(self, request: Request, done: Done) -> None:
        self._spawn(self._call(request, done))

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self._spawn(self._list(kind, options, done))

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        task = self._spawn(self._watch(kind, options, resource_version, handlers))
        return Watch(stop=lambda: _cancel(task))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """What is left are mistakes of ours: the loop's owner decides what they mean."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": "the Kubernetes client failed", "exception": error}
            task.get_loop().call_exception_handler(context)

    # -- calls ------------------------------------------------------------------------------

    async def _call(self, request: Request, done: Done) -> None:
        answer: Answer
        try:
            async with self._slots:
                raw = await self.send(http_request(request), self._call_timeout_s)
            answer = None if isinstance(request, Bind) else _decode(raw, request.kind)
        except ApiError as error:
            answer = error
        done(answer)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What is no object of ours, as JSON data: reviews, versions, config maps."""
        data = b"" if body is None else msgspec.json.encode(body)
        raw = await self.send(HttpRequest(method, path, body=data), self._call_timeout_s)
        return _parse(raw, dict)

    async def _list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        answer: ListResult | ApiError
        try:
            answer = await self._pages(kind, options)
        except ApiError as error:
            log.warning("Failed to list %s: %s", kind.plural, error.message)
            answer = error
        done(answer)

    async def _pages(self, kind: Kind, options: ListOptions) -> ListResult:
        items: list[KubeObject] = []
        token = ""
        while True:
            raw = await self.send(list_request(kind, options, token), LIST_TIMEOUT_S)
            page = _parse(raw, _List)
            items += [_decode(item, kind) for item in page.items]
            token = page.metadata.next
            if not token:
                return ListResult(items, page.metadata.resource_version)

    async def _watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> None:
        end: ApiError | None = None
        timeout_s = WATCH_MIN_S + self._random.randrange(WATCH_MIN_S)
        request = watch_request(kind, options, resource_version, timeout_s)
        try:
            async for lines in self._lines(request, timeout_s + 30.0):
                events = [_watch_event(line, kind) for line in lines]
                handlers.on_events(events)
        except ApiError as error:
            if not isinstance(error, Gone):
                log.warning("Failed to watch %s: %s", kind.plural, error.message)
            end = error
        handlers.on_end(end)

    # -- HTTP -------------------------------------------------------------------------------

    async def send(self, request: HttpRequest, timeout_s: float) -> bytes:
        """The body of a successful answer; a throttled request is sent again when it may be."""
        for tries_left in reversed(range(THROTTLED_TRIES)):
            try:
                return await self._send_once(request, timeout_s)
            except ApiError as error:
                if error.retry_after_s is None or not tries_left:
                    raise
                await asyncio.sleep(error.retry_after_s)
        raise AssertionError

    async def _send_once(self, request: HttpRequest, timeout_s: float) -> bytes:
        delay_s = self._limiter.delay_s()
        if delay_s:
            await asyncio.sleep(delay_s)
        started_s, code = time.perf_counter(), NO_ANSWER
        try:
            async with await self._open(request, timeout_s) as response:
                code = response.status
                body = await response.read()
                if response.status >= 400:
                    raise self._failure(response, body)
                return body
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self._connection.server, error) from error
        finally:
            if self._on_sent is not None:
                self._on_sent(request, code, time.perf_counter() - started_s, delay_s)

    async def _lines(self, request: HttpRequest, timeout_s: float) -> AsyncIterator[_Lines]:
        """Complete lines as they come, those of one read together."""
        rest = b""
        try:
            async with await self._open(request, timeout_s) as response:
                if self._on_sent is not None:
                    self._on_sent(request, response.status, None, 0.0)
                if response.status >= 400:
                    raise self._failure(response, await response.read())
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > LINE_BYTES_MAX:
                        raise Unavailable(f"a watch event of over {LINE_BYTES_MAX} bytes")
                    complete = [line for line in lines if line.strip()]
                    if complete:
                        yield complete
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self._connection.server, error) from error

    async def _open(
        self, request: HttpRequest, timeout_s: float
    ) -> aiohttp.client._RequestContextManager:
        try:
            headers = await self._credentials.headers()
            session = self._ready_session()
        except StowplanError as error:
            raise Unavailable(str(error)) from error
        return session.request(
            request.method,
            URL(self._connection.server + request.path),
            params=request.query,
            data=request.body or None,
            headers=headers | {"Content-Type": request.content_type},
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S),
            proxy=self._connection.proxy or None,
            server_hostname=self._connection.server_name or None,
            allow_redirects=False,
        )

    def _failure(self, response: aiohttp.ClientResponse, body: bytes) -> ApiError:
        if response.status == 401:
            sent = response.request_info.headers.get("Authorization")
            self._credentials.expire({"Authorization": sent} if sent else {})
        return _failure(response, body)

    def _ready_session(self) -> aiohttp.ClientSession:
        """One session for all requests; a new one when the client certificate has changed."""
        certificate = self._credentials.certificate
        if self._session is not None and self._certificate is certificate:
            return self._session
        connector = aiohttp.TCPConnector(
            limit=CALLS_MAX + WATCHES_MAX,
            ssl=tls_context(self._connection, certificate),
            socket_factory=_lively_socket,
        )
        before, self._certificate = self._session, certificate
        self._session = session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        if before is not None:
            self._spawn(_retire(before, self._call_timeout_s))
        return session


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _retire(session: aiohttp.ClientSession, after_s: float) -> None:
    """Calls under way come to their end; its watches are cut off, and resume in the new one."""
    try:
        await asyncio.sleep(after_s)
    finally:
        await session.close()


def _lively_socket(address: AddrInfoType) -> socket.socket:
    """A quiet watch must notice within a minute that its server is gone without a word."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def tls_context(
    connection: Connection, certificate: ClientCertificate | None
) -> ssl.SSLContext | bool:
    if not connection.server.startswith("https://"):
        return True
    return client_context(
        ca=connection.ca,
        insecure=connection.insecure,
        cert=certificate.cert if certificate is not None else b"",
        key=certificate.key if certificate is not None else b"",
        where=connection.source,
    )


def _decode(raw: bytes | msgspec.Raw, kind: Kind) -> KubeObject:
    decoded: KubeObject = _parse(bytes(raw), kind.struct)
    return decoded


def _parse(raw: bytes, struct: type[Any]) -> Any:
    try:
        return decode_json(raw, struct)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(
            f"the API server sent something that is no {struct.__name__}: {error}"
        ) from error


def _watch_event(line: bytes, kind: Kind) -> WatchEvent:
    event = _parse(line, _Event)
    if event.type == "ERROR":
        status = _parse(bytes(event.object), _Status)
        raise api_error(status.code or 500, status.reason, status.message)
    if event.type == "BOOKMARK":
        meta = _parse(bytes(event.object), _Bookmark).metadata
        return WatchEvent("BOOKMARK", KubeObject(metadata=meta), meta.resource_version)
    found = _decode(event.object, kind)
    return WatchEvent(event.type, found, found.metadata.resource_version)


def _failure(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """The Status object of a failed answer, or as much as can be said without one."""
    retry_after = response.headers.get("Retry-After", "")
    retry_after_s = float(retry_after) if retry_after.isdecimal() else None
    if response.status not in (429, 503):
        retry_after_s = None
    try:
        status = decode_json(body, _Status)
        reason, message = status.reason, status.message
    except msgspec.DecodeError:
        reason, message = "", body[:200].decode(errors="replace").strip()
    message = message or response.reason or "no reason given"
    return api_error(response.status, reason, message, retry_after_s=retry_after_s)


def _unreachable(server: str, error: Exception) -> Unavailable:
    text = str(error) or type(error).__name__
    return Unavailable(f"{server} cannot be reached: {text}")
