"""What all controllers see of the cluster: one informer per kind, and who belongs to whom.

Objects are indexed by the uid of their controller, pods also by their node, and those without a
controller by namespace, so that no controller ever walks the whole cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from stowplan.apiserver.controllers.work_queue import WorkQueue
from stowplan.clock import Clock
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import Cluster
from stowplan.cluster.reflector import CallLater
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import Kind
from stowplan.objects.pod import Pod

Listener = Callable[[KubeObject | None, KubeObject | None], None]
"""Gets the object before and after; None where it was not, or is no more."""

SYNC_CHECK_S = 0.05

_Index = dict[str, dict[str, KubeObject]]

Memory = defaultdict[str, dict[str, Any]]
"""What controllers know that no object says, under its name: since when, how often.

A cluster that goes on from another one goes on from these too."""


class Shared:
    def __init__(
        self,
        cluster: Cluster,
        kinds: Iterable[Kind],
        *,
        clock: Clock,
        call_later: CallLater,
        random: Random,
        memory: Memory | None = None,
        is_copy: bool = False,
    ) -> None:
        self.cluster = cluster
        self.memory: Memory = defaultdict(dict) if memory is None else memory
        self.is_copy = is_copy
        """The cluster shows another one at one moment, and perhaps only a part of it: what is
        there at the start is left as it is, until something about it changes."""
        self.clock = clock
        self.call_later = call_later
        self.on_synced: list[Callable[[], None]] = []
        self._queues: list[WorkQueue] = []
        self._listeners: dict[Kind, list[Listener]] = {kind: [] for kind in kinds}
        self._owned: dict[Kind, _Index] = {kind: {} for kind in self._listeners}
        self._orphans: dict[Kind, _Index] = {kind: {} for kind in self._listeners}
        self._pods_by_node: _Index = {}
        self._versions: dict[Kind, int] = dict.fromkeys(self._listeners, 0)
        self._informers = {
            kind: Informer(
                cluster,
                kind,
                partial(self._changed, kind),
                clock=clock,
                call_later=call_later,
                random=random,
            )
            for kind in self._listeners
        }
        self._was_synced = False

    def queue(self, name: str, sync: Callable[[str], None]) -> WorkQueue:
        """A queue whose work begins when everything is known."""
        queue = WorkQueue(
            name, sync, clock=self.clock, call_later=self.call_later, ready=self.synced
        )
        self.on_synced.append(queue.wake)
        self._queues.append(queue)
        return queue

    def start(self) -> None:
        for informer in self._informers.values():
            informer.start()
        if self.is_copy:
            for queue in self._queues:
                queue.clear()
        self._check_synced()

    def resume(self, other: Shared, resource_version: str) -> None:
        """Go on where another one is: on a fork of its cluster, made at this version."""
        for kind, informer in self._informers.items():
            informer.resume(other._informers[kind], resource_version)
        for ours, theirs in (
            (self._owned, other._owned),
            (self._orphans, other._orphans),
        ):
            ours.update((kind, _copied(index)) for kind, index in theirs.items())
        self._pods_by_node = _copied(other._pods_by_node)
        self._versions = other._versions.copy()
        self._was_synced = other._was_synced

    def stop(self) -> None:
        for informer in self._informers.values():
            informer.stop()
        for index in (*self._owned.values(), *self._orphans.values(), self._pods_by_node):
            index.clear()

    def listen(self, kind: Kind, listener: Listener) -> None:
        self._listeners[kind].append(listener)

    def synced(self) -> bool:
        return self._was_synced

    def get(self, kind: Kind, key: str) -> KubeObject | None:
        return self._informers[kind].get(key)

    def every(self, kind: Kind) -> list[KubeObject]:
        return self._informers[kind].list()

    def owned(self, kind: Kind, uid: str) -> list[KubeObject]:
        """What an object controls."""
        return list(self._owned[kind].get(uid, {}).values())

    def orphans(self, kind: Kind, namespace: str) -> list[KubeObject]:
        """What nobody controls."""
        return list(self._orphans[kind].get(namespace, {}).values())

    def in_namespace(self, kind: Kind, namespace: str) -> list[KubeObject]:
        return self._informers[kind].in_namespace(namespace)

    def pods_on(self, node: str) -> list[Pod]:
        found = self._pods_by_node.get(node, {}).values()
        return [pod for pod in found if isinstance(pod, Pod)]

    def has_seen(self, kind: Kind, version: int) -> bool:
        """Whether a write at this version has come back through the watch."""
        return self._versions[kind] >= version

    def _changed(self, kind: Kind, changes: Sequence[Change]) -> None:
        for change in changes:
            match change:
                case Added(new):
                    self._take(kind, new, None, new)
                case Updated(old, new):
                    self._take(kind, new, old, new)
                case Deleted(old):
                    self._take(kind, old, old, None)

    def _take(
        self, kind: Kind, latest: KubeObject, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        version = latest.metadata.resource_version
        if version.isdecimal():
            self._versions[kind] = max(self._versions[kind], int(version))
        self._move(kind, old, new)
        for listener in self._listeners[kind]:
            listener(old, new)

    def _move(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if old is not None:
            for index, key in self._places(kind, old):
                held = index.get(key)
                if held is not None:
                    held.pop(old.key, None)
                    if not held:
                        del index[key]
        if new is not None:
            for index, key in self._places(kind, new):
                index.setdefault(key, {})[new.key] = new

    def _places(self, kind: Kind, thing: KubeObject) -> list[tuple[_Index, str]]:
        owner = thing.metadata.controller()
        places = [
            (self._orphans[kind], thing.namespace)
            if owner is None
            else (self._owned[kind], owner.uid)
        ]
        if isinstance(thing, Pod) and thing.spec.node_name:
            places.append((self._pods_by_node, thing.spec.node_name))
        return places

    def _check_synced(self) -> None:
        if self._was_synced:
            return
        if all(informer.synced for informer in self._informers.values()):
            self._was_synced = True
            for callback in self.on_synced:
                callback()
        else:
            self.call_later(SYNC_CHECK_S, self._check_synced)


def _copied(index: _Index) -> _Index:
    return {key: held.copy() for key, held in index.items()}
