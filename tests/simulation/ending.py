"""When the faults have stopped and time has run on: nothing is lost, nothing is left over.

Every pod that fits anywhere must be bound.  Whether a pod fits is asked of a scheduler that is
made for the question, has kept nothing, and knows nothing but the cluster as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stowplan.core.machine import Machine
from stowplan.objects.base import KubeObject
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, POD_GROUP
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup, group_key
from stowplan.queue import GroupedQueue
from stowplan.runtime.driver import watched
from stowplan.state.pod_info import PodInfo
from tests.simulation import allocations
from tests.simulation.invariants import Broken
from tests.simulation.oracle import FreshScheduler, groups_that_fit
from tests.simulation.plugins import SLOW
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


def unrest(world: World) -> str:
    """What is still going on; empty when nothing is."""
    leaders = [process for process in world.processes if process.leads]
    if len(world.processes) < world.weather.replicas or not leaders:
        return "a process is missing, or nobody leads"
    if any(pod.metadata.deletion_timestamp is not None for pod in world.pods()):
        return "a pod is ending"
    for process in world.processes:
        for problem in _views(world, process):
            return problem
    for process in leaders:
        machine = process.machine
        counts = machine.queue.pending_counts()
        counts["backoff"] -= _torn_count(world, machine)
        if counts["active"] or counts["backoff"] or process.notes.under_way:
            return f"{process.name} has {counts}, under way {[*process.notes.under_way.values()]}"
        if machine.stepper.pending_count or process.driver._inbox:
            return f"{process.name} waits for {machine.stepper.pending_count} answers"
        if process.recorder.pending:
            return f"{process.name} writes {process.recorder.pending} events"
    return ""


def _torn_count(world: World, machine: Machine) -> int:
    """Members of groups that somebody else spread over domains: they are tried for ever."""
    queue, nodes = machine.queue, {node.name: node for node in world.nodes()}
    if not isinstance(queue, GroupedQueue):
        return 0
    torn = 0
    for group in world.every(POD_GROUP):
        entry = queue.entry_of(group.key)
        assert isinstance(group, PodGroup)
        if entry is None or not group.spec.topology_key or entry.info.key not in queue._backoff:
            continue
        bound = [pod for pod in world.pods() if group_key(pod) == group.key and pod.spec.node_name]
        found = [nodes.get(pod.spec.node_name) for pod in bound]
        domains = {
            (node.metadata.labels or {}).get(group.spec.topology_key) if node else None
            for node in found
        }
        torn += len(entry.members) if len(domains) > 1 or None in domains else 0
    return torn


def check(world: World) -> None:
    problems = [*_problems(world)]
    if problems:
        raise Broken("at the end: " + "; ".join(problems))


def _problems(world: World) -> Iterable[str]:
    leaders = [process for process in world.processes if process.leads]
    if len(leaders) != 1:
        yield f"{len(leaders)} processes lead"
    for process in leaders:
        yield from _leftovers(process)
        yield from _schedulable(world, process)
    yield from _lost_events(world)
    yield from world.allocations.left_over()


def _views(world: World, process: Process) -> Iterable[str]:
    """Every informer shows what the server has."""
    for kind, options in watched(world.groups.version):
        items = [thing for thing, _ in world.store.select(kind, options)[0]]
        there = {(t.key, t.uid): t.metadata.resource_version for t in items}
        shown = process.driver.informers[kind].list()
        if {(t.key, t.uid): t.metadata.resource_version for t in shown} != there:
            yield f"{process.name} sees other {kind.plural} than there are"


def _leftovers(process: Process) -> Iterable[str]:
    machine = process.machine
    left = {
        "assumed": machine.cache.assumed_uids(),
        "reserved": list(process.reserved),
        "waiting at Permit": machine.waiting.uids(),
        "in PreBind": list(machine.bindings.in_pre_bind),
        "claims in flight": allocations.in_flight(process),
        "timers": [""] * machine.stepper.timer_count,
    }
    for what, found in left.items():
        if found:
            yield f"{process.name} has {len(found)} {what} left: {found}"
    yield from allocations.cache_problems(process)


def _schedulable(world: World, process: Process) -> Iterable[str]:
    """Pods that wait although there is a place for them."""
    pending = [
        pod
        for pod in world.pods()
        if not pod.spec.node_name and not pod.spec.scheduling_gates and process.machine.is_ours(pod)
    ]
    if any(group_key(pod) for pod in pending) and world.weather.groups:
        yield from _schedulable_groups(world, process)
        pending = [pod for pod in pending if not group_key(pod)]
    if not pending:
        return
    fresh = FreshScheduler(
        thing for kind, _ in watched(world.groups.version) for thing in world.every(kind)
    )
    for pod in pending:
        node = fresh.decide(PodInfo(pod)).node
        if node:
            place = process.machine.queue.place_of(pod.uid)
            queued = process.machine.queue.get(pod.key)
            rejectors = sorted(queued.rejectors) if queued is not None else []
            yield f"{pod.key} fits {node} but is {place}, turned down by {rejectors}"
            return  # It is counted on its node now: later answers would be about another cluster.


def _objects(world: World) -> list[KubeObject]:
    return [thing for kind, _ in watched(world.groups.version) for thing in world.every(kind)]


def _schedulable_groups(world: World, process: Process) -> Iterable[str]:
    """Groups that wait although there is a place for them.

    Members are placed one after the other, for good: whether all find a place may be a matter of
    order and chance, unless they are alike and need nothing but room.  Nor those of which members
    wait at Permit: a group whose last one does is not scheduled.
    """
    for key in groups_that_fit(_objects(world), world.weather):
        members = [pod for pod in world.pods() if group_key(pod) == key]
        queue = process.machine.queue
        waiting = [pod for pod in members if not pod.spec.node_name]
        if any(SLOW in (pod.metadata.labels or {}) for pod in members):
            continue
        if not _are_alike_and_plain(waiting):
            continue
        places = {pod.name: queue.place_of(pod.uid) for pod in waiting}
        yield f"{key} fits, but its members are {places}"


def _are_alike_and_plain(pods: list[Pod]) -> bool:
    first = pods[0].spec
    linked = first.affinity or first.topology_spread_constraints
    plain = not (linked or first.resource_claims or first.volumes)
    return plain and all(pod.spec == first for pod in pods)


def _lost_events(world: World) -> Iterable[str]:
    """Where no call fails and nobody is cut short, each announced binding can be read of."""
    weather = world.weather
    if weather.refused or weather.lost or weather.late or weather.conflicts:
        return
    if weather.crash_period_s or weather.crash_at_call or weather.replicas > 1 or world.cut_short:
        return
    written = {
        event.regarding.uid
        for event in world.every(EVENT)
        if isinstance(event, Event) and event.reason == "Scheduled" and event.regarding is not None
    }
    for uid, key in world.announced.items():
        if uid not in written:
            yield f"nobody was told that {key} was scheduled"
