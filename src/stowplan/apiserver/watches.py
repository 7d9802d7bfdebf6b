"""Watches of one kind: a bounded history of changes, and everyone who follows it.

A watch starts at a resource version and sees every later change once and in order.  It replays
the history first; when the history no longer reaches back that far the answer is 410 Gone and the
client lists again.  A watcher with a selector sees an object that starts to match as ADDED and
one that stops to match as DELETED, as kube-apiserver's watch cache does.

`store` publishes changes here after they are committed and calls `deliver`; a watcher that
raises loses its own watch and disturbs nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from stowplan.apiserver.selectors import Predicate
from stowplan.cluster.port import WatchEvent
from stowplan.errors import ApiError, Gone
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import Kind
from stowplan.printable import logger

log = logger(__name__)

HISTORY_MAX = 10_000

_object = attrgetter("object")
_previous = attrgetter("previous")

UntypedFields = Any
"""What `objects.codec` keeps of an object beside its struct."""

Seen = tuple[WatchEvent, UntypedFields]
"""An event, and the rest of its object."""


class CommittedWrite(WatchEvent, frozen=True, gc=False):
    """One committed write.  It is the event that watchers get: most of them get it as it is."""

    version: int
    rest: UntypedFields = None
    previous: KubeObject | None = None
    previous_rest: UntypedFields = None

    @property
    def seen(self) -> Seen:
        return self, self.rest


@dataclass(slots=True, eq=False)
class Watcher:
    predicate: Predicate | None
    on_changes: Callable[[Sequence[CommittedWrite]], None]
    on_end: Callable[[ApiError | None], None]
    bookmarks: bool
    version: int
    """Changes up to here are not wanted: they came before it began, or were replayed."""
    active: bool = True


class WatchHub:
    """The history and the watchers of one kind."""

    def __init__(self, kind: Kind, *, version: int = 0, history_max: int = HISTORY_MAX) -> None:
        assert history_max > 0, f"a history needs room for at least one change, not {history_max}"
        self._kind = kind
        # One more than can be replayed: when it is full, a watch can start from its first one.
        self._changes: deque[CommittedWrite] = deque(maxlen=history_max + 1)
        self._begun = version
        """The last change that was dropped, as long as the history is not full."""
        self.watchers: tuple[Watcher, ...] = ()
        self.record = self._changes.append
        self.record_all = self._changes.extend

    @property
    def _oldest(self) -> int:
        """The oldest version that a watch can start from."""
        changes = self._changes
        return changes[0].version if len(changes) == changes.maxlen else self._begun

    def since(self, version: int) -> list[CommittedWrite]:
        """The changes after `version`, or Gone when some of them are forgotten."""
        if version < self._oldest:
            raise Gone(f"too old resource version: {version} ({self._oldest})")
        return [change for change in self._changes if change.version > version]

    def fork(self) -> WatchHub:
        """The same history, and nobody who follows it."""
        maxlen = self._changes.maxlen
        assert maxlen is not None, "the history is bounded"
        other = WatchHub(self._kind, version=self._begun, history_max=maxlen - 1)
        other.record_all(self._changes)
        return other

    def forget(self, until: int) -> None:
        """Drop the changes up to that version, as compaction does: watches from before are Gone."""
        changes = self._changes
        while changes and changes[0].version <= until:
            self._begun = changes.popleft().version

    def add(
        self, watcher: Watcher, initial: list[CommittedWrite], replay: list[CommittedWrite]
    ) -> None:
        """Start to deliver: first what the watcher has missed, then what comes."""
        self.watchers += (watcher,)
        if initial:
            self._hand_over(watcher, initial)
        if replay:
            self.deliver(replay, (watcher,))
            watcher.version = replay[-1].version

    def stop(self, watcher: Watcher) -> None:
        if watcher.active:
            watcher.active = False
            self.watchers = tuple(other for other in self.watchers if other is not watcher)

    def end(self, watcher: Watcher, error: ApiError | None) -> None:
        """End a watch from the server's side."""
        if not watcher.active:
            return
        self.stop(watcher)
        try:
            watcher.on_end(error)
        except Exception:
            log.exception("a watcher of %s failed at the end of its watch", self._kind.plural)

    def deliver(self, changes: list[CommittedWrite], watchers: tuple[Watcher, ...]) -> None:
        first = changes[0].version
        for watcher in watchers:
            seen = changes
            if first <= watcher.version:
                # It began inside another one's handler, and has replayed these already.
                seen = [change for change in changes if change.version > watcher.version]
            if watcher.predicate is not None:
                seen = _translate(watcher.predicate, seen)
            if seen and watcher.active:
                try:
                    watcher.on_changes(seen)
                except Exception as error:
                    self._fail(watcher, error)

    def bookmark(self, version: int) -> None:
        """Tell watchers that asked for it that they have seen everything up to `version`."""
        text = str(version)
        mark = self._kind.struct(
            api_version=self._kind.api_version,
            kind=self._kind.name,
            metadata=ObjectMeta(resource_version=text),
        )
        event = CommittedWrite("BOOKMARK", mark, text, version)
        for watcher in self.watchers:
            if watcher.bookmarks and watcher.active:
                self._hand_over(watcher, [event])

    def _hand_over(self, watcher: Watcher, changes: list[CommittedWrite]) -> None:
        try:
            watcher.on_changes(changes)
        except Exception as error:
            self._fail(watcher, error)

    def _fail(self, watcher: Watcher, error: Exception) -> None:
        log.exception("a watcher of %s failed; its watch ends", self._kind.plural)
        self.end(watcher, ApiError(f"the watcher failed: {error}"))


def _translate(selects: Predicate, changes: list[CommittedWrite]) -> list[CommittedWrite]:
    """The changes as a watcher sees them that only knows what `selects` lets through."""
    before = filter(None, map(_previous, changes))
    if selects.takes_all(map(_object, changes)) and selects.takes_all(before):
        return changes  # As nearly always.
    translated = []
    for change in changes:
        matches = matched = selects(change.object)
        if change.type == "MODIFIED":
            matched = selects(change.previous)
        if matches and matched:
            translated.append(change)
        elif matches or matched:
            translated.append(_came(change) if matches else _went(change))
    return translated


def _came(change: CommittedWrite) -> CommittedWrite:
    return CommittedWrite(
        "ADDED", change.object, change.resource_version, change.version, change.rest
    )


def _went(change: CommittedWrite) -> CommittedWrite:
    """The object as the watcher knew it, with the version at which it went."""
    assert change.previous is not None, f"nothing went at {change.version}"
    version = change.resource_version
    gone = at_version(change.previous, version)
    return CommittedWrite("DELETED", gone, version, change.version, change.previous_rest)


def at_version(thing: KubeObject, version: str) -> KubeObject:
    return replace(thing, metadata=replace(thing.metadata, resource_version=version))
