"""A new configuration takes over what the old one left: no pod is lost, no promise forgotten.

Pods that wait keep their history and are all tried again, since what rejected them may be gone.
Pods on their way to a node go on under the plugins that started them.  Called by
`Machine.reconfigure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.queue import SchedulingQueue
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine

_PREEMPTION = "DefaultPreemption"


def carry_over(
    machine: Machine, old_frameworks: dict[str, Framework], old_queue: SchedulingQueue
) -> None:
    """`machine` has its new frameworks and its new, empty queue already."""
    _keep_preemptions(old_frameworks, machine.frameworks)
    for name, framework in machine.frameworks.items():
        if name in old_frameworks:
            framework.tallies.update(old_frameworks[name].tallies)
    queue = machine.queue
    queue.metrics.go_on_from(old_queue.metrics)
    queue.take_debts(old_queue)
    for queued in old_queue.waiting():
        if machine.is_ours(queued.info.pod):
            queue.adopt(queued)
    known = {info.uid: info for info in machine.pods.values()}
    for info in known.values():
        if queue.get(info.key) is None and _should_wait(machine, info):
            queue.add(info)
    for uid, node in old_queue.nominator.node_of.items():
        if uid in known and uid not in queue.nominator.node_of:
            queue.nominator.add(known[uid], Nominate(node))
    old_queue.close()


def _should_wait(machine: Machine, info: PodInfo) -> bool:
    """Whether the pod waits for a node, and nobody has it: its profile is new, perhaps."""
    return (
        machine.is_ours(info.pod)
        and not info.node_name
        and not info.kind.terminating
        and not machine.cache.is_assumed(info.uid)
    )


def _keep_preemptions(old: dict[str, Framework], new: dict[str, Framework]) -> None:
    """Preemptors whose victims are being deleted stay held back until that is over."""
    for name, framework in new.items():
        before = old[name].plugins.instances.get(_PREEMPTION) if name in old else None
        plugin = framework.plugins.instances.get(_PREEMPTION)
        if plugin is not None and before is not None:
            plugin.preempting = before.preempting
            plugin.preempting_groups = before.preempting_groups
