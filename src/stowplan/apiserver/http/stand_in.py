"""Answers health while the server itself is away: in one long scheduling decision, on its own loop.

`stowplan up` has scheduler and API on one loop.  When that loop is not heard of for a moment, this
one, on another thread, takes connections from the same sockets until it is back.  Health it answers
itself.  Everything else waits as it would have without it: it is handed to the server unread.  Over
TLS nothing can be looked at without taking it, so whoever asks for more is asked to come back.

Connections that were open before are not touched.  `cli._up_serve` puts it on `runtime.upkeep`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from stowplan.apiserver.http.exchange import Reply

AWAY_S = 0.2
"""Not heard of for so long, the server is away."""
HEAD_BYTES_MAX = 16 * 1024
HEAD_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 64
"""At one time; others wait at the door, as they would without us."""

_BUSY = Reply(
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"the server is busy with a scheduling decision","reason":"ServiceUnavailable",'
    b'"code":503}',
    503,
    {"Content-Type": "application/json", "Retry-After": "1"},
)


class StandIn:
    def __init__(
        self,
        sockets: list[socket.socket],
        health: Callable[[str], Reply | None],
        hand_over: Callable[[socket.socket], None],
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`sockets` listen; they are ours from now on.  `hand_over` may be called on our thread."""
        self._sockets = sockets
        self._health = health
        self._hand_over = hand_over
        self._ssl_context = ssl_context
        self._open = False
        self._serving: set[asyncio.Task[None]] = set()

    def look(self, silent_s: float) -> None:
        """To be called every now and then, on the loop that we are to work on."""
        away = silent_s >= AWAY_S
        if away == self._open:
            return
        self._open = away
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if away:
                loop.add_reader(listening, self._accept, listening)
            else:
                loop.remove_reader(listening)

    def close(self) -> None:
        """On the same loop."""
        self.look(0.0)
        for listening in self._sockets:
            listening.close()
        self._sockets = []

    def _accept(self, listening: socket.socket) -> None:
        if len(self._serving) >= CONNECTIONS_MAX:
            return
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # The server was back, and quicker.
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                if self._ssl_context is not None:
                    await self._serve_tls(connection, self._ssl_context)
                else:
                    await self._serve_plain(connection)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            connection.close()

    async def _serve_plain(self, connection: socket.socket) -> None:
        await _readable(connection)
        head = connection.recv(HEAD_BYTES_MAX, socket.MSG_PEEK)
        answer = self._answer(head)
        if answer is None:
            self._hand_over(connection)
            return
        with connection:
            connection.recv(len(head))
            await asyncio.get_running_loop().sock_sendall(connection, _as_bytes(answer))

    async def _serve_tls(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(HEAD_BYTES_MAX)
        transport, protocol = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader), connection, ssl=context
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_as_bytes(self._answer(head) or _BUSY))
            await writer.drain()
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> Reply | None:
        """None: not about health, or not all of it is there."""
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET" or b"\r\n\r\n" not in head:
            return None
        return self._health(path.decode("latin-1"))


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


def _as_bytes(reply: Reply) -> bytes:
    headers = {**reply.headers, "Content-Length": str(len(reply.body)), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {reply.code} {HTTPStatus(reply.code).phrase}\r\n{lines}\r\n".encode()
        + reply.body
    )
