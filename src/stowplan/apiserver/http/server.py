"""The socket: aiohttp's own HTTP server under `app.Api`, without its routing.

One connection is one task of the event loop.  A client that goes away ends its request; one that
does not read its answer is cut off after a while.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl

from aiohttp import web

from stowplan.apiserver.http.app import Api
from stowplan.errors import InputError

WRITE_TIMEOUT_S = 60.0
KEEP_ALIVE_S = 90.0
"""A connection may be silent for so long, also before or within the head of a request."""
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
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """Where clients of this machine reach it."""
        scheme = "https" if self._ssl_context is not None else "http"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        server = web.Server(
            self._handle,
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        self._runner = web.ServerRunner(
            server, handle_signals=False, shutdown_timeout=SHUTDOWN_TIMEOUT_S
        )
        await self._runner.setup()
        site = web.TCPSite(
            self._runner,
            self.host,
            self.port,
            ssl_context=self._ssl_context,
            backlog=BACKLOG,
        )
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise _cannot_listen(self.host, self.port, error) from None
        # Port 0 asked for any; say which one it is.
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._api.handle(request)
        if response.prepared:
            return response
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response


def _cannot_listen(host: str, port: int, error: OSError) -> InputError:
    # asyncio wraps the reason in a sentence of its own, and names do not resolve with an errno.
    known = error.errno in errno.errorcode
    why = os.strerror(error.errno) if known and error.errno else str(error.strerror or error)
    hint = "choose an address of this machine with --bind"
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = "choose another port with --port; 0 takes any free one"
    return InputError(f"cannot listen on {host}:{port}: {why}", hint=hint)
