"""Connections to one server, and who may use them when.

One request at a time on a connection, the connection used last first, and callbacks instead of
tasks and futures: a binding costs a fraction of what it does through a general client.  Requests
that find no free connection wait in line; all of a request's time, waiting included, is bounded.

`cluster.client` has one pool for calls and one for lists and watches.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stowplan.cluster.http_wire import HttpResponse, WireError
from stowplan.cluster.proxy import Proxy

CONNECT_TIMEOUT_S = 10.0
PROXY_ANSWER_BYTES_MAX = 8192
OPENING_MAX = 8
"""Connections opened at a time: their handshakes would keep the first requests waiting."""

ANSWER_BYTES_MAX = 256 * 2**20
"""Lists come in pages that are far smaller; a server that sends more has lost its way."""

_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A quiet watch must notice within a minute that its server is gone without a word."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Server:
    address: Address
    ssl_context: ssl.SSLContext | None = None
    name: str = ""
    """What its certificate must say; empty: the host of the address."""
    proxy: Proxy | None = None
    """Asked for a tunnel to the address."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    reason: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class NotSent(Exception):
    """The request may not be sent any more."""


Outcome = Response | Exception
"""The answer, or why there is none: an OSError, TimeoutError, WireError or NotSent."""


class Timer(Protocol):
    def cancel(self) -> None: ...


StartTimer = Callable[[float, Callable[[], None]], Timer]
"""The event loop's `call_later`, or a test's."""

Stream = Callable[[int, bytes], bool]
"""Takes the status and a piece of the body as it comes; False: rather keep it for the response."""


class Exchange:
    """A request, and what is to become of its answer."""

    __slots__ = (
        "connection",
        "done",
        "kept_bytes",
        "over",
        "parts",
        "request",
        "stream",
        "timeout_s",
        "timer",
    )

    def __init__(
        self,
        request: bytes,
        timeout_s: float,
        done: Callable[[Outcome], None],
        stream: Stream | None,
    ) -> None:
        self.request = request
        self.timeout_s = timeout_s
        """For the answer, from when it is sent: how long others take is not its fault."""
        self.done = done
        self.stream = stream
        self.parts: list[bytes] = []
        self.kept_bytes = 0
        self.connection: _Connection | None = None
        self.timer: Timer | None = None
        self.over = False

    def keep(self, piece: bytes) -> None:
        """A piece of the answer, for the end; raises WireError if it is too much."""
        self.kept_bytes += len(piece)
        if self.kept_bytes > ANSWER_BYTES_MAX:
            raise WireError(f"an answer of over {ANSWER_BYTES_MAX} bytes")
        self.parts.append(piece)

    def finish(self, outcome: Outcome) -> None:
        if not self.over:
            self.forget()
            self.done(outcome)

    def forget(self) -> None:
        """Nobody is told any more."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()

    def cancel(self) -> None:
        """Nobody is told, and what is under way is cut off."""
        self.forget()
        if self.connection is not None:
            self.connection.abort()

    def time_out(self) -> None:
        connection = self.connection
        self.finish(TimeoutError("no answer in time"))
        if connection is not None:
            connection.abort()


class Pool:
    def __init__(
        self,
        server: Server,
        connections_max: int,
        start_timer: StartTimer,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_send` is asked at the last moment, before every request."""
        self._server = server
        self.start_timer = start_timer
        self._may_send = may_send
        self._connections_max = connections_max
        self._waiting: deque[Exchange] = deque()
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._retired = False

    def send(
        self,
        request: bytes,
        timeout_s: float,
        done: Callable[[Outcome], None],
        stream: Stream | None = None,
    ) -> Exchange:
        exchange = Exchange(request, timeout_s, done, stream)
        self._waiting.append(exchange)
        self._assign()
        return exchange

    def retire(self, after_s: float) -> None:
        """Requests under way come to their end within this time; another pool takes the next."""
        self._retired = True
        for connection in [*self._idle]:
            connection.abort()
        self.start_timer(after_s, self._cut_off)

    def _cut_off(self) -> None:
        for connection in [*self._open]:
            connection.abort()

    def abort(self) -> None:
        """Cut everything off; nobody is told."""
        for exchange in self._waiting:
            exchange.forget()
        self._waiting.clear()
        for task in self._opening:
            task.cancel()
        for connection in [*self._open]:
            if connection.exchange is not None:
                connection.exchange.forget()
            connection.abort()

    # -- connections ------------------------------------------------------------------------

    def _assign(self) -> None:
        """Give waiting requests to idle connections, and open as many more as are needed."""
        while self._idle and (exchange := self._next()) is not None:
            self._idle.pop().begin(exchange)
        opening = len(self._opening)
        room = self._connections_max - len(self._open) - opening
        for _ in range(min(room, OPENING_MAX - opening, len(self._waiting) - opening)):
            task = asyncio.get_running_loop().create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connection = await _open(self._server, self)
        except (OSError, TimeoutError, WireError) as error:
            if not self._open:
                # Nobody else will serve those who wait, nor us those who ask anew when told so.
                self._opening.discard(asyncio.current_task())
                self._refuse(error)
            return
        self._opening.discard(asyncio.current_task())
        self._open.add(connection)
        self.release(connection)
        self._assign()

    def release(self, connection: _Connection) -> None:
        if self._retired:
            connection.abort()
            return
        exchange = self._next()
        if exchange is None:
            self._idle.append(connection)
        else:
            connection.begin(exchange)

    def _next(self) -> Exchange | None:
        """Whose turn it is."""
        if self._waiting and not self._may_send():
            self._refuse(NotSent("it may not be sent any more"))
        while self._waiting:
            exchange = self._waiting.popleft()
            if not exchange.over:
                return exchange
        return None

    def _refuse(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for exchange in waiting:
            exchange.finish(error)

    def lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._waiting:
            self._assign()


class _Connection(asyncio.Protocol):
    def __init__(self, pool: Pool) -> None:
        self.exchange: Exchange | None = None
        self._pool = pool
        self._answer = HttpResponse()
        self._transport: asyncio.Transport | None = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def begin(self, exchange: Exchange) -> None:
        assert self._transport is not None
        self.exchange = exchange
        exchange.connection = self
        exchange.timer = self._pool.start_timer(exchange.timeout_s, exchange.time_out)
        self._answer = HttpResponse()
        self._transport.write(exchange.request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        exchange, answer = self.exchange, self._answer
        if exchange is None:
            self.abort()  # Nobody asked.
            return
        try:
            piece = answer.feed(data)
            stream = exchange.stream
            if piece and not (stream is not None and stream(answer.status, piece)):
                exchange.keep(piece)
        except WireError as error:
            self._end(error)
            return
        if answer.complete:
            self._end(self._response(exchange))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.exchange is not None:
            try:
                self._answer.end()
                self._end(self._response(self.exchange))
            except WireError as error:
                self._end(exc or error)
        self._pool.lost(self)

    def _response(self, exchange: Exchange) -> Response:
        answer, parts = self._answer, exchange.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Response(answer.status, answer.reason, answer.headers, body)

    def _end(self, outcome: Outcome) -> None:
        exchange, self.exchange = self.exchange, None
        assert exchange is not None
        exchange.connection = None
        if isinstance(outcome, Response) and self._answer.keeps_connection:
            self._pool.release(self)
        else:
            self.abort()
        exchange.finish(outcome)


async def _open(server: Server, pool: Pool) -> _Connection:
    loop = asyncio.get_running_loop()
    tls = server.ssl_context
    name = (server.name or server.address[0]) if tls is not None else None
    if server.proxy is None:
        host, port = server.address
        transport, connection = await loop.create_connection(
            lambda: _Connection(pool), host, port, ssl=tls, server_hostname=name
        )
    else:
        tunnel = await _tunnel(server.proxy, server.address)
        transport, connection = await loop.create_connection(
            lambda: _Connection(pool), sock=tunnel, ssl=tls, server_hostname=name
        )
    made: socket.socket | None = transport.get_extra_info("socket")
    if made is not None:
        _keep_alive(made)
    return connection


def _keep_alive(made: socket.socket) -> None:
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _tunnel(proxy: Proxy, address: Address) -> socket.socket:
    """A connection through the proxy, as CONNECT makes it."""
    made = await _connected(proxy)
    try:
        await asyncio.get_running_loop().sock_sendall(made, _connect_request(proxy, address))
        status = (await _proxy_answer(made)).split(b" ", 2)
        if len(status) < 2 or status[1] != b"200":
            raise WireError(f"the proxy refused: {b' '.join(status).decode('latin-1')}")
    except BaseException:
        made.close()
        raise
    return made


async def _connected(proxy: Proxy) -> socket.socket:
    """To the first of its addresses that answers: `localhost` often has two, and one in use."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, target in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, target)
        except BaseException as error:
            made.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return made
    raise WireError(f"the proxy {proxy.host}:{proxy.port} cannot be reached: {failure}")


def _connect_request(proxy: Proxy, address: Address) -> bytes:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    place = f"{host}:{address[1]}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _proxy_answer(made: socket.socket) -> bytes:
    """Its first line."""
    heard = b""
    while not heard.endswith(b"\r\n\r\n"):
        # Byte by byte: what follows belongs to the server behind the proxy.
        part = await asyncio.get_running_loop().sock_recv(made, 1)
        heard += part
        if not part or len(heard) > PROXY_ANSWER_BYTES_MAX:
            raise WireError("the proxy gave no answer")
    return heard.partition(b"\r\n")[0]
