"""From a configuration to the queue and the algorithm, and what another one or a fork takes over.

The frameworks are made by `core.profiles`.  Called by `core.machine`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.config import SchedulerConfig
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.extender import Extender
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.queue import (
    Debt,
    GroupedQueue,
    ProfileQueueing,
    QueuedPod,
    SchedulingQueue,
    build_hint_map,
)
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine


def make_queue(
    machine: Machine, config: SchedulerConfig, frameworks: dict[str, Framework]
) -> SchedulingQueue:
    extenders = bool(config.extenders)
    profiles = {
        name: ProfileQueueing(
            framework.plugins.pre_enqueue,
            build_hint_map(framework.plugins.instances.values(), has_extenders=extenders),
        )
        for name, framework in frameworks.items()
    }
    sort = next(iter(frameworks.values())).plugins.queue_sort

    def plugin_error(plugin: str, point: str, pod: PodInfo, cause: Exception) -> None:
        machine.log.plugin_error(plugin, point, cause)

    def held_back(queued: QueuedPod, debt: Debt) -> None:
        note = (
            f"an attempt at {debt.pod} took {debt.seconds:.2f} s: "
            f"pods of other namespaces go first for up to {debt.until_s - machine.now_s:.1f} s"
        )
        machine.record(queued.info.pod, "Warning", "SchedulingHeldBack", "Scheduling", note)

    def sort_key(pod: PodInfo, timestamp_s: float) -> tuple[int, Any]:
        try:
            return 0, sort.sort_key(pod, timestamp_s)
        except Exception as cause:
            # A pod that cannot be ordered comes last: it is neither lost nor holds up the others.
            machine.log.plugin_error(getattr(sort, "name", ""), "QueueSort", cause)
            return 1, timestamp_s

    make: Callable[..., SchedulingQueue] = SchedulingQueue
    if machine.groups is not None:
        make = partial(
            GroupedQueue,
            group_gates=_group_gates(frameworks),
            on_arrival=machine.groups.arrived,
            on_hold=machine.groups.held_back,
            priority_of=machine.groups.priority_of,
        )
    return make(
        sort_key,
        lambda: machine.stepper.now_s,
        profiles,
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
        unschedulable_max_s=machine.unschedulable_max_s,
        live_pod=machine.pods.get,
        recorder=machine.recorder,
        on_plugin_error=plugin_error,
        on_held_back=held_back,
    )


def _group_gates(frameworks: dict[str, Framework]) -> frozenset[str]:
    """The PreEnqueue plugins that hold back whole groups."""
    return frozenset(
        name
        for framework in frameworks.values()
        for name, plugin in framework.plugins.instances.items()
        if getattr(plugin, "gates_groups", False)
    )


def make_algorithm(config: SchedulerConfig, tie_break: TieBreak) -> Algorithm:
    extenders = [Extender(entry) for entry in config.extenders]
    return Algorithm(
        # Those that must answer come first, as upstream has it.
        extenders=sorted(extenders, key=lambda extender: extender.ignorable),
        tie_break=tie_break,
    )


# -- forking ----------------------------------------------------------------------------------
# Frameworks are built anew from the same configuration: what they keep is worked out anew, and a
# plugin's own state begins where its constructor begins.  Generators cannot be copied, so pods on
# their way to a node (at Permit, in PreBind) begin their attempt anew, as after a restart.


def go_on_from(fork: Machine, origin: Machine) -> None:
    fork.stepper.now_s = origin.stepper.now_s
    fork.stopping = origin.stopping
    fork.algorithm.start_index = origin.algorithm.start_index
    fork.pods.update(origin.pods)
    for name, framework in fork.frameworks.items():
        framework.tallies.update(origin.frameworks[name].tallies)
    fork.queue.take_over(origin.queue, copy)
    for uid in fork.cache.assumed_uids():
        assumed = fork.cache.pod(uid)
        assert assumed is not None, uid
        fork.cache.forget_pod(assumed)
        known = fork.pods.get(assumed.key)
        if known is not None and known.uid == uid and not known.node_name:
            fork.queue.add(known)


# -- another configuration --------------------------------------------------------------------
# It takes over what the old one left.  Pods that wait keep their history and are all tried again,
# since what rejected them may be gone; pods on their way to a node go on under the plugins that
# started them.


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
