"""Watches of one kind: a bounded history of changes, and everyone who follows it.

A watch starts at a resource version and sees every later change once and in order.  It replays
the history first; when the history no longer reaches back that far the answer is 410 Gone and the
client lists again.  A watcher with a selector sees an object that starts to match as ADDED and
one that stops to match as DELETED, as kube-apiserver's watch cache does.

`store` publishes changes here after they are committed and calls `deliver`; a watcher that
raises loses its own watch and disturbs nobody.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver.selectors import Predicate
from stowplan.cluster.port import WatchEvent
from stowplan.errors import ApiError, Gone
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import Kind

log = logging.getLogger(__name__)

HISTORY_MAX = 10_000

Rest = Any
"""What `objects.codec` keeps of an object beside its struct."""

Seen = tuple[WatchEvent, Rest]
"""What a watcher gets: the event, and the rest of its object."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed write."""

    version: int
    seen: Seen
    previous: KubeObject | None
    previous_rest: Rest


@dataclass(slots=True, eq=False)
class Watcher:
    predicate: Predicate | None
    on_seen: Callable[[list[Seen]], None]
    on_end: Callable[[ApiError | None], None]
    bookmarks: bool
    version: int
    """Changes up to here were delivered, or are not wanted."""
    active: bool = True


class WatchHub:
    """The history and the watchers of one kind."""

    def __init__(self, kind: Kind, *, version: int = 0, history_max: int = HISTORY_MAX) -> None:
        assert history_max > 0, f"a history needs room for at least one change, not {history_max}"
        self._kind = kind
        self._changes: deque[Change] = deque()
        self._history_max = history_max
        self._oldest = version
        """The oldest version that a watch can start from."""
        self.watchers: list[Watcher] = []

    def record(self, change: Change) -> None:
        changes = self._changes
        if len(changes) >= self._history_max:
            self._oldest = changes.popleft().version
        changes.append(change)

    def since(self, version: int) -> list[Change]:
        """The changes after `version`, or Gone when some of them are forgotten."""
        if version < self._oldest:
            raise Gone(f"too old resource version: {version} ({self._oldest})")
        return [change for change in self._changes if change.version > version]

    def forget(self) -> None:
        """Drop the history, as compaction does: watches from before now are Gone."""
        if self._changes:
            self._oldest = self._changes[-1].version
            self._changes.clear()

    def add(self, watcher: Watcher, initial: list[Seen], replay: list[Change]) -> None:
        """Start to deliver: first what the watcher has missed, then what comes."""
        self.watchers.append(watcher)
        if initial:
            self._hand_over(watcher, initial)
        if replay:
            self._deliver_to(watcher, replay)

    def stop(self, watcher: Watcher) -> None:
        if watcher.active:
            watcher.active = False
            self.watchers.remove(watcher)

    def end(self, watcher: Watcher, error: ApiError | None) -> None:
        """End a watch from the server's side."""
        if not watcher.active:
            return
        self.stop(watcher)
        try:
            watcher.on_end(error)
        except Exception:
            log.exception("a watcher of %s failed at the end of its watch", self._kind.plural)

    def deliver(self, changes: list[Change]) -> None:
        for watcher in tuple(self.watchers):
            self._deliver_to(watcher, changes)

    def bookmark(self, version: int) -> None:
        """Tell watchers that asked for it that they have seen everything up to `version`."""
        text = str(version)
        mark = self._kind.struct(
            api_version=self._kind.api_version,
            kind=self._kind.name,
            metadata=ObjectMeta(resource_version=text),
        )
        event = WatchEvent("BOOKMARK", mark, text)
        for watcher in tuple(self.watchers):
            if watcher.bookmarks and watcher.active:
                self._hand_over(watcher, [(event, None)])

    def _deliver_to(self, watcher: Watcher, changes: list[Change]) -> None:
        # A watch that began inside another one's handler has replayed these already.
        if changes[0].version <= watcher.version:
            changes = [change for change in changes if change.version > watcher.version]
            if not changes:
                return
        watcher.version = changes[-1].version
        if watcher.predicate is None:
            seen = [change.seen for change in changes]
        else:
            seen = _translate(watcher.predicate, changes)
        if seen and watcher.active:
            self._hand_over(watcher, seen)

    def _hand_over(self, watcher: Watcher, seen: list[Seen]) -> None:
        try:
            watcher.on_seen(seen)
        except Exception as error:
            log.exception("a watcher of %s failed; its watch ends", self._kind.plural)
            self.end(watcher, ApiError(f"the watcher failed: {error}"))


def _translate(selects: Predicate, changes: Iterable[Change]) -> list[Seen]:
    """The changes as a watcher sees them that only knows what `selects` lets through."""
    translated = []
    for change in changes:
        event = change.seen[0]
        if event.type != "MODIFIED":
            if selects(event.object):
                translated.append(change.seen)
            continue
        assert change.previous is not None, f"nothing was modified at {change.version}"
        matched, matches = selects(change.previous), selects(event.object)
        if matched and matches:
            translated.append(change.seen)
        elif matches:
            added = WatchEvent("ADDED", event.object, event.resource_version)
            translated.append((added, change.seen[1]))
        elif matched:
            # The object as the watcher knew it, with the version at which it went.
            gone = at_version(change.previous, event.resource_version)
            deleted = WatchEvent("DELETED", gone, event.resource_version)
            translated.append((deleted, change.previous_rest))
    return translated


def at_version(thing: KubeObject, version: str) -> KubeObject:
    return replace(thing, metadata=replace(thing.metadata, resource_version=version))
