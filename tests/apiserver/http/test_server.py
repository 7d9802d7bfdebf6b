"""Where the server says it can be reached."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import pytest
from yarl import URL

from stowplan.apiserver.http import HttpServer
from tests.apiserver.http.serving import Served


@pytest.mark.parametrize(
    ("host", "secure", "url"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:80"),
        ("127.0.0.1", True, "https://127.0.0.1:80"),
        ("0.0.0.0", True, "https://127.0.0.1:80"),
        ("::", False, "http://[::1]:80"),
        ("fe80::1", True, "https://[fe80::1]:80"),
        ("cluster.example.com", False, "http://cluster.example.com:80"),
    ],
)
def test_clients_of_this_machine_are_told_an_address_they_can_use(
    host: str, secure: bool, url: str
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if secure else None

    assert HttpServer(cast(Any, None), host=host, port=80, ssl_context=context).url == url


async def test_a_connection_serves_one_request_after_the_other(server: Served) -> None:
    url = URL(server.server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    for _ in range(3):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert await reader.readexactly(2) == b"ok"
    writer.close()
