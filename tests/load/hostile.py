"""Clients that are slow, broken or mean.  Each tries until it is cancelled.

What becomes of a try is counted by kind: "refused" with an answer of 4xx, "cut" off without one,
or "served" like anybody else.  A kind is shut out if its tries come to an end: none may hold on to
what it took for longer than the server allows.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tests.load.target import PODS, Target

PATIENCE_S = 120.0
"""For an answer; longer than anything the server allows."""
DEAF_BUFFER_BYTES = 4096
AT_ONCE = 200
IN_A_ROW = 20


@dataclass(slots=True)
class Tries:
    """What became of the tries, by kind of client and outcome."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, kind: str, outcome: str) -> None:
        self.outcomes.setdefault(kind, Counter())[outcome] += 1

    def total(self, outcome: str) -> int:
        return sum(counter[outcome] for counter in self.outcomes.values())


class Wire:
    """A raw connection that is not well-behaved."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def outcome(self) -> str:
        """How the server ends it."""
        async with asyncio.timeout(PATIENCE_S):
            status = await self.reader.readline()
        code = status.split(b" ")[1:2]
        if not code:
            return "cut"
        return "refused" if code[0] >= b"400" else "served"

    async def answer(self) -> None:
        """Read one whole answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            await self.reader.readexactly(int(length))


@dataclass(frozen=True, slots=True)
class Mean:
    """A hostile client's means."""

    target: Target
    random: Random

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """Of a request; with a good token or, one time in two, without."""
        token = self.random.choice([self.target.token, "wrong" * 4])
        return self.authorized(token, method, path, *lines)

    def trusted_head(self, method: str, path: str, *lines: str) -> bytes:
        """Of one who was let in: what comes next is not kept out by a 401."""
        return self.authorized(self.target.token, method, path, *lines)

    def authorized(self, token: str, method: str, path: str, *lines: str) -> bytes:
        host, bearer = f"Host: {self.target.host}", f"Authorization: Bearer {token}"
        return "\r\n".join([f"{method} {path} HTTP/1.1", host, bearer, *lines, "", ""]).encode()

    async def open(self, *, buffer_bytes: int = 65536, plain: bool = False) -> Wire:
        tls: ssl.SSLContext | None = None if plain else self.target.tls
        reader, writer = await asyncio.open_connection(
            self.target.host, self.target.port, ssl=tls, limit=buffer_bytes
        )
        return Wire(reader, writer)


Attack = Callable[[Mean, Wire], Awaitable[str]]


async def slow_head(mean: Mean, wire: Wire) -> str:
    """A head that never ends, a byte at a time."""
    await wire.send(mean.head("GET", PODS)[:-2])
    with suppress(ConnectionError):
        while not wire.reader.at_eof():
            await wire.send(b"X")
            await asyncio.sleep(0.5)
    return "cut"


async def endless_body(mean: Mean, wire: Wire) -> str:
    """A body that is promised and comes a byte at a time."""
    await wire.send(mean.head("POST", PODS, "Content-Length: 100000"))
    answer = asyncio.ensure_future(wire.outcome())
    with suppress(ConnectionError):
        while not answer.done():
            await wire.send(b" ")
            await asyncio.sleep(0.5)
    return await answer


async def stalled_body(mean: Mean, wire: Wire) -> str:
    """Nearly as large as is allowed, and its last byte never comes."""
    size = 3 * 2**20
    await wire.send(mean.trusted_head("POST", PODS, f"Content-Length: {size}"))
    await wire.send(b" " * (size - 1))
    return await wire.outcome()


async def huge_body(mean: Mean, wire: Wire) -> str:
    """Larger than is allowed, in chunks, so that nobody knows before."""
    await wire.send(mean.trusted_head("POST", PODS, "Transfer-Encoding: chunked"))
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    answer = asyncio.ensure_future(wire.outcome())
    with suppress(ConnectionError):
        while not answer.done():
            await wire.send(chunk)
    return await answer


async def deaf_watch(mean: Mean, wire: Wire) -> str:
    """Asks for everything, from the beginning, and reads nothing."""
    await wire.send(mean.trusted_head("GET", "/api/v1/pods?watch=1"))
    return await _never_read(wire)


async def deaf_list(mean: Mean, wire: Wire) -> str:
    """Asks for lists, and reads none."""
    await wire.send(mean.trusted_head("GET", "/api/v1/nodes") * 8)
    return await _never_read(wire)


async def _never_read(wire: Wire) -> str:
    # The reader's small buffer is full soon, and then nothing is taken from the socket.  That the
    # server has given up shows when something is written.
    with suppress(ConnectionError):
        for _ in range(round(PATIENCE_S)):
            await asyncio.sleep(1.0)
            await wire.send(b"\r\n")
        return "served"
    return "cut"


async def noise(mean: Mean, wire: Wire) -> str:
    """Bytes that are no HTTP."""
    await wire.send(mean.random.randbytes(mean.random.randrange(1, 20_000)) + b"\r\n\r\n")
    return await wire.outcome()


async def reset(mean: Mean, wire: Wire) -> str:
    """Gone in the middle of a request, without a goodbye."""
    await wire.send(mean.head("POST", PODS, "Content-Length: 1000") + b"{")
    raw: socket.socket = wire.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.writer.transport.abort()
    return "gone"


async def flood(mean: Mean, wire: Wire) -> str:
    """Small requests, as fast as they are answered."""
    for _ in range(IN_A_ROW):
        await wire.send(mean.trusted_head("GET", f"{PODS}/nobody"))
        await wire.answer()
    return "served"


async def impatience(mean: Mean, wire: Wire) -> str:
    """Hundreds of requests at once, without waiting for answers."""
    await wire.send(mean.trusted_head("GET", f"{PODS}/nobody") * AT_ONCE)
    with suppress(asyncio.IncompleteReadError):
        for _ in range(AT_ONCE):
            await wire.answer()
        return "served"
    return "cut"


async def bad_token(mean: Mean, wire: Wire) -> str:
    """Guesses, as fast as they are answered."""
    for _ in range(IN_A_ROW):
        await wire.send(mean.authorized(mean.random.randbytes(16).hex(), "GET", PODS))
        await wire.answer()
    return "refused"


async def plain_noise(mean: Mean, wire: Wire) -> str:
    """No TLS where TLS is spoken."""
    await wire.send(mean.random.randbytes(500))
    return await wire.outcome()


async def silence(mean: Mean, wire: Wire) -> str:
    """Connects, and says nothing."""
    return await wire.outcome()


KINDS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        slow_head,
        endless_body,
        stalled_body,
        huge_body,
        deaf_watch,
        deaf_list,
        noise,
        reset,
        flood,
        impatience,
        bad_token,
        plain_noise,
        silence,
    )
}
_PLAIN = {"plain_noise"}
_DEAF = {"deaf_watch", "deaf_list"}


async def live(kind: str, mean: Mean, tries: Tries) -> None:
    """One hostile client's life: as soon as it is shut out it tries again."""
    while True:
        try:
            size = DEAF_BUFFER_BYTES if kind in _DEAF else 65536
            wire = await mean.open(buffer_bytes=size, plain=kind in _PLAIN)
        except OSError:
            tries.count(kind, "cut")
            await asyncio.sleep(0.1)
            continue
        try:
            tries.count(kind, await KINDS[kind](mean, wire))
        except TimeoutError:
            tries.count(kind, "endured")
        except (OSError, asyncio.IncompleteReadError):
            tries.count(kind, "cut")
        finally:
            wire.writer.transport.abort()
        await asyncio.sleep(mean.random.random() * 0.1)
