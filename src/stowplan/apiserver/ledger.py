"""The objects themselves, one version number for all of them, and the order of their changes.

A write takes the next version, goes into the journal if there is one, and only then becomes
known: to the history, to the watchers, and to whoever asked for it.  Every write is part of a
`batch`, which is one journal transaction; answers and events come after it, the events kind by
kind.  A journal that cannot be written undoes what it did not keep, and the ledger refuses every
later write.

Knows nothing of what the objects mean: that is `store`, its only user.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from stowplan.apiserver.answers import internal
from stowplan.apiserver.owners import OwnerIndex, Owners, Ref
from stowplan.apiserver.selectors import Predicate
from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.apiserver.watches import HISTORY_MAX, CommittedWrite, UntypedFields, Watcher, WatchHub
from stowplan.errors import ApiError, Timeout, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind
from stowplan.printable import logger

log = logger(__name__)

NOBODY: Mapping[str, KubeObject] = {}
SAME_REST: UntypedFields = object()


class Journal(Protocol):
    """Where writes survive the process; `journal` has the one in SQLite."""

    @property
    def version(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def load(self) -> Iterable[tuple[Kind, KubeObject, UntypedFields]]: ...

    def commit(self, writes: Sequence[tuple[Kind, CommittedWrite]], version: int) -> None:
        """Keep all of them or none; raises `Unavailable` when the disk does not take them."""
        ...

    def close(self) -> None: ...


class Table:
    """All objects of one kind: namespace to name to object, and the rests beside them."""

    __slots__ = ("hub", "kind", "objects", "rests")

    def __init__(self, kind: Kind, *, version: int, history_max: int) -> None:
        self.kind = kind
        self.objects: defaultdict[str, dict[str, KubeObject]] = defaultdict(dict)
        if not kind.namespaced:
            self.objects[""] = {}  # For good: hot paths look straight into it.
        self.rests: dict[tuple[str, str], UntypedFields] = {}
        self.hub = WatchHub(kind, version=version, history_max=history_max)

    def fork(self) -> Table:
        other = Table.__new__(Table)
        other.kind, other.hub, other.rests = self.kind, self.hub.fork(), self.rests.copy()
        other.objects = defaultdict(dict)
        for namespace, names in self.objects.items():
            other.objects[namespace] = names.copy()
        return other

    def clear(self) -> None:
        self.objects.clear()
        self.rests.clear()

    def find(self, namespace: str, name: str) -> KubeObject | None:
        return self.objects.get(namespace, NOBODY).get(name)

    def rest(self, namespace: str, name: str) -> UntypedFields:
        return self.rests.get((namespace, name)) if self.rests else None

    def select(self, namespace: str, predicate: Predicate | None) -> list[KubeObject]:
        """Ordered by namespace and name, as kube-apiserver lists them."""
        namespaces = [namespace] if namespace else sorted(self.objects)
        found = []
        for each in namespaces:
            names = self.objects.get(each, NOBODY)
            things = [names[name] for name in sorted(names)]
            found += (
                things if predicate is None else [thing for thing in things if predicate(thing)]
            )
        return found

    def every(self) -> Iterator[KubeObject]:
        for names in self.objects.values():
            yield from names.values()

    def set(self, namespace: str, name: str, thing: KubeObject, rest: UntypedFields) -> None:
        self.objects[namespace][name] = thing
        if rest is not None:
            self.rests[namespace, name] = rest
        elif self.rests:
            self.rests.pop((namespace, name), None)

    def remove(self, namespace: str, name: str) -> UntypedFields:
        """Take an object out; what was kept beside it."""
        names = self.objects[namespace]
        names.pop(name, None)
        if not names and namespace:
            del self.objects[namespace]
        return self.rests.pop((namespace, name), None)


_Pending = defaultdict[Table, list[CommittedWrite]]
"""Changes of one kind: they reach their watchers together, in their order."""


class _Batch(AbstractContextManager[None]):
    """Entered and left for every call: less to do than in a generator's context."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._ledger.depth += 1

    def __exit__(self, *error: object) -> None:
        self._ledger.end_batch()


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
        self._old = version
        """How far it was when the history was last looked through."""
        self._journal = journal
        self.refusal: Unavailable | None = None
        """Why no write is taken any more; `store` asks before it lets anybody write."""
        self.depth = 0
        """How many batches are open, one inside the other."""
        self._batch = _Batch(self)
        self._rehearsing = False
        self._pending: _Pending = defaultdict(list)
        self.answers: list[Callable[[ApiError | None], None]] = []
        """Whom to tell when the open batch is committed, or why it could not be."""
        self._unanswered = False
        """Something in this batch was written by a caller that has no answer to wait for."""
        self._lost: Unavailable | None = None
        """A reader had the open batch committed half-way, and that failed."""
        self._outbox: deque[tuple[WatchHub, list[CommittedWrite]]] = deque()
        self._delivering = False

    def fork(self) -> Ledger:
        """Another one with the same objects, versions and history, in memory only."""
        assert not self._rehearsing, "what is only tried out is in no other ledger"
        self.settle()
        other = Ledger(version=self.version)
        other.owners = self.owners.fork()
        other.tables = {struct: table.fork() for struct, table in self.tables.items()}
        other._old = self._old
        return other

    def clear(self) -> None:
        """Let go of all objects: for a store that is closed."""
        self.owners = OwnerIndex()
        for table in self.tables.values():
            table.clear()

    def next_version(self) -> str:
        """The version of the next write."""
        return f"{self.version + 1}"

    def restore(self, kind: Kind, thing: KubeObject, rest: UntypedFields) -> None:
        """Put back what a journal remembers, unseen by anybody."""
        meta = thing.metadata
        self.tables[kind.struct].set(meta.namespace, meta.name, thing, rest)
        if meta.owner_references:
            ref = Ref(kind, meta.namespace, meta.name)
            self.owners.move(ref, None, meta.owner_references)

    # Writes; the objects carry `next_version`, all of them are part of a batch.

    def add(self, table: Table, new: KubeObject, rest: UntypedFields = None) -> None:
        meta = new.metadata
        self.version = version = self.version + 1
        table.objects[meta.namespace][meta.name] = new
        if rest is not None:
            table.rests[meta.namespace, meta.name] = rest
        if meta.owner_references:
            ref = Ref(table.kind, meta.namespace, meta.name)
            self.owners.move(ref, None, meta.owner_references)
        self._pending[table].append(
            CommittedWrite("ADDED", new, meta.resource_version, version, rest),
        )

    def modify(
        self, table: Table, old: KubeObject, new: KubeObject, rest: UntypedFields = SAME_REST
    ) -> None:
        meta, old_rest = new.metadata, None
        self.version = version = self.version + 1
        if rest is SAME_REST and not table.rests:
            # Nearly all that is modified comes by here.
            rest = None
            table.objects[meta.namespace][meta.name] = new
        else:
            old_rest = table.rest(meta.namespace, meta.name)
            rest = old_rest if rest is SAME_REST else rest
            table.set(meta.namespace, meta.name, new, rest)
        if old.metadata.owner_references is not meta.owner_references:
            ref = Ref(table.kind, meta.namespace, meta.name)
            self.owners.move(ref, old.metadata.owner_references, meta.owner_references)
        self._pending[table].append(
            CommittedWrite("MODIFIED", new, meta.resource_version, version, rest, old, old_rest)
        )

    def remove(
        self, table: Table, old: KubeObject, final: KubeObject, rest: UntypedFields = SAME_REST
    ) -> None:
        """Take an object out; `final` and `rest` are its last state."""
        meta = final.metadata
        self.version = version = self.version + 1
        old_rest = table.remove(meta.namespace, meta.name)
        if rest is SAME_REST:
            rest = old_rest
        if before := old.metadata.owner_references:
            self.owners.move(Ref(table.kind, meta.namespace, meta.name), before, None)
        self._pending[table].append(
            CommittedWrite("DELETED", final, meta.resource_version, version, rest, old, old_rest)
        )

    def batch(self) -> AbstractContextManager[None]:
        """Commit the writes inside together; answers and events follow at the end."""
        return self._batch

    @contextmanager
    def rehearse(self) -> Iterator[None]:
        """Undo the writes inside when it ends, before anybody hears of them."""
        self.settle()
        unanswered = self._unanswered
        self._rehearsing = True
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self._rehearsing = False
            self._unanswered = unanswered
            pending, self._pending = self._pending, defaultdict(list)
            self._undo(pending)

    def end_batch(self) -> None:
        self.depth -= 1
        if self.depth:
            return
        unanswered, self._unanswered = self._unanswered, False
        lost, self._lost = self._lost, None
        try:
            self._flush()
            if lost is not None:
                raise lost
        except Unavailable:
            # Those who wait for an answer have it; anybody else must hear of it here.
            if unanswered:
                raise

    def note_unanswered(self) -> None:
        """Whoever writes now hears of a failure from the batch itself."""
        self._unanswered = True

    def settle(self) -> None:
        """Commit what an open batch has so far: a reader must not see what could be undone."""
        if (self._pending or self.answers) and not self._rehearsing:
            try:
                self._flush()
            except Unavailable as error:
                self._lost = error if self.depth else None
                raise

    def _flush(self) -> None:
        pending, self._pending = self._pending, defaultdict(list)
        answers, self.answers = self.answers, []
        try:
            if pending and self._journal is not None:
                writes = [
                    (table.kind, change) for table, group in pending.items() for change in group
                ]
                self._journal.commit(writes, self.version)
        except Unavailable as error:
            self._undo(pending)
            if self.refusal is None:
                log.error("%s: %s", error.where, error.message)
            self.refusal = error
            _tell(answers, error)
            raise
        for table, changes in pending.items():
            table.hub.record_all(changes)
        for table, changes in pending.items():
            self._publish(table.hub, changes)
        _tell(answers, None)

    def _undo(self, pending: _Pending) -> None:
        for table, changes in pending.items():
            for change in reversed(changes):
                self._undo_one(table, change)
            self.version -= len(changes)

    def _undo_one(self, table: Table, change: CommittedWrite) -> None:
        meta, previous = change.object.metadata, change.previous
        before: Owners = None if change.type == "DELETED" else meta.owner_references
        after: Owners = None
        if previous is None:
            table.remove(meta.namespace, meta.name)
        else:
            after = previous.metadata.owner_references
            table.set(meta.namespace, meta.name, previous, change.previous_rest)
        if before is not after:
            self.owners.move(Ref(table.kind, meta.namespace, meta.name), before, after)

    def _publish(self, hub: WatchHub, changes: list[CommittedWrite]) -> None:
        """Deliver; what a watcher writes meanwhile waits its turn, so all see one order."""
        if self._delivering:
            self._outbox.append((hub, changes))
            return
        self._delivering = True
        try:
            hub.deliver(changes, hub.watchers)
            while self._outbox:
                waiting, more = self._outbox.popleft()
                waiting.deliver(more, waiting.watchers)
        finally:
            self._delivering = False

    def forget_old(self) -> None:
        """Forget the history up to the last call."""
        self.settle()
        self._forget(self._old)
        self._old = self.version

    def forget_all(self) -> None:
        """Forget the history."""
        self.settle()
        self._forget(self.version)

    def _forget(self, until: int) -> None:
        for table in self.tables.values():
            table.hub.forget(until)

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
    ) -> tuple[list[CommittedWrite], list[CommittedWrite]]:
        table = self.tables[kind.struct]
        if version in ("", "0"):
            watcher.version = self.version
            things = table.select(namespace, watcher.predicate)
            return [_added(thing, table) for thing in things], []
        if not version.isdecimal():
            raise internal(
                f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing '
                f'"{version}": invalid syntax'
            )
        number = int(version)
        if number > self.version:
            raise Timeout(f"Timeout: Too large resource version: {number}, current: {self.version}")
        watcher.version = number
        return [], table.hub.since(number)


def _tell(answers: list[Callable[[ApiError | None], None]], error: ApiError | None) -> None:
    """Answer everybody: if one fails, the others still hear."""
    for tell in answers:
        try:
            tell(error)
        except Exception:
            log.exception("the receiver of an answer failed")


def _added(thing: KubeObject, table: Table) -> CommittedWrite:
    meta = thing.metadata
    rest = table.rest(meta.namespace, meta.name)
    return CommittedWrite("ADDED", thing, meta.resource_version, 0, rest)
