"""From a configuration to the queue and the algorithm; the frameworks are `core.profiles`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.config import SchedulerConfig
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.extender import Extender
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
