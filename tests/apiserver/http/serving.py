"""A server to ask, and short ways to ask it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp

from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http import Api, Authenticator, HttpServer
from stowplan.apiserver.http.connections import Connections
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from tests.apiserver.things import START_S

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

Data = dict[str, Any]


class Answer:
    def __init__(self, code: int, headers: Any, body: bytes) -> None:
        self.code = code
        self.headers = headers
        self.body = body

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    def status(self) -> tuple[int, str, str]:
        """Of a refusal: the code, the reason and the message, which must agree with HTTP."""
        data = self.data
        assert data["kind"] == "Status", data
        assert data["apiVersion"] == "v1"
        assert data["status"] == "Failure"
        assert data["code"] == self.code
        assert self.headers["Content-Type"] == "application/json"
        return self.code, data["reason"], data["message"]


class Served:
    def __init__(self, store: Store, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.store = store
        self.server = server
        self.session = session

    async def ask(
        self, method: str, path: str, body: Any = None, *, type_: str = "", **headers: str
    ) -> Answer:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = type_ or "application/json"
        url = self.server.url + path
        stream = None if data is None else io.BytesIO(data)
        async with self.session.request(method, url, data=stream, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any, **options: str) -> Answer:
        return await self.ask("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: str) -> Answer:
        return await self.ask("PUT", path, body, **options)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.ask("DELETE", path, body)

    async def patch(self, path: str, body: Any, type_: str = "merge") -> Answer:
        kinds = {"apply": "application/apply-patch+yaml", "json": "application/json-patch+json"}
        content_type = kinds.get(type_, f"application/{type_}-patch+json")
        return await self.ask("PATCH", path, body, type_=content_type)

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[Events]:
        sign = "&" if "?" in path else "?"
        async with self.session.get(f"{self.server.url}{path}{sign}watch=true") as response:
            yield Events(response)

    @asynccontextmanager
    async def socket(
        self, limit: int = 2**16
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """For what no decent client would send.  Reads some `limit` ahead of who reads from it."""
        reader, writer = await asyncio.open_connection(
            self.server.host, self.server.port, limit=limit
        )
        try:
            yield reader, writer
        finally:
            writer.close()

    @property
    def connections(self) -> Connections:
        assert self.server._connections is not None
        return self.server._connections

    async def close(self) -> None:
        self.store.end_watches()
        await self.session.close()
        await self.server.stop()


class Events:
    """A watch, event by event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.code = response.status

    async def next(self) -> Data:
        line = await asyncio.wait_for(self.response.content.readline(), 10.0)
        assert line, "the watch has ended"
        event: Data = json.loads(line)
        assert set(event) == {"type", "object"}
        return event

    async def story(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def ended(self) -> bool:
        return await asyncio.wait_for(self.response.content.readline(), 10.0) == b""


async def serve(authenticator: Authenticator | None = None, **options: Any) -> Served:
    clock = VirtualClock(START_S)
    store = Store(clock, **options)
    grouped = GroupedStore(store, asyncio.get_running_loop().call_soon)
    api = Api(grouped, clock=clock, random=Random(1), authenticator=authenticator)
    server = HttpServer(api, host="127.0.0.1", port=0)
    await server.start()
    session = aiohttp.ClientSession(auto_decompress=False)
    return Served(store, server, session)


async def until(check: Callable[[], bool]) -> None:
    """Let others have their turns until something is so."""
    async with asyncio.timeout(10.0):
        for _ in iter(check, True):
            await asyncio.sleep(0.001)
