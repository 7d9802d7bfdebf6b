"""A scheduler without a past: what would somebody decide who has kept nothing and sees it all?

The slow way to the same answer.  Asked at the end about the cluster as it is (`ending`), and now
and then about what a process believes while it decides (`second_opinion`).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from stowplan.config import load_config, parse_feature_gates
from stowplan.core.decision import Decision
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, ScheduleNext
from stowplan.framework.plugin import Nominate
from stowplan.objects.base import KubeObject
from stowplan.runtime.driver import WATCHED
from stowplan.state.groups import GroupedCache
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.deciding import Deciding, Waiting
from tests.simulation.weather import Weather


class FreshScheduler:
    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._deciding = Deciding([*objects], random=Random(0), tie_break="name", detail=False)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Another pod, for which room is being made on that node."""
        self._deciding.waiting[pod.key] = Waiting(pod)
        self._deciding.nominator.add(pod, Nominate(node))

    def decide(self, pod: PodInfo) -> Decision:
        """A pod that gets a node is counted there from now on."""
        framework = self._deciding.framework_of(pod)
        assert framework is not None, f"{pod.key} is not ours"
        self._deciding.waiting.setdefault(pod.key, Waiting(pod))
        return self._deciding.attempt(framework, pod).decision


def groups_that_fit(objects: Iterable[KubeObject], weather: Weather) -> list[str]:
    """Groups of which members would get a node now, from somebody who has kept nothing."""
    config = load_config(
        None, gates=parse_feature_gates(",".join(f"{gate}=true" for gate in sorted(weather.gates)))
    )
    machine = Machine(config, random=Random(0), tie_break="name")
    assert isinstance(machine.cache, GroupedCache)
    for thing in objects:
        machine.handle(Added(thing), 0.0)
    while machine.has_work:
        machine.handle(ScheduleNext(1), 0.0)
    return sorted(
        {
            info.group_key
            for uid in machine.cache.assumed_uids()
            if (info := machine.cache.pod(uid)) is not None and info.kind.is_member
        }
    )


def second_opinion(machine: Machine, pod: PodInfo, decision: Decision) -> str:
    """How the decision differs from what the cache and nothing else would lead to, if it does."""
    if any(_lost_a_port(info) for info in machine.cache.nodes.values()):
        return ""
    fresh = FreshScheduler(_believed(machine, pod.uid))
    nominator = machine.queue.nominator
    for node in nominator.nodes():
        for nominated in nominator.pods_for_node(node):
            fresh.nominate(nominated, node)
    other = fresh.decide(pod)
    mine, theirs = _essence(decision), _essence(other)
    return "" if mine == theirs else f"{pod.key}: decided {mine}, should be {theirs}"


def _lost_a_port(info: NodeInfo) -> bool:
    """Two pods had the same port here, by somebody else's binding, and one of them has ended.

    Ports in use are a set, as upstream has them: this one counts as free from then on.
    """
    return info.used_ports != {port for pod in info.pods.values() for port in pod.kind.host_ports}


def _essence(decision: Decision) -> tuple[int, dict[str, int]]:
    """What does not depend on chance: how many nodes are feasible, and why the others are not."""
    return decision.feasible_count, {} if decision.feasible_count else dict(decision.reasons)


def _believed(machine: Machine, but: str) -> Iterable[KubeObject]:
    cache = machine.cache
    for info in cache.nodes.values():
        if info.node is not None:
            yield info.node
        yield from (pod.pod for pod in info.pods.values() if pod.uid != but)
    for kind, _ in WATCHED:
        yield from machine.objects.all(kind.struct).values()
