"""Random operations on the queue and on its plain model: the same pods in the same places.

After every step both know the same pods in the same places, whatever is popped is the same, the
gauges tell what is there, and nothing is lost or there twice.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stowplan.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Hint,
    Resource,
    on,
)
from stowplan.framework.plugin import Nominate
from stowplan.objects.pod import Pod
from stowplan.queue import QueuedPod
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import (
    NODE_ADD,
    NODE_DELETE,
    NODE_LABEL,
    POD_DELETE,
    PROFILE,
    GatePlugin,
    Harness,
    Plugin,
    annotated,
    boom,
    nominated_to,
    pod,
    relabelled,
)
from tests.queue.model import Model, Waiting
from tests.small_limits import small_limits


def for_whom(pod: Pod, old: Any, new: Any) -> Hint:
    """The new object says whom it helps."""
    return Hint.QUEUE if pod.metadata.uid in new else Hint.SKIP


FAILING = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_CONDITION)
EVENTS = [NODE_ADD, NODE_LABEL, NODE_DELETE, POD_DELETE, FAILING, FORCE_ACTIVATE]
REJECTORS = ["Fit", "Labels", "OwnLabel", "AnyUpdate", "Deaf"]
NODES = ["node-1", "node-2"]
NAMESPACES = ["default", "default", "shop", "bank"]

Rejection = tuple[frozenset[str], frozenset[str]]
"""(unschedulable, pending): pending plugins are in both."""

rejections = st.builds(
    lambda unschedulable, pending: (unschedulable | pending, pending),
    st.frozensets(st.sampled_from(REJECTORS), max_size=2),
    st.frozensets(st.sampled_from(REJECTORS), max_size=1),
)


def plugins() -> list[Any]:
    return [
        GatePlugin("GateOne", events=[on(Resource.NODE, Action.UPDATE_NODE_LABEL)]),
        GatePlugin("GateTwo", events=[on(Resource.POD, Action.UPDATE_POD_LABEL)]),
        Plugin("Fit", [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, for_whom)]),
        Plugin(
            "Labels",
            [
                on(Resource.NODE, Action.UPDATE_NODE_LABEL),
                on(Resource.POD, Action.DELETE),
                on(Resource.NODE, Action.UPDATE_NODE_CONDITION, boom),
            ],
        ),
        Plugin("OwnLabel", [on(Resource.POD, Action.UPDATE_POD_LABEL)]),
        Plugin("AnyUpdate", [on(Resource.POD, Action.UPDATE)]),
        Plugin("Deaf"),
    ]


def agree(queued: QueuedPod, waiting: Waiting) -> None:
    history = waiting.history()
    assert {name: getattr(queued, name) for name in history} == history
    said = queued.gating_status.message if queued.gating_status else ""
    assert said == (f"{waiting.gate} is closed" if waiting.gate else "")


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster: dict[str, PodInfo] = {}
        """The pods there are, as an informer would have them, by `namespace/name`."""
        self.plugins = plugins()
        self.h = Harness(*self.plugins, live_pod=self.cluster.get)
        self.queue = self.h.queue
        gates = [plugin for plugin in self.plugins if isinstance(plugin, GatePlugin)]
        registrations = {plugin.name: list(plugin.events) for plugin in self.plugins}
        self.gates = gates
        self.model = Model(self.h.clock.now, gates, registrations, self.cluster.get)
        self.flying: list[tuple[QueuedPod, Waiting]] = []
        self.landed: list[tuple[QueuedPod, Waiting]] = []
        """Past `done`: binding, which may still fail."""
        self.serial = count(1)

    def some_pod(self, data: st.DataObject) -> PodInfo:
        return self.cluster[data.draw(st.sampled_from(sorted(self.cluster)))]

    def replace(self, old: PodInfo, new: PodInfo) -> None:
        self.cluster[new.key] = new
        self.queue.update(old, new)
        self.model.update(old, new)

    def popped(self, queued: QueuedPod | None, waiting: Waiting | None) -> None:
        assert (queued is None) == (waiting is None)
        if queued is None or waiting is None:
            return
        assert queued.gating_plugin == ""
        agree(queued, waiting)
        self.flying.append((queued, waiting))

    @rule(
        priority=st.integers(0, 2),
        nominated=st.sampled_from(["", "", *NODES]),
        closed=st.sampled_from([None, None, None, 0, 1]),
        namespace=st.sampled_from(NAMESPACES),
    )
    def add(self, priority: int, nominated: str, closed: int | None, namespace: str) -> None:
        name = f"pod-{next(self.serial)}"
        info = pod(name, priority=priority, nominated=nominated, namespace=namespace)
        self.cluster[info.key] = info
        if closed is not None:
            self.gates[closed].closed_to.add(info.uid)
        self.queue.add(info)
        self.model.add(info)

    @initialize(pod_count=st.integers(1, 4))
    def start_with_some(self, pod_count: int) -> None:
        for priority in range(pod_count):
            self.add(priority % 3, "", None, NAMESPACES[priority])

    @rule(
        priorities=st.lists(st.integers(0, 2), min_size=1, max_size=4),
        closed=st.sampled_from([None, 0, 1]),
        data=st.data(),
    )
    def add_together(self, priorities: list[int], closed: int | None, data: st.DataObject) -> None:
        """To the queue they come as one; to the model one after the other."""
        infos = [
            pod(f"pod-{next(self.serial)}", priority=priority, namespace=NAMESPACES[priority])
            for priority in priorities
        ]
        if closed is not None:
            self.gates[closed].closed_to.add(infos[0].uid)
        if self.cluster and data.draw(st.booleans()):
            infos.insert(1, self.some_pod(data))
        if data.draw(st.booleans()):
            infos[-1] = nominated_to(infos[-1], NODES[0])
        self.cluster.update({info.key: info for info in infos})
        self.queue.add_all(infos)
        for info in infos:
            self.model.add(info)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        info = self.some_pod(data)
        self.queue.add(info)
        self.model.add(info)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data(), change=st.sampled_from(["label", "annotation", "nomination"]))
    def update(self, data: st.DataObject, change: str) -> None:
        old = self.some_pod(data)
        if change == "label":
            new = relabelled(old, serial=str(next(self.serial)))
        elif change == "annotation":
            new = annotated(old)
        else:
            new = nominated_to(old, data.draw(st.sampled_from(["", *NODES])))
        self.replace(old, new)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def recreate(self, data: st.DataObject) -> None:
        old = self.some_pod(data)
        name, namespace = old.pod.metadata.name, old.pod.metadata.namespace
        uid = f"{name}-{next(self.serial)}"
        self.replace(old, pod(name, uid=uid, priority=old.priority, namespace=namespace))

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        info = self.some_pod(data)
        del self.cluster[info.key]
        self.queue.delete(info)
        self.model.delete(info)

    @rule()
    def pop(self) -> None:
        expected = self.model.pop()
        assert self.queue.has_next or expected is None
        self.popped(self.queue.pop(), expected)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def pop_specific(self, data: st.DataObject) -> None:
        info = self.some_pod(data)
        self.popped(self.queue.pop_specific(info), self.model.pop_specific(info))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), rejected_by=rejections, after_done=st.booleans())
    def fail(self, data: st.DataObject, rejected_by: Rejection, after_done: bool) -> None:
        attempts = self.landed if after_done and self.landed else self.flying
        self.land(attempts.pop(data.draw(st.integers(0, len(attempts) - 1))), rejected_by)

    @rule(rejected_by=rejections, quarters=st.integers(0, 8))
    def attempt(self, rejected_by: Rejection, quarters: int) -> None:
        """The commonest course of things: a pod is tried, and fails before anything happens."""
        self.h.tick(quarters / 4)
        flying_count = len(self.flying)
        self.pop()
        if len(self.flying) > flying_count:
            self.land(self.flying.pop(), rejected_by)

    def land(self, attempt: tuple[QueuedPod, Waiting], rejected_by: Rejection) -> None:
        queued, waiting = attempt
        uid = queued.info.uid
        live = self.cluster.get(queued.info.key)
        if live is None or live.uid != uid:
            self.queue.done(uid)
            self.model.done(uid)
            return
        queued.info = waiting.info = live
        queued.set_rejectors(*rejected_by)
        present = self.model.find(live.key) is not None
        problem = self.queue.add_unschedulable_if_not_present(queued)
        self.model.fail(waiting, *rejected_by)
        assert bool(problem) == present

    @precondition(lambda self: self.cluster)
    @rule(data=st.data(), quarters=st.sampled_from([1, 4, 40]))
    def owe(self, data: st.DataObject, quarters: int) -> None:
        """An attempt took long."""
        self.h.tick(quarters / 4)
        info = self.some_pod(data)
        self.queue.owe(info.key, quarters / 4)
        self.model.owe(info.pod.metadata.namespace, quarters / 4)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        attempt = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        self.queue.done(attempt[0].info.uid)
        self.model.done(attempt[0].info.uid)
        self.landed.append(attempt)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        infos = [self.some_pod(data), self.some_pod(data), pod("unknown")]
        self.queue.activate(infos)
        for info in infos:
            self.model.activate_or_log(info, FORCE_ACTIVATE)

    @rule(data=st.data(), event=st.sampled_from(EVENTS), priority_max=st.integers(0, 3))
    def move_all(self, data: st.DataObject, event: ClusterEvent, priority_max: int) -> None:
        new: Any = None
        if not event.is_wildcard:
            uids = sorted(info.uid for info in self.cluster.values())
            new = data.draw(st.frozensets(st.sampled_from(uids))) if uids else frozenset()

        def important_enough(info: PodInfo) -> bool:
            return info.priority <= priority_max

        pre_check = important_enough if priority_max < 3 else None
        self.queue.move_all(event, None, new, pre_check)
        self.model.move_all(event, new, pre_check)

    @precondition(lambda self: self.cluster)
    @rule(data=st.data(), gate=st.integers(0, 1))
    def turn_the_key(self, data: st.DataObject, gate: int) -> None:
        self.gates[gate].closed_to ^= {self.some_pod(data).uid}

    @precondition(lambda self: self.cluster)
    @rule(data=st.data(), node=st.sampled_from([None, "", *NODES]))
    def nominate(self, data: st.DataObject, node: str | None) -> None:
        info = self.some_pod(data)
        nominate = None if node is None else Nominate(node)
        self.queue.nominator.add(info, nominate)
        self.model.nominate(info, nominate)

    @rule(quarters=st.sampled_from([1, 2, 3, 4, 8, 20, 41, 1204]))
    def tick(self, quarters: int) -> None:
        self.h.tick(quarters / 4)

    @rule(what=st.sampled_from(["all", "all", "backoff", "unschedulable"]))
    def flush(self, what: str) -> None:
        if what == "backoff":
            self.queue.flush_backoff()
            self.model.flush_backoff()
        elif what == "unschedulable":
            self.queue.flush_unschedulable()
            self.model.flush_unschedulable(UNSCHEDULABLE_TIMEOUT)
        else:
            self.queue.flush()
            self.model.flush(UNSCHEDULABLE_TIMEOUT)

    @rule()
    def wake_up(self) -> None:
        """Do as a driver does: sleep until something is due, then flush."""
        wakeup_s = self.queue.next_wakeup_s()
        assert wakeup_s == self.model.next_wakeup_s()
        if wakeup_s is None:
            return
        self.h.clock.now_s = max(self.h.clock.now_s, wakeup_s)
        self.flush("all")
        assert self.queue.next_wakeup_s() != wakeup_s, "it was for nothing"

    @invariant()
    def every_pod_is_where_it_should_be(self) -> None:
        assert sorted(self.queue.places()) == self.model.places()
        waiting = self.model.active + self.model.backoff + self.model.unschedulable
        assert Counter(info.uid for info in self.queue.pending_pods()[0]) == Counter(
            w.info.uid for w in waiting
        )
        assert len({w.info.key for w in waiting}) == len(waiting), "a pod waits twice"

    @invariant()
    def every_pod_has_the_history_it_should_have(self) -> None:
        for queued in self.queue.waiting():
            waiting = self.model.find(queued.info.key)
            assert waiting is not None
            agree(queued, waiting)

    @invariant()
    def who_came_where_and_why_is_counted(self) -> None:
        assert +Counter(self.queue.metrics.incoming_pods) == +self.model.incoming

    @invariant()
    def nothing_is_lost(self) -> None:
        """A pod of the cluster waits, is in flight, or is past `done`."""
        known = {uid for uid, _ in self.queue.places()}
        known |= {queued.info.uid for queued, _ in self.landed}
        assert {info.uid for info in self.cluster.values()} <= known

    @invariant()
    def gauges_tell_what_is_there(self) -> None:
        metrics = self.queue.metrics
        waiting = self.model.active + self.model.backoff + self.model.unschedulable
        rejectors = Counter((plugin, PROFILE) for w in waiting for plugin in w.rejectors)
        assert +Counter(metrics.unschedulable_pods) == rejectors
        kept = Counter(event.label for event in self.model.kept_events())
        kept["PodPopped"] = len(self.model.flying)
        assert +Counter(metrics.inflight_events) == +kept

    @invariant()
    def nominations_agree(self) -> None:
        nominator = self.queue.nominator
        assert nominator.node_of == self.model.nominated
        assert {
            info.uid: node for node in nominator.nodes() for info in nominator.pods_for_node(node)
        } == self.model.nominated

    def teardown(self) -> None:
        """What is left comes out in the same order."""
        for _ in range(1000):
            expected = self.model.pop()
            self.popped(self.queue.pop(), expected)
            if expected is None:
                break
        for queued, _ in self.flying:
            self.queue.done(queued.info.uid)
        assert self.queue._in_flight.event_count == 0


TestQueue = pytest.mark.slow(QueueMachine.TestCase)


@pytest.mark.slow
class TestQueueThatKeepsLittle(QueueMachine.TestCase):
    def runTest(self) -> None:  # noqa: N802 - the name that unittest calls
        with small_limits():
            super().runTest()
