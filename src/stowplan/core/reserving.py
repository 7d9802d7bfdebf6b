"""The end of a scheduling cycle: assume, Reserve, Permit; and undoing what Reserve did.

`core.schedule_one` calls it once a node was chosen, `core.machine` unreserves when binding fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe, point_failed
from stowplan.framework.plugin import Wait
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import SUCCESS
from stowplan.state.cache import Cache
from stowplan.state.pod_info import PodInfo

PERMIT_TIMEOUT_S_MAX = 15 * 60.0


def assume(cache: Cache, pod: PodInfo, node: str) -> PodInfo:
    """The pod with its node set, counted in the cache; CacheError if it is there already."""
    thing = pod.pod
    assumed = PodInfo(replace(thing, spec=replace(thing.spec, node_name=node)), pod.kind)
    assumed.claims = pod.claims
    cache.assume_pod(assumed)
    return assumed


def reserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
    """Let every Reserve plugin take what it needs; the first refusal, named, ends it."""
    plugins = cycle.plan.outline.reserve
    if not plugins:
        framework.reserve_s.append(0.0)
        return None
    recorder = framework.recorder
    started_s = recorder.now()
    label = "Error"
    try:
        status = _reserve(framework, plugins, cycle, pod, node)
        label = SUCCESS if status is None else status.code.label
    finally:
        recorder.point("Reserve", framework.profile, label, recorder.now() - started_s)
    return status


def _reserve(
    framework: Framework, plugins: tuple[Any, ...], cycle: Cycle, pod: PodInfo, node: str
) -> Status | None:
    for plugin in plugins:
        started_s = framework.recorder.now() if cycle.sampled else 0.0
        try:
            status = plugin.reserve(cycle, pod, node)
        except Exception as cause:
            raise point_failed(_name(plugin), "Reserve", describe(cause)) from cause
        if cycle.sampled:
            _note(framework, _name(plugin), "Reserve", status, started_s)
        if status is not None:
            if status.is_rejected:
                return Status(status.code, status.reasons, _name(plugin))
            raise point_failed(_name(plugin), "Reserve", status.message)
    return None


def unreserve(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: str
) -> Iterator[PluginFailed]:
    """Have every Reserve plugin give back what it took, in reverse order.

    One that raises does not keep the others from it: its failure is handed out.
    """
    if not framework.plugins.reserve:
        return
    recorder = framework.recorder
    started_s = recorder.now()
    for plugin in reversed(framework.plugins.reserve):
        try:
            plugin.unreserve(cycle, pod, node)
        except Exception as cause:
            failure = point_failed(_name(plugin), "Unreserve", describe(cause))
            failure.__cause__ = cause
            yield failure
    recorder.point("Unreserve", framework.profile, SUCCESS, recorder.now() - started_s)


def permit(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: str
) -> tuple[Status | None, dict[str, Wait]]:
    """The first refusal, named; or who wants the pod to wait, and how long."""
    recorder = framework.recorder
    started_s = recorder.now()
    label = "Error"
    try:
        status, waits = _permit(framework, cycle, pod, node)
        label = SUCCESS if status is None else status.code.label
        if waits:
            label = Code.WAIT.label
    finally:
        recorder.point("Permit", framework.profile, label, recorder.now() - started_s)
    return status, waits


def _permit(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: str
) -> tuple[Status | None, dict[str, Wait]]:
    waits: dict[str, Wait] = {}
    for plugin in framework.plugins.permit:
        name = _name(plugin)
        started_s = framework.recorder.now() if cycle.sampled else 0.0
        try:
            answer = plugin.permit(cycle, pod, node)
        except Exception as cause:
            raise point_failed(name, "Permit", describe(cause)) from cause
        if cycle.sampled:
            _note(framework, name, "Permit", answer, started_s)
        if isinstance(answer, Wait):
            waits[name] = Wait(min(answer.timeout_s, PERMIT_TIMEOUT_S_MAX), answer.reason)
        elif answer is not None:
            if answer.is_rejected:
                return Status(answer.code, answer.reasons, name), {}
            raise point_failed(name, "Permit", answer.message)
    return None, waits


def _note(framework: Framework, plugin: str, point: str, answer: Any, started_s: float) -> None:
    label = SUCCESS
    if answer is not None:
        label = answer.code.label if isinstance(answer, Status) else Code.WAIT.label
    recorder = framework.recorder
    recorder.plugin(plugin, point, label, recorder.now() - started_s)


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
