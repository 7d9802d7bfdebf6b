"""Who belongs together: counted as pods come, are assumed, are shown on nodes and go."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from stowplan.objects.pod import Pod
from stowplan.state.groups import GroupedCache, GroupState
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod

GROUPS = ("a", "b")


class Model:
    """Every pod of a group and where it is, plainly."""

    def __init__(self, seed: int) -> None:
        self.cache = GroupedCache()
        self.cache.add_node(node("n"))
        self.random = Random(seed)
        self.waiting: dict[str, PodInfo] = {}
        self.assumed: dict[str, PodInfo] = {}
        self.assigned: dict[str, PodInfo] = {}
        self._serial = 0

    def step(self) -> None:
        self.random.choice(
            (self.come, self.come, self.assume, self.forget, self.bind, self.show, self.go)
        )()

    def come(self) -> None:
        self._serial += 1
        group = self.random.choice((*GROUPS, ""))
        info = PodInfo(pod(f"p{self._serial}", group=group))
        self.cache.groups.waits([info])
        self.waiting[info.uid] = info

    def assume(self) -> None:
        free = [it for uid, it in self.waiting.items() if uid not in self.assumed]
        if free:
            info = PodInfo(_on_node(self.random.choice(free).pod))
            self.cache.assume_pod(info)
            self.assumed[info.uid] = info

    def forget(self) -> None:
        if self.assumed:
            info = self.assumed.pop(self.random.choice([*self.assumed]))
            self.cache.forget_pod(info)

    def bind(self) -> None:
        """The cluster shows one that was assumed on its node."""
        if self.assumed:
            uid = self.random.choice([*self.assumed])
            self.assigned[uid] = self.cache.add_pod(self.assumed.pop(uid).pod)
            del self.waiting[uid]

    def show(self) -> None:
        """Somebody else found a node for it, or it changes there."""
        free = [it for uid, it in self.waiting.items() if uid not in self.assumed]
        if free and self.random.random() < 0.5:
            info = self.random.choice(free)
            self.assigned[info.uid] = self.cache.add_pod(_on_node(info.pod))
            del self.waiting[info.uid]
        elif self.assigned:
            uid = self.random.choice([*self.assigned])
            self.assigned[uid] = self.cache.update_pod(self.assigned[uid].pod)

    def go(self) -> None:
        if self.assigned and self.random.random() < 0.5:
            info = self.assigned.pop(self.random.choice([*self.assigned]))
            self.cache.remove_pod(info.pod)
            self.cache.groups.gone(info)
        elif free := [uid for uid in self.waiting if uid not in self.assumed]:
            self.cache.groups.gone(self.waiting.pop(self.random.choice(free)))

    def check(self) -> None:
        groups, known = self.cache.groups, 0
        for name in GROUPS:
            state, key = groups.of(f"default/{name}"), f"default/{name}"
            waiting, assumed, assigned = (
                {uid for uid, it in pods.items() if it.group_key == key}
                for pods in (self.waiting, self.assumed, self.assigned)
            )
            known += bool(waiting or assumed or assigned)
            assert _uids(state) == (waiting, assumed, assigned)
            assert state.count == len(waiting | assigned)
            assert state.scheduled_count == len(assumed | assigned)
            assert {it.uid for it in state.scheduled()} == assumed | assigned
            assert {it.uid for it in state.unscheduled()} == waiting - assumed
        assert len(groups) == known


def _on_node(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name="n"))


def _uids(state: GroupState) -> tuple[set[str], set[str], set[str]]:
    return {*state.waiting}, {*state.assumed}, {*state.assigned}


@pytest.mark.parametrize("seed", range(5))
def test_members_are_where_they_were_put(seed: int) -> None:
    model = Model(seed)
    for _ in range(100):
        model.step()
        model.check()


def test_a_fork_and_its_origin_do_not_disturb_each_other() -> None:
    model = Model(0)
    for _ in range(40):
        model.step()
    model.cache.take_changes()
    before = {name: _uids(model.cache.groups.of(f"default/{name}")) for name in GROUPS}

    fork = model.cache.fork()
    for _ in range(60):
        model.step()

    model.check()
    assert {name: _uids(fork.groups.of(f"default/{name}")) for name in GROUPS} == before
    assert fork.groups.of("default/a").count > 0
