"""Nominations: which nodes have pods on the way, for whom room is being made.

Mirrors kube-scheduler's `backend/queue/nominator.go`.  Filters count nominated pods as if they
ran on their node, so the framework asks at every cycle; `version` and `nodes_changed_since` let
it look only at the nodes of which something changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from stowplan.framework.plugin import Nominate
from stowplan.objects.base import ObjectMeta
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo

LivePod = Callable[[str], PodInfo | None]
"""`namespace/name` -> the pod as the cluster has it now, None when it is gone."""

CHANGES_MAX = 4096
"""Changed nodes remembered for `nodes_changed_since`; a reader further behind starts anew."""


class _Queued(Protocol):
    @property
    def info(self) -> PodInfo: ...


class Nominator:
    __slots__ = (
        "_changes",
        "_find",
        "_forgotten_version",
        "_live_pod",
        "node_of",
        "on_node",
        "version",
    )

    def __init__(
        self, find: Callable[[str], _Queued | None], live_pod: LivePod | None = None
    ) -> None:
        self._find = find
        """`namespace/name` -> the pod in the queue, None when it is not there."""
        self._live_pod = live_pod
        self.on_node: dict[str, dict[str, str]] = {}
        """Node -> uid -> `namespace/name`.  To be read only."""
        self.node_of: dict[str, str] = {}
        """Uid -> the node the pod is nominated to.  To be read only."""
        self.version = 0
        """Grows with every change of what `pods_for_node` answers."""
        self._changes: OrderedDict[str, int] = OrderedDict()
        """Node -> version of its last change, the latest last."""
        self._forgotten_version = 0

    def take_over(self, other: Nominator) -> None:
        self.on_node.update((node, pods.copy()) for node, pods in other.on_node.items())
        self.node_of.update(other.node_of)
        self.version, self._forgotten_version = other.version, other._forgotten_version
        self._changes.update(other._changes)

    def __bool__(self) -> bool:
        return bool(self.node_of)

    def __len__(self) -> int:
        return len(self.node_of)

    def nodes(self) -> list[str]:
        """The nodes that have nominated pods."""
        return list(self.on_node)

    def pods_for_node(self, node: str, but: str = "") -> list[PodInfo]:
        """The pods nominated to the node; `but` is the uid of one to leave out."""
        nominated = self.on_node.get(node)
        if not nominated:
            return []
        return [self._resolve(uid, key) for uid, key in nominated.items() if uid != but]

    def nodes_changed_since(self, version: int) -> list[str] | None:
        """Nodes of which something changed after `version`; None when that was too long ago."""
        if version < self._forgotten_version:
            return None
        changed = []
        for node, changed_version in reversed(self._changes.items()):
            if changed_version <= version:
                break
            changed.append(node)
        return changed

    def add(self, pod: PodInfo, nominate: Nominate | None = None) -> None:
        """Nominate as told, or without being told as the pod's status says.

        A node of "" takes the nomination back.
        """
        if pod.uid in self.node_of:
            self.delete(pod.uid)
        node = pod.pod.status.nominated_node_name if nominate is None else nominate.node
        if not node or not self._is_waiting(pod.key):
            return
        self.node_of[pod.uid] = node
        self.on_node.setdefault(node, {})[pod.uid] = pod.key
        self._note(node)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow the new object, but keep a node that only the scheduler knows of so far."""
        kept = self.node_of.get(old.uid)
        said = new.pod.status.nominated_node_name
        if kept and kept == said and old.kind is new.kind and len(self.on_node[kept]) == 1:
            # As usual: the cluster repeats what it was told.
            return
        unsaid = not (old.pod.status.nominated_node_name or new.pod.status.nominated_node_name)
        self.delete(old.uid)
        self.add(new, Nominate(kept) if kept and unsaid else None)

    def delete(self, uid: str) -> None:
        node = self.node_of.pop(uid, None)
        if node is None:
            return
        nominated = self.on_node[node]
        del nominated[uid]
        if not nominated:
            del self.on_node[node]
        self._note(node)

    def touch(self, uid: str) -> None:
        """The pod left the queue or came back: what is known of it changed, if it is nominated."""
        node = self.node_of.get(uid)
        if node is not None:
            self._note(node)

    def _is_waiting(self, key: str) -> bool:
        """Whether the pod still exists and has no node; taken for granted with nobody to ask."""
        if self._live_pod is None:
            return True
        pod = self._live_pod(key)
        return pod is not None and not pod.node_name

    def _resolve(self, uid: str, key: str) -> PodInfo:
        queued = self._find(key)
        if queued is not None:
            return queued.info
        # In flight: upstream knows only the name here, so it counts as a pod without requests.
        namespace, _, name = key.rpartition("/")
        return PodInfo(Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=uid)))

    def _note(self, node: str) -> None:
        self.version += 1
        self._changes[node] = self.version
        self._changes.move_to_end(node)
        if len(self._changes) > CHANGES_MAX:
            _, self._forgotten_version = self._changes.popitem(last=False)
