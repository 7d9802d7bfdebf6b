"""The queue with groups, whatever happens to it: hypothesis draws what comes, changes and goes.

After each step every pod is in exactly one place, an entry is where the queue says, and a member
that may be scheduled is in the entry of its group.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.framework.events import Action, ClusterEvent, Resource, on
from stowplan.framework.status import Status, unresolvable
from stowplan.queue import GroupedQueue, ProfileQueueing, QueuedGroup, QueuedPod, build_hint_map
from stowplan.state.pod_info import PodInfo
from tests.builders import pod
from tests.queue.builders import relabelled

PROFILE = "default-scheduler"
NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD)
CLAIM_ADDED = ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD)
GROUPS = st.sampled_from(["g", "h", ""])


class Own:
    """Holds back single pods: those whose name is on the list."""

    name = "Own"

    def __init__(self) -> None:
        self.held: set[str] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable("own") if pod.key in self.held else None

    def events_to_register(self) -> Any:
        return (on(Resource.POD, Action.UPDATE), on(Resource.RESOURCE_CLAIM, Action.ADD))


class Whole:
    """Holds back groups."""

    name = "Whole"
    gates_groups = True

    def __init__(self) -> None:
        self.held: set[str] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable("whole") if pod.group_key in self.held else None

    def events_to_register(self) -> Any:
        return (on(Resource.POD_GROUP, Action.ADD, by_group=True),)


class Fit:
    name = "Fit"

    def events_to_register(self) -> Any:
        return (on(Resource.NODE, Action.ADD),)


class Labels:
    name = "Labels"

    def events_to_register(self) -> Any:
        return (on(Resource.POD, Action.UPDATE_POD_LABEL),)


class GroupedQueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.own, self.whole = Own(), Whole()
        plugins = (self.own, self.whole, Fit(), Labels())
        profile = ProfileQueueing((self.own, self.whole), build_hint_map(plugins))
        self.queue = GroupedQueue(
            lambda info, timestamp_s: (-info.priority, timestamp_s),
            lambda: self.now_s,
            {PROFILE: profile},
            live_pod=lambda key: self.pods.get(key),
            group_gates=frozenset({"Whole"}),
            on_hold=lambda plugin, held: self.told.append((plugin, [it.info.key for it in held])),
        )
        self.told: list[tuple[str, list[str]]] = []
        """Which plugin holds back whom."""
        self.pods: dict[str, PodInfo] = {}
        self.taken: list[tuple[QueuedPod, list[QueuedPod]]] = []
        self.serial = 0

    def some_pod(self, data: st.DataObject) -> PodInfo:
        return self.pods[data.draw(st.sampled_from(sorted(self.pods)))]

    def is_held(self, info: PodInfo) -> bool:
        """By a gate that is closed, or was: it is not asked all the time."""
        entry = self.queue.entry_of(info.group_key) if info.kind.is_member else None
        queued = self.queue.get(info.key)
        was_held = (queued is not None and queued.is_gated) or (
            entry is not None and entry.is_gated
        )
        return was_held or info.key in self.own.held or info.group_key in self.whole.held

    @rule(group=GROUPS, count=st.integers(1, 3), held=st.booleans(), priority=st.integers(0, 2))
    def come(self, group: str, count: int, held: bool, priority: int) -> None:
        some = []
        for _ in range(count):
            self.serial += 1
            info = PodInfo(pod(f"p{self.serial}", group=group, spec={"priority": priority}))
            if held:
                self.own.held.add(info.key)
            self.pods[info.key] = info
            some.append(info)
        self.queue.add_all(some)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.pods)))
        self.queue.delete(self.pods.pop(key))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def come_again(self, data: st.DataObject) -> None:
        """As after a watch that was begun anew."""
        info = self.some_pod(data)
        if self.queue.get(info.key) is not None:
            self.queue.add(info)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def relabel(self, data: st.DataObject) -> None:
        old = self.some_pod(data)
        queued = self.queue.get(old.key)
        self.serial += 1
        self.pods[old.key] = new = relabelled(old, serial=str(self.serial))
        self.queue.update(old, new)
        if queued is not None and "Labels" in queued.rejectors and not self.is_held(new):
            assert self.queue.place_of(new.uid) in ("active", "backoff", "in flight")

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        info = self.some_pod(data)
        self.queue.activate([info])
        if not self.is_held(info):
            assert self.queue.place_of(info.uid) in ("active", "in flight")

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pop_one(self, data: st.DataObject) -> None:
        info = self.some_pod(data)
        before = self.queue.place_of(info.uid)
        queued = self.queue.pop_specific(info)
        if info.kind.is_member:
            assert queued is None
            assert self.queue.place_of(info.uid) == before
        elif before != "in flight" and not self.is_held(info):
            assert queued is not None
            assert queued.info is info
        if queued is not None:
            self.taken.append((queued, [queued]))

    @rule(group=GROUPS.filter(bool))
    def group_goes(self, group: str) -> None:
        entry = self.queue.entry_of(f"default/{group}")
        self.queue.group_deleted(f"default/{group}")
        if entry is not None and not entry.is_gated:
            for member in entry.members.values():
                assert self.queue.place_of(member.info.uid) in ("active", "backoff")

    @precondition(lambda self: self.own.held & self.pods.keys())
    @rule(data=st.data())
    def own_gate_opens(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.own.held & self.pods.keys())))
        self.own.held.discard(key)
        old = self.pods[key]
        self.pods[key] = new = PodInfo(old.pod)
        self.queue.update(old, new)

    @rule()
    def all_own_gates_open(self) -> None:
        """For a reason that is no change of the pods."""
        self.own.held.clear()
        self.queue.move_all(CLAIM_ADDED, None, None)

    @rule(group=GROUPS.filter(bool))
    def group_is_held(self, group: str) -> None:
        self.whole.held.add(f"default/{group}")

    @rule(group=GROUPS.filter(bool))
    def group_is_let_go(self, group: str) -> None:
        self.whole.held.discard(f"default/{group}")
        event = ClusterEvent(Resource.POD_GROUP, Action.ADD)
        self.queue.group_changed(f"default/{group}", event, None, None)

    @rule()
    def pop(self) -> None:
        ready = {uid for uid, place in self.queue.places() if place == "active"}
        highest = max((i.priority for i in self.pods.values() if i.uid in ready), default=None)
        queued = self.queue.pop()
        if queued is not None:
            if highest is not None:
                assert queued.info.priority == highest
            members = [*queued.members.values()] if isinstance(queued, QueuedGroup) else [queued]
            self.taken.append((queued, members))

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), error=st.booleans())
    def give_back(self, data: st.DataObject, error: bool) -> None:
        entry, members = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        failed = []
        for queued in members:
            names = [] if error else data.draw(st.sampled_from([["Fit"], ["Labels"]]))
            queued.set_rejectors(frozenset(names))
            if self.pods.get(queued.info.key) is not None and data.draw(st.booleans()):
                queued.info = self.pods[queued.info.key]
                failed.append(queued)
            else:
                # Bound, or gone.
                self.queue.done(queued.info.uid)
                self.pods.pop(queued.info.key, None)
        if isinstance(entry, QueuedGroup):
            self.queue.give_back(entry, failed, frozenset())
        elif failed:
            self.queue.add_unschedulable_if_not_present(failed[0])

    @rule()
    def node_comes(self) -> None:
        self.queue.move_all(NODE_ADDED, None, None)
        for queued in self.queue.waiting():
            if "Fit" in queued.rejectors and not self.is_held(queued.info):
                assert self.queue.place_of(queued.info.uid) in ("active", "backoff")

    @rule(seconds=st.sampled_from([0.5, 3.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.queue.flush()

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        places = Counter(uid for uid, _ in self.queue.places())
        in_flight = {queued.info.uid for _, members in self.taken for queued in members}
        known = {info.uid for info in self.pods.values()} | in_flight
        assert set(places) == known
        assert set(places.values()) <= {1}

    @invariant()
    def gates_hold(self) -> None:
        for queued in self.queue.waiting():
            if not queued.is_gated and queued.info.kind.is_member:
                entry = self.queue.entry_of(queued.info.group_key)
                assert entry is not None
                assert entry.members[queued.info.key] is queued
            if queued.info.kind.is_member and queued.gating_plugin == "Whole":
                # What lets the group go is told to its entry alone.
                assert self.queue.entry_of(queued.info.group_key) is not None
        by_uid = {info.uid: info for info in self.pods.values()}
        for uid, place in self.queue.places():
            if place == "active" and uid in by_uid:
                assert by_uid[uid].key not in self.own.held

    @invariant()
    def counts_are_of_pods(self) -> None:
        counted = Counter(place for _, place in self.queue.places())
        counts = self.queue.pending_counts()
        assert {name: counted[name] for name in counts} == counts  # type: ignore[index]

    @invariant()
    def pending_pods_are_those_that_wait(self) -> None:
        infos, summary = self.queue.pending_pods()
        counts = self.queue.pending_counts()
        waiting = [uid for uid, place in self.queue.places() if place != "in flight"]
        assert sorted(info.uid for info in infos) == sorted(waiting)
        aside = counts["unschedulable"] + counts["gated"]
        said = f"activeQ:{counts['active']}; backoffQ:{counts['backoff']}"
        assert summary == f"{said}; unschedulablePods:{aside}"

    @invariant()
    def an_entry_stands_where_its_first_member_would(self) -> None:
        for group in ("default/g", "default/h"):
            entry = self.queue.entry_of(group)
            if entry is not None:
                assert entry.info.priority == max(q.info.priority for q in entry.members.values())

    @invariant()
    def the_gauge_counts_those_that_wait(self) -> None:
        wanted: Counter[str] = Counter()
        for queued in self.queue.waiting():
            wanted.update(queued.rejectors)
        gauge = self.queue.metrics.unschedulable_pods
        assert {p: n for (p, _), n in gauge.items() if n} == {p: n for p, n in wanted.items() if n}


GroupedQueueMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
test_a_queue_with_groups = GroupedQueueMachine.TestCase


# -- the history of an entry ----------------------------------------------------------------


def _failed(machine: GroupedQueueMachine, *, error: bool) -> QueuedGroup:
    """The group is popped, and all members fail."""
    entry = machine.queue.pop()
    assert isinstance(entry, QueuedGroup)
    members = [*entry.members.values()]
    for queued in members:
        queued.set_rejectors(frozenset() if error else frozenset({"Fit"}))
    machine.queue.give_back(entry, members, frozenset())
    return entry


def _machine() -> GroupedQueueMachine:
    machine = GroupedQueueMachine()
    machine.come("g", 2, False, 0)
    return machine


def _seconds_until_ready(machine: GroupedQueueMachine) -> float:
    """Backoff ends with the whole second after it."""
    for seconds in range(-1, 30):
        if machine.queue.pending_counts()["active"]:
            return seconds
        machine.now_s += 1.0
        machine.queue.flush()
    raise AssertionError("never")


def test_errors_in_a_row_make_a_group_wait_twice_as_long_each_time() -> None:
    machine, waits = _machine(), []
    for _ in range(5):
        _failed(machine, error=True)
        waits.append(_seconds_until_ready(machine))
    assert waits == [1, 2, 4, 8, 10]


def test_a_rejection_ends_the_row_of_errors_and_counts_for_itself() -> None:
    machine = _machine()
    for _ in range(3):
        _failed(machine, error=True)
        _seconds_until_ready(machine)

    entry = _failed(machine, error=False)
    assert (entry.unschedulable_count, entry.consecutive_errors_count, entry.attempts) == (1, 0, 4)
    machine.queue.move_all(NODE_ADDED, None, None)

    assert _seconds_until_ready(machine) == 1


def test_the_others_are_tried_again_when_a_member_goes() -> None:
    machine = _machine()
    _failed(machine, error=False)
    assert machine.queue.pending_counts()["unschedulable"] == 2

    machine.queue.delete(machine.pods.pop("default/p1"))

    assert machine.queue.pending_counts() == {
        "active": 0,
        "backoff": 1,
        "unschedulable": 0,
        "gated": 0,
    }


def test_a_group_that_is_held_back_stays_so_when_a_member_goes() -> None:
    machine = GroupedQueueMachine()
    machine.whole.held.add("default/g")
    machine.come("g", 2, False, 0)
    machine.whole.held.clear()

    machine.queue.delete(machine.pods.pop("default/p1"))

    assert machine.queue.pending_counts()["gated"] == 1


def test_whoever_holds_back_a_group_is_named_for_all_its_members() -> None:
    machine = GroupedQueueMachine()
    machine.whole.held.add("default/g")
    machine.come("g", 2, False, 0)
    assert machine.told == [("Whole", ["default/p1", "default/p2"])]

    machine.come("g", 1, False, 0)
    assert machine.told[1:] == [("Whole", ["default/p1", "default/p2", "default/p3"])]
    machine.come("h", 1, False, 0)
    assert len(machine.told) == 2
