"""Plans: who is asked about a kind of pod, and how often the plugins have to say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.framework.kept import GONE_MAX, ONCE_MAX, KeptAnswers
from stowplan.framework.plan import LocalPlugins, Outline, Plan, PlanCounts
from stowplan.framework.plugin import ProfilePlugins
from stowplan.framework.reads import Reads
from stowplan.framework.runtime import Framework
from stowplan.framework.status import SKIP
from stowplan.plugins.priority_sort import PrioritySort
from tests.builders import World, info, node, pod


class Asked:
    """A node-local plugin that notes what it is asked before any node is looked at."""

    def __init__(self, name: str, *, reads: Reads, skips_from: int = 0) -> None:
        self.name = name
        self.reads = reads
        self.skips_from = skips_from
        self.asked: Counter[str] = Counter()

    def signature(self, pod: Any) -> Any:
        self.asked["signature"] += 1
        return 1 if Reads.SIZE not in self.reads else pod.kind.requests.get("cpu", 0)

    def pre_filter(self, cycle: Any, pod: Any) -> Any:
        self.asked["pre_filter"] += 1
        cpu = pod.kind.requests.get("cpu", 0)
        if self.skips_from and cpu >= self.skips_from:
            return SKIP
        cycle.data[self.name] = "any size" if Reads.SIZE not in self.reads else cpu
        return None

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def pre_score(self, cycle: Any, pod: Any, rows: Any) -> None:
        self.asked["pre_score"] += 1

    def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
        return 0


def framework_of(world: World, *plugins: Asked) -> Framework:
    names = {plugin.name: 1 for plugin in plugins}
    return Framework(
        "default-scheduler",
        ProfilePlugins(
            PrioritySort(),
            pre_filter=plugins,
            filter=plugins,
            pre_score=plugins,
            score=plugins,
            weights=names,
        ),
        world.handle,
    )


def test_of_pods_that_differ_in_size_only_those_plugins_are_asked_that_look_at_it() -> None:
    general, sized = (
        Asked("General", reads=Reads.PODS),
        Asked("Sized", reads=Reads.PODS | Reads.SIZE),
    )
    framework = framework_of(World(node("n")), general, sized)

    pods = [info(pod(cpu=f"{n}m")) for n in range(1, 6)]
    plans = [framework.plan_of(thing) for thing in pods]

    assert set(general.asked.values()) == {1}
    assert set(sized.asked.values()) == {5}
    assert len({plan.signature for plan in plans}) == 5
    assert len({id(plan.outline) for plan in plans}) == 1
    assert [plan.data["Sized"] for plan in plans] == [1, 2, 3, 4, 5]
    assert {plan.data["General"] for plan in plans} == {"any size"}


def test_a_plugin_that_has_its_say_by_size_is_left_out_by_size() -> None:
    sized = Asked("Sized", reads=Reads.PODS | Reads.SIZE, skips_from=3)
    framework = framework_of(World(node("n")), Asked("General", reads=Reads.PODS), sized)

    pods = [info(pod(cpu=f"{n}m")) for n in range(1, 6)]
    plans = [framework.plan_of(thing) for thing in pods]

    skipped = [sorted(plan.outline.skipped) for plan in plans]
    assert skipped == [[], [], ["Sized"], ["Sized"], ["Sized"]]
    assert "Sized" not in plans[-1].data


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"labels": {"app": "b"}}, id="labels"),
        pytest.param({"namespace": "elsewhere"}, id="namespace"),
        pytest.param({"spec": {"nodeSelector": {"zone": "a"}}}, id="selector"),
        pytest.param({"spec": {"overhead": {"cpu": "1"}}}, id="overhead"),
    ],
)
def test_a_pod_that_differs_in_more_than_size_is_asked_about_anew(other: dict[str, Any]) -> None:
    general = Asked("General", reads=Reads.PODS)
    framework = framework_of(World(node("n")), general)

    pods = info(pod(cpu="1")), info(pod(cpu="2", **other))
    for thing in pods:
        framework.plan_of(thing)

    assert general.asked["signature"] == 2


def test_everybody_is_asked_again_when_nodes_have_come() -> None:
    """Their number may be part of a signature."""
    general = Asked("General", reads=Reads.PODS)
    world = World(node("n"))
    framework = framework_of(world, general)
    small, large = info(pod(cpu="1")), info(pod(cpu="2"))

    framework.plan_of(small)
    world.add(node("m"))
    framework.plan_of(large)
    framework.plan_of(small)

    assert general.asked["signature"] == 2


# -- which answers are kept -----------------------------------------------------------------


def plan_for(signature: int) -> Plan:
    nobody, tally = LocalPlugins((), ()), PlanCounts((), (), (), ())
    outline = Outline(frozenset(), (), nobody, nobody, (), (), (), (), (), (), tally, None)
    return Plan(1, -1, (signature,), (), {}, outline)


def meet(kept: KeptAnswers, signature: int) -> bool:
    """Whether its answers were there."""
    plan = plan_for(signature)
    if kept.find(plan) is not None:
        return True
    kept.keep(plan, kept.make(plan))
    return False


def others() -> Iterator[int]:
    yield from range(1_000, 1_000_000)


def test_signatures_that_never_come_back_take_no_room() -> None:
    kept, passing = KeptAnswers(), others()

    for _ in range(10 * ONCE_MAX):
        assert not meet(kept, next(passing))

    assert len(kept) == ONCE_MAX


def test_a_signature_that_came_back_is_not_pushed_out_by_those_that_do_not() -> None:
    kept, passing = KeptAnswers(), others()
    meet(kept, 1)
    assert meet(kept, 1)

    for _ in range(10 * ONCE_MAX):
        meet(kept, next(passing))

    assert meet(kept, 1)


def test_a_signature_that_comes_back_late_is_kept_from_then_on() -> None:
    kept, passing = KeptAnswers(), others()
    meet(kept, 1)
    for _ in range(ONCE_MAX + 1):
        meet(kept, next(passing))
    assert not meet(kept, 1)

    for _ in range(10 * ONCE_MAX):
        meet(kept, next(passing))

    assert meet(kept, 1)


def test_signatures_met_once_are_not_remembered_without_end() -> None:
    kept, passing = KeptAnswers(), others()
    for _ in range(GONE_MAX + 2 * ONCE_MAX):
        meet(kept, next(passing))

    assert len(kept._gone) == GONE_MAX
