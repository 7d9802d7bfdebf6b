"""What must hold after every step, whatever went wrong before it.

`check_process` looks at one scheduler: every pod is in exactly one place, the cache is what the
informers showed plus what is assumed, sums are the sums of pods.  `check_bind` looks at each
binding as it is sent, `bindings` at what it does to the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stowplan.core.machine import Machine
from stowplan.objects.api import Bind
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.queue import QueuedGroup
from stowplan.state.consistency import cache_problems, table_problems
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.simulation.devices import EXTENDED
from tests.simulation.group_checks import group_problems

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Broken(AssertionError):
    """Something that must always hold does not."""


def check_process(process: Process) -> None:
    problems = [*_problems(process)]
    if problems:
        raise Broken(f"{process.name}: " + "; ".join(problems))


def _problems(process: Process) -> Iterable[str]:
    machine = process.machine
    if process.leads and any(
        other.leads for other in process.world.processes if other is not process
    ):
        yield "another process leads as well"
    if isinstance(machine._deciding, QueuedGroup):
        return  # Members are tried on nodes, and victims are off theirs, until an extender answers.
    if machine.cache._generation != process.checked_generation:
        process.checked_generation = machine.cache._generation
        yield from cache_problems(machine.cache)
    yield from _attempt_problems(process)
    if process.driver._inbox or machine._held_back:
        return  # Something was shown that the machine has not looked at yet.
    yield from _place_problems(machine)
    yield from _view_problems(process)
    yield from group_problems(machine)


# -- one place ------------------------------------------------------------------------------

_UNDER_WAY = (["in flight"], ["assumed"], ["in flight", "assumed"])
# Somebody else bound it while it was on its way: the attempt ends by itself.
_OVERTAKEN = (["bound"], ["in flight", "bound"])


def _place_problems(machine: Machine) -> Iterable[str]:
    """Every pod that waits for a node is in exactly one place; no other pod is in a queue."""
    places: dict[str, list[str]] = {}
    for uid, place in machine.queue.places():
        places.setdefault(uid, []).append(place)
    cache = machine.cache
    known = {info.uid: info for info in machine.pods.values()}
    for uid in cache.pod_uids():
        places.setdefault(uid, []).append("assumed" if cache.is_assumed(uid) else "bound")
    for uid, info in known.items():
        found = places.get(uid, [])
        if not _is_proper(machine, info, found):
            yield f"pod {info.key} is {' and '.join(found) or 'nowhere'}"
    for uid, found in places.items():
        if uid not in known and found not in (*_UNDER_WAY, ["in flight", "bound"]):
            yield f"pod {uid}, which is gone, is {' and '.join(found)}"
    for uid in machine.queue.nominator.node_of:
        if uid not in known or known[uid].node_name:
            yield f"pod {uid} is nominated, but does not wait for a node"


def _is_proper(machine: Machine, info: PodInfo, found: list[str]) -> bool:
    if info.node_name:
        return found in _OVERTAKEN
    if not machine.is_ours(info.pod):
        return not found
    if not found:
        # A pod that is on its way out is not tried any more.
        return info.pod.metadata.deletion_timestamp is not None
    return (len(found) == 1 and found != ["bound"]) or found in _UNDER_WAY


def _attempt_problems(process: Process) -> Iterable[str]:
    """What is reserved or assumed belongs to an attempt that is under way, or has succeeded."""
    under_way = process.notes.under_way
    for uid, node in process.reserved.items():
        if uid not in under_way:
            yield f"pod {uid} is not on its way and has a reservation on {node}"
    for uid in process.machine.cache.assumed_uids():
        if uid not in under_way and uid not in process.bound:
            yield f"pod {uid} is not on its way and still assumed"


# -- the cache is what was shown, plus what is assumed --------------------------------------


def _view_problems(process: Process) -> Iterable[str]:
    machine, informers = process.machine, process.driver.informers
    pods = [pod for pod in informers[POD].list() if isinstance(pod, Pod)]
    if {pod.key: pod.uid for pod in pods} != {k: i.uid for k, i in machine.pods.items()}:
        yield "the pods that are known are not those that were shown"
    shown = {
        p.uid: (p.spec.node_name, p.metadata.resource_version) for p in pods if p.spec.node_name
    }
    cache = machine.cache
    cached = {
        uid: (info.node_name, info.pod.metadata.resource_version)
        for uid in cache.pod_uids()
        if not cache.is_assumed(uid) and (info := cache.pod(uid)) is not None
    }
    if shown != cached:
        only_shown, only_cached = _difference(shown, cached), _difference(cached, shown)
        yield f"pods on nodes: {only_shown} are shown, {only_cached} are in the cache"
    nodes = {node.name: node.metadata.resource_version for node in informers[NODE].list()}
    known = {
        name: info.node.metadata.resource_version
        for name, info in cache.nodes.items()
        if info.node is not None
    }
    if nodes != known:
        only_shown, only_known = _difference(nodes, known), _difference(known, nodes)
        yield f"nodes: {only_shown} are shown, {only_known} are in the cache"


def _difference(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in one.items() if other.get(key) != value}


def check_table(process: Process) -> None:
    """Right after the snapshot was brought up to date: nothing raised here would be heard."""
    machine = process.machine
    process.problems += table_problems(machine.table, machine.cache)


# -- bindings -------------------------------------------------------------------------------


def check_bind(process: Process, bind: Bind) -> None:
    """A binding leaves the process."""
    if not process.leads:
        raise Broken(f"{process.name} binds {bind.name} and does not lead")
    if bind.uid in process.open_binds or bind.uid in process.bound:
        raise Broken(f"{process.name} binds {bind.name} twice")
    machine = process.machine
    known = machine.pods.get(f"{bind.namespace}/{bind.name}")
    if known is None or known.uid != bind.uid or known.node_name:
        return  # Gone or taken while it was on its way: the server will refuse.
    if known.pod.metadata.deletion_timestamp is not None:
        return
    assumed = machine.cache.pod(bind.uid)
    if assumed is None or assumed.node_name != bind.node:
        raise Broken(f"{process.name} binds {bind.name} to {bind.node}, where it is not assumed")


def overcommitted(node: Node, pods: Iterable[Pod], newcomer: Pod) -> str:
    """What a node with these pods, the newcomer among them, has too little of for the newcomer."""
    info = NodeInfo(node.name)
    info.set_node(node)
    requested: Counter[str] = Counter()
    ports: Counter[tuple[str, int]] = Counter()
    count = 0
    for pod in pods:
        kind = PodInfo(pod).kind
        requested.update(kind.running_requests)
        ports.update((protocol, port) for _, protocol, port in kind.host_ports)
        count += 1
    wanted = PodInfo(newcomer).kind
    if count > info.allocatable.get("pods", 0):
        return f"{count} pods"
    for name, amount in wanted.requests.items():
        if name == EXTENDED:
            continue  # It is had as devices, which `allocations` counts.
        if amount and requested[name] > info.allocatable.get(name, 0):
            return f"{requested[name]} {name}"
    for _, protocol, port in wanted.host_ports:
        if ports[protocol, port] > 1:
            return f"port {port} twice"
    return ""
