"""What one client may take: connections, time for a head, bytes that are held for it.

Together with `test_refusals` (sizes) and `test_watch` (buffers) these are all limits of the server;
`tests.load` shows what they are good for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass

import pytest

from stowplan.apiserver.http import connections, exchange, held_bytes, sending, watch_stream
from stowplan.apiserver.http.connections import HEAD_TIMEOUT_S
from stowplan.apiserver.http.held_bytes import FREE_BYTES, GRACE_S, HeldBytes
from stowplan.clock import VirtualClock
from stowplan.errors import TooManyRequests
from tests.apiserver.http.serving import PODS, Served, serve, until
from tests.apiserver.things import create_pod, pod_data

GET = f"GET {PODS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
END = b'"items":[]}'
"""Of the answer."""


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes the connection, or resets it."""
    async with asyncio.timeout(20.0):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


# -- connections ----------------------------------------------------------------------------


@pytest.mark.parametrize("request_count", [0, 2])
@pytest.mark.parametrize("beginning", [b"GET ", GET[:-2]])
async def test_a_head_that_never_ends(server: Served, request_count: int, beginning: bytes) -> None:
    """Be it the first on its connection, or one that follows good ones."""
    async with server.socket() as (reader, writer):
        for _ in range(request_count):
            writer.write(GET)
            await reader.readuntil(END)
        writer.write(beginning)
        await until(lambda: bool(late_heads(server)))
        server.connections.close_late(asyncio.get_running_loop().time() - HEAD_TIMEOUT_S)
        assert late_heads(server), "it has some time"
        server.connections.close_late(asyncio.get_running_loop().time() + 0.1)
        assert await closed(reader) == b""


def late_heads(server: Served) -> list[float]:
    found = [getattr(it, "head_since_s", None) for it in server.connections.connections]
    return [since_s for since_s in found if since_s is not None]


async def test_a_connection_on_which_nothing_comes(server: Served) -> None:
    async with server.socket() as (reader, _):
        await until(lambda: bool(late_heads(server)))
        server.connections.close_late(asyncio.get_running_loop().time() + 0.1)
        assert await closed(reader) == b""


async def test_somebody_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.0)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.001)
    server = await serve()
    for _ in range(2):
        async with server.socket() as (reader, writer):
            writer.write(b"GET ")
            assert await closed(reader) == b""
    await server.close()


async def test_a_connection_may_be_idle_between_requests(server: Served) -> None:
    """For much longer than a head may take: nobody has begun to send one."""
    async with server.socket() as (reader, writer):
        for _ in range(3):
            writer.write(GET)
            assert (await reader.readuntil(END)).startswith(b"HTTP/1.1 200")
            await until(lambda: not late_heads(server))
            server.connections.close_late(asyncio.get_running_loop().time() + 1000.0)


async def test_a_request_that_takes_long_is_not_a_late_head(server: Served) -> None:
    async with server.socket() as (reader, writer):
        writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        server.connections.close_late(asyncio.get_running_loop().time() + 1000.0)
        create_pod(server.store, "a")
        assert b"ADDED" in await reader.readuntil(b"}\n")


async def test_one_connection_too_many(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    async with server.socket() as first, server.socket() as second:
        for reader, writer in (first, second):
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        async with server.socket() as (reader, writer):
            writer.write(GET)
            assert await closed(reader) == b""
        # Those who were there go on.
        reader, writer = first
        await reader.readuntil(END)
        writer.write(GET)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_hundreds_of_requests_at_once(server: Served) -> None:
    """Answered are at most those that came before it was noticed."""
    async with server.socket() as (reader, writer):
        writer.write(GET * 300)
        answers = await closed(reader)
    assert answers.count(b"HTTP/1.1 200") <= connections.WAITING_MAX
    assert (await server.get(PODS)).code == 200


async def test_a_few_requests_at_once(server: Served) -> None:
    async with server.socket() as (reader, writer):
        writer.write(GET * 3)
        for _ in range(3):
            await reader.readuntil(END)


async def test_noise_is_not_worth_a_log_line(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Thousands of clients that speak no HTTP would fill a disk with tracebacks."""
    caplog.set_level(logging.INFO)
    for noise in (b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\nbroken\r\n\r\n", GET + b"\x01\r\n\r\n"):
        async with server.socket() as (reader, writer):
            writer.write(noise)
            assert b" 400 Bad Request" in await closed(reader)
    assert caplog.records == []


# -- what is held ---------------------------------------------------------------------------


@dataclass(eq=False)
class Peer:
    cut_off: bool = False

    def abort(self) -> None:
        self.cut_off = True


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Room for three times what is free."""
    monkeypatch.setattr(held_bytes, "HELD_BYTES_MAX", 3 * FREE_BYTES)
    return FREE_BYTES


def test_small_things_are_not_counted(small: int) -> None:
    account = HeldBytes(VirtualClock())
    for _ in range(1000):
        account.hold(Peer()).__enter__().grow(small)


def test_a_newcomer_waits_for_those_who_came_just_before(small: int) -> None:
    clock = VirtualClock()
    account = HeldBytes(clock)
    first, second = Peer(), Peer()
    with account.hold(first) as hold:
        hold.grow(4 * small)
        clock.now_s += GRACE_S - 1.0
        with account.hold(second) as newcomer, pytest.raises(TooManyRequests):
            newcomer.grow(small + 1)
    assert not first.cut_off
    with account.hold(second) as again:
        again.grow(4 * small)


def test_who_holds_for_longest_is_cut_off_first_and_no_more_than_needed(small: int) -> None:
    clock = VirtualClock()
    account = HeldBytes(clock)
    peers = [Peer() for _ in range(4)]
    for peer in peers[:3]:
        account.hold(peer).__enter__().grow(2 * small)
        clock.now_s += 1.0
    clock.now_s += GRACE_S
    account.hold(peers[3]).__enter__().grow(2 * small)
    assert [peer.cut_off for peer in peers] == [True, False, False, False]


def test_a_body_is_counted_as_it_comes_and_forgotten_once(small: int) -> None:
    account = HeldBytes(VirtualClock())
    for _ in range(10):
        with account.hold(Peer()) as hold:
            for _ in range(4 * small // 1024):
                hold.grow(1024)
            with pytest.raises(TooManyRequests):
                hold.grow(1)


async def test_a_body_for_which_there_is_no_room(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_bytes, "HELD_BYTES_MAX", FREE_BYTES)
    large = json.dumps(pod_data("large")).encode() + b" " * 3 * FREE_BYTES
    answer = await server.post(PODS, large)

    assert answer.status()[:2] == (429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "1"
    assert (await server.post(PODS, pod_data("small"))).code == 201


async def test_an_answer_for_which_there_is_no_room(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        create_pod(server.store, f"p{number}")
    assert len((await server.get(PODS)).body) > 2 * FREE_BYTES
    monkeypatch.setattr(held_bytes, "HELD_BYTES_MAX", FREE_BYTES)

    assert (await server.get(PODS)).status()[:2] == (429, "TooManyRequests")
    assert len((await server.get(f"{PODS}?limit=10")).data["items"]) == 10


async def test_a_large_answer_arrives_whole(server: Served) -> None:
    for number in range(1000):
        create_pod(server.store, f"p{number:03}")
    answer = await server.get(PODS)

    assert len(answer.body) > 4 * sending.PIECE_BYTES
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert len(answer.data["items"]) == 1000


async def test_who_does_not_read_a_large_answer_is_cut_off(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2000):
        create_pod(server.store, f"p{number}")
    whole = len((await server.get(PODS)).body)
    monkeypatch.setattr(sending, "WRITE_TIMEOUT_S", 0.1)
    async with server.socket(limit=1024) as (reader, writer):
        for _ in range(connections.WAITING_MAX):
            writer.write(GET)
        # As soon as the server has nothing left to send to it, it has been cut off.
        await until(lambda: len(server.connections.connections) == 1)
        assert len(await closed(reader)) < connections.WAITING_MAX * whole
    assert (await server.get(f"{PODS}?limit=1")).code == 200


async def test_who_does_not_read_a_quiet_watch_is_cut_off(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not wait for thousands of changes."""
    monkeypatch.setattr(watch_stream, "WRITE_TIMEOUT_S", 0.1)
    body = {"a": "x" * 1_000_000}
    async with server.socket(limit=1024) as (_, writer):
        path = "/api/v1/namespaces/default/configmaps"
        writer.write(f"GET {path}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for number in range(12):
            data = {"metadata": {"name": f"c{number}"}, "data": body}
            assert (await server.post(path, data)).code == 201
        await until(lambda: len(server.connections.connections) == 1)


async def test_bodies_are_still_limited_in_time(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all of a large body, then nothing: what is held for it is free again soon."""
    monkeypatch.setattr(exchange, "BODY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(held_bytes, "HELD_BYTES_MAX", exchange.BODY_BYTES_MAX)
    size = exchange.BODY_BYTES_MAX - 1
    for _ in range(3):
        async with server.socket() as (reader, writer):
            head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
            writer.write(head.encode() + b" " * (size - 1))
            assert (await reader.readline()).startswith(b"HTTP/1.1 504 ")
