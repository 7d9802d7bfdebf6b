"""An answer on its way out, piece by piece, so that one who does not read it costs little.

What was not sent yet is counted (`held`), and only a piece of it lies in the connection's own
buffers.  A client has to take each piece within a while; then it may take as many as there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from stowplan.apiserver.http.held_bytes import FREE_BYTES, HeldBytes

WRITE_TIMEOUT_S = 60.0
PIECE_BYTES = FREE_BYTES


async def send(
    request: web.BaseRequest, response: web.Response, held: HeldBytes
) -> web.StreamResponse:
    """What was sent, in the end.

    Raises TooManyRequests before it begins, if others hold too much already; ConnectionError when
    the client has gone or was cut off.
    """
    body = response.body
    assert isinstance(body, bytes), f"an answer of {type(body)}"
    if len(body) <= PIECE_BYTES:
        async with in_time(request):
            await response.prepare(request)
            await response.write_eof()
        return response
    with held.hold(request.transport) as hold:
        hold.grow(len(body))
        return await _send_pieces(request, response, memoryview(body))


async def _send_pieces(
    request: web.BaseRequest, response: web.Response, body: memoryview
) -> web.StreamResponse:
    streamed = web.StreamResponse(status=response.status, headers=response.headers)
    streamed.content_length = len(body)
    async with in_time(request):
        await streamed.prepare(request)
    for start in range(0, len(body), PIECE_BYTES):
        async with in_time(request):
            await streamed.write(body[start : start + PIECE_BYTES])
    async with in_time(request):
        await streamed.write_eof()
    return streamed


@asynccontextmanager
async def in_time(request: web.BaseRequest) -> AsyncIterator[None]:
    """Whoever does not read what is written here is cut off."""
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionAbortedError("the client does not read its answer") from None
