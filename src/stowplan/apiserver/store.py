"""The embedded cluster: an API server in memory, which answers at once.

`Store` implements the port of `cluster.port`.  Everything is synchronous; the answers are there
before `call` returns, or, inside `batch`, when the batch ends.  Time comes from the clock it is
given, uids and generated names from the version counter: a run repeats exactly.

What a write means is in `writes`; `ledger` keeps the objects, their versions and the watches.
The REST API is served from `read`, `select` and `follow`, which give the rest of each object
beside its struct; `view` puts the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import groupby
from typing import Any

from stowplan.apiserver import answers
from stowplan.apiserver.bootstrap import first_objects
from stowplan.apiserver.identity import Identity
from stowplan.apiserver.ledger import Journal, Ledger
from stowplan.apiserver.selectors import predicate
from stowplan.apiserver.stored_kinds import GATED_KINDS
from stowplan.apiserver.watches import HISTORY_MAX, CommittedWrite, Seen, UntypedFields, Watcher
from stowplan.apiserver.writes import Writer, one_by_one, view
from stowplan.clock import Clock
from stowplan.cluster.port import AllDone, Answer, ListOptions, ListResult, Watch, WatchHandlers
from stowplan.errors import ApiError
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_STRUCT, Kind

__all__ = ["Store", "view"]

Objects = list[KubeObject]
ObjectsWithRests = list[tuple[KubeObject, UntypedFields]]
OnSeen = Callable[[list[Seen]], None]


class Store:
    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        journal: Journal | None = None,
        history_max: int = HISTORY_MAX,
        create_namespaces: bool = False,
        gates: frozenset[str] = frozenset(),
        pods_run_at_once: bool = False,
        writer: Writer | None = None,
    ) -> None:
        """`create_namespaces`: one that is missing is made, instead of refused with a 404.
        `gates`: the feature gates that are on, of those that change what is served.
        `pods_run_at_once`: pods need no kubelet to run and to end.

        `writer` is what a fork begins with, and says all the rest.
        """
        self._writer = writer or _first_writer(
            clock,
            seed,
            journal,
            history_max=history_max,
            create_namespaces=create_namespaces,
            gates=gates,
            pods_run_at_once=pods_run_at_once,
        )
        self._ledger = self._writer.ledger
        self._handlers: dict[type, Callable[[Any], Sequence[Answer]]] = {
            Get: partial(one_by_one, self._get),
            Create: self._writer.create,
            Update: self._writer.update,
            Patch: self._writer.patch,
            Delete: self._writer.delete,
            Bind: self._writer.binder.bind,
        }

    @property
    def resource_version(self) -> str:
        return str(self._ledger.version)

    @property
    def gates(self) -> frozenset[str]:
        """Feature gates that are on."""
        return self._writer.gates

    def serves(self, kind: Kind) -> bool:
        """Whether clients may know of this kind, which is stored."""
        return kind not in GATED_KINDS or GATED_KINDS[kind] in self.gates

    def fork(self, clock: Clock) -> Store:
        """Another store that begins with everything that is here, and goes its own way.

        It has the same objects, resource versions and history: a watch may resume in it from any
        version it could resume from here.  Uids, generated names and versions go on from the same
        numbers, so the same requests lead to the same objects in both; and what is created after
        the fork may have the uid that something else has in the other store.  Events expire when
        they would have; a namespace that was being deleted goes on to be.

        The objects themselves are shared, for they are never changed once they are stored; the
        tables of them are copied, so neither store ever notices the other.  The fork is in
        memory, even if this one has a journal, and takes writes even if that one's disk does not.
        Nobody watches it yet.  Its time is `clock`, which should not be behind this one's.

        Who works on the cluster is not part of the store: controllers and kubelets are clients.
        """
        return Store(clock, writer=self._writer.fork(clock))

    # The port.

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        ledger, first = self._ledger, 0
        with ledger.batch():
            for type_, alike in groupby(requests, type):
                told = self._carry_out(type_, [*alike])
                ledger.answers.append(partial(_tell, done, first, told))
                first += len(told)

    def _carry_out(self, type_: type, run: Sequence[Request]) -> Sequence[Answer]:
        """Requests of one type: an answer to each."""
        refusal = self._ledger.refusal
        if refusal is not None and type_ is not Get:
            return [refusal] * len(run)
        return self._handlers[type_](run)

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        answer: ListResult | ApiError
        try:
            items, version = self._select(kind, options)
            answer = ListResult(items, version)
        except ApiError as error:
            answer = error
        done(answer)

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        """Every change after `resource_version`.

        From "" or "0" it starts with an ADDED event for each object there is, as Kubernetes does.
        A version that is no longer known ends the watch with `Gone`, at once.
        """
        return self._watch(
            kind, options, resource_version, handlers.on_events, handlers.on_end, bookmarks=True
        )

    # For callers in this process.

    def execute(self, request: Request) -> KubeObject | None:
        """The answer as a value, or raised.  Inside a batch it is not durable before the end."""
        (answer,) = self.execute_all([request])
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def execute_all(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """As `execute`, requests of one type: what came of each is a value."""
        if not requests:
            return ()
        with self._ledger.batch():
            self._ledger.note_unanswered()
            return self._carry_out(type(requests[0]), requests)

    def execute_whole(self, request: Request) -> tuple[KubeObject | None, UntypedFields]:
        """As `execute`, with the rest of the object beside it."""
        thing = self.execute(request)
        if thing is None:
            return None, None
        table = self._ledger.tables[type(thing)]
        return thing, table.rest(thing.namespace, thing.name)

    def rehearse(self) -> AbstractContextManager[None]:
        """Check and answer the writes inside, then undo them: a dry run.  Not for deletes."""
        return self._ledger.rehearse()

    def batch(self) -> AbstractContextManager[None]:
        """Commit the writes inside as one; answers and events come when it ends."""
        return self._ledger.batch()

    def answer_later(self, tell: Callable[[ApiError | None], None]) -> None:
        """Have somebody told when the open batch is committed, or why it could not be."""
        self._ledger.answers.append(tell)

    def delete(self, request: Delete, *, propagation: str) -> KubeObject:
        """Delete with a word on the dependants: Background, Foreground or Orphan."""
        with self._writing():
            (answer,) = self._writer.delete([request], propagation)
        if isinstance(answer, ApiError):
            raise answer
        assert answer is not None, "a delete is answered with the object"
        return answer

    def put(self, thing: KubeObject, rest: UntypedFields = None) -> KubeObject:
        """Store an object as it is, unchecked, status and all: to load a saved cluster."""
        with self._writing():
            return self._writer.put(thing, rest)

    def put_all(self, things: Iterable[tuple[KubeObject, UntypedFields]]) -> None:
        """The same for many, at once."""
        with self._writing():
            for thing, rest in things:
                self._writer.put(thing, rest)

    def collect_garbage(self) -> None:
        """Delete what has lost its owners, however that came about."""
        with self._writing():
            self._writer.collect_garbage()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A batch of somebody who has no answer to wait for: what goes wrong is raised."""
        if self._ledger.refusal is not None:
            raise self._ledger.refusal
        with self._ledger.batch():
            self._ledger.note_unanswered()
            yield

    def send_bookmarks(self) -> None:
        """Tell all watchers how far they are, so that a quiet watch can resume from here."""
        self._ledger.settle()
        for table in self._ledger.tables.values():
            table.hub.bookmark(self._ledger.version)

    def end_watches(self) -> None:
        """Close every watch from this side, as a server that stops does."""
        for table in self._ledger.tables.values():
            for watcher in [*table.hub.watchers]:
                table.hub.end(watcher, None)

    def close(self) -> None:
        """End every watch and let go of all objects; nothing can be asked any more."""
        self.end_watches()
        self._ledger.clear()

    def compact(self) -> None:
        """Forget the history: a watch from any version but the latest is Gone."""
        self._ledger.forget_all()

    def forget_old(self) -> None:
        """Forget the history up to the last call: who calls it regularly bounds it in time.

        Kinds that change rarely would take hours to fill the room there is for each.
        """
        self._ledger.forget_old()

    # For the REST API.

    def read(self, kind: Kind, namespace: str, name: str) -> tuple[KubeObject, UntypedFields]:
        self._ledger.settle()
        table = self._ledger.tables[kind.struct]
        thing = table.find(namespace if kind.namespaced else "", name)
        if thing is None:
            raise answers.not_found(kind, name)
        return thing, table.rest(thing.namespace, thing.name)

    def things(self, kind: Kind, namespace: str = "") -> Objects:
        """The objects of a kind, in order of their keys."""
        return self._select(kind, ListOptions(namespace=namespace))[0]

    def select(self, kind: Kind, options: ListOptions) -> tuple[ObjectsWithRests, str]:
        """The objects with their rests, and the version they are at."""
        items, version = self._select(kind, options)
        table = self._ledger.tables[kind.struct]
        if not table.rests:
            return [(thing, None) for thing in items], version
        return [(thing, table.rest(thing.namespace, thing.name)) for thing in items], version

    def follow(
        self,
        kind: Kind,
        options: ListOptions,
        resource_version: str,
        on_seen: OnSeen,
        on_end: Callable[[ApiError | None], None],
        *,
        bookmarks: bool = True,
    ) -> Watch:
        """A watch whose events come with the rest of their objects."""

        def on_changes(changes: Sequence[CommittedWrite]) -> None:
            on_seen([change.seen for change in changes])

        return self._watch(kind, options, resource_version, on_changes, on_end, bookmarks=bookmarks)

    def _watch(
        self,
        kind: Kind,
        options: ListOptions,
        resource_version: str,
        on_changes: Callable[[Sequence[CommittedWrite]], None],
        on_end: Callable[[ApiError | None], None],
        *,
        bookmarks: bool,
    ) -> Watch:
        try:
            selects = predicate(kind, options)
        except ApiError as error:
            on_end(error)
            return Watch()
        watcher = Watcher(selects, on_changes, on_end, bookmarks=bookmarks, version=0)
        namespace = options.namespace if kind.namespaced else ""
        self._ledger.watch(kind, namespace, resource_version, watcher)
        hub = self._ledger.tables[kind.struct].hub
        return Watch(stop=lambda: hub.stop(watcher))

    def _get(self, request: Get) -> KubeObject:
        return self.read(request.kind, request.namespace, request.name)[0]

    def _select(self, kind: Kind, options: ListOptions) -> tuple[Objects, str]:
        selects = predicate(kind, options)
        self._ledger.settle()
        namespace = options.namespace if kind.namespaced else ""
        items = self._ledger.tables[kind.struct].select(namespace, selects)
        return items, str(self._ledger.version)


def _tell(done: AllDone, first: int, answers: Sequence[Answer], error: ApiError | None) -> None:
    """Give these answers, or the reason why nothing came of any of them."""
    done(first, answers if error is None else [error] * len(answers))


def _first_writer(
    clock: Clock,
    seed: int,
    journal: Journal | None,
    *,
    history_max: int,
    create_namespaces: bool,
    gates: frozenset[str],
    pods_run_at_once: bool,
) -> Writer:
    """For a new cluster, or for what a journal remembers of an old one."""
    version = 0 if journal is None else journal.version
    ledger = Ledger(journal=journal, version=version, history_max=history_max)
    identity = Identity(clock, seed if journal is None else journal.seed)
    writer = Writer(ledger, identity, create_namespaces=create_namespaces, gates=gates)
    if pods_run_at_once:
        writer.binder.run_pods_at_once()
    if journal is not None:
        for kind, thing, rest in journal.load():
            ledger.restore(kind, thing, rest)
    if ledger.version == 0:
        with ledger.batch():
            ledger.note_unanswered()
            writer.create(
                [Create(KIND_BY_STRUCT[type(thing)], "", thing) for thing in first_objects()]
            )
    else:
        with ledger.batch():
            ledger.note_unanswered()
            writer.resume()
    return writer
