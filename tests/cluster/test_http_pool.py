"""Connections of a pool: who waits, who is cut off, and who is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stowplan.cluster.http_pool import NotSent, Outcome, Pool, Response, Server
from stowplan.cluster.http_wire import WireError
from tests.cluster.loopback import Loopback, Seen, Step, Timers, answers, loopback, says, silence

ASK = b"GET / HTTP/1.1\r\n\r\n"


class Asked:
    """What became of a request."""

    def __init__(self, pool: Pool, timeout_s: float = 30.0, stream: Any = None) -> None:
        self.outcomes: list[Outcome] = []
        self._told = asyncio.Event()
        self.exchange = pool.send(ASK, timeout_s, self._done, stream)

    def _done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._told.set()

    async def outcome(self) -> Any:
        async with asyncio.timeout(10.0):
            await self._told.wait()
        (outcome,) = self.outcomes
        return outcome


def gated(gate: asyncio.Event, step: Step) -> Step:
    async def later(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await step(seen, writer)

    return later


@asynccontextmanager
async def pooled(
    *script: Step, connections: int = 1, **settings: Any
) -> AsyncIterator[tuple[Loopback, Pool, Timers]]:
    timers = Timers()
    async with loopback(*script) as server:
        address = Server(("127.0.0.1", server.port))
        pool = Pool(address, connections, timers.start, **settings)
        yield server, pool, timers
        pool.abort()
        await asyncio.sleep(0)


async def all_gone(server: Loopback) -> None:
    """Every connection that the server had has ended."""
    async with asyncio.timeout(10.0):
        await asyncio.gather(*server._tasks)


async def test_requests_wait_for_a_connection_and_go_in_order() -> None:
    gate = asyncio.Event()
    async with pooled(gated(gate, answers(b"first")), answers(b"next")) as (server, pool, _):
        asked = [Asked(pool) for _ in range(4)]
        await server.has_seen(1)
        assert server.connections == 1
        gate.set()
        found = [(await one.outcome()).body for one in asked]

    assert found == [b"first", b"next", b"next", b"next"]
    assert server.connections == 1


async def test_no_more_connections_are_opened_than_are_needed() -> None:
    async with pooled(answers(b""), connections=5) as (server, pool, _):
        for one in [Asked(pool), Asked(pool)]:
            await one.outcome()
        for _ in range(3):
            await Asked(pool).outcome()

    assert server.connections == 2


async def test_a_request_that_was_cancelled_is_not_sent_and_nobody_is_told() -> None:
    gate = asyncio.Event()
    async with pooled(gated(gate, answers(b"1")), answers(b"2")) as (server, pool, _):
        first, cancelled, last = Asked(pool), Asked(pool), Asked(pool)
        await server.has_seen(1)
        cancelled.exchange.cancel()
        gate.set()
        assert (await first.outcome()).body == b"1"
        assert (await last.outcome()).body == b"2"

    assert (cancelled.outcomes, len(server.seen)) == ([], 2)


async def test_cancelling_what_is_under_way_cuts_its_connection() -> None:
    async with pooled(silence, answers(b"2")) as (server, pool, _):
        first, second = Asked(pool), Asked(pool)
        await server.has_seen(1)
        first.exchange.cancel()
        assert (await second.outcome()).body == b"2"

    assert (first.outcomes, server.connections) == ([], 2)


async def test_the_time_of_a_request_counts_from_when_it_is_sent() -> None:
    """Who waits behind others here has not asked the server anything yet."""
    async with pooled(silence, silence) as (server, pool, timers):
        first, second = Asked(pool, 30.0), Asked(pool, 20.0)
        await server.has_seen(1)
        timers.clock.advance(30.0)
        assert isinstance(await first.outcome(), TimeoutError)
        await server.has_seen(2)
        assert second.outcomes == []
        timers.clock.advance(20.0)
        assert isinstance(await second.outcome(), TimeoutError)
        await all_gone(server)
    assert len(server.seen) == 2


async def test_an_answer_in_time_is_not_followed_by_a_timeout() -> None:
    async with pooled(answers(b"x")) as (_, pool, timers):
        asked = Asked(pool)
        assert isinstance(await asked.outcome(), Response)
        timers.clock.advance(60.0)

    assert len(asked.outcomes) == 1


async def test_a_pool_that_retires_ends_what_is_under_way_in_time() -> None:
    gate = asyncio.Event()
    script = (answers(b"0"), gated(gate, answers(b"1")), silence)
    async with pooled(*script, connections=3) as (server, pool, timers):
        await Asked(pool).outcome()
        slow, never = Asked(pool, 99.0), Asked(pool, 99.0)
        await server.has_seen(3)
        pool.retire(5.0)
        gate.set()
        assert (await slow.outcome()).body == b"1"
        timers.clock.advance(4.9)
        assert never.outcomes == []
        timers.clock.advance(0.1)
        assert isinstance(await never.outcome(), Exception)
        await all_gone(server)


async def test_a_pool_that_retires_closes_its_idle_connections_at_once() -> None:
    async with pooled(answers(b"")) as (server, pool, _):
        await Asked(pool).outcome()
        pool.retire(5.0)
        await all_gone(server)


async def test_a_server_that_speaks_unasked_is_left() -> None:
    chatty = says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
    async with pooled(chatty, answers(b"2")) as (server, pool, _):
        await Asked(pool).outcome()
        server._writers[0].write(b"HTTP/1.1 200 OK\r\n\r\n")
        await all_gone(server)
        assert (await Asked(pool).outcome()).body == b"2"

    assert server.connections == 2


async def test_a_body_that_ends_with_the_connection() -> None:
    async with pooled(says(b"HTTP/1.1 200 OK\r\n\r\n", b"one ", b"two", close=True)) as (
        _,
        pool,
        _2,
    ):
        outcome = await Asked(pool).outcome()

    assert (outcome.status, outcome.reason, outcome.body) == (200, "OK", b"one two")


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    half = says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", close=True)
    async with pooled(half, answers(b"2")) as (server, pool, _):
        assert isinstance(await Asked(pool).outcome(), WireError)
        assert (await Asked(pool).outcome()).body == b"2"

    assert server.connections == 2


async def test_what_a_stream_takes_is_not_kept() -> None:
    taken: list[tuple[int, bytes]] = []

    def stream(status: int, piece: bytes) -> bool:
        taken.append((status, piece))
        return status == 200

    async with pooled(answers(b"abc"), answers(b"why", 403)) as (_, pool, _2):
        found = [await Asked(pool, stream=stream).outcome() for _ in range(2)]

    assert taken == [(200, b"abc"), (403, b"why")]
    assert [(one.status, one.body) for one in found] == [(200, b""), (403, b"why")]


async def test_nothing_is_sent_that_may_not_be_any_more() -> None:
    allowed = [True]
    async with pooled(answers(b""), may_send=lambda: allowed[0]) as (server, pool, _):
        await Asked(pool).outcome()
        allowed[0] = False
        assert isinstance(await Asked(pool).outcome(), NotSent)

    assert len(server.seen) == 1


async def test_everybody_who_waits_hears_that_nobody_listens() -> None:
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    pool = Pool(Server(("127.0.0.1", port)), 2, Timers().start)

    for one in [Asked(pool), Asked(pool), Asked(pool)]:
        assert isinstance(await one.outcome(), OSError)


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="Linux has these options")
async def test_a_server_that_is_gone_without_a_word_is_noticed_within_a_minute() -> None:
    async with pooled(silence) as (server, pool, _):
        Asked(pool)
        await server.has_seen(1)
        (connection,) = pool._open
        assert connection._transport is not None
        made = connection._transport.get_extra_info("socket")

        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, every, times = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + every * times <= 60
