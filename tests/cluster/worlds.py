"""A cluster between the store and its clients, that loses and doubles what it carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stowplan.apiserver.store import Store
from stowplan.cluster.port import (
    AllDone,
    ListOptions,
    ListResult,
    Watch,
    WatchEvent,
    WatchHandlers,
)
from stowplan.errors import ApiError
from stowplan.objects.api import Request
from stowplan.objects.kinds import Kind


@dataclass(eq=False)
class Line:
    """One watch, as the client holds it."""

    handlers: WatchHandlers
    held: list[WatchEvent]
    watch: Watch
    silent: bool = False
    open: bool = True


class UnreliableCluster:
    """The port to a store whose connections a test can break.

    Events wait in the line until `deliver`; a cut line loses those that wait, as a broken
    connection does.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lines: list[Line] = []
        self.list_errors: list[ApiError] = []
        self.watch_errors: list[ApiError | None] = []
        self.list_count = 0
        self.watch_count = 0

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        self.store.call(requests, done)

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.list_count += 1
        if self.list_errors:
            done(self.list_errors.pop(0))
        else:
            self.store.list(kind, options, done)

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        self.watch_count += 1
        if self.watch_errors:
            handlers.on_end(self.watch_errors.pop(0))
            return Watch()
        line = Line(handlers, [], Watch())
        self.lines.append(line)

        def ended(error: ApiError | None) -> None:
            self._close(line)
            handlers.on_end(error)

        inner = WatchHandlers(line.held.extend, ended)
        line.watch = self.store.watch(kind, options, resource_version, inner)

        def stop() -> None:
            line.silent = True
            self._close(line)

        return Watch(stop)

    def _close(self, line: Line) -> None:
        line.open = False
        line.watch.stop()
        if line in self.lines:
            self.lines.remove(line)

    def deliver(self, *, twice: bool = False, count: int | None = None) -> None:
        """Hand over what waits, or the first `count` of it; `twice`: each event doubled."""
        for line in list(self.lines):
            events, line.held[:] = line.held[:count], line.held[len(line.held[:count]) :]
            if not events:
                continue
            line.handlers.on_events(events)
            if twice and line.open:
                line.handlers.on_events(events)

    def cut(self, error: ApiError | None = None) -> None:
        """End every watch; what was not delivered is lost."""
        for line in list(self.lines):
            self._close(line)
            line.handlers.on_end(error)
