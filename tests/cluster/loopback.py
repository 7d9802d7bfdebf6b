"""A small server on the loopback interface that says exactly what a test tells it to say.

A test scripts it: each request that comes is written down and given to the next step of the
script, which answers with bytes, cuts the line, or stays silent.  Nothing here waits for time.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stowplan.clock import VirtualClock
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.kubeconfig import Connection
from stowplan.cluster.port import call_one
from stowplan.objects.api import Request


@dataclass(frozen=True)
class Seen:
    """A request as the server got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def data(self) -> Any:
        return json.loads(self.body)


Step = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def says(*pieces: bytes, close: bool = False) -> Step:
    """Send these bytes; then perhaps cut the line."""

    async def step(seen: Seen, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.close()

    return step


def answers(data: Any, status: int = 200, **headers: str) -> Step:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return says("\r\n".join([*lines, "", ""]).encode() + body)


async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
    return None


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def event(type_: str, **thing: Any) -> bytes:
    return json.dumps({"type": type_, "object": thing}).encode() + b"\n"


def pod(name: str, version: int, **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **fields}


@dataclass
class Loopback:
    script: list[Step] = field(default_factory=list)
    """One step for each request; the last one is for all that follow."""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    scheme: str = "http"
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def has_seen(self, count: int) -> None:
        while len(self.seen) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        try:
            while (request := await _read(reader, number)) is not None:
                step = self.script[min(len(self.seen), len(self.script) - 1)]
                self.seen.append(request)
                self._arrived.set()
                await step(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._tasks)


async def _read(reader: asyncio.StreamReader, connection: int) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers.get("Content-Length", 0)))
    return Seen(method, target, headers, body, connection)


@asynccontextmanager
async def loopback(*script: Step, context: ssl.SSLContext | None = None) -> AsyncIterator[Loopback]:
    server = Loopback([*script])
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    server.scheme = "https" if context is not None else "http"
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
        await server.close()


class Timers:
    """Timers that go off when the test moves the clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock(now_s=1_700_000_000.0)
        self._started: list[float] = []
        self._changed = asyncio.Event()

    def start(self, delay_s: float, action: Callable[[], None]) -> Handle:
        handle = Handle(action)
        self.clock.at(delay_s, handle.run)
        self._started.append(delay_s)
        self._changed.set()
        return handle

    async def has_started(self, delay_s: float, times: int = 1) -> None:
        while self._started.count(delay_s) < times:
            self._changed.clear()
            await self._changed.wait()


@dataclass
class Handle:
    action: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        if not self.cancelled:
            self.action()


@asynccontextmanager
async def client_of(
    server: Loopback | str, timers: Timers | None = None, **settings: Any
) -> AsyncIterator[KubernetesClient]:
    """With timers in hand; the settings are those of the client or of its connection."""
    of_client = {"qps", "burst", "call_timeout_s", "on_sent", "user_agent", "may_call"}
    timers = timers or Timers()
    url = server if isinstance(server, str) else server.url
    connection = {name: value for name, value in settings.items() if name not in of_client}
    client = KubernetesClient(
        Connection(server=url, **connection),
        clock=timers.clock,
        random=Random(0),
        start_timer=timers.start,
        **{"qps": -1.0, **{key: value for key, value in settings.items() if key in of_client}},
    )
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def talk(
    *script: Step, timers: Timers | None = None, **settings: Any
) -> AsyncIterator[tuple[Loopback, KubernetesClient]]:
    """A server and a client of it."""
    async with loopback(*script) as server, client_of(server, timers, **settings) as client:
        yield server, client


async def answer_to(client: KubernetesClient, request: Request) -> Any:
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    call_one(client, request, answered.set_result)
    return await answered
