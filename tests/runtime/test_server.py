"""The secure port over TLS on loopback: who gets in, and what they get."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.http_parser import DeflateBuffer

from stowplan.clock import RealClock
from stowplan.cluster.tls import client_context
from stowplan.errors import InputError
from stowplan.runtime import certs, server
from stowplan.runtime.certs import KeyPair, self_signed
from stowplan.runtime.server import REQUESTS_MAX, SecureServer
from stowplan.runtime.surface import ServingOptions
from tests.builders import node, pod
from tests.runtime.surfaces import ADMIN, VIEWER, Served

OPEN = ("/healthz", "/livez", "/readyz")
GUARDED = (
    "/metrics",
    "/metrics/resources",
    "/metrics/slis",
    "/configz",
    "/flagz",
    "/statusz",
    "/healthz/ping",
    "/readyz/shutdown",
    "/debug",
    "/debug/queue",
    "/debug/cache",
    "/debug/decisions/default/web",
    "/debug/bottlenecks",
)
NOWHERE = "/nowhere"


class Client:
    def __init__(self, session: aiohttp.ClientSession, server: SecureServer) -> None:
        self._session = session
        self.server = server
        self.root = f"https://127.0.0.1:{server.port}"

    async def ask(
        self, path: str, token: str = "", method: str = "GET", **options: Any
    ) -> tuple[int, str, Any]:
        headers = options.pop("headers", {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with self._session.request(
            method, self.root + path, headers=headers, **options
        ) as answer:
            return answer.status, await answer.text(), answer.headers


@asynccontextmanager
async def serving(served: Served, **options: Any) -> AsyncIterator[Client]:
    settings = {"bind_address": "127.0.0.1", "port": 0, **options}
    server = SecureServer(ServingOptions(**settings), served.surface)
    await server.start()
    connector = aiohttp.TCPConnector(ssl=client_context(insecure=True), force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Client(session, server)
    finally:
        await server.stop()


def one_pod() -> Served:
    return Served(node("n1"), pod("web", cpu="1"))


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, "code": code, **more}


def forbidden(user: str, path: str, verb: str = "get") -> dict[str, Any]:
    message = f'forbidden: User "{user}" cannot {verb} path "{path}"'
    return status(403, "Forbidden", message, details={})


UNAUTHORIZED = status(401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("path", [*OPEN, *GUARDED, NOWHERE])
async def test_who_gets_in(path: str) -> None:
    """The matrix: no token, bad token, token without rights, good token."""
    missing = 404 if path == NOWHERE else 200

    async with serving(one_pod()) as client:
        nobody = await client.ask(path)
        wrong = await client.ask(path, "bad-token")
        viewer = await client.ask(path, VIEWER)
        admin = await client.ask(path, ADMIN)

    assert admin[0] == missing
    assert (wrong[0], json.loads(wrong[1])) == (401, UNAUTHORIZED)
    if path in OPEN:
        assert nobody[:2] == viewer[:2] == (200, "ok")
    else:
        assert (nobody[0], json.loads(nobody[1])) == (403, forbidden("system:anonymous", path))
        assert (viewer[0], json.loads(viewer[1])) == (403, forbidden("viewer", path))
        assert nobody[2]["Content-Type"] == "application/json"


async def test_without_a_cluster_to_ask_only_open_paths_are_shown() -> None:
    served = one_pod()
    served.surface.reviews = None

    async with serving(served) as client:
        assert (await client.ask("/livez"))[0] == 200
        assert (await client.ask("/metrics"))[0] == 403
        assert (await client.ask("/metrics", ADMIN))[0] == 401


async def test_a_cluster_that_lets_anonymous_in_is_believed() -> None:
    served = one_pod()
    served.reviews.allowed = lambda user, verb, path: True

    async with serving(served) as client:
        assert (await client.ask("/metrics"))[0] == 200

    user, verb, path = served.reviews.asked[0]
    assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))
    assert (verb, path) == ("get", "/metrics")


async def test_a_cluster_that_does_not_answer_lets_nobody_in() -> None:
    served = one_pod()
    served.reviews.broken = True

    async with serving(served) as client:
        assert (await client.ask("/metrics", ADMIN))[0] == 401
        code, text, _ = await client.ask("/metrics")

    assert (code, text) == (500, 'Internal Server Error: "/metrics": no answer\n')


async def test_every_answer_forbids_caching() -> None:
    async with serving(one_pod()) as client:
        for path in ("/healthz", "/metrics", NOWHERE):
            headers = (await client.ask(path, ADMIN))[2]
            assert headers["Cache-Control"] == "no-cache, private"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Server"] == "stowplan", "no versions"


async def test_a_failure_of_ours_is_told_and_harms_no_one_else() -> None:
    served = one_pod()

    def broken(key: str) -> None:
        raise RuntimeError("a bug")

    served.machine.decision_of = broken  # type: ignore[method-assign]

    async with serving(served) as client:
        code, text, _ = await client.ask("/debug/decisions/default/web", ADMIN)
        assert code == 500
        assert "a bug" not in text
        assert (await client.ask("/healthz"))[:2] == (200, "ok")

    assert "Failed to answer" in served.out.getvalue()


async def test_head_has_no_body() -> None:
    async with serving(one_pod()) as client:
        for path in ("/healthz", "/metrics/resources"):
            assert (await client.ask(path, ADMIN, "HEAD"))[:2] == (200, "")


async def test_a_long_page_arrives_whole() -> None:
    pods = [pod(f"p{n}", cpu="1m", node="n1") for n in range(1500)]
    served = Served(node("n1", pods=2000), *pods)

    async with serving(served) as client:
        code, text, _ = await client.ask("/metrics/resources", ADMIN)

    assert code == 200
    assert len(text) > 2 * 64 * 1024
    assert text.count('resource="cpu",unit="cores"} 0.001\n') == 1500


async def test_a_flood_is_turned_away_but_probes_are_answered() -> None:
    served = one_pod()
    full, answering = asyncio.Event(), asyncio.Event()

    async def slow(token: str) -> None:
        served.reviews.asked.append(token)
        if len(served.reviews.asked) == REQUESTS_MAX:
            full.set()
        await answering.wait()

    served.reviews.user_of = slow  # type: ignore[method-assign]

    async with serving(served) as client:
        waiting = [
            asyncio.create_task(client.ask("/metrics", f"token-{n}")) for n in range(REQUESTS_MAX)
        ]
        await full.wait()
        code, text, _ = await client.ask("/metrics", ADMIN)
        assert (code, json.loads(text)["reason"]) == (429, "TooManyRequests")
        assert (await client.ask("/livez"))[:2] == (200, "ok")

        answering.set()
        assert {code for code, _, _ in await asyncio.gather(*waiting)} == {401}


async def test_bodies_that_do_not_come_take_no_place_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even with a token, where anybody may ask."""
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(server, "REQUESTS_MAX", 2)
    async with serving(one_pod()) as client:
        wires = [await raw(client) for _ in range(4)]
        for _, writer in wires:
            writer.write(b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        for reader, writer in wires:
            assert (await reader.readline()).startswith(b"HTTP/1.1 504 ")
            writer.close()
        assert (await client.ask("/metrics", ADMIN))[0] == 200


async def raw(client: Client) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", client.server.port, ssl=client_context(insecure=True)
    )


async def test_a_head_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0.05)
    async with serving(one_pod()) as client:
        reader, writer = await raw(client)
        writer.write(b"GET /healthz HTTP/1.1\r\nX-")
        assert await reader.read() == b""
        writer.close()


async def test_tokens_are_in_no_log() -> None:
    served = Served(node("n1"), verbosity=10)
    served.reviews.broken = True

    async with serving(served) as client:
        await client.ask("/metrics?access_token=secret-in-query", ADMIN)
        await client.ask("/healthz", "bad-token")

    log = served.out.getvalue()
    assert '"HTTP" verb="GET" URI="/metrics"' in log
    for secret in (ADMIN, "bad-token", "secret-in-query"):
        assert secret not in log


# -- TLS ------------------------------------------------------------------------------------


async def test_old_tls_is_refused() -> None:
    async with serving(one_pod()) as client:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        # The client would talk TLS 1.1, and at no higher level of security than that has.
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.ask("/healthz", ssl=old)
        assert (await client.ask("/healthz"))[0] == 200


async def test_the_own_certificate_is_for_localhost() -> None:
    served = one_pod()
    served.surface.clock = RealClock()

    async with serving(served) as client:
        trusting = client_context(ca=await shown(client))
        assert (await client.ask("/healthz", ssl=trusting))[0] == 200
        client.root = client.root.replace("127.0.0.1", "localhost")
        assert (await client.ask("/healthz", ssl=trusting))[0] == 200


async def test_a_given_certificate_is_shown_and_followed(tmp_path: Path) -> None:
    served = one_pod()
    first, second = a_pair("one.example"), a_pair("two.example")
    files = write_pair(first, tmp_path)

    async with serving(served, **files) as client:
        assert await shown(client) == first.cert

        write_pair(second, tmp_path)
        client.server._tls.refresh()
        assert await shown(client) == second.cert

        write_pair(KeyPair(first.cert, second.key), tmp_path)
        client.server._tls.refresh()
        assert await shown(client) == second.cert, "a pair that does not fit is refused"
        assert (await client.ask("/healthz"))[0] == 200

    assert "stays as it was" in served.out.getvalue()


async def test_cert_dir_keeps_the_certificate(tmp_path: Path) -> None:
    directory = str(tmp_path / "certs")

    async with serving(one_pod(), cert_dir=directory) as client:
        first = await shown(client)
    async with serving(one_pod(), cert_dir=directory) as client:
        assert await shown(client) == first

    key = tmp_path / "certs" / "kube-scheduler.key"
    assert key.stat().st_mode & 0o777 == 0o600


async def test_other_names_get_other_certificates(tmp_path: Path) -> None:
    named = a_pair("*.example")
    files = write_pair(named, tmp_path)
    setting = f"{files['cert_file']},{files['key_file']}:*.example,example"

    async with serving(one_pod(), sni_cert_keys=(setting,)) as client:
        assert await shown(client, "one.example") == named.cert
        assert await shown(client, "EXAMPLE") == named.cert
        assert await shown(client, "a.one.example") != named.cert
        assert await shown(client, "localhost") != named.cert


async def test_a_client_certificate_says_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certs, "_SERVER_AUTH", "1.3.6.1.5.5.7.3.2")
    pair, stranger = a_pair("admin"), a_pair("admin")
    authority = tmp_path / "ca.crt"
    authority.write_bytes(pair.cert)
    known = client_context(insecure=True, cert=pair.cert, key=pair.key)
    unknown = client_context(insecure=True, cert=stranger.cert, key=stranger.key)

    async with serving(one_pod(), client_ca_file=str(authority)) as client:
        assert (await client.ask("/metrics", ssl=known))[0] == 200
        assert (await client.ask("/metrics"))[0] == 403
        with pytest.raises(aiohttp.ClientError):
            await client.ask("/metrics", ssl=unknown)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"min_version": "VersionTLS11"}, "unknown TLS version 'VersionTLS11'"),
        ({"cert_file": "x.crt"}, "a certificate needs its key"),
        ({"cert_file": "nowhere.crt", "key_file": "nowhere.key"}, "cannot be read"),
        ({"client_ca_file": "nowhere.crt"}, "cannot be read"),
        (
            {"cipher_suites": ("TLS_RSA_WITH_AES_128_CBC_SHA", "x")},
            "Cipher suite x not supported or doesn't exist",
        ),
        ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)}, "none of these cipher suites"),
        ({"sni_cert_keys": ("x.crt,x.key",)}, "not of the form cert,key:names"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        SecureServer(ServingOptions(**options), one_pod().surface)


async def test_a_limit_on_ciphers_and_versions_holds() -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"

    async with serving(one_pod(), cipher_suites=(suite,)) as client:
        old = client_context(insecure=True)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await client.ask("/healthz", ssl=old))[0] == 200
        old.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.ask("/healthz", ssl=old)

    async with serving(one_pod(), min_version="VersionTLS13") as client:
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.ask("/healthz", ssl=old)


async def test_a_port_that_is_taken_is_named() -> None:
    async with serving(one_pod()) as client:
        port = int(client.root.rpartition(":")[2])
        other = SecureServer(ServingOptions("127.0.0.1", port), one_pod().surface)

        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            await other.start()


async def shown(client: Client, name: str = "localhost") -> bytes:
    """The certificate that the port shows to who asks for this name."""
    host, _, port = client.root.removeprefix("https://").rpartition(":")
    context = client_context(insecure=True)
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return ssl.DER_cert_to_PEM_cert(der).encode()


def a_pair(name: str) -> KeyPair:
    return self_signed([name], RealClock().now())


def write_pair(pair: KeyPair, directory: Path) -> dict[str, str]:
    cert, key = directory / "tls.crt", directory / "tls.key"
    cert.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    return {"cert_file": str(cert), "key_file": str(key)}


# -- the scheduler is busy --------------------------------------------------------------------


async def test_health_is_answered_while_the_scheduler_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "SCHEDULER_TIMEOUT_S", 0.05)
    served = one_pod()
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    served.surface.on_scheduler = lambda action: never

    async with serving(served) as client:
        for path in (*OPEN, "/metrics/slis", "/healthz/ping"):
            assert (await client.ask(path, ADMIN))[0] == 200
        code, text, _ = await client.ask("/metrics", ADMIN)

    assert (code, json.loads(text)["message"]) == (504, "the scheduler is busy with a decision")


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_nothing_is_unpacked(packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte that would become a gigabyte, of somebody who is not even known."""

    def unpack(*given: Any, **more: Any) -> None:
        raise AssertionError("something was unpacked")

    monkeypatch.setattr(DeflateBuffer, "feed_data", unpack)
    headers = {"Content-Encoding": packing}

    async with serving(one_pod()) as client:
        packed = {"data": b"x" * 1_000_000, "method": "POST"}
        nobody = await client.ask("/livez", headers=dict(headers), **packed)
        admin = await client.ask(
            "/debug/flags/v", ADMIN, method="PUT", data=b"3", headers=dict(headers)
        )

    assert nobody[0] == 200
    assert admin[0] == 200
