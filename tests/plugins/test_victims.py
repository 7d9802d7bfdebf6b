"""Who has to go is what upstream's one-by-one way finds, however replicas are dealt with."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.framework.cycle import Cycle
from stowplan.framework.runtime import OnOneNode
from stowplan.framework.status import Status, unschedulable
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.plugins.default_preemption.victims import (
    Candidate,
    Refusal,
    importance,
    pick_candidate,
    select_victims,
    split_by_budget,
    start_time_s,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod
from tests.deciding import Deciding

ROOM = 8

sizes = st.integers(1, 4)
residents = st.lists(
    st.tuples(sizes, st.sampled_from([0, 0, 1, 9]), st.sampled_from(["", "a"]), st.integers(0, 3)),
    max_size=6,
)


def resident(n: int, size: int, priority: int, app: str, minute: int) -> Pod:
    return pod(
        f"resident-{n}",
        cpu=size,
        node="node-1",
        labels={"app": app} if app else {},
        spec={"priority": priority},
        status={"startTime": f"2026-01-01T00:0{minute}:00Z", "phase": "Running"},
    )


def one_by_one(pods: list[PodInfo], size: int) -> list[str] | None:
    """The victims, most important first; None when evicting all of them is not enough."""
    cpu = {info.key: info.kind.requests["cpu"] // 1000 for info in pods}
    staying = sum(cpu[info.key] for info in pods if info.priority >= 5)
    if staying + size > ROOM:
        return None
    victims = []
    for info in sorted((info for info in pods if info.priority < 5), key=importance):
        if staying + cpu[info.key] + size <= ROOM:
            staying += cpu[info.key]
        else:
            victims.append(info.key)
    return victims


@settings(deadline=None, max_examples=40)
@given(residents=residents, size=sizes, spread=st.booleans())
def test_the_fewest_and_least_important_have_to_go(
    residents: list[tuple[int, int, str, int]], size: int, spread: bool
) -> None:
    there = [resident(n, *traits) for n, traits in enumerate(residents)]
    spec: dict[str, Any] = {"priority": 5}
    if spread:
        # A cluster-wide filter with extensions, which never objects.
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 99,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    incoming = PodInfo(pod("incoming", cpu=size, spec=spec))
    run = Deciding([node("node-1", cpu=ROOM), *there], random=Random(0))
    run.table.refresh(run.cache)
    framework = run.framework_of(incoming)
    cycle = Cycle(framework.handle, framework.handle.nodes)
    framework.pre_filter(cycle, incoming)
    assert bool(framework.on_one_node(cycle).extensions) == spread
    info = cycle.nodes.info(cycle.nodes.row_of["node-1"])
    before = (dict(info.pods), dict(info.requested))

    found = select_victims(framework, cycle, incoming, info, [])

    expected = one_by_one([PodInfo(pod) for pod in there], size)
    victims = [victim.key for victim in found.victims] if isinstance(found, Candidate) else None
    assert victims == (expected or None)
    assert (dict(info.pods), dict(info.requested)) == before, "it was only tried"


budgets = st.lists(
    st.tuples(
        st.sampled_from(["default", "default", "default", "other"]),
        st.sampled_from(["app == a", "app != b", "app != b", ""]),
        st.integers(0, 2),
        st.sampled_from([(), (), ("resident-0",)]),
    ),
    min_size=1,
    max_size=3,
)


def budget(namespace: str, selector: str, allowed: int, gone: tuple[str, ...]) -> Any:
    key, operator, value = selector.split() if selector else ("", "", "")
    expression = {"key": key, "operator": "In" if operator == "==" else "NotIn", "values": [value]}
    data = {
        "metadata": {"name": "budget", "namespace": namespace},
        "spec": {"selector": {"matchExpressions": [expression] if selector else []}},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(gone, "2026-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(data, PodDisruptionBudget)


@given(
    residents=st.lists(
        st.tuples(
            st.integers(1, 3),
            st.sampled_from([0, 0, 1, 1, 9]),
            st.sampled_from(["", "a", "a", "b"]),
            st.integers(0, 3),
        ),
        min_size=3,
        max_size=6,
    ),
    size=st.integers(4, 8),
    budgets=budgets,
)
def test_those_whom_a_budget_protects_stay_if_others_can_go(
    residents: list[tuple[int, int, str, int]],
    size: int,
    budgets: list[tuple[str, str, int, tuple[str, ...]]],
) -> None:
    """As upstream does it (plugins.md, DefaultPreemption): in order of importance each pod takes
    one from every budget that selects it; whoever takes more than is left would break the budget.
    Those come back first, and each that cannot is a violation."""
    framework: Any = Filters(needs_friend=False)
    incoming = PodInfo(pod("incoming", cpu=size, spec={"priority": 5}))
    info = NodeInfo("node-1")
    info.set_node(node("node-1", cpu=ROOM))
    pods = [PodInfo(resident(n, *traits)) for n, traits in enumerate(residents)]
    for there in pods:
        info.add_pod(there)
    left = [allowed for _, _, allowed, _ in budgets]
    protected, others = [], []
    lower = sorted((there for there in pods if there.priority < 5), key=importance)
    for there in lower:
        app, breaks = there.kind.labels.get("app"), False
        for n, (namespace, selector, _, gone) in enumerate(budgets):
            # Whoever has no labels is protected by nobody.
            selected = app == "a" and selector != ""
            if namespace == "default" and selected and there.pod.name not in gone:
                left[n] -= 1
                breaks = breaks or left[n] < 0
        (protected if breaks else others).append(there)
    staying = sum(there.kind.requests["cpu"] for there in pods if there.priority >= 5)
    fits_without = staying + size * 1000 <= ROOM * 1000
    victims: list[PodInfo] = []
    violations = 0
    for there in [*protected, *others]:
        if staying + there.kind.requests["cpu"] + size * 1000 <= ROOM * 1000:
            staying += there.kind.requests["cpu"]
        else:
            victims.append(there)
            violations += there in protected

    cycle: Any = SimpleNamespace(statuses=None)
    made = [budget(*each) for each in budgets]
    found = select_victims(framework, cycle, incoming, info, made)

    assert split_by_budget(lower, made) == (protected, others)
    if not fits_without or not victims:
        assert isinstance(found, Refusal)
    else:
        assert isinstance(found, Candidate)
        assert found.violations == violations
        assert [v.key for v in found.victims] == [v.key for v in sorted(victims, key=importance)]


class Filters:
    """A framework with two filters that are node-local: room, and a friend that must be there."""

    def __init__(self, needs_friend: bool) -> None:
        self.needs_friend = needs_friend
        self.promised: list[PodInfo] = []
        self.handle = SimpleNamespace(nominated=self)

    def pods_for_node(self, node: str, but: str = "") -> list[PodInfo]:
        return [info for info in self.promised if info.uid != but]

    def on_one_node(self, cycle: Any) -> OnOneNode:
        """No filter reads the node object alone, and nobody has to be told of pods."""
        return OnOneNode((), (), 1, ())

    def add_pod(self, *args: Any) -> None:
        pass

    remove_pod = add_pod

    def filter_one(
        self, cycle: Any, pod: PodInfo, info: NodeInfo, *, pods_only: bool = False
    ) -> Status | None:
        room = info.allocatable["cpu"] - info.requested["cpu"]
        if pod.kind.requests["cpu"] > room:
            return unschedulable(f"{room} left")
        is_friend_there = any(other.kind.labels.get("app") for other in info.pods.values())
        return unschedulable("lonely") if self.needs_friend and not is_friend_there else None


changes = st.lists(
    st.tuples(
        st.sampled_from(["come", "come", "go", "promise", "arrive", "withdraw", "resize"]),
        *(st.integers(0, 5), sizes, st.sampled_from([0, 0, 1, 5, 9]), st.sampled_from(["", "a"])),
    ),
    max_size=12,
)


@given(changes=changes, size=sizes, needs_friend=st.booleans())
def test_a_refusal_that_holds_is_what_asking_again_would_find(
    changes: list[tuple[str, int, int, int, str]], size: int, needs_friend: bool
) -> None:
    """Over a history of one node, its pods and those it was promised to."""
    framework: Any = Filters(needs_friend)
    incoming = PodInfo(pod("incoming", cpu=size, spec={"priority": 5}))
    info = NodeInfo("node-1")
    info.set_node(node("node-1", cpu=ROOM))
    before: Refusal | None = None
    for n, (change, which, room, priority, app) in enumerate(changes):
        newcomer = PodInfo(resident(n, room, priority, app, which % 4))
        there, promised = list(info.pods.values()), framework.promised
        if change == "come":
            info.add_pod(newcomer)
        elif change == "go" and there:
            info.remove_pod(there[which % len(there)])
        elif change == "promise":
            promised.append(newcomer)
        elif change in ("arrive", "withdraw") and promised:
            arrived = promised.pop(which % len(promised))
            if change == "arrive":
                info.add_pod(arrived)
        elif change == "resize":
            info.set_node(node("node-1", cpu=ROOM - which))
        cycle: Any = SimpleNamespace(statuses=None)

        kept = select_victims(framework, cycle, incoming, info, [], before)

        anew = select_victims(framework, cycle, incoming, info, [])
        if isinstance(kept, Refusal) and isinstance(anew, Refusal):
            assert kept.status == anew.status
            before = kept
        else:
            assert isinstance(kept, Candidate)
            assert isinstance(anew, Candidate)
            assert kept == anew
            before = None


def test_a_refusal_holds_while_only_possible_victims_come_and_go() -> None:
    framework: Any = Filters(needs_friend=False)
    incoming = PodInfo(pod("incoming", cpu=6, spec={"priority": 5}))
    low, promised = PodInfo(resident(0, 2, 0, "", 0)), PodInfo(resident(1, 4, 9, "", 0))
    info = NodeInfo("node-1")
    info.set_node(node("node-1", cpu=ROOM))
    info.add_pod(low)
    framework.promised = [promised]
    cycle: Any = SimpleNamespace(statuses=None)
    refusal = select_victims(framework, cycle, incoming, info, [])
    assert isinstance(refusal, Refusal)

    # One more to evict, and the promised pod has arrived: nothing is asked again.
    info.add_pod(PodInfo(resident(2, 1, 0, "", 0)))
    info.add_pod(promised)
    framework.promised, framework.filter_one = [], None

    assert select_victims(framework, cycle, incoming, info, [], refusal) is refusal


def test_a_refusal_without_the_promised_pods_ends_when_they_arrive() -> None:
    framework: Any = Filters(needs_friend=True)
    incoming = PodInfo(pod("incoming", cpu=4, spec={"priority": 5}))
    low, friend = PodInfo(resident(0, 4, 0, "", 0)), PodInfo(resident(1, 2, 9, "a", 0))
    info = NodeInfo("node-1")
    info.set_node(node("node-1", cpu=ROOM))
    info.add_pod(low)
    framework.promised = [friend]
    cycle: Any = SimpleNamespace(statuses=None)
    refusal = select_victims(framework, cycle, incoming, info, [])
    assert isinstance(refusal, Refusal)
    assert refusal.status == unschedulable("lonely")

    framework.promised = []
    info.add_pod(friend)
    found = select_victims(framework, cycle, incoming, info, [], refusal)

    assert isinstance(found, Candidate)
    assert found.victims == (low,)


crowds = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 1), st.integers(-1, 3)),
            min_size=1,
            max_size=3,
        ),
        st.integers(-1, 2),
    ),
    max_size=6,
)


@given(crowds)
def test_the_best_candidate_hurts_least(crowds: list[tuple[list[tuple[int, int]], int]]) -> None:
    """By upstream's criteria in turn, and at last by the node's name."""
    candidates = []
    for number, (victims, violations) in enumerate(crowds):
        infos = []
        for n, (priority, minute) in enumerate(victims):
            status = {"startTime": f"2026-01-01T00:0{minute}:00Z"} if minute >= 0 else {}
            spec = {"priority": priority}
            infos.append(PodInfo(pod(f"v-{n}", node="x", spec=spec, status=status)))
        infos.sort(key=importance)
        candidates.append(Candidate.of(f"node-{9 - number}", tuple(infos), violations))

    def harm(candidate: Candidate) -> tuple[Any, ...]:
        victims = candidate.victims
        highest = victims[0].priority
        return (
            candidate.violations,
            highest,
            sum(victim.priority + 2**31 for victim in victims),
            len(victims),
            # The later the first of the most important ones started, the better.
            -min(start_time_s(victim) for victim in victims if victim.priority == highest),
            candidate.node,
        )

    best = min(candidates, key=harm, default=None)
    assert pick_candidate(candidates, None) is best
    any_of_them = pick_candidate(candidates, Random(0))
    assert (any_of_them and harm(any_of_them)[:-1]) == (best and harm(best)[:-1])


def test_each_of_the_least_harmful_candidates_is_equally_likely() -> None:
    victims = (PodInfo(pod("v", node="x")),)
    worse = Candidate.of("a", victims, 1)
    candidates = [worse, *(Candidate.of(name, victims, 0) for name in "bcde")]
    dice = Random(3)

    counts = Counter(getattr(pick_candidate(candidates, dice), "node", "") for _ in range(1200))

    assert sorted(counts) == ["b", "c", "d", "e"]
    # Even chances exceed it once in a thousand times.
    assert sum((count - 300) ** 2 / 300 for count in counts.values()) < 16.27
