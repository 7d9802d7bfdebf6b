"""Random operations on the cache and on a plain model: same errors, same pods, same sums.

The model below is the table of the specification (core.md 4.1 to 4.3), one `if` per cell; it counts
nothing, so whatever the cache keeps is compared with what its pods and nodes add up to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.cache import Cache, CacheCorrupted, CacheError
from stowplan.state.consistency import cache_problems
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
TTL_S = 30.0


def a_pod(number: int, node_name: str, **options: Any) -> Pod:
    return pod(f"pod-{number}", node=node_name, metadata={"uid": f"uid-{number}"}, **options)


@dataclass
class Known:
    pod: Pod
    assumed: bool
    bound_at_s: float | None = None

    @property
    def node_name(self) -> str:
        return self.pod.spec.node_name


@dataclass
class Model:
    ttl_s: float
    pods: dict[str, Known] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    zones: list[tuple[str, list[str]]] = field(default_factory=list)
    images: dict[str, tuple[int, set[str]]] = field(default_factory=dict)

    def assume(self, pod: Pod) -> str:
        uid, name = pod.metadata.uid, pod.key
        if uid in self.pods:
            return f"pod {uid}({name}) is in the cache, so can't be assumed"
        self.pods[uid] = Known(pod, assumed=True)
        return ""

    def finish_binding(self, uid: str, now_s: float) -> None:
        if uid in self.pods and self.pods[uid].assumed:
            self.pods[uid].bound_at_s = now_s

    def forget(self, pod: Pod) -> str:
        uid, name = pod.metadata.uid, pod.key
        known = self.pods.get(uid)
        if known is None:
            return ""
        if known.node_name != pod.spec.node_name:
            return (
                f"pod {uid}({name}) was assumed on {pod.spec.node_name} "
                f"but assigned to {known.node_name}"
            )
        if not known.assumed:
            return f"pod {uid}({name}) wasn't assumed so cannot be forgotten"
        del self.pods[uid]
        return ""

    def add(self, pod: Pod) -> str:
        uid, name = pod.metadata.uid, pod.key
        known = self.pods.get(uid)
        if known is not None and not known.assumed:
            return f"pod {uid}({name}) was already in added state"
        self.pods[uid] = Known(pod, assumed=False)
        return ""

    def update(self, pod: Pod) -> str:
        uid, name = pod.metadata.uid, pod.key
        known = self.pods.get(uid)
        if known is None:
            return f"pod {uid}({name}) is not added to scheduler cache, so cannot be updated"
        if known.assumed:
            return f"assumed pod {uid}({name}) should not be updated"
        if known.node_name != pod.spec.node_name:
            return (
                f"pod {uid}({name}) moved from node '{known.node_name}' to '{pod.spec.node_name}'"
            )
        self.pods[uid] = Known(pod, assumed=False)
        return ""

    def remove(self, pod: Pod) -> str:
        uid, name = pod.metadata.uid, pod.key
        known = self.pods.get(uid)
        if known is None:
            return (
                f"pod {uid}({name}) is not found in scheduler cache, so cannot be removed from it"
            )
        if pod.spec.node_name not in ("", known.node_name):
            return (
                f"pod {uid}({name}) was removed from node '{pod.spec.node_name}', "
                f"but was on '{known.node_name}'"
            )
        del self.pods[uid]
        return ""

    def expire(self, now_s: float) -> set[str]:
        expired = {
            uid
            for uid, known in self.pods.items()
            if self.ttl_s and known.bound_at_s is not None and now_s > known.bound_at_s + self.ttl_s
        }
        for uid in expired:
            del self.pods[uid]
        return expired

    def add_node(self, new: Node) -> None:
        name = new.metadata.name
        old = self.nodes.get(name)
        self.nodes[name] = new
        if old is not None:
            self._drop_images(old)
        for image in new.status.images or ():
            for text in image.names or ():
                self.images.setdefault(text, (image.size_bytes, set()))[1].add(name)
        zone = self._zone(new)
        if old is None or self._zone(old) != zone:
            self._leave_zone(name)
            if zone not in dict(self.zones):
                self.zones.append((zone, []))
            dict(self.zones)[zone].append(name)

    def remove_node(self, name: str) -> str:
        if name not in self.nodes:
            return f"node {name} is not found"
        self._drop_images(self.nodes.pop(name))
        self._leave_zone(name)
        return ""

    def _drop_images(self, old: Node) -> None:
        for image in old.status.images or ():
            for text in image.names or ():
                if text in self.images:
                    self.images[text][1].discard(old.metadata.name)
                    if not self.images[text][1]:
                        del self.images[text]

    def _leave_zone(self, name: str) -> None:
        for _, names in self.zones:
            if name in names:
                names.remove(name)
        self.zones = [(zone, names) for zone, names in self.zones if names]

    @staticmethod
    def _zone(of: Node) -> str:
        labels = of.metadata.labels or {}
        return labels.get(OLD_ZONE, labels.get(ZONE, ""))

    def node_order(self) -> list[str]:
        zones = [list(names) for _, names in self.zones]
        order: list[str] = []
        while any(zones):
            order += [names.pop(0) for names in zones if names]
        return order


NODES = ["node-a", "node-b", "node-c", "node-d"]
node_names = st.sampled_from(NODES)
IMAGES = [{"names": ["app:1", "app@sha"], "sizeBytes": 100}, {"names": ["db:1"], "sizeBytes": 7}]


@st.composite
def pods(draw: st.DrawFn, nodes: st.SearchStrategy[str] = node_names) -> Pod:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["volumes"] = [
            {"name": "v", "persistentVolumeClaim": {"claimName": draw(st.sampled_from("xy"))}}
        ]
    return a_pod(
        draw(st.integers(0, 5)),
        draw(nodes),
        cpu=draw(st.sampled_from([None, "100m", "1"])),
        memory=draw(st.sampled_from([None, "1Gi"])),
        requests=draw(st.sampled_from([{}, {"example.com/gpu": 2}])),
        labels=draw(st.sampled_from([{}, {"app": "web"}])),
        spec=spec,
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    zone = draw(st.sampled_from(["", "zone-1", "zone-2"]))
    key = draw(st.sampled_from([ZONE, OLD_ZONE]))
    images = draw(st.lists(st.sampled_from(IMAGES), max_size=2))
    size = draw(st.integers(1, 3))
    return node(
        draw(node_names),
        labels={key: zone} if zone else {},
        cpu=draw(st.sampled_from(["4", "8"])),
        status={"images": [{**image, "sizeBytes": size * image["sizeBytes"]} for image in images]},
    )


def dump(cache: Cache) -> Any:
    return (
        {uid: cache.pod(uid) for uid in cache.pod_uids()},
        cache.assumed_uids(),
        {name: _of_node(info) for name, info in cache.nodes.items()},
        cache.tree.names(),
        cache.images.version,
        len(cache.changes),
    )


def _of_node(info: NodeInfo) -> Any:
    sums = info.nonzero_milli_cpu, info.nonzero_memory, dict(info.requested), dict(info.claim_refs)
    return info.node, list(info.pods.values()), sums, set(info.used_ports), info.generation


class CacheMachine(RuleBasedStateMachine):
    @initialize(ttl_s=st.sampled_from([0.0, TTL_S]))
    def start(self, ttl_s: float) -> None:
        self.cache = Cache(assumed_ttl_s=ttl_s)
        self.model = Model(ttl_s)
        self.now_s = 0.0

    def both(self, expected: str, operation: Any, *arguments: Any) -> None:
        """The operation fails with this text and changes nothing, or succeeds."""
        before = dump(self.cache)
        problem = ""
        try:
            operation(*arguments)
        except (CacheError, CacheCorrupted) as raised:
            problem = str(raised)
        assert problem == expected
        if problem:
            assert dump(self.cache) == before

    @rule(pod=pods())
    def assume(self, pod: Pod) -> None:
        self.both(self.model.assume(pod), self.cache.assume_pod, PodInfo(pod))

    @rule(number=st.integers(0, 5))
    def finish_binding(self, number: int) -> None:
        self.model.finish_binding(f"uid-{number}", self.now_s)
        self.cache.finish_binding(f"uid-{number}", self.now_s)

    @rule(pod=pods())
    def forget(self, pod: Pod) -> None:
        self.both(self.model.forget(pod), self.cache.forget_pod, PodInfo(pod))

    @rule(number=st.integers(0, 5))
    def forget_as_assumed(self, number: int) -> None:
        known = self.cache.pod(f"uid-{number}")
        if known is not None:
            self.both(self.model.forget(known.pod), self.cache.forget_pod, known)

    @rule(pod=pods())
    def add(self, pod: Pod) -> None:
        self.both(self.model.add(pod), self.cache.add_pod, pod)

    @rule(number=st.integers(0, 5))
    def confirm_as_assumed(self, number: int) -> None:
        known = self.cache.pod(f"uid-{number}")
        if known is not None:
            self.both(self.model.add(known.pod), self.cache.add_pod, known.pod)

    @rule(pod=pods())
    def update(self, pod: Pod) -> None:
        self.both(self.model.update(pod), self.cache.update_pod, pod)

    @rule(pod=pods(st.sampled_from([*NODES, ""])))
    def remove(self, pod: Pod) -> None:
        self.both(self.model.remove(pod), self.cache.remove_pod, pod)

    @rule(seconds=st.sampled_from([1.0, 29.0, 30.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due_s = self.cache.next_expiry_s()

        expired = {info.uid for info in self.cache.expire_assumed(self.now_s)}

        assert expired == self.model.expire(self.now_s)
        assert bool(expired) == (due_s is not None and self.now_s > due_s)

    @rule(node=nodes())
    def add_node(self, node: Node) -> None:
        self.model.add_node(node)
        self.cache.add_node(node)

    @rule(name=node_names)
    def remove_node(self, name: str) -> None:
        self.both(self.model.remove_node(name), self.cache.remove_node, name)

    @invariant()
    def same_pods_in_the_same_state(self) -> None:
        cache, model = self.cache, self.model
        assert sorted(cache.pod_uids()) == sorted(model.pods)
        assert sorted(cache.assumed_uids()) == sorted(u for u, p in model.pods.items() if p.assumed)
        for uid, known in model.pods.items():
            found = cache.pod(uid)
            assert found is not None
            assert found.pod == known.pod
            assert found.kind is PodInfo(known.pod).kind

    @invariant()
    def same_nodes_in_the_same_order(self) -> None:
        cache, model = self.cache, self.model
        ghosts = {known.node_name for known in model.pods.values()} - set(model.nodes)
        found = {name: info.node for name, info in cache.nodes.items()}
        assert found == {**model.nodes, **dict.fromkeys(ghosts)}
        assert cache.tree.names() == model.node_order()

    @invariant()
    def sums_are_what_the_pods_make(self) -> None:
        assert cache_problems(self.cache) == []
        for info in self.cache.nodes.values():
            mine = {u for u, known in self.model.pods.items() if known.node_name == info.name}
            assert set(info.pods) == mine

    @invariant()
    def images_are_where_nodes_say(self) -> None:
        cache, model = self.cache, self.model
        assert len(cache.images) == len(model.images)
        for info in cache.nodes.values():
            for name, state in cache.images.states_of(info).items():
                size, on_nodes = model.images[name]
                assert state == (size, len(on_nodes))

    @invariant()
    def generations_tell_what_changed_last(self) -> None:
        changes = [info for _, info, _ in self.cache.changes]
        if changes:
            latest = max(self.cache.nodes.values(), key=lambda i: i.generation, default=None)
            if latest is not None and changes[-1] in self.cache.nodes.values():
                assert changes[-1] is latest


TestCache = pytest.mark.slow(CacheMachine.TestCase)


def test_a_pod_without_uid_cannot_be_cached() -> None:
    nobody, cache = pod(node="node-a", metadata={"uid": ""}), Cache()
    ways = (
        lambda: cache.assume_pod(PodInfo(nobody)),
        lambda: cache.add_pod(nobody),
        lambda: cache.update_pod(nobody),
        lambda: cache.remove_pod(nobody),
    )

    for way in ways:
        with pytest.raises(CacheError, match=r"^cannot get cache key for pod with empty UID$"):
            way()


def test_assumed_pods_never_expire_by_default() -> None:
    cache = Cache()
    cache.assume_pod(PodInfo(a_pod(1, "node-a")))
    cache.finish_binding("uid-1", 0.0)

    assert cache.next_expiry_s() is None
    assert cache.expire_assumed(1e9) == []


def test_an_assumed_pod_does_not_expire_before_its_binding_has_finished() -> None:
    cache = Cache(assumed_ttl_s=TTL_S)
    cache.assume_pod(PodInfo(a_pod(1, "node-a")))

    assert cache.expire_assumed(1e9) == []


def test_a_port_that_two_pods_hold_is_free_when_one_of_them_goes() -> None:
    # As upstream has it: ports are a set.
    ports = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    cache = Cache()
    for number in (1, 2):
        cache.add_pod(a_pod(number, "node-a", spec=ports))

    cache.remove_pod(a_pod(1, "node-a"))

    assert cache.nodes["node-a"].used_ports == set()


def test_a_node_that_goes_stays_as_a_ghost_until_its_last_pod_has_gone() -> None:
    cache = Cache()
    cache.add_node(node("node-a"))
    cache.add_pod(a_pod(1, "node-a", cpu="1"))

    cache.remove_node("node-a")

    ghost = cache.nodes["node-a"]
    assert (ghost.node, ghost.requested["cpu"], ghost.allocatable) == (None, 1000, {})
    assert cache.tree.names() == []
    cache.remove_pod(a_pod(1, "node-a"))
    assert cache.nodes == {}


def test_a_heartbeat_changes_neither_tree_nor_images() -> None:
    images = [{"names": ["app:1"], "sizeBytes": 100}]
    cache = Cache()
    ready = {"type": "Ready", "status": "True"}
    first = node("node-a", status={"images": images, "conditions": [ready]})
    cache.add_node(first)
    version = cache.images.version
    beat = {**ready, "lastHeartbeatTime": "2026-01-01T00:00:10Z"}

    info = cache.add_node(node("node-a", status={"images": images, "conditions": [beat]}))

    assert cache.images.version == version
    assert info.node is not first


def test_an_images_size_is_that_of_the_node_that_alone_has_it_once_it_is_heard_of_again() -> None:
    """As upstream has it: with every update a node's images are taken out and put in again."""
    cache = Cache()
    first = node("first", status={"images": [{"names": ["app"], "sizeBytes": 7}]})
    second = node("second", status={"images": [{"names": ["app"], "sizeBytes": 14}]})
    cache.add_node(first)
    info = cache.add_node(second)
    cache.remove_node("first")
    assert cache.images.states_of(info) == {"app": (7, 1)}

    cache.add_node(second)

    assert cache.images.states_of(info) == {"app": (14, 1)}
    assert cache.images.stale == set()
