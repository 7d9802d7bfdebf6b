"""The objects themselves, one version number for all of them, and the order of their changes.

A write takes the next version, goes into the journal if there is one, and only then becomes
known: to the history, to the watchers, and to whoever asked for it.  Writes inside `batch` share
one journal transaction; their answers and events come after it.  A journal that cannot be written
undoes what it did not keep, and the ledger refuses every later write.

Knows nothing of what the objects mean: that is `store`, its only user.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from stowplan.apiserver.owners import OwnerIndex, Owners, Ref
from stowplan.apiserver.selectors import Predicate
from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.apiserver.watches import HISTORY_MAX, Change, Rest, Seen, Watcher, WatchHub
from stowplan.cluster.port import Answer, Done, WatchEvent
from stowplan.errors import ApiError, Timeout, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

log = logging.getLogger(__name__)


class Journal(Protocol):
    """Where writes survive the process; `journal` has the one in SQLite."""

    @property
    def version(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def load(self) -> Iterable[tuple[Kind, KubeObject, Rest]]: ...

    def commit(self, writes: Sequence[tuple[Kind, Change]], version: int) -> None:
        """Keep all of them or none; raises `Unavailable` when the disk does not take them."""
        ...

    def close(self) -> None: ...


class Table:
    """All objects of one kind: namespace to name to object, and the rests beside them."""

    __slots__ = ("hub", "kind", "objects", "rests")

    def __init__(self, kind: Kind, *, version: int, history_max: int) -> None:
        self.kind = kind
        self.objects: dict[str, dict[str, KubeObject]] = {}
        self.rests: dict[tuple[str, str], Rest] = {}
        self.hub = WatchHub(kind, version=version, history_max=history_max)

    def find(self, namespace: str, name: str) -> KubeObject | None:
        names = self.objects.get(namespace)
        return None if names is None else names.get(name)

    def rest(self, namespace: str, name: str) -> Rest:
        return self.rests.get((namespace, name)) if self.rests else None

    def select(self, namespace: str, predicate: Predicate | None) -> list[KubeObject]:
        """Ordered by namespace and name, as kube-apiserver lists them."""
        namespaces = [namespace] if namespace else sorted(self.objects)
        found = []
        for each in namespaces:
            names = self.objects.get(each, {})
            things = [names[name] for name in sorted(names)]
            found += (
                things if predicate is None else [thing for thing in things if predicate(thing)]
            )
        return found

    def every(self) -> Iterator[KubeObject]:
        for names in self.objects.values():
            yield from names.values()

    def set(self, namespace: str, name: str, thing: KubeObject | None, rest: Rest) -> None:
        names = self.objects.get(namespace)
        if thing is None:
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self.objects[namespace]
        elif names is None:
            self.objects[namespace] = {name: thing}
        else:
            names[name] = thing
        if rest is not None and thing is not None:
            self.rests[namespace, name] = rest
        elif self.rests:
            self.rests.pop((namespace, name), None)


class Ledger:
    def __init__(
        self, *, journal: Journal | None = None, version: int = 0, history_max: int = HISTORY_MAX
    ) -> None:
        self.version = version
        self.owners = OwnerIndex()
        self.tables: dict[type[KubeObject], Table] = {
            kind.struct: Table(kind, version=version, history_max=history_max)
            for kind in STORED_KINDS
        }
        self._next = ""
        self._journal = journal
        self._refusal: Unavailable | None = None
        self._depth = 0
        """How many batches are open, one inside the other."""
        self._direct = journal is None
        """Writes become known at once: no journal, and no batch is open."""
        self._rehearsing = False
        self._pending: list[tuple[Table, Change]] = []
        self._answers: list[tuple[Done, Answer]] = []
        self._unanswered = False
        """Something in this batch was written by a caller that has no answer to wait for."""
        self._outbox: deque[tuple[WatchHub, list[Change]]] = deque()
        self._delivering = False

    def next_version(self) -> str:
        """The version of the next write; raises once writes are refused."""
        if self._refusal is not None:
            raise self._refusal
        self._next = str(self.version + 1)
        return self._next

    def restore(self, kind: Kind, thing: KubeObject, rest: Rest) -> None:
        """Put back what a journal remembers, unseen by anybody."""
        meta = thing.metadata
        self.tables[kind.struct].set(meta.namespace, meta.name, thing, rest)
        if meta.owner_references:
            ref = Ref(kind, meta.namespace, meta.name)
            self.owners.move(ref, None, meta.owner_references)

    def write(
        self, table: Table, type_: str, old: KubeObject | None, new: KubeObject, rest: Rest
    ) -> None:
        """Commit one change.  `new` carries `next_version`; a deleted object its last state."""
        meta = new.metadata
        self.version += 1
        assert meta.resource_version == self._next, (
            f"{table.kind} {new.key} has version {meta.resource_version}, not {self._next}"
        )
        old_rest = table.rest(meta.namespace, meta.name)
        event = WatchEvent(type_, new, meta.resource_version)
        change = Change(self.version, (event, rest), old, old_rest)
        self._set(table, old, None if type_ == "DELETED" else new, rest)
        if self._direct:
            hub = table.hub
            hub.record(change)
            if hub.watchers:
                self._publish(hub, [change])
        else:
            self._pending.append((table, change))
            if self._depth == 0:
                self._flush()

    def _set(
        self, table: Table, old: KubeObject | None, new: KubeObject | None, rest: Rest
    ) -> None:
        some = old if new is None else new
        assert some is not None, f"neither an old nor a new {table.kind}"
        meta = some.metadata
        table.set(meta.namespace, meta.name, new, rest)
        before: Owners = old.metadata.owner_references if old is not None else None
        after: Owners = new.metadata.owner_references if new is not None else None
        if before is not after:
            self.owners.move(Ref(table.kind, meta.namespace, meta.name), before, after)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit the writes inside together; answers and events follow at the end."""
        self._depth += 1
        self._direct = False
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._direct = self._journal is None
                self._end_batch()

    @contextmanager
    def rehearse(self) -> Iterator[None]:
        """Undo the writes inside when it ends, before anybody hears of them."""
        self.settle()
        direct, unanswered = self._direct, self._unanswered
        self._direct = False
        self._rehearsing = True
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._rehearsing = False
            self._direct, self._unanswered = direct, unanswered
            pending, self._pending = self._pending, []
            self._undo(pending)

    def _end_batch(self) -> None:
        unanswered, self._unanswered = self._unanswered, False
        try:
            self._flush()
        except Unavailable:
            # Those who wait for an answer have it; anybody else must hear of it here.
            if unanswered:
                raise

    def answer(self, done: Done, answer: Answer) -> None:
        """Answer now, or when the batch is committed."""
        if self._depth:
            self._answers.append((done, answer))
        else:
            done(answer)

    def note_unanswered(self) -> None:
        if self._depth:
            self._unanswered = True

    def settle(self) -> None:
        """Commit what an open batch has so far: a reader must not see what could be undone."""
        if (self._pending or self._answers) and not self._rehearsing:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        answers, self._answers = self._answers, []
        try:
            if pending and self._journal is not None:
                writes = [(table.kind, change) for table, change in pending]
                self._journal.commit(writes, self.version)
        except Unavailable as error:
            self._undo(pending)
            if self._refusal is None:
                log.error("%s: %s", error.where, error.message)
            self._refusal = error
            for done, _ in answers:
                _tell(done, error)
            raise
        self._make_known(pending)
        for done, answer in answers:
            _tell(done, answer)

    def _undo(self, pending: list[tuple[Table, Change]]) -> None:
        for table, change in reversed(pending):
            event = change.seen[0]
            new = None if event.type == "DELETED" else event.object
            self._set(table, new, change.previous, change.previous_rest)
        self.version -= len(pending)

    def _make_known(self, pending: list[tuple[Table, Change]]) -> None:
        """Changes of one kind in a row reach their watchers together."""
        groups: list[tuple[WatchHub, list[Change]]] = []
        for table, change in pending:
            table.hub.record(change)
            if groups and groups[-1][0] is table.hub:
                groups[-1][1].append(change)
            else:
                groups.append((table.hub, [change]))
        for hub, changes in groups:
            self._publish(hub, changes)

    def _publish(self, hub: WatchHub, changes: list[Change]) -> None:
        """Deliver; what a watcher writes meanwhile waits its turn, so all see one order."""
        if self._delivering:
            self._outbox.append((hub, changes))
            return
        self._delivering = True
        try:
            hub.deliver(changes)
            while self._outbox:
                waiting, more = self._outbox.popleft()
                waiting.deliver(more)
        finally:
            self._delivering = False

    def watch(self, kind: Kind, namespace: str, version: str, watcher: Watcher) -> None:
        """Start a watch, or end it at once with the reason why it cannot start.

        From a version: every later change.  From "" or "0": first an ADDED event for every object
        there is, then every later change.
        """
        hub = self.tables[kind.struct].hub
        try:
            self.settle()
            initial, replay = self._beginning(kind, namespace, version, watcher)
        except ApiError as error:
            watcher.active = False
            watcher.on_end(error)
            return
        hub.add(watcher, initial, replay)

    def _beginning(
        self, kind: Kind, namespace: str, version: str, watcher: Watcher
    ) -> tuple[list[Seen], list[Change]]:
        table = self.tables[kind.struct]
        if version in ("", "0"):
            watcher.version = self.version
            things = table.select(namespace, watcher.predicate)
            return [_added(thing, table) for thing in things], []
        if not version.isdecimal():
            raise ApiError(
                f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": '
                "invalid syntax",
                code=400,
                reason="BadRequest",
            )
        number = int(version)
        if number > self.version:
            raise Timeout(f"Too large resource version: {number}, current: {self.version}")
        watcher.version = number
        return [], table.hub.since(number)


def _tell(done: Done, answer: Answer) -> None:
    """Answer one of many: if it fails, the others still hear."""
    try:
        done(answer)
    except Exception:
        log.exception("the receiver of an answer failed")


def _added(thing: KubeObject, table: Table) -> Seen:
    meta = thing.metadata
    event = WatchEvent("ADDED", thing, meta.resource_version)
    return event, table.rest(meta.namespace, meta.name)
