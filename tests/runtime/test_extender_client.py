"""Extenders over HTTP: what is sent, and what every sort of failure becomes."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stowplan.cluster.tls import load_pair
from stowplan.config import Duration, ExtenderConfig, ExtenderTLSConfig
from stowplan.core.extender import CallExtender, Extender, ExtenderAnswer
from stowplan.runtime import extender_client
from stowplan.runtime.certs import self_signed
from stowplan.runtime.extender_client import HttpExtenderClient
from tests.cluster.loopback import Loopback, answers, loopback, says, silence

PAIR = self_signed(["localhost", "127.0.0.1"], time.time())


async def asked(
    server: Loopback | str,
    body: Any = None,
    environment: Mapping[str, str] | None = None,
    **config: Any,
) -> ExtenderAnswer:
    url = server if isinstance(server, str) else server.url
    extender = Extender(ExtenderConfig(url_prefix=f"{url}/prefix/", filter_verb="f", **config))
    call = CallExtender(extender, "f", f"{url}/prefix/f", body or {})
    done: asyncio.Future[ExtenderAnswer] = asyncio.get_running_loop().create_future()
    client = HttpExtenderClient(environment)
    try:
        client.call(call, done.set_result)
        return await done
    finally:
        await client.close()


async def test_a_question_and_its_answer() -> None:
    async with loopback(answers({"NodeNames": ["n1"]})) as server:
        answer = await asked(server, {"NodeNames": ["n1", "n2"]})

    assert answer == ExtenderAnswer(body={"NodeNames": ["n1"]})
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/prefix/f")
    assert seen.data == {"NodeNames": ["n1", "n2"]}
    assert seen.headers["Content-Type"] == "application/json"


async def test_through_the_proxy_that_the_environment_names() -> None:
    async with loopback(answers({"NodeNames": []})) as proxy:
        environment = {"HTTP_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}"}
        answer = await asked("http://extender.example.com", environment=environment)

    assert answer == ExtenderAnswer(body={"NodeNames": []})
    (seen,) = proxy.seen
    assert seen.target == "http://extender.example.com/prefix/f"
    assert seen.headers["Proxy-Authorization"] == "Basic bWU6c2VjcmV0"


async def test_any_code_but_200_is_a_failure() -> None:
    async with loopback(answers({}, 202)) as server:
        answer = await asked(server)

    assert answer.error == f"failed f with extender at URL {server.url}/prefix/f, code 202"


@pytest.mark.parametrize(
    "step",
    [answers(b"nonsense"), answers(b"[" * 100_000), says(close=True), says(b"\xff\r\n\r\n")],
)
async def test_what_cannot_be_read_is_a_failure(step: Any) -> None:
    async with loopback(step) as server:
        assert (await asked(server)).error


@pytest.mark.parametrize("size", [100_000, 100_001])
async def test_an_answer_may_be_so_large_and_no_larger(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extender_client, "ANSWER_BYTES_MAX", 100_000)
    async with loopback(answers(b"{}" + b" " * (size - 2))) as server:
        answer = await asked(server)

    too_large = "the extender's answer is larger than 100000 bytes"
    assert answer.error == ("" if size == 100_000 else too_large)


async def test_nobody_there() -> None:
    async with loopback() as server:
        pass

    assert "Cannot connect" in (await asked(server)).error


async def test_no_answer_within_the_extenders_own_time() -> None:
    async with loopback(silence) as server:
        answer = await asked(server, http_timeout=Duration.parse("1ms"))

    assert answer.error == "TimeoutError"


def serving() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, PAIR.cert, PAIR.key)
    return context


@pytest.mark.parametrize(
    ("tls", "works"),
    [
        pytest.param(None, True, id="without-an-authority-nothing-is-verified"),
        pytest.param(ExtenderTLSConfig(ca_data=PAIR.cert), True, id="its-authority"),
        pytest.param(
            ExtenderTLSConfig(ca_data=self_signed(["x"], time.time()).cert), False, id="another"
        ),
    ],
)
async def test_https(tls: ExtenderTLSConfig | None, works: bool) -> None:
    async with loopback(answers({}), context=serving()) as server:
        answer = await asked(server, enable_https=True, tls_config=tls)

    assert (answer.error == "") is works


async def test_an_authority_in_a_file_that_is_missing(tmp_path: Path) -> None:
    tls = ExtenderTLSConfig(ca_file=str(tmp_path / "ca.pem"))

    answer = await asked("https://127.0.0.1:1", enable_https=True, tls_config=tls)

    assert "ca.pem: cannot be read" in answer.error
