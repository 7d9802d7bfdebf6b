"""Requests that cannot be served: each gets the Status that Kubernetes sends, and harms nobody."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import msgspec
import pytest

from stowplan.apiserver.http import app, exchange
from stowplan.apiserver.http.exchange import BODY_BYTES_MAX
from tests.apiserver.http.serving import DEPLOYMENTS, PODS, Served
from tests.apiserver.things import create_pod, pod_data

NO_SUCH = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2/pods",
        "/api/v1/nopes",
        "/api/v1/namespaces/default/nopes/a",
        "/apis/apps/v9/deployments",
        f"{PODS}/a/nope",
        f"{PODS}/a/status/more",
        "/api/v1/namespaces/default/nodes/n",
        "/api/v1/pods/a",
        "//api/v1//pods",
    ],
)
async def test_paths_where_nothing_is(server: Served, path: str) -> None:
    create_pod(server.store, "a")

    assert (await server.get(path)).status() == (404, "NotFound", NO_SUCH)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", PODS),
        ("PATCH", PODS),
        ("POST", f"{PODS}/a"),
        ("POST", "/api/v1/pods"),
        ("DELETE", f"{PODS}/a/status"),
        ("GET", f"{PODS}/a/binding"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/version"),
        ("OPTIONS", PODS),
    ],
)
async def test_methods_that_are_not_for_this(server: Served, method: str, path: str) -> None:
    create_pod(server.store, "a")
    answer = await server.ask(method, path, {} if method != "GET" else None)

    assert answer.status() == (405, "MethodNotAllowed", NO_METHOD)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{]",
        b'{"a": 1}}',
        b"\xff\xfe",
        b"nope",
        b'"text"',
        b"5",
        b"[]",
        b"",
        b'{"metadata": 5}',
        b'{"metadata": {"name": 5}}',
        b'{"metadata": {"name": "a"}, "spec": []}',
        b'{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}',
        b'{"kind": "Pod", "apiVersion": "v9", "metadata": {"name": "a"}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
async def test_bodies_that_are_no_pod(server: Served, body: bytes) -> None:
    answer = await server.post(PODS, body)

    assert answer.status()[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    "body", [b"a: [", b"a: *b", b"a: 1\n---\nb: 2", b"\t", b"!!python/name:os"]
)
async def test_yaml_that_is_none(server: Served, body: bytes) -> None:
    answer = await server.post(PODS, body, type_="application/yaml")

    assert answer.status()[:2] == (400, "BadRequest")


async def test_a_content_type_that_nobody_reads(server: Served) -> None:
    answer = await server.post(PODS, b"<pod/>", type_="application/xml")

    assert answer.status()[:2] == (415, "UnsupportedMediaType")


async def test_an_answer_that_nobody_writes(server: Served) -> None:
    answer = await server.get(PODS, Accept="text/html")

    assert answer.status()[:2] == (406, "NotAcceptable")


async def test_a_body_of_three_mebibytes_is_taken(server: Served) -> None:
    body = json.dumps(pod_data("a")).encode()
    padded = body + b" " * (BODY_BYTES_MAX - len(body))

    assert (await server.post(PODS, padded)).code == 201


async def test_a_body_that_is_larger(server: Served) -> None:
    answer = await server.post(PODS, b"{" + b" " * BODY_BYTES_MAX)

    assert answer.status() == (
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {BODY_BYTES_MAX}",
    )


async def test_a_body_that_says_it_will_be_larger(server: Served) -> None:
    """It is refused before it is sent."""
    async with server.socket() as (reader, writer):
        writer.write(f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\n".encode())
        writer.write(f"Content-Length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.readline(), 10.0)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_large_body_in_pieces(server: Served) -> None:
    """Its length is not known before."""
    async with server.socket() as (reader, writer):
        writer.write(f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\n".encode())
        writer.write(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        for _ in range(BODY_BYTES_MAX // 65536 + 1):
            writer.write(piece)
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


async def test_a_body_is_never_unpacked(server: Served) -> None:
    """As with kube-apiserver, whatever the caller says about it: a few kilobytes on the wire may be
    gigabytes."""
    plain = msgspec.json.encode(pod_data("packed"))
    url = server.server.url + PODS
    for packing, packed in (("deflate", zlib.compress(plain)), ("gzip", gzip.compress(plain))):
        headers = {"Content-Encoding": packing, "Content-Type": "application/json"}
        async with server.session.post(url, data=packed, headers=headers) as response:
            assert response.status == 400
        taken = plain.replace(b"packed", packing.encode())
        async with server.session.post(url, data=taken, headers=headers) as response:
            assert response.status == 201


async def test_a_body_that_does_not_come(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_TIMEOUT_S", 0.05)
    async with server.socket() as (reader, writer):
        head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{"
        writer.write(head.encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        body = await reader.readuntil(b"}")
    assert answer.startswith("HTTP/1.1 504 ")
    assert b'"kind":"Status"' in body


async def test_slow_clients_stop_nobody(server: Served) -> None:
    """Heads and bodies that are never finished, and answers that are never read."""
    beginnings = [
        b"GET /api/v1/pods HTTP/1.1\r\nHost: loc",
        f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{{".encode(),
        f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        b"",
    ]
    connections = [
        await asyncio.open_connection(server.server.host, server.server.port) for _ in range(200)
    ]
    for number, (_, writer) in enumerate(connections):
        writer.write(beginnings[number % len(beginnings)])
    for number in range(20):
        assert (await server.post(PODS, pod_data(f"p{number}"))).code == 201
    assert len((await server.get(PODS)).data["items"]) == 20
    for _, writer in connections:
        writer.close()


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        b"\x00" * 1000,
    ],
)
async def test_what_is_no_http(server: Served, noise: bytes) -> None:
    async with server.socket() as (reader, writer):
        writer.write(noise)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 10.0)
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert (await server.get(PODS)).code == 200


async def test_too_many_requests(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REQUESTS_MAX", 0)
    answer = await server.get(PODS)

    assert answer.status()[:2] == (429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "1"
    assert answer.data["details"]["retryAfterSeconds"] == 1


async def test_a_bug_is_an_answer_too(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(server.store, "select", broken)
    answer = await server.get(PODS)

    assert answer.status()[:2] == (500, "InternalError")
    assert "GET /api/v1/namespaces/default/pods failed" in caplog.text
    assert (await server.post(DEPLOYMENTS, b"{}")).code in (400, 422)


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=a+b",
        "labelSelector=%21%21",
        "labelSelector=a+in+b",
        "fieldSelector=nope%3D1",
        "fieldSelector=a",
        "limit=x",
        "limit=1.5",
        "resourceVersionMatch=Sometimes&resourceVersion=1",
        "resourceVersionMatch=Exact",
        "timeoutSeconds=soon&watch=1",
        "sendInitialEvents=true&watch=1",
    ],
)
async def test_queries_that_make_no_sense(server: Served, query: str) -> None:
    answer = await server.get(f"{PODS}?{query}")

    code, reason, _ = answer.status()
    assert (code, reason) in ((400, "BadRequest"), (422, "Invalid"))


@pytest.mark.parametrize(
    "query",
    ["dryRun=Some", "fieldValidation=Perhaps", "gracePeriodSeconds=x", "propagationPolicy=x"],
)
async def test_options_that_make_no_sense(server: Served, query: str) -> None:
    create_pod(server.store, "a")
    if query.startswith(("grace", "prop")):
        answer = await server.delete(f"{PODS}/a?{query}")
    else:
        answer = await server.post(f"{PODS}?{query}", pod_data("b"))

    assert answer.status()[0] in (400, 422)
    assert [item["metadata"]["name"] for item in (await server.get(PODS)).data["items"]] == ["a"]
