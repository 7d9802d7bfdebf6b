"""PreEnqueue: the gate before the active and the backoff queue.

Mirrors `runPreEnqueuePlugins` of kube-scheduler's `backend/queue/scheduling_queue.go`.  A pod that
some plugin holds back waits among the unschedulable pods until an event concerns that plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from stowplan.framework.errors import point_failed
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import BUFFER_MAX, SUCCESS, NoRecorder, Recorder
from stowplan.queue.hints import OnPluginError
from stowplan.queue.metrics import QueueMetrics
from stowplan.queue.queued_pod import QueuedPod
from stowplan.state.pod_info import PodInfo

POINT = "PreEnqueue"

Check = tuple[str, Callable[[PodInfo], Status | None]]
"""(plugin, its pre_enqueue)"""

Orders = dict[str, tuple[Check, ...]]
"""Plugin that gates a pod ("": none does) -> all checks of the profile, in turn."""

_NO_ORDERS: Orders = {"": ()}

_info, _gating_status, _code = map(attrgetter, ("info", "gating_status", "code"))


class Gate:
    __slots__ = ("_metrics", "_now", "_on_error", "_orders", "_recorder", "_successes")

    def __init__(
        self,
        plugins: Mapping[str, Sequence[Any]],
        metrics: QueueMetrics,
        *,
        recorder: Recorder | None = None,
        on_error: OnPluginError | None = None,
    ) -> None:
        self._orders = {
            profile: _orders([(plugin.name, plugin.pre_enqueue) for plugin in of_profile])
            for profile, of_profile in plugins.items()
        }
        self._metrics = metrics
        self._recorder = recorder = recorder or NoRecorder()
        self._now = recorder.now
        self._successes = {profile: recorder.successes(POINT, profile) for profile in plugins}
        self._on_error = on_error

    def admits(self, queued: QueuedPod) -> bool:
        """Ask the plugins of the pod's profile; the first to object becomes its gating plugin."""
        info = queued.info
        profile = info.pod.spec.scheduler_name
        orders = self._orders.get(profile)
        if orders is not None:
            checks = orders.get(queued.gating_plugin) or orders[""]
            ask = self._timed_objection if self._recorder.sampled else self._objection
            start_s = self._now()
            status = ask(info, checks)
            seconds = self._now() - start_s
            if status is not None:
                self._recorder.point(POINT, profile, status.code.label, seconds)
                self._close(queued, status)
                return False
            times = self._successes[profile]
            times.append(seconds)
            if len(times) >= BUFFER_MAX:
                self._recorder.catch_up()
        if queued.gating_plugin:
            # Its name stays among the rejectors: so it does upstream.
            queued.gating_plugin = ""
            queued.gating_status = None
        return True

    def changed(self, pods: list[QueuedPod], profile: str, plugin: str) -> list[QueuedPod]:
        """Ask again for pods of a profile that all wait behind this plugin.

        Returns those for which it does not say what it said before; `admits` is for them.  Many
        wait for one event of many, so the others must cost next to nothing.
        """
        orders = self._orders.get(profile, _NO_ORDERS)
        if plugin not in orders:
            return pods
        pre_enqueue = orders[plugin][0][1]
        start_s = self._now()
        try:
            answers = list(map(pre_enqueue, map(_info, pods)))
        except Exception:
            return pods
        each_s = (self._now() - start_s) / max(1, len(pods))
        changed: list[QueuedPod] = []
        if answers != list(map(_gating_status, pods)):
            answers, asked = [], answers
            for queued, answer in zip(pods, asked, strict=True):
                if answer is None or _named(answer, plugin) != queued.gating_status:
                    changed.append(queued)
                else:
                    answers.append(answer)
        codes = list(map(_code, answers))
        recorder = self._recorder
        for code in set(codes):
            recorder.point(POINT, profile, code.label, each_s, codes.count(code))
            if recorder.sampled:
                # One of them will do for a sample.
                recorder.plugin(plugin, POINT, code.label, each_s)
        return changed

    def _objection(self, info: PodInfo, checks: tuple[Check, ...]) -> Status | None:
        """The first objection, with the plugin's name; None when all let the pod pass."""
        for plugin, pre_enqueue in checks:
            try:
                status = pre_enqueue(info)
            except Exception as failure:
                if self._on_error is not None:
                    self._on_error(plugin, POINT, info, failure)
                return point_failed(plugin, POINT, failure).status
            if status is not None and status.code is not Code.SUCCESS:
                return _named(status, plugin)
        return None

    def _timed_objection(self, info: PodInfo, checks: tuple[Check, ...]) -> Status | None:
        """The same, each plugin with its time."""
        recorder = self._recorder
        for check in checks:
            start_s = recorder.now()
            status = self._objection(info, (check,))
            label = SUCCESS if status is None else status.code.label
            recorder.plugin(check[0], POINT, label, recorder.now() - start_s)
            if status is not None:
                return status
        return None

    def _close(self, queued: QueuedPod, status: Status) -> None:
        plugin = status.plugin
        if plugin not in queued.rejectors:
            self._metrics.unschedulable_pods[plugin, queued.profile] += 1
        queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.gating_status = status
        queued.was_flushed = False


def _named(status: Status, plugin: str) -> Status:
    return status if status.plugin == plugin else Status(status.code, status.reasons, plugin)


def _orders(checks: list[Check]) -> Orders:
    """The plugin that objected last time is the likeliest to do it again: it is asked first."""
    orders = {
        plugin: tuple(sorted(checks, key=lambda check: check[0] != plugin)) for plugin, _ in checks
    }
    return {"": tuple(checks), **orders}
