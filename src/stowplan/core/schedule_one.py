"""One pod's scheduling cycle, top to bottom.

snapshot -> PreFilter -> Filter -> (PostFilter) -> Score -> pick -> assume -> Reserve -> Permit.
What follows (PreBind, Bind, PostBind) is `core.binding`; what happens to a pod that failed is
`core.failure`.  Called by `core.machine`, for one pod at a time.  Mirrors kube-scheduler's
`schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.core.algorithm import Algorithm, Search
from stowplan.core.decision import Decision
from stowplan.core.extender import ExtenderFailed
from stowplan.core.preemption_extenders import ask_extenders
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import NO_NODES, Diagnosis, fit_message
from stowplan.framework.effects import AskPreemptionExtenders
from stowplan.framework.errors import PluginFailed, point_failed
from stowplan.framework.plugin import Nominate, PostFilterResult, Wait
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.state.cache import Cache, CacheError
from stowplan.state.pod_info import PodInfo

PERMIT_TIMEOUT_S_MAX = 15 * 60.0


@dataclass(slots=True)
class Attempt:
    """What came of one scheduling cycle."""

    decision: Decision
    cycle: Cycle
    assumed: PodInfo | None = None
    """The pod with its node set, counted in the cache; None when the attempt failed."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """Permit plugins that want the pod to wait, by name."""
    status: Status | None = None
    """Why it failed."""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominate: Nominate | None = None
    """What to do with the pod's nominated node: None leaves it alone."""
    victims: tuple[PodInfo, ...] = ()


def schedule_one(
    framework: Framework, cache: Cache, algorithm: Algorithm, pod: PodInfo
) -> Generator[Any, Any, Attempt]:
    """Decide for one pod, and count it on its node if one was found."""
    cycle = Cycle(framework.handle)
    table = cycle.nodes
    table.refresh(cache)
    decision = Decision(pod.key, node_count=table.node_count)
    if table.node_count == 0:
        decision.message = decision.error = NO_NODES
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_NODES,))
        return Attempt(decision, cycle, status=status, nominate=Nominate(""))
    try:
        search = yield from algorithm.search(framework, cycle, pod)
    except (PluginFailed, ExtenderFailed) as failure:
        return _errored(decision, cycle, str(failure))
    _describe(decision, cycle, search)
    if search.row < 0:
        assert search.diagnosis is not None
        return (yield from _fits_nowhere(framework, cycle, algorithm, pod, decision, search.diagnosis))
    decision.node = table.names[search.row]
    return assume_and_reserve(framework, cache, cycle, pod, decision)


def _describe(decision: Decision, cycle: Cycle, search: Search) -> None:
    decision.feasible_count = search.feasible_count
    decision.evaluated_count = search.evaluated_count
    decision.score = search.score
    decision.detail = search.detail
    diagnosis = search.diagnosis
    if diagnosis is not None:
        decision.unschedulable_plugins = tuple(sorted(diagnosis.unschedulable_plugins))
        decision.pre_filter_message = diagnosis.pre_filter_message


def _errored(decision: Decision, cycle: Cycle, message: str) -> Attempt:
    decision.error = message
    return Attempt(decision, cycle, status=Status(Code.ERROR, (message,)), nominate=Nominate(""))


def _fits_nowhere(
    framework: Framework,
    cycle: Cycle,
    algorithm: Algorithm,
    pod: PodInfo,
    decision: Decision,
    diagnosis: Diagnosis,
) -> Generator[Any, Any, Attempt]:
    """PostFilter may make room; the attempt has failed all the same."""
    decision.message = diagnosis.message()
    decision.reasons = diagnosis.histogram()
    nominate: Nominate | None = Nominate("")
    victims: tuple[PodInfo, ...] = ()
    if framework.plugins.post_filter:
        cycle.statuses = diagnosis
        result, status = yield from _post_filter(framework, cycle, algorithm, pod)
        nominate = result.nominate if result is not None else None
        victims = result.victims if result is not None else ()
        if status is not None:
            decision.post_filter_message = diagnosis.post_filter_message = status.message
    if nominate is not None:
        decision.nominated_node = nominate.node
    decision.victims = tuple(victim.key for victim in victims)
    return Attempt(
        decision,
        cycle,
        status=Status(Code.UNSCHEDULABLE, (decision.full_message,)),
        unschedulable_plugins=frozenset(diagnosis.unschedulable_plugins),
        pending_plugins=frozenset(diagnosis.pending_plugins),
        nominate=nominate,
        victims=victims,
    )


def _post_filter(
    framework: Framework, cycle: Cycle, algorithm: Algorithm, pod: PodInfo
) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
    """The first plugin that succeeds wins; the others' reasons are collected."""
    kept: PostFilterResult | None = None
    reasons: list[str] = []
    for plugin in framework.plugins.post_filter:
        try:
            result, status = yield from _run(plugin.post_filter(cycle, pod), cycle, algorithm)
        except Exception as cause:
            failure = point_failed(_name(plugin), "PostFilter", cause)
            return None, failure.status
        if status is None:
            return result, None
        stops = not status.is_rejected or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if stops:
            return result, status
        if result is not None and result.nominate is not None:
            kept = result
        reasons += status.reasons
    return kept, Status(Code.UNSCHEDULABLE, tuple(reasons))


def _run(
    steps: Generator[Any, Any, Any], cycle: Cycle, algorithm: Algorithm
) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
    """Drive a PostFilter plugin, answering its questions about extenders."""
    answer: Any = None
    try:
        while True:
            effect = steps.send(answer)
            if isinstance(effect, AskPreemptionExtenders):
                answer = yield from ask_extenders(algorithm.extenders, cycle, effect)
            else:
                answer = yield effect
    except StopIteration as stop:
        result: tuple[PostFilterResult | None, Status | None] = stop.value
        return result


def assume_and_reserve(
    framework: Framework, cache: Cache, cycle: Cycle, pod: PodInfo, decision: Decision
) -> Attempt:
    """Count the pod on its node, then let Reserve and Permit have their say; undo all on refusal."""
    node = decision.node
    assumed = assume(cache, pod, node)
    if isinstance(assumed, Status):
        return _errored(decision, cycle, assumed.message)
    status = _reserve(framework, cycle, assumed, node)
    waits: dict[str, Wait] = {}
    if status is None and framework.plugins.permit:
        status, waits = _permit(framework, cycle, assumed, node)
    if status is None:
        return Attempt(decision, cycle, assumed, waits)
    unreserve(framework, cycle, assumed, node)
    cache.forget_pod(assumed)
    decision.node = ""
    return _refused(decision, cycle, status)


def _refused(decision: Decision, cycle: Cycle, status: Status) -> Attempt:
    if not status.is_rejected:
        return _errored(decision, cycle, status.message)
    decision.message = fit_message(1, {text: 1 for text in status.reasons})
    decision.reasons = {text: 1 for text in status.reasons}
    decision.unschedulable_plugins = (status.plugin,)
    pending = frozenset({status.plugin}) if status.code == Code.PENDING else frozenset()
    return Attempt(
        decision,
        cycle,
        status=Status(status.code, (decision.message,), status.plugin),
        unschedulable_plugins=frozenset({status.plugin}),
        pending_plugins=pending,
        nominate=Nominate(""),
    )


def assume(cache: Cache, pod: PodInfo, node: str) -> PodInfo | Status:
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
    assumed = PodInfo(msgspec.structs.replace(pod.pod, spec=spec), pod.kind)
    try:
        cache.assume_pod(assumed)
    except CacheError as problem:
        return Status(Code.ERROR, (str(problem),))
    return assumed


def _reserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
    for plugin in framework.plugins.reserve:
        name = _name(plugin)
        try:
            status = plugin.reserve(cycle, pod, node)
        except Exception as cause:
            return point_failed(name, "Reserve", cause).status
        if status is not None:
            if status.is_rejected:
                return Status(status.code, status.reasons, name)
            return point_failed(name, "Reserve", status.message).status
    return None


def unreserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> None:
    """Every Reserve plugin, in reverse order; one that raises does not keep the others from it."""
    for plugin in reversed(framework.plugins.reserve):
        try:
            plugin.unreserve(cycle, pod, node)
        except Exception as cause:
            cycle.data.setdefault("unreserve errors", []).append((_name(plugin), cause))


def _permit(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: str
) -> tuple[Status | None, dict[str, Wait]]:
    waits: dict[str, Wait] = {}
    for plugin in framework.plugins.permit:
        name = _name(plugin)
        try:
            answer = plugin.permit(cycle, pod, node)
        except Exception as cause:
            return point_failed(name, "Permit", cause).status, {}
        if isinstance(answer, Wait):
            waits[name] = Wait(min(answer.timeout_s, PERMIT_TIMEOUT_S_MAX), answer.reason)
        elif answer is not None:
            if answer.is_rejected:
                return Status(answer.code, answer.reasons, name), {}
            return point_failed(name, "Permit", answer.message).status, {}
    return None, waits


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
