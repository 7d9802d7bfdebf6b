"""While the server is away somebody answers health, and keeps everybody else's place."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial

import pytest

from stowplan.apiserver.http.documents import health
from stowplan.apiserver.http.stand_in import AWAY_S, StandIn
from stowplan.cli._up_tls import key_pair, server_context
from stowplan.cluster.tls import client_context
from tests.apiserver.things import START_S


class Door:
    """A socket that listens, with nobody at it but a stand-in."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self.handed_over: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.stand_in = StandIn(
            [listening],
            partial(health, is_ready=lambda: True),
            self.handed_over.put_nowait,
            context,
        )

    async def ask(self, *sent: bytes, context: ssl.SSLContext | None = None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        for piece in sent:
            writer.write(piece)
            await writer.drain()
        try:
            return await reader.read()
        finally:
            writer.close()


def request(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez?verbose"])
async def test_health_is_answered(path: str) -> None:
    door = Door()
    door.stand_in.look(AWAY_S)

    answer = await door.ask(request(path))

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok")
    door.stand_in.close()


@pytest.mark.parametrize("sent", [request("/api"), request("/healthz", "POST"), b"GET /he"])
async def test_all_else_is_handed_over_unread(sent: bytes) -> None:
    door = Door()
    door.stand_in.look(AWAY_S)

    asking = asyncio.create_task(door.ask(sent))
    with await door.handed_over.get() as connection:
        assert connection.recv(1000) == sent
        connection.send(b"served")

    assert await asking == b"served"
    door.stand_in.close()


async def test_over_tls_they_are_asked_to_come_back() -> None:
    pair = key_pair("127.0.0.1", None, START_S)
    door = Door(server_context(pair))
    door.stand_in.look(AWAY_S)
    trusting = client_context(insecure=True)

    live = await door.ask(request("/livez"), context=trusting)
    other = await door.ask(request("/api/v1/pods"), context=trusting)

    assert live.endswith(b"\r\n\r\nok")
    assert other.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nRetry-After: 1\r\n" in other
    door.stand_in.close()


async def test_while_the_server_is_there_nobody_is_taken_from_it() -> None:
    door = Door()
    door.stand_in.look(AWAY_S)
    door.stand_in.look(0.0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(door.ask(request("/healthz")), 0.05)
    door.stand_in.close()
