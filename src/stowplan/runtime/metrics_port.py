"""Metrics over plain HTTP, for commands that follow a cluster: `GET /metrics` and nothing else.

On this machine's own address only, since nobody has to say who they are.  `stowplan run` has its
secure port instead (`runtime.server`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from stowplan.errors import Unavailable
from stowplan.runtime.exposition import CONTENT_TYPE

HOST = "127.0.0.1"
HEAD_BYTES_MAX = 8192
HEAD_TIMEOUT_S = 5.0


async def serve_metrics(port: int, text: Callable[[], str]) -> asyncio.Server:
    """Until the server is closed; `text` is asked for every request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_TIMEOUT_S)
            writer.write(_answer(head, text))
            await asyncio.wait_for(writer.drain(), HEAD_TIMEOUT_S)
        writer.close()

    try:
        return await asyncio.start_server(answer, HOST, port, limit=HEAD_BYTES_MAX)
    except OSError as error:
        raise Unavailable(f"{HOST}:{port} cannot be listened on: {error.strerror}") from None


def _answer(head: bytes, text: Callable[[], str]) -> bytes:
    found = head.startswith((b"GET /metrics ", b"GET /metrics?"))
    status = "200 OK" if found else "404 Not Found"
    body = text().encode() if found else b"GET /metrics\n"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body
