"""The Kubernetes side of the port: any conformant API server, over HTTP.

Requests are built in `http_request`, sent by `http_pool` and decoded in `decoding`.  Here they are
held to a rate limit, given credentials, sent again where the server asks for it, and answered.
Everything runs on the event loop, by callbacks: thousands of bindings need no thousands of tasks.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from stowplan.clock import Clock
from stowplan.cluster.appending import JSON
from stowplan.cluster.credentials import ClientCertificate, Credentials
from stowplan.cluster.decoding import (
    Lines,
    decode_answer,
    decode_data,
    decode_event,
    decode_failure,
    decode_page,
    next_page,
)
from stowplan.cluster.http_pool import (
    Exchange,
    NotSent,
    Outcome,
    Pool,
    Response,
    Server,
    StartTimer,
    Stream,
)
from stowplan.cluster.http_request import (
    APPEND,
    HttpRequest,
    appending,
    http_request,
    list_request,
    watch_request,
)
from stowplan.cluster.kubeconfig import Connection
from stowplan.cluster.port import (
    AllDone,
    Answer,
    Bind,
    Create,
    Done,
    Get,
    ListOptions,
    ListResult,
    Patch,
    Request,
    Watch,
    WatchHandlers,
    separately,
)
from stowplan.cluster.proxy import parse_proxy
from stowplan.cluster.rate_limit import RateLimiter
from stowplan.cluster.tls import client_context
from stowplan.cluster.turns import Turns
from stowplan.errors import ApiError, Gone, StowplanError, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, Kind
from stowplan.printable import logger

log = logger(__name__)

CALLS_MAX = 64
STREAMS_MAX = 64
"""Connections for lists and watches, beside those for calls."""
CALL_TIMEOUT_S = 30.0
LIST_TIMEOUT_S = 60.0
WATCH_MIN_S = 300
THROTTLED_TRIES = 10
NO_ANSWER = 0
"""In place of a status code."""

OnSent = Callable[[HttpRequest, int, float | None, float], None]
"""(request, code, seconds, seconds it was held back); a watch is told of when it begins."""

_Heard = Callable[[bytes | ApiError], None]
"""Told the body of a good answer, or what went wrong."""

_ACCEPT_JSON = f"Accept: {JSON}\r\n".encode()

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~:-]+")


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
        start_timer: StartTimer | None = None,
        may_call: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_call` is asked at the last moment, before every call; not for lists and watches."""
        self._connection = connection
        self._random = random
        self._limiter = RateLimiter(clock, qps, burst)
        self._user_agent = user_agent
        self._call_timeout_s = call_timeout_s
        self._on_sent = on_sent
        self._start_timer = start_timer or asyncio.get_running_loop().call_later
        self._may_call = may_call
        self._credentials = Credentials(connection, clock)
        self._url = urlsplit(connection.server)
        self._proxy = parse_proxy(connection.proxy) if connection.proxy else None
        # Where there is no tunnel, a proxy learns from the request whom it is for.
        plain = self._proxy is not None and self._url.scheme == "http"
        self._target = f"http://{self._host}" if plain else ""
        self._pools: tuple[Pool, Pool] | None = None
        """For calls, and for lists and watches."""
        self._certificate: ClientCertificate | None = None
        self._head: tuple[dict[str, str], bytes] = ({}, b"")
        """Credentials, and the part of every request's head that they make."""
        self._turns: Turns[bytes | ApiError] = Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def abort(self) -> None:
        """Cut off everything that is under way, and send nothing more; nobody is told."""
        self._closed = True
        for pool in self._pools or ():
            pool.abort()
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Transports are closed in the next turn of the loop.
        await asyncio.sleep(0)

    @property
    def server(self) -> str:
        return self._connection.server

    # -- the port ---------------------------------------------------------------------------

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        for request, answered in separately(requests, done):
            heard = partial(_answer, request, answered)
            self._turns.take(_written(request), partial(self._call, request), heard)

    def _call(self, request: Request, heard: _Heard) -> None:
        if isinstance(request, Patch) and request.patch_type == APPEND:
            heard = partial(self._append, request, heard)
        self._send(http_request(request), heard, self._call_timeout_s)

    def _append(self, request: Patch, heard: _Heard, stored: bytes | ApiError) -> None:
        if isinstance(stored, ApiError):
            heard(stored)
            return
        try:
            put = appending(request, stored)
        except ValueError as problem:
            heard(Unavailable(f"{request.kind.name} {request.name} cannot be read: {problem}"))
            return
        self._send(put, heard, self._call_timeout_s)

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        items: list[KubeObject] = []
        over = False

        def heard(outcome: bytes | ApiError) -> None:
            nonlocal over
            if over:
                return
            try:
                if isinstance(outcome, ApiError):
                    raise outcome
                # While this page is decoded, the server is at the next one.
                asked = next_page(outcome)
                if asked:
                    ask(asked)
                page = decode_page(outcome, kind)
            except ApiError as error:
                over = True
                log.warning("Failed to list %s: %s", kind.plural, error.message)
                done(error)
                return
            items.extend(page.items)
            if not page.next:
                over = True
                done(ListResult(items, page.resource_version))
            elif not asked:
                ask(page.next)

        def ask(token: str) -> None:
            self._send(list_request(kind, options, token), heard, LIST_TIMEOUT_S, streams=True)

        ask("")

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        timeout_s = WATCH_MIN_S + self._random.randrange(WATCH_MIN_S)
        request = watch_request(kind, options, resource_version, timeout_s)
        watching = _Watching(kind, handlers)
        self._with_credentials(lambda error: self._begin_watch(request, watching, error, timeout_s))
        return Watch(stop=watching.stop)

    def _begin_watch(
        self, request: HttpRequest, watching: _Watching, error: ApiError | None, timeout_s: float
    ) -> None:
        if watching.over:
            return
        started = False

        def stream(status: int, piece: bytes) -> bool:
            nonlocal started
            if not started:
                started = True
                self._told(request, status, None, 0.0)
            return watching.feed(status, piece)

        def done(outcome: Outcome) -> None:
            heard = self._judge(outcome)
            watching.end(heard if isinstance(heard, ApiError) else None)

        if error is not None:
            watching.end(error)
        else:
            # It is the server that ends it in time; this is for one that does not.
            watching.exchange = self._exchange(request, timeout_s + 30.0, done, stream)

    # -- requests ---------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What is no object of ours, as JSON data: reviews, versions, config maps."""
        data = b"" if body is None else msgspec.json.encode(body)
        return decode_data(await self._sent(HttpRequest(method, path, body=data)))

    async def text(self, path: str) -> str:
        """What is no JSON either: health."""
        return (await self._sent(HttpRequest("GET", path))).decode(errors="replace")

    async def _sent(self, request: HttpRequest) -> bytes:
        answered: asyncio.Future[bytes | ApiError] = asyncio.get_running_loop().create_future()

        def heard(outcome: bytes | ApiError) -> None:
            if not answered.done():
                answered.set_result(outcome)

        self._send(request, heard, self._call_timeout_s)
        outcome = await answered
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    def _send(
        self,
        request: HttpRequest,
        heard: _Heard,
        timeout_s: float,
        *,
        streams: bool = False,
        tries_left: int = THROTTLED_TRIES,
    ) -> None:
        """Within the rate limit; a throttled request is sent again when it may be."""
        held_s = self._limiter.delay_s()
        started_s = 0.0

        def go() -> None:
            self._with_credentials(start)

        def start(error: ApiError | None) -> None:
            nonlocal started_s
            started_s = time.perf_counter()
            if error is not None:
                done(error)
            else:
                self._exchange(request, timeout_s, done, streams=streams)

        def done(outcome: Outcome) -> None:
            code = outcome.status if isinstance(outcome, Response) else NO_ANSWER
            self._told(request, code, time.perf_counter() - started_s, held_s)
            answer = self._judge(outcome)
            retry_s = answer.retry_after_s if isinstance(answer, ApiError) else None
            if retry_s is None or tries_left <= 1:
                heard(answer)
                return
            again = partial(
                self._send, request, heard, timeout_s, streams=streams, tries_left=tries_left - 1
            )
            self._start_timer(retry_s, again)

        if held_s:
            self._start_timer(held_s, go)
        else:
            go()

    def _told(self, request: HttpRequest, code: int, seconds: float | None, held_s: float) -> None:
        if self._on_sent is not None:
            self._on_sent(request, code, seconds, held_s)

    def _judge(self, outcome: Outcome) -> bytes | ApiError:
        if isinstance(outcome, ApiError):
            return outcome
        if isinstance(outcome, NotSent):
            return Unavailable(str(outcome))
        if isinstance(outcome, Exception):
            text = str(outcome) or type(outcome).__name__
            error = Unavailable(f"{self.server} cannot be reached: {text}")
            error.__cause__ = outcome
            return error
        if outcome.status < 400:
            return outcome.body
        if outcome.status == 401:
            self._credentials.expire(self._head[0])
        retry_after = outcome.headers.get("retry-after", "")
        return decode_failure(outcome.status, outcome.reason, outcome.body, retry_after=retry_after)

    # -- HTTP -------------------------------------------------------------------------------

    def _with_credentials(self, go: Callable[[ApiError | None], None]) -> None:
        """At once, unless they have to be renewed first."""
        if not self._credentials.is_stale:
            go(None)
            return

        async def renew() -> None:
            try:
                await self._credentials.renew()
            except StowplanError as error:
                go(Unavailable(str(error)))
            else:
                go(None)

        self._spawn(renew())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _exchange(
        self,
        request: HttpRequest,
        timeout_s: float,
        done: Callable[[Outcome], None],
        stream: Stream | None = None,
        *,
        streams: bool = False,
    ) -> Exchange | None:
        if self._closed:
            return None
        try:
            calls, others = self._ready_pools()
        except StowplanError as error:
            done(Unavailable(str(error)))
            return None
        pool = others if streams or stream is not None else calls
        return pool.send(self._bytes(request), timeout_s, done, stream)

    def _bytes(self, request: HttpRequest) -> bytes:
        path = self._url.path + request.path
        if not _PLAIN_PATH.fullmatch(path):
            path = quote(path)
        if request.query:
            path = f"{path}?{urlencode(request.query)}"
        credentials = self._credentials.current()
        if credentials is not self._head[0]:
            self._head = (credentials, self._fixed_head(credentials))
        first = f"{request.method} {self._target}{path} HTTP/1.1\r\n".encode()
        body, head = request.body, self._head[1]
        if request.accept != JSON:
            head = head.replace(_ACCEPT_JSON, f"Accept: {request.accept}\r\n".encode(), 1)
        if not body and request.method in ("GET", "DELETE"):
            return b"%s%s\r\n" % (first, head)
        last = f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return b"%s%s%s%s" % (first, head, last.encode(), body)

    def _fixed_head(self, credentials: dict[str, str]) -> bytes:
        headers = {
            "Host": self._host,
            "User-Agent": self._user_agent,
            "Accept": JSON,
            **credentials,
        }
        if self._target and self._proxy is not None and self._proxy.authorization:
            headers["Proxy-Authorization"] = self._proxy.authorization
        return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")

    @property
    def _host(self) -> str:
        return self._url.netloc.rpartition("@")[2]

    def _ready_pools(self) -> tuple[Pool, Pool]:
        """The same for all requests; others when the client certificate has changed."""
        certificate = self._credentials.certificate
        if self._pools is not None and self._certificate is certificate:
            return self._pools
        server = server_of(self._connection, certificate)
        before, self._certificate = self._pools, certificate
        self._pools = (
            Pool(server, CALLS_MAX, self._start_timer, self._may_call),
            Pool(server, STREAMS_MAX, self._start_timer),
        )
        for pool in before or ():
            # Calls come to their end; watches are cut off then, and resume in the new one.
            pool.retire(self._call_timeout_s)
        return self._pools


class _Watching:
    """One watch: from pieces of the body to events, until it ends or is stopped."""

    def __init__(self, kind: Kind, handlers: WatchHandlers) -> None:
        self.over = False
        self.exchange: Exchange | None = None
        self._kind = kind
        self._handlers = handlers
        self._lines = Lines()

    def stop(self) -> None:
        self.over = True
        if self.exchange is not None:
            self.exchange.cancel()

    def feed(self, status: int, piece: bytes) -> bool:
        if status >= 400:
            return False
        try:
            events = [decode_event(line, self._kind) for line in self._lines.feed(piece)]
        except ApiError as error:
            self.end(error)
            return True
        if events:
            self._handlers.on_events(events)
        return True

    def end(self, error: ApiError | None) -> None:
        if self.over:
            return
        self.stop()
        if error is not None and not isinstance(error, Gone):
            log.warning("Failed to watch %s: %s", self._kind.plural, error.message)
        self._handlers.on_end(error)


def _answer(request: Request, done: Done, outcome: bytes | ApiError) -> None:
    answer: Answer
    try:
        if isinstance(outcome, ApiError):
            raise outcome
        answer = None if isinstance(request, Bind) else decode_answer(outcome, request.kind)
    except ApiError as error:
        answer = error
    done(answer)


def _written(request: Request) -> Hashable | None:
    """The object that the request changes."""
    if isinstance(request, Bind):
        return POD.plural, request.namespace, request.name
    if isinstance(request, Get | Create):
        return None
    return request.kind.plural, request.namespace, request.name


def server_of(connection: Connection, certificate: ClientCertificate | None) -> Server:
    url = urlsplit(connection.server)
    proxy = parse_proxy(connection.proxy) if connection.proxy else None
    if url.scheme == "https":
        context = _tls_context(connection, certificate)
        return Server((url.hostname or "", url.port or 443), context, connection.server_name, proxy)
    if proxy is not None:
        return Server((proxy.host, proxy.port))
    return Server((url.hostname or "", url.port or 80))


def _tls_context(connection: Connection, certificate: ClientCertificate | None) -> ssl.SSLContext:
    return client_context(
        ca=connection.ca,
        insecure=connection.insecure,
        cert=certificate.cert if certificate is not None else b"",
        key=certificate.key if certificate is not None else b"",
        where=connection.source,
    )
