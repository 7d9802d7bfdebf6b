"""All objects of one kind as last seen, and what has changed: added, updated, deleted.

Nothing is missed and nothing is told twice, whatever happens to the watch: a new list is compared
with what is known (an object that was deleted and made again in between, same name but another
uid, is a delete and an add), and events at or below the version already reached are dropped.

Changes that come together are told together.  The callback runs inside the answer of the cluster:
it puts them into an inbox and returns.  `runtime` makes one informer per kind and starts
scheduling when all are `synced`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random

from stowplan.clock import Clock
from stowplan.cluster.port import Cluster, ListOptions, WatchEvent
from stowplan.cluster.reflector import CallLater, Reflector
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import Kind

Objects = list[KubeObject]
Changes = list[Change]


_SHOWN = frozenset({"ADDED", "MODIFIED"})


def _ignore() -> None:
    return None


class Informer:
    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        on_changes: Callable[[Changes], None],
        *,
        on_synced: Callable[[], None] = _ignore,
        options: ListOptions | None = None,
        clock: Clock,
        call_later: CallLater,
        random: Random,
    ) -> None:
        """`on_synced` runs once, when the first list is in; it may have been empty."""
        self.kind = kind
        self.synced = False
        """The first list is in, and its changes have been told."""
        self._on_changes = on_changes
        self._on_synced = on_synced
        self._objects: defaultdict[str, dict[str, KubeObject]] = defaultdict(dict)
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

    def resume(self, other: Informer, resource_version: str) -> None:
        """Go on where another one is: on a fork of its cluster, made at this version."""
        for namespace, names in other._objects.items():
            self._objects[namespace] = names.copy()
        self._version, self.synced = other._version, other.synced
        self._reflector.resume(resource_version)

    def stop(self) -> None:
        """Follow nothing any more, and let go of everything."""
        self._reflector.stop()
        self._objects.clear()

    def get(self, key: str) -> KubeObject | None:
        """The object of `namespace/name`, or of `name` in a kind without namespaces."""
        namespace, _, name = key.rpartition("/")
        return self._objects.get(namespace, {}).get(name)

    def list(self) -> Objects:
        return [*self._all()]

    def in_namespace(self, namespace: str) -> Objects:
        return [*self._objects.get(namespace, {}).values()]

    @property
    def problem(self) -> str:
        """Why nothing is heard of the cluster now; empty while all is well."""
        return self._reflector.problem

    @property
    def version(self) -> int:
        """The highest that was seen; 0 for a server whose versions are not numbers."""
        return self._version

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def _all(self) -> Iterator[KubeObject]:
        for names in self._objects.values():
            yield from names.values()

    def replace(self, items: Objects, resource_version: str) -> None:
        """Take `items` as all there is; called by the reflector."""
        self._version = _number(resource_version)
        listed = {(thing.metadata.namespace, thing.metadata.name) for thing in items}
        changes: Changes = []
        for known in [*self._all()]:
            meta = known.metadata
            if (meta.namespace, meta.name) not in listed:
                self._remove(known)
                changes.append(Deleted(known))
        self._take([WatchEvent("ADDED", thing, resource_version) for thing in items], changes)
        if changes:
            self._on_changes(changes)
        if not self.synced:
            self.synced = True
            self._on_synced()

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Take these changes; called by the reflector."""
        reached = self._version
        if _number(events[0].resource_version) <= reached:
            events = [event for event in events if _is_news(event, reached)]
            if not events:
                return
        changes: Changes = []
        self._take(events, changes)
        # Before they are told: if that fails, they are not told again.
        self._version = _number(events[-1].resource_version)
        if changes:
            self._on_changes(changes)

    def _take(self, events: Sequence[WatchEvent], changes: Changes) -> None:
        """Note what the events say, and add to `changes` what that changes."""
        objects = self._objects
        for event in events:
            type_, thing = event.type, event.object
            if type_ in _SHOWN:
                meta = thing.metadata
                name, names = meta.name, objects[meta.namespace]
                known = names.get(name)
                names[name] = thing
                if known is None:
                    changes.append(Added(thing))
                    continue
                before = known.metadata
                if before.uid != meta.uid:
                    changes += (Deleted(known), Added(thing))
                elif before.resource_version != meta.resource_version:
                    changes.append(Updated(known, thing))
            elif type_ == "DELETED":
                self._delete(thing, changes)

    def _delete(self, thing: KubeObject, changes: Changes) -> None:
        meta = thing.metadata
        known = self._objects.get(meta.namespace, {}).get(meta.name)
        if known is None:
            return
        self._remove(known)
        # Of another one of its name, only the last state that was seen is known.
        changes.append(Deleted(thing if known.metadata.uid == meta.uid else known))

    def _remove(self, thing: KubeObject) -> None:
        meta = thing.metadata
        names = self._objects[meta.namespace]
        del names[meta.name]
        if not names:
            del self._objects[meta.namespace]


def _number(version: str) -> int:
    """The version as a number; 0 for a server whose versions are not numbers."""
    return int(version) if version.isdecimal() else 0


def _is_news(event: WatchEvent, reached: int) -> bool:
    """Always, for a server whose versions are not numbers."""
    version = _number(event.resource_version)
    return version > reached or version == 0
