"""PreEnqueue: the gate before the active and the backoff queue.

Mirrors `runPreEnqueuePlugins` of kube-scheduler's `backend/queue/scheduling_queue.go`.  A pod that
some plugin holds back waits among the unschedulable pods until an event concerns that plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, groupby
from operator import attrgetter, is_not
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


class Gate:
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
        return bool(self.admitted([queued]))

    def admitted(self, pods: list[QueuedPod]) -> list[QueuedPod]:
        """Ask the plugins of the pods' profiles; returns the pods that may pass.

        For the others, the first plugin to object becomes the gating plugin.
        """
        admitted: list[QueuedPod] = []
        for (profile, gating_plugin), group in groupby(pods, _origin):
            alike = list(group)
            orders = self._orders.get(profile)
            if orders is not None:
                checks = orders.get(gating_plugin) or orders[""]
                alike = self._pass(alike, profile, checks)
            if gating_plugin:
                for queued in alike:
                    # Its name stays among the rejectors: so it does upstream.
                    queued.gating_plugin = ""
                    queued.gating_status = None
            admitted += alike
        return admitted

    def changed(self, pods: list[QueuedPod], profile: str, plugin: str) -> list[QueuedPod]:
        """Ask again for pods of a profile that all wait behind this plugin.

        Returns those for which it does not say what it said before; `admits` is for them.  Many
        wait for one event of many, so the others must cost next to nothing.
        """
        orders = self._orders.get(profile, _NO_ORDERS)
        if plugin not in orders:
            return pods
        _, ask, ask_all = orders[plugin][0]
        infos = list(map(_info, pods))
        start_s = self._now()
        try:
            answers = [*map(ask, infos)] if ask_all is None else [*ask_all(infos)]
        except Exception:
            return pods
        if len(answers) != len(pods):
            return pods
        each_s = (self._now() - start_s) / max(1, len(pods))
        before = list(map(_gating_status, pods))
        changed: list[QueuedPod] = []
        # Where the answer is the very same object, nobody has to look.
        for at in compress(range(len(pods)), map(is_not, answers, before)):
            answer = answers[at]
            if answer is None or _named(answer, plugin) != before[at]:
                changed.append(pods[at])
                answers[at] = None
        if changed:
            answers = list(filter(None, answers))
        recorder = self._recorder
        for code, count in _codes(answers).items():
            recorder.point(POINT, profile, code.label, each_s, count)
            if recorder.sampled:
                # One of them will do for a sample.
                recorder.plugin(plugin, POINT, code.label, each_s)
        return changed

    def _pass(
        self, pods: list[QueuedPod], profile: str, checks: tuple[Check, ...]
    ) -> list[QueuedPod]:
        """Put all pods to the first plugin, those it lets pass to the second, and so on."""
        recorder, asked_count = self._recorder, len(pods)
        objections: list[Status] = []
        ask = self._timed_answers if recorder.sampled else self._answers
        infos = list(map(_info, pods))
        start_s = self._now()
        for check in checks:
            answers = ask(check, infos)
            if answers.count(None) < len(answers):
                asked, pods = pods, []
                for queued, status in zip(asked, answers, strict=True):
                    if status is None:
                        pods.append(queued)
                    else:
                        self._close(queued, status)
                        objections.append(status)
                if not pods:
                    break
                infos = list(map(_info, pods))
        each_s = (self._now() - start_s) / asked_count
        for status in objections:
            recorder.point(POINT, profile, status.code.label, each_s)
        if pods:
            recorder.point(POINT, profile, SUCCESS, each_s, len(pods))
        return pods

    def _answers(self, check: Check, infos: list[PodInfo]) -> Answers:
        """For each pod the plugin's objection, with its name, or None."""
        plugin, ask, ask_all = check
        answers: Answers = []
        try:
            if ask_all is not None:
                answers = [*ask_all(infos)]
        except Exception:
            answers = []  # Asked one by one, it raises again, and it is known for which pod.
        if len(answers) != len(infos):
            answers = []
        while len(answers) < len(infos):
            try:
                # If one raises, the answers before it are there.
                answers.extend(map(ask, infos[len(answers) :]))
            except Exception as failure:
                if self._on_error is not None:
                    self._on_error(plugin, POINT, infos[len(answers)], failure)
                answers.append(point_failed(plugin, POINT, failure).status)
        if answers.count(None) < len(answers):
            return [_objection(answer, plugin) for answer in answers]
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
    if answer is None or answer.code is Code.SUCCESS:
        return None
    return _named(answer, plugin)


def _codes(answers: Answers) -> dict[Code, int]:
    """How many have which; mostly all are one and the same."""
    if answers and answers.count(answers[0]) == len(answers):
        answers, count = answers[:1], len(answers)
    else:
        count = 1
    codes: dict[Code, int] = {}
    for code in map(_code, answers):
        codes[code] = codes.get(code, 0) + count
    return codes


def _named(status: Status, plugin: str) -> Status:
    return status if status.plugin == plugin else Status(status.code, status.reasons, plugin)


def _check(plugin: Any) -> Check:
    return plugin.name, plugin.pre_enqueue, getattr(plugin, "pre_enqueue_all", None)


def _orders(checks: list[Check]) -> Orders:
    """The plugin that objected last time is the likeliest to do it again: it is asked first."""
    orders = {
        plugin: tuple(sorted(checks, key=lambda check: check[0] != plugin)) for plugin, *_ in checks
    }
    return {"": tuple(checks), **orders}
