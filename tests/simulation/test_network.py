"""The line itself: it may lose, delay and repeat, but not what the API promises."""

from __future__ import annotations

from random import Random

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import (
    Answer,
    ListOptions,
    WatchEvent,
    WatchHandlers,
    call_one,
    ignore_all,
)
from stowplan.errors import ApiError
from stowplan.objects.api import Create, Delete
from stowplan.objects.kinds import POD
from tests.builders import pod
from tests.simulation.network import Line
from tests.simulation.trace import Trace
from tests.simulation.weather import Weather

EVERYTHING = ListOptions()


def make_line(weather: Weather, seed: int = 0) -> Line:
    clock = VirtualClock(1_000.0)
    store = Store(clock, create_namespaces=True)
    return Line(store, clock, weather, Random(seed), Trace(clock.now))


def create(line: Line, name: str) -> list[Answer]:
    answers: list[Answer] = []
    call_one(line, Create(POD, "default", pod(name)), answers.append)
    line.clock.run()
    return answers


def names(line: Line) -> list[str]:
    return [thing.name for thing, _ in line.store.select(POD, EVERYTHING)[0]]


@pytest.mark.parametrize(
    ("weather", "arrives"),
    [
        (Weather(refused=1.0), False),
        (Weather(conflicts=1.0), False),
        (Weather(lost=1.0), True),
        (Weather(late=1.0), True),
    ],
    ids=lambda value: value.names if isinstance(value, Weather) else "",
)
def test_a_call_that_fails_has_happened_or_not(weather: Weather, arrives: bool) -> None:
    line = make_line(weather)
    (answer,) = create(line, "web")
    assert isinstance(answer, ApiError)
    assert names(line) == (["web"] if arrives else [])


def test_every_call_is_answered_once_whatever_the_weather() -> None:
    line = make_line(Weather(refused=0.2, lost=0.2, late=0.2, conflicts=0.2, slow=0.5))
    assert all(len(create(line, f"pod-{number}")) == 1 for number in range(200))


def test_nothing_arrives_at_a_process_that_has_ended() -> None:
    line = make_line(Weather())
    answers: list[Answer] = []
    call_one(line, Create(POD, "default", pod("web")), answers.append)
    line.cut()
    line.clock.run()
    assert (answers, names(line)) == ([], ["web"])


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_keeps_the_order_of_its_events(seed: int) -> None:
    line = make_line(Weather(lag_s=5.0, slow=0.5), seed)
    seen: list[str] = []

    def on_events(events: list[WatchEvent]) -> None:
        seen.extend(event.resource_version for event in events)

    version = line.store.resource_version
    line.watch(POD, EVERYTHING, version, WatchHandlers(on_events, lambda error: None))
    line.clock.advance(10.0)
    for number in range(20):
        create(line, f"pod-{number}")
        line.call([Delete(POD, "default", f"pod-{number}")], ignore_all)
    line.clock.run()
    assert len(seen) == 40
    assert seen == sorted(seen, key=int)


def test_a_broken_watch_ends_and_says_nothing_more() -> None:
    line = make_line(Weather(drop_period_s=1.0))
    seen: list[WatchEvent] = []
    ends: list[ApiError | None] = []
    version = line.store.resource_version
    line.watch(POD, EVERYTHING, version, WatchHandlers(seen.extend, ends.append))
    line.clock.advance(1.0)
    line.break_a_watch()
    create(line, "web")
    assert (seen, len(ends)) == ([], 1)
