"""What holds for groups whatever happens: random clusters, groups, faults and changes.

What a trial leaves behind is `test_group_traces`; that these find bugs is `test_group_plants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.messages import Call, Effect
from stowplan.errors import ApiError, Conflict, Unavailable
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import BindingSteps, PreFlight, Wait
from stowplan.framework.status import SKIP, Status, error, unschedulable
from stowplan.objects.api import Bind, Request
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod, pod_group
from tests.core.group_world import ALL, GANGS, GroupWorld
from tests.core.harness import make_plugin

RACKS = ("a", "b", "c")


class Dice:
    """All choices of one run, from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.number, self.one_of = self._random.randint, self._random.choice

    def flag(self) -> bool:
        return self.number(0, 1) == 1

    def shuffled(self, things: list[Any]) -> list[Any]:
        return self._random.sample(things, len(things))


class Watched(GroupWorld):
    """Looks at every batch of bindings before it is carried out.

    Not at one that is sent again because its answer was lost: it was decided on with the others.
    """

    lost: frozenset[str] = frozenset()

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        effects = [*effects]
        bound = Counter(
            self.pods[f"{e.request.namespace}/{e.request.name}"].spec.scheduling_group
            for e in effects
            if isinstance(e, Call) and isinstance(e.request, Bind)
            if e.request.name not in self.lost
            if f"{e.request.namespace}/{e.request.name}" in self.pods
        )
        for group in bound:
            if group is not None:
                self._is_enough(f"default/{group.pod_group_name}")
        super()._carry_out(effects)

    def _is_enough(self, key: str) -> None:
        group = self.groups.get(key)
        state = self.machine.cache.groups.of(key)  # type: ignore[attr-defined]
        assert group is None or state.scheduled_count >= group.spec.min_count, key


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Faulty"}]}}}],
}


def faulty(dice: Dice) -> type:
    """A plugin that now and then refuses, fails or takes its time, wherever it is asked."""

    def sometimes() -> bool:
        return dice.number(0, 7) == 0

    def reserve(self: Any, cycle: Any, pod: PodInfo, node: str) -> Status | None:
        return dice.one_of([unschedulable("no"), error("broken")]) if sometimes() else None

    def permit(self: Any, cycle: Any, pod: PodInfo, node: str) -> Status | Wait | None:
        answers = [unschedulable("no"), error("broken"), Wait(2.0), Wait(2.0, "slow")]
        return dice.one_of(answers) if sometimes() else None

    def pre_flight(self: Any, cycle: Any, pod: PodInfo, node: str) -> PreFlight | Status:
        if sometimes() and sometimes():
            raise ValueError("rash")
        return PreFlight() if sometimes() else SKIP

    def pre_bind(self: Any, cycle: Any, pod: PodInfo, node: str) -> BindingSteps:
        yield Sleep(dice.number(0, 3))
        return error("broken") if dice.flag() else None

    at_points: dict[str, Any] = {"reserve": reserve, "unreserve": lambda *_: None}
    at_points |= {"permit": permit, "pre_bind_pre_flight": pre_flight, "pre_bind": pre_bind}
    return make_plugin("Faulty", **at_points)


def nodes(dice: Dice) -> list[Node]:
    return [
        node(
            f"n{number}",
            cpu=dice.number(1, 4),
            labels={"rack": dice.one_of(RACKS)} if dice.flag() else {},
        )
        for number in range(dice.number(1, 5))
    ]


def member(dice: Dice, name: str, group: str) -> Pod:
    spec: dict[str, Any] = {"priority": dice.one_of([0, 0, 5])}
    if dice.number(0, 5) == 0:
        spec["schedulingGates"] = [{"name": "wait"}]
    if dice.number(0, 4) == 0:
        term = {
            "labelSelector": {"matchLabels": {"app": group or "alone"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        away = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": away}
    cpu = dice.number(1, 3)
    return pod(name, group=group, cpu=cpu, labels={"app": group or "alone"}, spec=spec)


def _check(world: GroupWorld) -> None:
    machine = world.machine
    assert machine.table.check(machine.cache) == []
    assert machine.cache.assumed_count == 0
    places = Counter(uid for uid, _ in machine.queue.places())
    for thing in world.pods.values():
        wanted = 0 if thing.spec.node_name else 1
        assert places[thing.metadata.uid] == wanted, (thing.key, places)
    used: Counter[str] = Counter()
    for thing in world.pods.values():
        requests = (thing.spec.containers or [])[0].resources
        assert requests is not None
        used[thing.spec.node_name] += int((requests.requests or {})["cpu"])
    for info in machine.cache.nodes.values():
        if info.node is not None:
            assert info.requested["cpu"] == 1000 * used[info.name]
            assert info.requested["cpu"] <= info.allocatable["cpu"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([GANGS, ALL]))
def test_a_gang_is_bound_to_at_least_min_count_or_not_at_all(seed: int, gates: str) -> None:
    enough_or_none(seed, gates)


def enough_or_none(seed: int, gates: str) -> None:
    dice = Dice(seed)
    plugins = {**IN_TREE, "Faulty": faulty(dice)} if dice.flag() else IN_TREE
    config = CONFIG if plugins is not IN_TREE else None
    world = Watched(*nodes(dice), gates=gates, config=config, registry=plugins)

    answers = [None, None, None, Conflict("no"), Unavailable("lost")]
    faults = iter([dice.one_of(answers) for _ in range(40)])

    def refuse(request: Request) -> ApiError | None:
        if not isinstance(request, Bind):
            return None
        answer = next(faults, None)
        if answer is None:
            world.lost -= {request.name}
        elif isinstance(answer, Unavailable):
            world.lost |= {request.name}
        return answer

    world.refuse = refuse
    topology = {}
    for number in range(dice.number(1, 3)):
        name = f"g{number}"
        topology[name] = dice.one_of(["", "rack"]) if gates == ALL else ""
        group = pod_group(
            name,
            min_count=dice.number(0, 4),
            topology=topology[name],
            priority=dice.one_of([None, 0, 9]),
            whole=dice.flag(),
        )
        some = [member(dice, f"{name}-{n}", name) for n in range(dice.number(1, 5))]
        world.add(*dice.shuffled([group, *some]))
        if dice.flag():
            world.run(dice.one_of([0.0, 1.0, 5.0]))
        for _ in range(dice.number(0, 3)):
            _disturb(dice, world)
    world.add(*(member(dice, f"alone-{n}", "") for n in range(dice.number(0, 2))))
    world.run(30.0)
    world.refuse = lambda request: None
    world.run(30.0)

    _check(world)
    for name, key in topology.items():
        if key:
            bound = {f"default/{one}" for one in world.bound() if one.startswith(f"{name}-")}
            on = {world.pods[one].spec.node_name for one in bound if one in world.pods}
            labels = {
                info.name: info.labels.get(key) for info in world.machine.cache.nodes.values()
            }
            assert len({labels[each] for each in on if each}) <= 1, name


def _disturb(dice: Dice, world: GroupWorld) -> None:
    what = dice.one_of(["pod", "group", "node", "run", "bound"])
    waiting = [key for key, thing in world.pods.items() if not thing.spec.node_name]
    bound = [key for key, thing in world.pods.items() if thing.spec.node_name]
    if what == "pod" and waiting:
        world.delete(world.pods[dice.one_of(waiting)])
    elif what == "bound" and bound:
        world.delete(world.pods[dice.one_of(bound)])
    elif what == "group" and world.groups:
        world.delete(world.groups[dice.one_of([*world.groups])])
    elif what == "node":
        world.add(node(f"m{len(world.machine.cache.nodes)}", cpu=dice.number(1, 3)))
    else:
        world.run(dice.one_of([0.0, 2.0]))
