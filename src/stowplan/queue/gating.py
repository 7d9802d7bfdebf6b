"""PreEnqueue: the gate before the active and the backoff queue.

Mirrors `runPreEnqueuePlugins` of kube-scheduler's `backend/queue/scheduling_queue.go`.  A pod that
some plugin holds back waits among the unschedulable pods until an event concerns that plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, groupby
from operator import attrgetter, is_not, not_
from typing import Any

from stowplan.framework.errors import point_failed
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import SUCCESS, NoRecorder, Recorder
from stowplan.queue.hints import OnPluginError
from stowplan.queue.metrics import QueueMetrics
from stowplan.queue.queued_pod import QueuedPod
from stowplan.state.pod_info import PodInfo

POINT = "PreEnqueue"

Answers = list[Status | None]

Check = tuple[str, Callable[[PodInfo], Status | None], Callable[[list[PodInfo]], Answers] | None]
"""(plugin, its pre_enqueue, its pre_enqueue_all if it has one)"""

Orders = dict[str, tuple[Check, ...]]
"""Plugin that gates a pod ("": none does) -> all checks of the profile, in turn."""

_NO_ORDERS: Orders = {"": ()}

_info, _gating_status, _code = map(attrgetter, ("info", "gating_status", "code"))
_origin = attrgetter("info.pod.spec.scheduler_name", "gating_plugin")


class PodGate:
    __slots__ = ("_metrics", "_now", "_on_error", "_orders", "_recorder")

    def __init__(
        self,
        plugins: Mapping[str, Sequence[Any]],
        metrics: QueueMetrics,
        *,
        recorder: Recorder | None = None,
        on_error: OnPluginError | None = None,
    ) -> None:
        self._orders = {
            profile: _orders([_check(plugin) for plugin in of_profile])
            for profile, of_profile in plugins.items()
        }
        self._metrics = metrics
        self._recorder = recorder = recorder or NoRecorder()
        self._now = recorder.now
        self._on_error = on_error

    def admits(self, queued: QueuedPod) -> bool:
        return bool(self.sort_out([queued], queued.profile, queued.gating_plugin)[0])

    def admitted(self, pods: list[QueuedPod]) -> list[QueuedPod]:
        """`sort_out` for pods of any profile and gate: those that may pass."""
        admitted: list[QueuedPod] = []
        for (profile, gating_plugin), group in groupby(pods, _origin):
            admitted += self.sort_out(list(group), profile, gating_plugin)[0]
        return admitted

    def sort_out(
        self, pods: list[QueuedPod], profile: str, gating_plugin: str
    ) -> tuple[list[QueuedPod], list[QueuedPod]]:
        """Ask the plugins of the profile about pods that one of them gates, or none so far.

        Returns the pods that may pass, and those that are held but not as before: their gating
        plugin is the first one to object.  Many wait for one event of many, so those that are
        held as before must cost next to nothing.
        """
        orders = self._orders.get(profile, _NO_ORDERS)
        recorder, asked_count = self._recorder, len(pods)
        ask = self._timed_answers if recorder.sampled else self._answers
        objections: list[Status] = []
        held_anew: list[QueuedPod] = []
        infos = list(map(_info, pods))
        start_s = self._now()
        for check in orders.get(gating_plugin) or orders[""]:
            answers = ask(check, infos)
            if not any(answers):
                continue
            before = list(map(_gating_status, pods))
            if answers != before:
                # Where the answer is the very same object, nobody has to look.
                for at in compress(range(len(pods)), map(is_not, answers, before)):
                    answers[at] = status = _objection(answers[at], check[0])
                    if status is not None:
                        self._close(pods[at], status)
                        held_anew.append(pods[at])
            objections += filter(None, answers)
            pods = list(compress(pods, map(not_, answers)))
            if not pods:
                break
            infos = list(map(_info, pods))
        each_s = (self._now() - start_s) / asked_count
        if objections:
            for code, count in _codes(objections).items():
                recorder.point(POINT, profile, code.label, each_s, count)
        if pods and profile in self._orders:
            recorder.point(POINT, profile, SUCCESS, each_s, len(pods))
        if gating_plugin:
            for queued in pods:
                # Its name stays among the rejectors: so it does upstream.
                queued.gating_plugin = ""
                queued.gating_status = None
        return pods, held_anew

    def _answers(self, check: Check, infos: list[PodInfo]) -> Answers:
        ask_all = check[2]
        try:
            if ask_all is not None:
                answers = [*ask_all(infos)]
                if len(answers) == len(infos):
                    return answers
        except Exception:
            pass  # Asked one by one, it raises again, and it is known for which pod.
        return self._one_by_one(check, infos)

    def _one_by_one(self, check: Check, infos: list[PodInfo]) -> Answers:
        plugin, ask, _ = check
        answers: Answers = []
        while len(answers) < len(infos):
            try:
                # If one raises, the answers before it are there.
                answers.extend(map(ask, infos[len(answers) :]))
            except Exception as failure:
                if self._on_error is not None:
                    self._on_error(plugin, POINT, infos[len(answers)], failure)
                answers.append(point_failed(plugin, POINT, failure).status)
        return answers

    def _timed_answers(self, check: Check, infos: list[PodInfo]) -> Answers:
        """The same, each plugin with its time."""
        recorder = self._recorder
        start_s = recorder.now()
        answers = self._answers(check, infos)
        each_s = (recorder.now() - start_s) / max(1, len(infos))
        for answer in set(answers):
            # One that was answered so will do for a sample.
            label = SUCCESS if answer is None else answer.code.label
            recorder.plugin(check[0], POINT, label, each_s)
        return answers

    def _close(self, queued: QueuedPod, status: Status) -> None:
        plugin = status.plugin
        if plugin not in queued.rejectors:
            self._metrics.unschedulable_pods[plugin, queued.profile] += 1
        queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.gating_status = status
        queued.was_flushed = False


def _objection(answer: Status | None, plugin: str) -> Status | None:
    """What a plugin answered, under its name; None if that is no objection."""
    if answer is None or answer.code is Code.SUCCESS:
        return None
    return answer if answer.plugin == plugin else Status(answer.code, answer.reasons, plugin)


def _codes(objections: list[Status]) -> dict[Code, int]:
    """How many have which; mostly all are one and the same."""
    first = objections[0]
    if objections.count(first) == len(objections):
        return {first.code: len(objections)}
    return Counter(map(_code, objections))


def _check(plugin: Any) -> Check:
    return plugin.name, plugin.pre_enqueue, getattr(plugin, "pre_enqueue_all", None)


def _orders(checks: list[Check]) -> Orders:
    """The plugin that objected last time is the likeliest to do it again: it is asked first."""
    orders = {
        plugin: tuple(sorted(checks, key=lambda check: check[0] != plugin)) for plugin, *_ in checks
    }
    return {"": tuple(checks), **orders}
