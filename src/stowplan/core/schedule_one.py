"""One pod's scheduling cycle, top to bottom.

snapshot -> PreFilter -> Filter -> (PostFilter) -> Score -> pick -> assume -> Reserve -> Permit.
What follows (PreBind, Bind, PostBind) is `core.binding`; what happens to a pod that failed is
`core.failure`.  Called by `core.machine`, for one pod at a time.  Mirrors kube-scheduler's
`schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec import Struct, field

from stowplan.core.algorithm import Algorithm, Search
from stowplan.core.decision import Decision
from stowplan.core.extender import ExtenderFailed
from stowplan.core.preemption_extenders import ask_extenders
from stowplan.core.reserving import assume, permit, reserve, unreserve
from stowplan.core.together import Together
from stowplan.framework.cycle import DETAILS, Cycle
from stowplan.framework.diagnosis import NO_NODES, Diagnosis, fit_message
from stowplan.framework.effects import AskPreemptionExtenders
from stowplan.framework.errors import PluginFailed, describe, point_failed
from stowplan.framework.plugin import Nominate, PostFilterResult, Wait
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import SUCCESS
from stowplan.state.cache import Cache, CacheError
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo


class Attempt(Struct):
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
    together: Together | None = None
    """Of a gang's members that are bound together."""
    pre_flight: Any = None
    """What `core.binding.pre_flight` gave or raised, if it was asked before the binding began."""
    problems: list[Exception] = field(default_factory=list)
    """What went wrong on the way, for the log: a plugin's exception, a broken snapshot."""


def schedule_one(
    framework: Framework, cache: Cache, algorithm: Algorithm, pod: PodInfo
) -> Generator[Any, Any, Attempt]:
    """Decide for one pod, and count it on its node if one was found.

    Whatever a plugin or an extender does, it fails this attempt and no more.
    """
    handle = framework.handle
    cycle = Cycle(handle, handle.nodes)
    table = cycle.nodes
    decision = Decision(pod.key)
    problem = _refresh(table, cache)
    decision.node_count = table.node_count
    if problem is not None:
        return _errored(decision, cycle, problem)
    if not table.node_count:
        decision.message = decision.error = NO_NODES
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_NODES,))
        return Attempt(decision, cycle, status=status, nominate=Nominate(""))
    try:
        search = yield from algorithm.search(framework, cycle, pod)
        _describe(decision, search)
        if algorithm.explain is not None:
            algorithm.explain(framework, cycle, pod, search, decision)
        if search.row < 0:
            return (yield from _fits_nowhere(framework, algorithm, pod, (cycle, decision), search))
        decision.node = table.names[search.row]
        if DETAILS in cycle.data and decision.details is None:
            decision.details = cycle.data[DETAILS](of_nodes=False)
        return assume_and_reserve(framework, cache, cycle, pod, decision)
    except (PluginFailed, ExtenderFailed, CacheError) as failure:
        return _errored(decision, cycle, failure)
    except Exception as bug:
        problem = RuntimeError(f"internal error: {describe(bug)}")
        problem.__cause__ = bug
        known = cache.pod(pod.uid)
        if known is not None and cache.is_assumed(pod.uid):
            cache.forget_pod(known)
        return _errored(decision, cycle, problem)


def _refresh(table: NodeTable, cache: Cache) -> Exception | None:
    """Bring the snapshot up to date; if that cannot be done as usual, build it anew and say so."""
    try:
        table.refresh(cache)
        if table.node_count == len(cache.tree):
            return None
        return RuntimeError(table.heal(cache))
    except Exception as bug:
        table.rebuild(cache)
        problem = RuntimeError(f"snapshot state is not consistent, {describe(bug)}")
        problem.__cause__ = bug
        return problem


def _describe(decision: Decision, search: Search) -> None:
    decision.feasible_count = search.feasible_count
    decision.evaluated_count = search.evaluated_count
    decision.score = search.score
    diagnosis = search.diagnosis
    if diagnosis is not None:
        decision.unschedulable_plugins = tuple(sorted(diagnosis.unschedulable_plugins))
        decision.pre_filter_message = diagnosis.pre_filter_message


def _errored(decision: Decision, cycle: Cycle, failure: Exception) -> Attempt:
    decision.node, decision.error = "", str(failure)
    decision.details = cycle.details()
    plugin = failure.plugin if isinstance(failure, PluginFailed) else ""
    status = Status(Code.ERROR, (decision.error,), plugin)
    return Attempt(decision, cycle, status=status, nominate=Nominate(""), problems=[failure])


def _fits_nowhere(
    framework: Framework,
    algorithm: Algorithm,
    pod: PodInfo,
    outcome: tuple[Cycle, Decision],
    search: Search,
) -> Generator[Any, Any, Attempt]:
    """PostFilter may make room; the attempt has failed all the same."""
    cycle, decision = outcome
    diagnosis = search.diagnosis
    assert isinstance(diagnosis, Diagnosis)
    decision.reasons = diagnosis.histogram()
    decision.message = diagnosis.message(decision.reasons)
    nominate: Nominate | None = Nominate("")
    victims: tuple[PodInfo, ...] = ()
    problems: list[Exception] = []
    if framework.plugins.post_filter and algorithm.post_filters:
        cycle.statuses = diagnosis
        result, status = yield from _post_filter(framework, cycle, algorithm, pod, problems)
        nominate = result.nominate if result is not None else None
        victims = result.victims if result is not None else ()
        if status is not None:
            decision.post_filter_message = diagnosis.post_filter_message = status.message
    decision.details = cycle.details()
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
        problems=problems,
    )


PostFilterAnswer = tuple[PostFilterResult | None, Status | None]


def _post_filter(
    framework: Framework,
    cycle: Cycle,
    algorithm: Algorithm,
    pod: PodInfo,
    problems: list[Exception],
) -> Generator[Any, Any, PostFilterAnswer]:
    recorder = framework.recorder
    started_s = recorder.now()
    label = "Error"
    try:
        result, status = yield from _run_post_filters(framework, cycle, algorithm, pod)
        label = SUCCESS if status is None else status.code.label
    except PluginFailed as failure:
        problems.append(failure)
        result, status = None, failure.status
    finally:
        recorder.point("PostFilter", framework.profile, label, recorder.now() - started_s)
    return result, status


def _run_post_filters(
    framework: Framework, cycle: Cycle, algorithm: Algorithm, pod: PodInfo
) -> Generator[Any, Any, PostFilterAnswer]:
    """The first plugin that succeeds wins; the others' reasons are collected."""
    recorder = framework.recorder
    kept: PostFilterResult | None = None
    reasons: list[str] = []
    for plugin in framework.plugins.post_filter:
        name = getattr(plugin, "name", "")
        started_s = recorder.now() if cycle.sampled else 0.0
        try:
            result, status = yield from _run(plugin.post_filter(cycle, pod), cycle, algorithm)
        except Exception as cause:
            raise point_failed(name, "PostFilter", describe(cause)) from cause
        if cycle.sampled:
            label = SUCCESS if status is None else status.code.label
            recorder.plugin(name, "PostFilter", label, recorder.now() - started_s)
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
    """Count the pod on its node, then let Reserve and Permit have their say; undo on refusal."""
    node = decision.node
    assumed = assume(cache, pod, node)
    waits: dict[str, Wait] = {}
    problems: list[Exception] = []
    status: Status | None = None
    try:
        if framework.plugins.reserve:
            status = reserve(framework, cycle, assumed, node)
        if status is None and framework.plugins.permit:
            status, waits = permit(framework, cycle, assumed, node)
    except PluginFailed as failure:
        status = failure.status
        problems.append(failure)
    if status is None:
        return Attempt(decision, cycle, assumed, waits)
    problems += unreserve(framework, cycle, assumed, node)
    cache.forget_pod(assumed)
    decision.node = ""
    attempt = _refused(decision, cycle, status)
    attempt.problems = problems
    return attempt


def _refused(decision: Decision, cycle: Cycle, status: Status) -> Attempt:
    if not status.is_rejected:
        decision.error = status.message
        return Attempt(decision, cycle, status=status, nominate=Nominate(""))
    decision.message = fit_message(1, dict.fromkeys(status.reasons, 1))
    decision.reasons = dict.fromkeys(status.reasons, 1)
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
