"""Connections that do not get to the point are closed, and there is a maximum of them.

aiohttp has one limit for silence, which has to be long: a connection may be kept for the next
request.  The head of a request that has begun must be complete much sooner, or a few hundred
clients that send a byte now and then would keep everybody else out.  Once a second somebody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

HEAD_TIMEOUT_S = 10.0
"""From the first byte of a request, or the start of a connection, to the end of the head."""
LOOK_EVERY_S = 1.0
CONNECTIONS_MAX = 4000
"""All requests and watches that are answered at one time, and a thousand more."""

WAITING_MAX = 8
"""Requests that were sent without waiting for the answers before.  No client of Kubernetes does
that; whoever sends hundreds wants to be answered while others wait."""


class Connection(web.RequestHandler):
    """Knows since when its client has been sending the head of a request."""

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **options)
        self.head_since_s: float | None = None
        self._is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.head_since_s = asyncio.get_running_loop().time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        # What comes while a request is answered is its body, or a request that has to wait.
        if self.head_since_s is None and not self._is_answering:
            self.head_since_s = asyncio.get_running_loop().time()
        super().data_received(data)
        if len(self._messages) > WAITING_MAX and self.transport is not None:
            self.transport.abort()

    def log_exception(self, *args: Any, **options: Any) -> None:
        """What is no HTTP is its client's mistake: not worth a traceback, thousands of times."""
        if isinstance(options.get("exc_info"), HttpProcessingError):
            self.logger.debug(*args, **options)
        else:
            super().log_exception(*args, **options)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The head is there: its time does not run any more."""
        self.head_since_s = None
        self._is_answering = True
        try:
            yield
        finally:
            self._is_answering = False


class Connections(web.Server):
    """aiohttp's server, with connections of this kind; `look` is to be run as a task."""

    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._options = options

    def __call__(self) -> Connection:
        return Connection(self, **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()

    async def look(self) -> None:
        """Close whoever takes too long, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.close_late(asyncio.get_running_loop().time() - HEAD_TIMEOUT_S)

    def close_late(self, latest_s: float) -> None:
        """Those who began before `latest_s` and have not come to the end of the head."""
        for connection in self.connections:
            assert isinstance(connection, Connection)
            since_s = connection.head_since_s
            if since_s is not None and since_s < latest_s and connection.transport is not None:
                connection.transport.abort()
