"""A reflector lists, watches, resumes, and comes back from every failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions, ListResult, WatchEvent
from stowplan.cluster.reflector import DELAY_MAX_S, DELAY_MIN_S, Backoff, Reflector
from stowplan.errors import ApiError, BadRequest, Gone, Timeout, TooManyRequests, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, Kind
from tests.apiserver.things import bind, create_node, create_pod
from tests.cluster.worlds import UnreliableCluster


class Notes:
    """A sink that writes down what it gets."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.events: list[tuple[str, str]] = []

    def replace(self, items: list[KubeObject], resource_version: str) -> None:
        self.lists.append([thing.name for thing in items])

    def apply(self, events: Sequence[WatchEvent]) -> None:
        self.events += [(e.type, e.object.name) for e in events if e.type != "BOOKMARK"]


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store(self.clock)
        self.cluster = UnreliableCluster(self.store)
        self.notes = Notes()
        self.reflector = Reflector(
            self.cluster,
            POD,
            self.notes,
            clock=self.clock,
            call_later=self.clock.at,
            random=Random(0),
        )


@pytest.fixture
def world() -> World:
    return World()


def test_it_lists_and_then_watches(world: World) -> None:
    create_pod(world.store, "a")
    world.reflector.start()
    create_pod(world.store, "b")
    bind(world.store, "a")
    world.cluster.deliver()

    assert world.notes.lists == [["a"]]
    assert world.notes.events == [("ADDED", "b"), ("MODIFIED", "a")]
    assert world.reflector.resource_version == world.store.resource_version


def test_a_watch_that_ends_is_resumed_at_once_where_it_was(world: World) -> None:
    world.reflector.start()
    create_pod(world.store, "a")
    world.cluster.deliver()
    create_pod(world.store, "lost")
    world.cluster.cut()
    create_pod(world.store, "b")
    world.clock.run()
    world.cluster.deliver()

    assert world.notes.events == [("ADDED", "a"), ("ADDED", "lost"), ("ADDED", "b")]
    assert (world.cluster.list_count, world.cluster.watch_count) == (1, 2)
    assert world.clock.now() == 0.0


def test_a_quiet_watch_that_lasted_is_resumed_at_once(world: World) -> None:
    world.reflector.start()
    for _ in range(5):
        world.clock.advance(300.0)
        world.cluster.cut()
        world.clock.run()

    assert world.cluster.watch_count == 6
    assert world.clock.now() == 1500.0


def test_a_watch_that_ends_at_once_without_a_word_has_failed(world: World) -> None:
    world.cluster.watch_errors = [None, None, None]
    world.reflector.start()
    world.clock.run()

    assert world.cluster.watch_count == 4
    assert 0.8 + 1.6 + 3.2 <= world.clock.now() <= 2 * (0.8 + 1.6 + 3.2)


def test_a_bookmark_moves_the_version_on(world: World) -> None:
    world.reflector.start()
    for n in range(5):
        create_node(world.store, f"n{n}")
    world.store.send_bookmarks()
    world.cluster.deliver()
    version = world.store.resource_version
    world.store.compact()
    world.cluster.cut()
    world.clock.run()

    assert world.reflector.resource_version == version
    assert world.cluster.list_count == 1
    assert world.notes.events == []


def test_a_version_that_is_gone_means_a_new_list(world: World) -> None:
    world.reflector.start()
    world.clock.advance(60.0)
    create_pod(world.store, "a")
    create_pod(world.store, "b")
    world.store.compact()
    world.cluster.cut()
    world.clock.run()
    create_pod(world.store, "c")
    world.cluster.deliver()

    assert world.notes.lists == [[], ["a", "b"]]
    assert world.notes.events == [("ADDED", "c")]
    assert world.clock.now() == 60.0


def test_a_list_that_is_gone_as_soon_as_it_is_made_is_not_made_in_a_hurry(world: World) -> None:
    world.cluster.watch_errors = [Gone("too old")] * 6
    world.reflector.start()
    world.clock.run()

    assert world.cluster.list_count == 7
    assert world.clock.now() > 20.0


@pytest.mark.parametrize(
    ("error", "list_count"),
    [
        pytest.param(Unavailable("down"), 1, id="the-server-is-down"),
        pytest.param(TooManyRequests("slow"), 1, id="too-many-requests"),
        pytest.param(ApiError("oops"), 1, id="an-internal-error"),
        pytest.param(BadRequest("what?"), 2, id="the-watch-itself-is-refused"),
        pytest.param(Timeout("Too large resource version: 9, current: 5"), 2, id="from-the-future"),
    ],
)
def test_a_failed_watch_is_tried_again_after_a_while(
    world: World, error: ApiError, list_count: int
) -> None:
    world.reflector.start()
    create_pod(world.store, "a")
    world.cluster.cut(error)
    world.clock.run()
    world.cluster.deliver()

    assert world.cluster.list_count == list_count
    assert world.clock.now() >= DELAY_MIN_S
    assert ("ADDED", "a") in world.notes.events or ["a"] in world.notes.lists


def test_a_failed_list_is_tried_again_and_the_delay_grows(world: World) -> None:
    world.cluster.list_errors = [Unavailable("down")] * 4
    world.reflector.start()
    world.clock.run()

    assert world.notes.lists == [[]]
    assert 0.8 * 15 <= world.clock.now() <= 0.8 * 30


def test_it_says_what_is_wrong_until_it_is_not(world: World) -> None:
    world.cluster.list_errors = [Unavailable("down")]
    world.reflector.start()
    assert world.reflector.problem == "down"
    world.clock.run()
    assert world.reflector.problem == ""

    world.cluster.watch_errors = [Unavailable("gone again")]
    world.cluster.cut(Unavailable("cut"))
    assert world.reflector.problem == "cut"
    world.clock.run()
    assert world.reflector.problem == ""


def test_a_server_that_says_when_to_come_back_is_obeyed(world: World) -> None:
    world.cluster.list_errors = [TooManyRequests("slow", retry_after_s=17.0)]
    world.reflector.start()
    world.clock.run()

    assert world.clock.now() == 17.0


def test_a_stopped_reflector_is_silent(world: World) -> None:
    world.reflector.start()
    world.reflector.stop()
    create_pod(world.store, "a")
    world.cluster.deliver()

    assert world.cluster.lines == []
    assert world.notes.events == []


def test_a_reflector_stopped_while_it_waits_stays_so(world: World) -> None:
    world.cluster.list_errors = [Unavailable("down")]
    world.reflector.start()
    world.reflector.stop()
    world.clock.run()

    assert world.cluster.list_count == 1


def test_an_answer_that_comes_too_late_is_dropped(world: World) -> None:
    world.reflector.start()
    (line,) = world.cluster.lines
    world.cluster.cut()
    world.clock.run()
    create_pod(world.store, "a")
    world.cluster.deliver()

    line.handlers.on_events([WatchEvent("DELETED", create_pod(world.store, "b"), "1")])
    line.handlers.on_end(Gone("late"))
    world.clock.run()

    assert world.notes.events == [("ADDED", "a")]
    assert world.cluster.list_count == 1


class LateCluster(UnreliableCluster):
    """Lists are answered when the test says so."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked: list[Callable[[ListResult | ApiError], None]] = []

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.list_count += 1
        self.asked.append(done)


def test_a_list_that_comes_after_the_end_is_dropped(world: World) -> None:
    late = LateCluster(world.store)
    world.reflector._cluster = late
    world.reflector.start()
    world.reflector.stop()

    late.asked[0](ListResult([create_pod(world.store, "a")], "5"))
    late.asked[0](Unavailable("down"))
    world.clock.run()

    assert (world.notes.lists, late.list_count, late.watch_count) == ([], 1, 0)


def test_whoever_knows_everything_up_to_a_version_goes_on_from_there(world: World) -> None:
    create_pod(world.store, "known")
    version = world.store.resource_version
    create_pod(world.store, "a")

    world.reflector.resume(version)
    world.cluster.deliver()

    assert (world.notes.lists, world.notes.events) == ([], [("ADDED", "a")])
    assert world.reflector.resource_version == world.store.resource_version


def test_a_version_to_go_on_from_that_is_gone_means_a_list_at_once(world: World) -> None:
    world.cluster.watch_errors = [Gone("too old")]
    world.reflector.resume("1")
    world.clock.run()

    assert (world.cluster.list_count, world.clock.now()) == (1, 0.0)


@pytest.mark.parametrize(("lasted_s", "waits"), [(0.9, True), (1.0, False)])
def test_a_watch_has_worked_if_it_lasted_for_a_second(
    world: World, lasted_s: float, waits: bool
) -> None:
    world.reflector.start()
    world.clock.advance(lasted_s)
    world.cluster.cut()
    world.clock.run()

    assert (world.clock.now() > lasted_s) == waits


def test_a_watch_that_worked_starts_the_delay_over(world: World) -> None:
    world.cluster.watch_errors = [Unavailable("down")] * 6
    world.reflector.start()
    world.clock.run()
    world.clock.advance(60.0)
    before = world.clock.now()
    world.cluster.cut(Unavailable("down"))
    world.clock.run()

    assert DELAY_MIN_S <= world.clock.now() - before <= 2 * DELAY_MIN_S


def test_an_event_that_stops_the_reflector_does_not_move_it_on(world: World) -> None:
    world.reflector.start()
    before = world.reflector.resource_version
    world.notes.apply = lambda events: world.reflector.stop()  # type: ignore[method-assign]
    create_pod(world.store, "a")
    world.cluster.deliver()

    assert world.reflector.resource_version == before


@pytest.mark.parametrize(
    ("code", "resumes"),
    [(401, True), (403, True), (408, True), (429, True), (500, True), (499, False), (404, False)],
)
def test_which_failures_say_nothing_against_the_version(
    world: World, code: int, resumes: bool
) -> None:
    world.reflector.start()
    error = ApiError("no")
    error.code = code
    world.cluster.cut(error)
    world.clock.run()

    assert world.cluster.list_count == (1 if resumes else 2)


def test_the_delay_grows_to_its_maximum_and_starts_over() -> None:
    backoff = Backoff(Random(1))

    delays = [backoff.next() for _ in range(50)]

    assert delays[0] < 2 * DELAY_MIN_S
    assert max(delays) == DELAY_MAX_S
    assert all(DELAY_MIN_S <= delay <= DELAY_MAX_S for delay in delays)
    backoff.reset()
    assert backoff.next() < 2 * DELAY_MIN_S
