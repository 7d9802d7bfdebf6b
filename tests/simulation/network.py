"""The line between one process and the API server, on which everything can go wrong.

Calls take time, overtake each other, fail, time out, or are carried out without anybody hearing of
it.  Watches keep the order of their events, as the API promises, but each lags by itself: what two
of them bring can come in any order.  When the process ends its line is cut: nothing more arrives,
but what was sent is still carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import (
    AllDone,
    Answer,
    Done,
    ListOptions,
    ListResult,
    Watch,
    WatchEvent,
    WatchHandlers,
    call_one,
    separately,
)
from stowplan.errors import ApiError, Conflict, Gone, Timeout, TooManyRequests, Unavailable
from stowplan.objects.api import Bind, Request
from stowplan.objects.kinds import (
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    Kind,
)
from tests.simulation.trace import Trace
from tests.simulation.weather import Weather

TRIP_S = 0.002
TIMEOUT_S = 10.0
SILENCE_S_MAX = 25.0
"""How long a broken watch may go unnoticed."""

_OFTEN_BROKEN = (POD, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM)


class ProcessEnded(Exception):
    """The process ended in the middle of what it was doing."""


class Line:
    def __init__(
        self, store: Store, clock: VirtualClock, weather: Weather, random: Random, trace: Trace
    ) -> None:
        self.store = store
        self.clock = clock
        self.weather = weather
        self.random = random
        self.trace = trace
        self.who = "line"
        self.open = True
        self.calm = False
        """No more faults; only the time that things take."""
        self.on_sent: Callable[[Request], None] = lambda request: None
        self.on_carried_out: Callable[[Request, Answer], None] = lambda *_: None
        self.on_answered: Callable[[Request, Answer], None] = lambda *_: None
        self.deliver: Callable[[Callable[[], None]], None] = lambda action: action()
        """Runs what the process does about something that arrives."""
        self.streams: list[Stream] = []

    def happens(self, share: float) -> bool:
        return not self.calm and share > 0 and self.random.random() < share

    def trip_s(self) -> float:
        if self.happens(self.weather.slow):
            return self.random.uniform(0.0, 3.0)
        return TRIP_S * (0.5 + self.random.random())

    # -- calls ------------------------------------------------------------------------------

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        for request, answered in separately(requests, done):
            self._call(request, answered)

    def _call(self, request: Request, done: Done) -> None:
        self.on_sent(request)
        weather = self.weather
        if self.happens(weather.crash_at_call):
            if self.random.random() < 0.5:
                self._send(request, done, heard=False)
            raise ProcessEnded
        if self.happens(weather.refused):
            self._answer(request, done, self._refusal(), self.trip_s())
        elif self.happens(weather.conflicts):
            self._answer(request, done, Conflict("somebody else was first"), self.trip_s())
        elif self.happens(weather.late):
            self._answer(request, done, Timeout("no answer in time"), TIMEOUT_S)
            self.clock.at(
                TIMEOUT_S + self.random.uniform(0.0, 5.0),
                lambda: self._carry_out(request, heard=False),
            )
        elif self.happens(weather.lost):
            self._send(request, done, heard=False)
            at_once = self.random.random() < 0.5
            error = Unavailable("the connection was lost")
            self._answer(request, done, error, self.trip_s() if at_once else TIMEOUT_S)
        else:
            self._send(request, done, heard=True)

    def _refusal(self) -> ApiError:
        kinds = (
            lambda: Unavailable("cannot be reached"),
            lambda: TooManyRequests("too many", retry_after_s=1.0),
            lambda: ApiError("something broke"),
        )
        return self.random.choice(kinds)()

    def _send(self, request: Request, done: Done, *, heard: bool) -> None:
        back_s = self.trip_s()

        def arrive() -> None:
            answer = self._carry_out(request, heard=heard)
            if heard:
                self._answer(request, done, answer, back_s)

        self.clock.at(self.trip_s(), arrive)

    def _carry_out(self, request: Request, *, heard: bool) -> Answer:
        answers: list[Answer] = []
        call_one(self.store, request, answers.append)
        answer = answers[0]
        self._note(request, answer, heard)
        self.on_carried_out(request, answer)
        return answer

    def _note(self, request: Request, answer: Answer, heard: bool) -> None:
        kind = getattr(request, "kind", None)
        if kind is EVENT:
            return
        name = getattr(request, "name", "") or "?"
        what = f"{type(request).__name__} {kind.plural if kind else ''} {name}".replace("  ", " ")
        if isinstance(request, Bind):
            what += f" to {request.node}"
        outcome = f"{answer.code} {answer.message}" if isinstance(answer, ApiError) else "ok"
        self.trace(self.who, f"{what}: {outcome}{'' if heard else ', unheard'}")

    def _answer(self, request: Request, done: Done, answer: Answer, delay_s: float) -> None:
        def arrive() -> None:
            if self.open:
                self.on_answered(request, answer)
                self.deliver(lambda: done(answer))

        self.clock.at(delay_s, arrive)

    # -- lists and watches ------------------------------------------------------------------

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        back_s = self.trip_s()

        def answer(result: ListResult | ApiError) -> None:
            self.clock.at(back_s, lambda: self._listed(done, result))

        def arrive() -> None:
            if self.happens(self.weather.refused):
                answer(self._refusal())
            else:
                self.store.list(kind, options, answer)

        self.clock.at(self.trip_s(), arrive)

    def _listed(self, done: Callable[[ListResult | ApiError], None], result: Any) -> None:
        if self.open:
            self.deliver(lambda: done(result))

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        stream = Stream(self, kind, handlers)
        self.streams.append(stream)
        self.clock.at(self.trip_s(), lambda: stream.begin(options, resource_version))
        return Watch(stream.stop)

    def break_a_watch(self) -> None:
        """One of those that matter most, or any."""
        few = [stream for stream in self.streams if stream.kind in _OFTEN_BROKEN]
        streams = few if few and self.random.random() < 0.6 else self.streams
        if streams:
            self.random.choice(streams).break_off()

    def cut(self) -> None:
        self.open = False
        for stream in [*self.streams]:
            stream.stop()


class Stream:
    """One watch: events come in order, each some time after it happened."""

    def __init__(self, line: Line, kind: Kind, handlers: WatchHandlers) -> None:
        self._line = line
        self.kind = kind
        self._handlers = handlers
        self._watch: Watch | None = None
        self._live = True
        self._broken = False
        self._last_due_s = 0.0

    def begin(self, options: ListOptions, version: str) -> None:
        line = self._line
        if not self._live:
            return
        if line.happens(line.weather.gone):
            self._end(Gone(f"too old resource version: {version}"))
            return
        if line.happens(line.weather.repeats):
            version = str(max(1, int(version) - line.random.randrange(30)))
        self._watch = line.store.watch(
            self.kind, options, version, WatchHandlers(self._arrived, self._end)
        )

    def _arrived(self, events: list[WatchEvent]) -> None:
        if self._live and not self._broken:
            self._later(lambda: self._handlers.on_events(events))

    def _end(self, error: ApiError | None) -> None:
        if not self._broken:
            self._later(lambda: self._finish(error))

    def _later(self, action: Callable[[], None]) -> None:
        line = self._line
        lag_s = 0.0 if line.calm else line.random.uniform(0.0, line.weather.lag_s)
        self._last_due_s = max(self._last_due_s, line.clock.now_s + line.trip_s() + lag_s)
        delay_s = self._last_due_s - line.clock.now_s

        def arrive() -> None:
            if self._live and not self._broken:
                line.deliver(action)

        line.clock.at(delay_s, arrive)

    def break_off(self) -> None:
        """What is under way is lost; the client notices now, or after a while."""
        line = self._line
        if self._broken:
            return
        self._broken = True
        if self._watch is not None:
            self._watch.stop()
        silence_s = line.random.uniform(0.0, SILENCE_S_MAX) if line.random.random() < 0.3 else 0.0
        error = line.random.choice((None, Unavailable("the connection was lost")))
        line.trace(
            line.who, f"the watch of {self.kind.plural} breaks, noticed in {silence_s:.1f} s"
        )
        line.clock.at(silence_s, lambda: line.deliver(lambda: self._finish(error)))

    def _finish(self, error: ApiError | None) -> None:
        if self._live:
            self.stop()
            self._handlers.on_end(error)

    def stop(self) -> None:
        self._live = False
        if self._watch is not None:
            self._watch.stop()
        if self in self._line.streams:
            self._line.streams.remove(self)
