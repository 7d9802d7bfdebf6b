"""All objects of one kind as last seen, and a callback for each change: add, update, delete.

Nothing is missed and nothing is told twice, whatever happens to the watch: a new list is compared
with what is known (an object that was deleted and made again in between, same name but another
uid, is a delete and an add), and events at or below the version already reached are dropped.

The callbacks run inside the answer of the cluster: they append to an inbox and return.
`runtime` makes one informer per kind and starts scheduling when all are `synced`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from stowplan.clock import Clock
from stowplan.cluster.port import Cluster, ListOptions, WatchEvent
from stowplan.cluster.reflector import CallLater, Reflector
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

Objects = list[KubeObject]


def _ignore(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class InformerHandlers:
    on_add: Callable[[KubeObject], None] = _ignore
    on_update: Callable[[KubeObject, KubeObject], None] = _ignore
    """The object before and after."""
    on_delete: Callable[[KubeObject, bool], None] = _ignore
    """The last state, and whether it is the final one; when the deletion itself was missed it is
    only the last that was seen."""
    on_synced: Callable[[], None] = _ignore
    """Once, when the first list is in; it may have been empty."""


class Informer:
    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        handlers: InformerHandlers,
        *,
        options: ListOptions | None = None,
        clock: Clock,
        call_later: CallLater,
        random: Random,
    ) -> None:
        self.kind = kind
        self.synced = False
        """The first list is in, and its callbacks have run."""
        self._handlers = handlers
        self._objects: defaultdict[str, dict[str, KubeObject]] = defaultdict(dict)
        self._stopped = False
        self._version = 0
        """The highest version seen; versions of one kind come in order."""
        self._reflector = Reflector(
            cluster,
            kind,
            self,
            options=options,
            clock=clock,
            call_later=call_later,
            random=random,
        )

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._stopped = True
        self._reflector.stop()

    def get(self, key: str) -> KubeObject | None:
        """The object of `namespace/name`, or of `name` in a kind without namespaces."""
        namespace, _, name = key.rpartition("/")
        return self._objects.get(namespace, {}).get(name)

    def list(self) -> Objects:
        return [*self._all()]

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def _all(self) -> Iterator[KubeObject]:
        for names in self._objects.values():
            yield from names.values()

    def replace(self, items: Objects, resource_version: str) -> None:
        """Take `items` as all there is; called by the reflector."""
        self._version = _number(resource_version)
        listed = {(thing.metadata.namespace, thing.metadata.name) for thing in items}
        for known in [*self._all()]:
            meta = known.metadata
            if (meta.namespace, meta.name) not in listed:
                self._remove(known)
                self._handlers.on_delete(known, False)
        for thing in items:
            self._set(thing)
        if not self.synced:
            self.synced = True
            self._handlers.on_synced()

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Take these changes; called by the reflector."""
        for event in events:
            if self._stopped:
                return  # By a callback.
            text = event.resource_version
            version = int(text) if text.isdecimal() else 0
            if version <= self._version and version > 0:
                continue
            # Before the callbacks: if one fails, the event is not told again.
            self._version = version
            type_ = event.type
            if type_ == "ADDED" or type_ == "MODIFIED":
                self._set(event.object)
            elif type_ == "DELETED":
                self._delete(event.object)

    def _set(self, thing: KubeObject) -> None:
        meta = thing.metadata
        name, names = meta.name, self._objects[meta.namespace]
        known = names.get(name)
        names[name] = thing
        if known is None:
            self._handlers.on_add(thing)
            return
        before = known.metadata
        if before.uid != meta.uid:
            self._handlers.on_delete(known, False)
            self._handlers.on_add(thing)
        elif before.resource_version != meta.resource_version:
            self._handlers.on_update(known, thing)

    def _delete(self, thing: KubeObject) -> None:
        meta = thing.metadata
        known = self._objects.get(meta.namespace, {}).get(meta.name)
        if known is None:
            return
        self._remove(known)
        if known.metadata.uid == meta.uid:
            self._handlers.on_delete(thing, True)
        else:
            self._handlers.on_delete(known, False)

    def _remove(self, thing: KubeObject) -> None:
        meta = thing.metadata
        names = self._objects[meta.namespace]
        del names[meta.name]
        if not names:
            del self._objects[meta.namespace]


def _number(version: str) -> int:
    """The version as a number; 0 for a server whose versions are not numbers."""
    return int(version) if version.isdecimal() else 0
