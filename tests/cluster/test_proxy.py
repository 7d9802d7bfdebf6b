"""Which proxy the environment means for a server, by the rules of Go's programs; and through it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stowplan.cluster.proxy import parse_proxy, proxy_for
from stowplan.cluster.tls import load_pair
from stowplan.errors import InputError
from stowplan.objects.api import Bind
from stowplan.runtime.certs import self_signed
from tests.cluster.loopback import Loopback, answer_to, answers, client_of, loopback, says

BIND = Bind("default", "web-1", "uid-1", "node-a")

PROXY = "http://proxy.example.com:3128"
SERVER = "https://api.cluster.example.com:6443"


@pytest.mark.parametrize(
    ("environment", "server", "expected"),
    [
        pytest.param({}, SERVER, "", id="none"),
        pytest.param({"HTTPS_PROXY": PROXY}, SERVER, PROXY, id="https"),
        pytest.param({"HTTP_PROXY": PROXY}, SERVER, "", id="http-is-for-http"),
        pytest.param({"HTTP_PROXY": PROXY}, "http://10.0.0.1:80", PROXY, id="http"),
        pytest.param({"https_proxy": PROXY, "HTTPS_PROXY": "x"}, SERVER, PROXY, id="small-first"),
        pytest.param({"https_proxy": "", "HTTPS_PROXY": PROXY}, SERVER, PROXY, id="empty-is-none"),
        pytest.param({"HTTPS_PROXY": "p:1"}, SERVER, "http://p:1", id="without-a-scheme"),
        pytest.param({"HTTPS_PROXY": PROXY}, "https://localhost:6443", "", id="localhost"),
        pytest.param({"HTTPS_PROXY": PROXY}, "https://127.0.0.8:6443", "", id="loopback"),
        pytest.param({"HTTPS_PROXY": PROXY}, "https://[::1]:6443", "", id="loopback-of-ipv6"),
    ],
)
def test_of_the_environment(environment: dict[str, str], server: str, expected: str) -> None:
    assert proxy_for(server, environment) == expected


@pytest.mark.parametrize(
    ("no_proxy", "server", "exempt"),
    [
        ("*", SERVER, True),
        ("other, *", SERVER, True),
        ("", SERVER, False),
        (",,", SERVER, False),
        ("example.com", SERVER, True),
        ("EXAMPLE.com ", SERVER, True),
        ("ample.com", SERVER, False),
        (".example.com", SERVER, True),
        ("*.example.com", SERVER, True),
        ("api.cluster.example.com", SERVER, True),
        (".api.cluster.example.com", SERVER, False),
        ("*.api.cluster.example.com", SERVER, False),
        ("example.com:6443", SERVER, True),
        ("example.com:443", SERVER, False),
        ("10.0.0.1", "https://10.0.0.1:6443", True),
        ("10.0.0.1:6443", "https://10.0.0.1:6443", True),
        ("10.0.0.1:443", "https://10.0.0.1", True),
        ("10.0.0.1:443", "https://10.0.0.1:6443", False),
        ("10.0.0.2", "https://10.0.0.1:6443", False),
        ("10.0.0.0/8", "https://10.9.9.9:6443", True),
        ("10.1.2.3/8", "https://10.9.9.9:6443", True),
        ("10.0.0.0/8", "https://11.0.0.1:6443", False),
        ("10.0.0.0/8", SERVER, False),
        ("10.0.0.0/99", "https://10.0.0.1", False),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("[fd00::1]:443", "https://[fd00::1]:6443", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("fd00::/8", "https://10.0.0.1:6443", False),
    ],
)
def test_who_is_reached_directly(no_proxy: str, server: str, exempt: bool) -> None:
    found = proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})

    assert found == ("" if exempt else PROXY)


def test_an_address() -> None:
    plain, named = parse_proxy("http://p"), parse_proxy("http://[fd00::1]:3128")

    assert (plain.host, plain.port, plain.authorization) == ("p", 80, "")
    assert (named.host, named.port) == ("fd00::1", 3128)


def test_a_password_is_told_to_the_proxy_and_to_nobody_else() -> None:
    found = parse_proxy("http://me:p%40ss@p:1")

    assert found.authorization == "Basic bWU6cEBzcw=="
    assert "ss" not in repr(found)


@pytest.mark.parametrize("url", ["socks5://me:secret@p:1", "https://me:secret@p", "http://", "x"])
def test_other_sorts_are_refused_without_a_secret_in_the_message(url: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_proxy(url, "HTTPS_PROXY")

    assert str(caught.value).startswith("HTTPS_PROXY: proxies of the sort ")
    assert "secret" not in str(caught.value)


def test_a_port_that_is_none() -> None:
    with pytest.raises(InputError, match="makes no sense"):
        parse_proxy("http://p:port")


# -- through it -------------------------------------------------------------------------------


class Tunnels:
    """A proxy that connects everybody to one server, and writes down what it was asked."""

    def __init__(self, server: Loopback) -> None:
        self._server = server
        self.asked: list[bytes] = []
        self.port = 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there, to_there = await asyncio.open_connection("127.0.0.1", self._server.port)
        await asyncio.gather(_pump(reader, to_there), _pump(there, writer))


@asynccontextmanager
async def tunnels(server: Loopback) -> AsyncIterator[Tunnels]:
    proxy = Tunnels(server)
    listening = await asyncio.start_server(proxy.relay, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await listening.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    finally:
        writer.close()


async def test_https_goes_through_a_tunnel_that_the_proxy_cannot_look_into() -> None:
    pair = self_signed(["api.example.com"], time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, pair.cert, pair.key)
    async with loopback(answers({}, 201), context=context) as server, tunnels(server) as proxy:
        url = f"http://me:secret@localhost:{proxy.port}"
        # Only the proxy knows this name: nobody else is asked for its address.
        settings = {"proxy": url, "ca": pair.cert, "token": "for-the-server"}
        async with client_of("https://api.example.com:6443", **settings) as client:
            assert await answer_to(client, BIND) is None

    head = proxy.asked[0].decode()
    assert head.startswith("CONNECT api.example.com:6443 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
    assert "for-the-server" not in head
    (seen,) = server.seen
    assert seen.target == "/api/v1/namespaces/default/pods/web-1/binding"
    assert "Proxy-Authorization" not in seen.headers


async def test_a_proxy_for_http_is_told_the_whole_address() -> None:
    async with loopback(answers({}, 201)) as proxy:
        url = f"http://me:secret@127.0.0.1:{proxy.port}"
        async with client_of("http://api.example.com:8080/prefix", proxy=url) as client:
            assert await answer_to(client, BIND) is None

    (seen,) = proxy.seen
    path = "/prefix/api/v1/namespaces/default/pods/web-1/binding"
    assert seen.target == f"http://api.example.com:8080{path}"
    assert seen.headers["Host"] == "api.example.com:8080"
    assert seen.headers["Proxy-Authorization"] == "Basic bWU6c2VjcmV0"


async def test_a_proxy_that_refuses() -> None:
    refusing = loopback(says(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"))
    async with refusing as proxy, client_of("https://10.0.0.1:1", proxy=proxy.url) as client:
        error = await answer_to(client, BIND)

    assert "the proxy refused: HTTP/1.1 407 Proxy Authentication Required" in error.message


async def test_a_proxy_that_is_not_there() -> None:
    async with loopback() as proxy:
        pass
    async with client_of("https://10.0.0.1:1", proxy=proxy.url) as client:
        error = await answer_to(client, BIND)

    assert f"the proxy 127.0.0.1:{proxy.port} cannot be reached: " in error.message
