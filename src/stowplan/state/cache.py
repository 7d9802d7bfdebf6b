"""What the scheduler believes about the cluster: nodes, the pods on them, and pods on their way.

A pod is Assumed when a decision was made and the cluster has not confirmed it yet, Added once the
watch has shown it on its node.  Wrong transitions are errors and change nothing.  Mirrors
kube-scheduler's `backend/cache/cache.go`; upstream's process exits are `CacheCorrupted` here.

`core` tells it what happened, `state.node_table` reads what changed (`take_changes`): that list
takes the place of upstream's most-recently-changed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from stowplan.errors import InternalError
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod, PodSpec
from stowplan.state.changes import CacheChange
from stowplan.state.images import ImageTable
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_tree import NodeTree
from stowplan.state.pod_info import NO_LABELS, PodInfo, PodKind, kind_of

# An enum's members are slow to reach through the class.
_POD_ADDED, _POD_SWAPPED, _POD_REDEFINED, _POD_REMOVED = (
    CacheChange.POD_ADDED,
    CacheChange.POD_SWAPPED,
    CacheChange.POD_REDEFINED,
    CacheChange.POD_REMOVED,
)


class CacheError(Exception):
    """A transition that the pod's state does not allow.  Nothing was changed."""


class CacheCorrupted(InternalError):
    """The cluster says something that cannot be: a pod changed its node.  Time to start afresh."""


class Cache:
    def __init__(self, *, assumed_ttl_s: float = 0) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        """Ghosts included: nodes that only pods speak of."""
        self.tree = NodeTree()
        self.images = ImageTable()
        self.assumed_ttl_s = assumed_ttl_s
        """0: an assumed pod never expires."""
        self._pods: dict[str, PodInfo] = {}
        self._assumed: dict[str, None] = {}
        self._bound_at_s: dict[str, float] = {}
        """Assumed pods whose binding finished, and when; the earliest first."""
        self.changes: list[tuple[CacheChange, NodeInfo, Any]] = []
        """What the node table has not taken yet; whoever lets it grow holds on to memory."""
        self._generation = 0
        self._holder = object()
        """What a `NodeInfo` names as its holder if nobody else has it."""

    def fork(self) -> Cache:
        """Another one that believes the same, and goes its own way.

        Nodes are shared until one of the two changes them: whoever does, copies the node first.
        The node table must have taken all changes.
        """
        assert not self.changes, "the node table is behind"
        fork = Cache(assumed_ttl_s=self.assumed_ttl_s)
        fork._take_over(self)
        self._holder = object()
        return fork

    def _take_over(self, other: Cache) -> None:
        self.nodes = other.nodes.copy()
        self.tree, self.images = other.tree.fork(), other.images.fork()
        self._pods, self._assumed = other._pods.copy(), other._assumed.copy()
        self._bound_at_s = other._bound_at_s.copy()
        self._generation = other._generation

    # -- pods -------------------------------------------------------------------------------

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    def assumed_uids(self) -> list[str]:
        return list(self._assumed)

    def pod(self, uid: str) -> PodInfo | None:
        return self._pods.get(uid)

    def pod_uids(self) -> list[str]:
        return list(self._pods)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def assume_pod(self, info: PodInfo) -> None:
        """Count the pod on the node it names, ahead of the cluster's word."""
        uid = info.uid or _key(info.pod)
        if uid in self._pods:
            raise CacheError(f"pod {uid}({info.key}) is in the cache, so can't be assumed")
        self._pods[uid] = info
        self._assumed[uid] = None
        self._add_to_node(info)

    def finish_binding(self, uid: str, now_s: float) -> None:
        """From now on an assumed pod may expire, if pods expire at all."""
        if uid in self._assumed:
            self._bound_at_s.pop(uid, None)
            self._bound_at_s[uid] = now_s

    def forget_pod(self, info: PodInfo) -> None:
        """Undo `assume_pod`.  Forgetting a pod nobody knows is fine."""
        uid = _key(info.pod)
        known = self._pods.get(uid)
        if known is None:
            return
        if known.node_name != info.node_name:
            raise CacheError(
                f"pod {uid}({info.key}) was assumed on {info.node_name} "
                f"but assigned to {known.node_name}"
            )
        if uid not in self._assumed:
            raise CacheError(f"pod {uid}({info.key}) wasn't assumed so cannot be forgotten")
        self._drop(uid, known)

    def add_pod(self, pod: Pod) -> PodInfo:
        """The cluster shows the pod on a node: confirm an assumed one, or learn of a new one."""
        uid = _key(pod)
        known = self._pods.get(uid)
        if known is None:
            info = self._pods[uid] = PodInfo(pod)
            self._add_to_node(info)
            return info
        if uid not in self._assumed:
            raise CacheError(f"pod {uid}({known.key}) was already in added state")
        info = PodInfo(pod, same_kind(known, pod))
        self._replace(known, info)
        self._pods[uid] = info
        del self._assumed[uid]
        self._bound_at_s.pop(uid, None)
        return info

    def update_pod(self, pod: Pod) -> PodInfo:
        uid = _key(pod)
        known = self._pods.get(uid)
        if known is None:
            raise CacheError(
                f"pod {_named(pod)} is not added to scheduler cache, so cannot be updated"
            )
        if uid in self._assumed:
            raise CacheError(f"assumed pod {_named(pod)} should not be updated")
        if known.pod.spec.node_name != pod.spec.node_name:
            raise CacheCorrupted(
                f"pod {_named(pod)} moved from node {known.node_name!r} to {pod.spec.node_name!r}"
            )
        info = PodInfo(pod, same_kind(known, pod))
        self._replace(known, info)
        self._pods[uid] = info
        return info

    def remove_pod(self, pod: Pod) -> None:
        uid = _key(pod)
        known = self._pods.get(uid)
        if known is None:
            raise CacheError(
                f"pod {_named(pod)} is not found in scheduler cache, so cannot be removed from it"
            )
        node_name = pod.spec.node_name
        if node_name and node_name != known.pod.spec.node_name:
            raise CacheCorrupted(
                f"pod {uid}({known.key}) was removed from node {node_name!r}, "
                f"but was on {known.node_name!r}"
            )
        self._drop(uid, known)

    def next_expiry_s(self) -> float | None:
        """The moment after which `expire_assumed` would find a pod."""
        if self.assumed_ttl_s <= 0 or not self._bound_at_s:
            return None
        return next(iter(self._bound_at_s.values())) + self.assumed_ttl_s

    def expire_assumed(self, now_s: float) -> list[PodInfo]:
        """Drop assumed pods whose binding finished longer ago than the time allowed."""
        expired = []
        while (expiry_s := self.next_expiry_s()) is not None and now_s > expiry_s:
            uid = next(iter(self._bound_at_s))
            expired.append(self._pods[uid])
            self._drop(uid, self._pods[uid])
        return expired

    def _drop(self, uid: str, known: PodInfo) -> None:
        del self._pods[uid]
        if uid in self._assumed:
            del self._assumed[uid]
            self._bound_at_s.pop(uid, None)
        self._remove_from_node(known)

    def _replace(self, old: PodInfo, new: PodInfo) -> None:
        """The same pod as a newer object."""
        name, kind = new.pod.spec.node_name, new.kind
        stays = name == old.pod.spec.node_name
        if stays and kind is old.kind and (not kind.has_claims or new.claim_keys == old.claim_keys):
            # The sums stand.
            node = self._own(name)
            node.pods[new.uid] = new
            self._changed(_POD_SWAPPED, node, None)
        elif stays and kind.takes_up_as_much_as(old.kind):
            # As when binding gave it the labels of its node's zone.
            node = self._own(name)
            known = node.pods.pop(new.uid)
            node.pods[new.uid] = new
            self._changed(_POD_REDEFINED, node, (known, new))
        else:
            self._remove_from_node(old)
            self._add_to_node(new)

    def _add_to_node(self, info: PodInfo) -> None:
        name = info.pod.spec.node_name
        node = self.nodes.get(name)
        if node is None or node.holder is not self._holder:
            node = self._own(name)
        node.add_pod(info)
        self._changed(_POD_ADDED, node, info)

    def _remove_from_node(self, info: PodInfo) -> None:
        name = info.pod.spec.node_name
        node = self._own(name)
        self._changed(_POD_REMOVED, node, node.remove_pod(info))
        if node.node is None and not node.pods:
            del self.nodes[name]

    # -- trials -----------------------------------------------------------------------------

    def lift(self, pods: Sequence[PodInfo]) -> None:
        """Take pods off their nodes to see what there would be room for; see `LiftedPods`."""
        for pod in pods:
            self._remove_from_node(pod)

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        for pod in pods:
            self._add_to_node(pod)

    def reorder(self, name: str, uids: Sequence[str]) -> None:
        """Have a node list its pods in this order."""
        node = self._own(name)
        node.pods = {uid: node.pods[uid] for uid in uids}

    # -- nodes ------------------------------------------------------------------------------

    def own_all(self) -> None:
        """See that no node is shared with a fork."""
        for name in self.nodes:
            self._own(name)

    def _own(self, name: str) -> NodeInfo:
        """The node of that name, to be changed: made if it is not known, copied if it is shared."""
        info = self.nodes.get(name)
        if info is None or info.holder is not self._holder:
            info = self.nodes[name] = NodeInfo(name) if info is None else info.clone()
            info.holder = self._holder
        return info

    def add_node(self, node: Node) -> NodeInfo:
        """Add a node or take in its update; pods already counted on it stay."""
        name = node.metadata.name
        info = self._own(name)
        known = info.node
        stale = name in self.images.stale
        if known is not None and not stale and _is_heartbeat(known, node):
            info.node = node
            self._changed(CacheChange.NODE_SWAPPED, info, node)
            return info
        if known is None or stale or known.status.images != node.status.images:
            if known is not None:
                self.images.remove(known)
            self.images.add(node)
        self.tree.add(node)
        info.set_node(node)
        self._changed(CacheChange.NODE_SET, info, tuple(info.pods.values()))
        return info

    def remove_node(self, name: str) -> None:
        info = self.nodes.get(name)
        if info is None or info.node is None:
            raise CacheError(f"node {name} is not found")
        info = self._own(name)
        assert info.node is not None, name
        self.images.remove(info.node)
        self.tree.remove(name)
        info.node = None
        info.allocatable = {}
        info.image_states = {}
        self._changed(CacheChange.NODE_REMOVED, info, tuple(info.pods.values()))
        if not info.pods:
            del self.nodes[name]

    # -- the node table's feed --------------------------------------------------------------

    def _changed(self, change: CacheChange, info: NodeInfo, payload: Any) -> None:
        self._generation = info.generation = self._generation + 1
        self.changes.append((change, info, payload))

    def take_changes(self) -> list[tuple[CacheChange, NodeInfo, Any]]:
        """What changed since the last call, in order."""
        changes, self.changes = self.changes, []
        return changes


class LiftedPods:
    """Pods that are off their nodes during a trial: to everybody else they are where they were."""

    def __init__(self, cache: Cache, pods: Sequence[PodInfo]) -> None:
        self._cache = cache
        self._lifted: dict[str, PodInfo] = {}
        self._orders = {pod.node_name: [*cache.nodes[pod.node_name].pods] for pod in pods}
        self.lift(pods)

    def lift(self, pods: Sequence[PodInfo]) -> None:
        for pod in pods:
            self._lifted[pod.uid] = pod
        self._cache.lift(pods)

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        for pod in pods:
            del self._lifted[pod.uid]
        self._cache.put_back(pods)

    def end(self) -> None:
        """Put back who is still lifted; each node has its pods in the order they had."""
        self.put_back([*self._lifted.values()])
        for name, order in self._orders.items():
            self._cache.reorder(name, order)


def _key(pod: Pod) -> str:
    uid = pod.metadata.uid
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return uid


def _named(pod: Pod) -> str:
    """For messages."""
    metadata = pod.metadata
    return f"{metadata.uid}({metadata.namespace}/{metadata.name})"


def same_kind(known: PodInfo, pod: Pod) -> PodKind:
    """The known kind where it is plain to see that it still holds, else worked out anew.

    A bind in this process changes the node's name, perhaps the labels, and shares everything else
    with the object before, so a look at identities saves encoding the pod.
    """
    old = known.pod
    same = (
        _said_of(old) == _said_of(pod)
        # What a pod that runs was given can be anywhere in its status.
        and not any(_amounts_of(old) + _amounts_of(pod))
        and _differ_in_node_alone(old.spec, pod.spec)
    )
    if not same:
        return kind_of(pod)
    return known.kind if old.metadata.labels is pod.metadata.labels else known.kind.relabelled(pod)


_said_of = attrgetter(
    "metadata.namespace", "metadata.owner_references", "metadata.deletion_timestamp"
)
_amounts_of = attrgetter("status.container_statuses", "status.resources")


def _differ_in_node_alone(old: PodSpec, new: PodSpec) -> bool:
    """Fields are compared by identity first: where all are shared, nothing is looked at."""
    return old == new or replace(old, node_name=new.node_name) == new


def _is_heartbeat(old: Node, new: Node) -> bool:
    """Whether nothing that scheduling could read has changed, times of conditions apart."""
    before, after = old.status, new.status
    return (
        (old.metadata.labels or NO_LABELS) == (new.metadata.labels or NO_LABELS)
        and (old.metadata.annotations or NO_LABELS) == (new.metadata.annotations or NO_LABELS)
        and old.spec == new.spec
        and before.allocatable == after.allocatable
        and before.capacity == after.capacity
        and before.images == after.images
        and before.declared_features == after.declared_features
        and condition_states(old) == condition_states(new)
    )


def condition_states(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions or ()}


__all__ = ["Cache", "CacheCorrupted", "CacheError", "LiftedPods"]
