"""The socket: aiohttp's own HTTP server under `app.Api`, without its routing.

One connection is one task of the event loop.  A client that goes away ends its request; one that
does not read its answer is cut off after a while (`sending`), as is one that does not come to the
point (`connections`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from typing import Any

from aiohttp import web

from stowplan.apiserver.http.app import Api, refused
from stowplan.apiserver.http.connections import HEAD_TIMEOUT_S, Connection, Connections
from stowplan.apiserver.http.sending import send
from stowplan.errors import InputError, TooManyRequests

KEEP_ALIVE_S = 90.0
"""A connection may be silent for so long between two requests."""
LINGER_S = 2.0
"""For the rest of a body that was refused to come in: a client that is cut off while it sends may
never see the answer."""
SHUTDOWN_TIMEOUT_S = 1.0
HEADER_BYTES_MAX = 16 * 1024
BACKLOG = 512


class HttpServer:
    def __init__(
        self, api: Api, *, host: str, port: int, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._api = api
        self._ssl_context = ssl_context
        self._connections: Connections | None = None
        self._listening: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """Where clients of this machine reach it."""
        scheme = "https" if self._ssl_context is not None else "http"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._connections = Connections(
            self._handle,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
            # kube-apiserver does not unpack bodies either.
            auto_decompress=False,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        try:
            self._listening = await loop.create_server(
                self._connections,
                self.host,
                self.port,
                ssl=self._ssl_context,
                ssl_handshake_timeout=HEAD_TIMEOUT_S if self._ssl_context is not None else None,
                backlog=BACKLOG,
            )
        except OSError as error:
            raise _cannot_listen(self.host, self.port, error) from None
        self._looking = loop.create_task(self._connections.look())
        # Port 0 asked for any; say which one it is.
        self.port = int(self._listening.sockets[0].getsockname()[1])

    def sockets(self) -> list[socket.socket]:
        """Those it listens on, once more: for somebody who stands in (`stand_in`)."""
        assert self._listening is not None, "not started"
        return [socket.socket(fileno=os.dup(it.fileno())) for it in self._listening.sockets]

    def adopt(self, connection: socket.socket) -> None:
        """Serve a connection that somebody else has accepted and not read from."""
        if self._connections is None or self._listening is None:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        adopting = loop.create_task(loop.connect_accepted_socket(self._connections, connection))
        self._adopting.add(adopting)
        adopting.add_done_callback(self._adopting.discard)

    async def stop(self) -> None:
        if self._listening is None or self._connections is None or self._looking is None:
            return
        self._listening.close()
        self._looking.cancel()
        self._connections.pre_shutdown()
        await self._connections.shutdown(SHUTDOWN_TIMEOUT_S)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        with connection.answering():
            response = await self._api.handle(request)
            if not isinstance(response, web.Response):
                return response
            try:
                return await send(request, response, self._api.held)
            except TooManyRequests as error:
                return refused(request, error)
            except ConnectionError:
                # aiohttp finds out by itself, in the same way, and says nothing.
                return response


def _cannot_listen(host: str, port: int, error: OSError) -> InputError:
    # asyncio wraps the reason in a sentence of its own, and names do not resolve with an errno.
    known = error.errno in errno.errorcode
    why = os.strerror(error.errno) if known and error.errno else str(error.strerror or error)
    hint = "choose an address of this machine with --bind"
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = "choose another port with --port; 0 takes any free one"
    return InputError(f"cannot listen on {host}:{port}: {why}", hint=hint)
