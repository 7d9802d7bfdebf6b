"""A controller looks again when all its answers are in, and its informers have seen them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stowplan.apiserver.controllers.calls import WAIT_MAX_S, Calls
from stowplan.clock import VirtualClock
from stowplan.cluster.port import AllDone, Answer
from stowplan.errors import ApiError, Conflict, NotFound, Unavailable
from stowplan.objects.api import Create, Delete, Request
from stowplan.objects.kinds import NODE, POD, Kind
from tests.builders import node, pod


class Sending:
    """Requests that are answered when the test says so."""

    def __init__(self) -> None:
        self.clock = VirtualClock(100.0)
        self.open: list[AllDone] = []
        self.log: list[str] = []
        self.seen: dict[Kind, int] = {}
        queue = SimpleNamespace(
            add=lambda key: self.log.append(f"again {key}"),
            add_after=lambda key, delay_s: self.log.append(f"{key} in {delay_s:g}"),
            retry=lambda key: self.log.append(f"retry {key}"),
        )
        shared = SimpleNamespace(clock=self.clock, cluster=self, has_seen=self.has_seen)
        self.calls = Calls(cast(Any, shared), cast(Any, queue))

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        self.open.append(done)

    def has_seen(self, kind: Kind, version: int) -> bool:
        return self.seen.get(kind, 0) >= version

    def send(self, kind: Kind = POD) -> None:
        def tell(answer: Answer) -> None:
            self.log.append("told " + (answer.message if isinstance(answer, ApiError) else "well"))

        self.calls.send("k", Create(kind, "default", {}), tell)

    def answer(self, answer: Any) -> None:
        self.open.pop(0)(0, [answer])

    def said(self) -> list[str]:
        said, self.log = self.log, []
        return said


@pytest.fixture
def sending() -> Sending:
    return Sending()


def stored(version: int, kind: Kind = POD) -> Any:
    metadata = {"resourceVersion": str(version)}
    return pod("p", metadata=metadata) if kind is POD else node("n", metadata=metadata)


def test_it_looks_again_when_the_last_answer_is_in(sending: Sending) -> None:
    assert sending.calls.settled("k")
    assert not sending.calls.busy
    sending.send()
    sending.send()
    assert (sending.calls.busy, sending.calls.settled("k")) == (True, False)
    assert sending.calls.settled("another")

    sending.answer(stored(7))
    assert sending.said() == ["told well"]
    assert (sending.calls.busy, sending.calls.settled("k")) == (True, False)
    sending.answer(stored(5))
    assert sending.said() == ["told well", "again k"]
    assert not sending.calls.busy


def test_it_waits_until_the_informers_have_seen_the_latest_of_every_kind(sending: Sending) -> None:
    for kind, version in ((POD, 7), (POD, 5), (NODE, 6)):
        sending.send(kind)
        sending.answer(stored(version, kind))
    sending.said()

    for seen, settled in (
        ({}, False),
        ({POD: 6, NODE: 6}, False),
        ({POD: 7, NODE: 5}, False),
        ({POD: 7, NODE: 6}, True),
    ):
        sending.seen = seen
        assert sending.calls.settled("k") is settled
    assert sending.said() == ["k in 30"] * 3
    sending.seen = {}
    assert sending.calls.settled("k"), "what is settled is forgotten"


def test_a_write_that_never_comes_back_is_waited_for_so_long(sending: Sending) -> None:
    sending.send()
    sending.clock.advance(10.0)
    sending.send()
    for version in (7, 8):
        sending.answer(stored(version))

    sending.clock.advance(WAIT_MAX_S - 0.5)
    assert not sending.calls.settled("k")
    sending.clock.advance(0.5)
    assert sending.calls.settled("k")


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("race"), Unavailable("down")])
def test_after_a_failure_it_is_looked_at_later(sending: Sending, error: ApiError) -> None:
    sending.send()
    sending.send()
    sending.answer(error)
    assert sending.said() == ["retry k", f"told {error.message}"]
    sending.answer(stored(7))

    assert sending.said() == ["told well"], "not at once"
    sending.seen = {POD: 7}
    assert sending.calls.settled("k")


def test_what_was_deleted_has_no_version_to_wait_for(sending: Sending) -> None:
    sending.calls.send("k", Delete(POD, "default", "p"))
    sending.answer(None)

    assert sending.said() == ["again k"]
    assert sending.calls.settled("k")


def test_one_that_goes_on_where_another_is_waits_for_the_same(sending: Sending) -> None:
    sending.send()
    sending.answer(stored(7))
    other = Sending()
    other.calls.resume(sending.calls)
    assert not other.calls.settled("k")

    sending.seen = {POD: 7}
    assert sending.calls.settled("k")
    assert not other.calls.settled("k")
    other.seen = {POD: 7}
    assert other.calls.settled("k")
