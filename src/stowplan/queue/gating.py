"""PreEnqueue: the gate before the active and the backoff queue.

Mirrors `runPreEnqueuePlugins` of kube-scheduler's `backend/queue/scheduling_queue.go`.  A pod that
some plugin holds back waits among the unschedulable pods until an event concerns that plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stowplan.framework.errors import point_failed
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import Recorder
from stowplan.queue.hints import OnPluginError
from stowplan.queue.metrics import QueueMetrics
from stowplan.queue.queued_pod import QueuedPod
from stowplan.state.pod_info import PodInfo

POINT = "PreEnqueue"

Check = tuple[str, Callable[[PodInfo], Status | None]]
"""(plugin, its pre_enqueue)"""


class Gate:
    __slots__ = ("_checks", "_metrics", "_on_error", "_recorder")

    def __init__(
        self,
        plugins: Mapping[str, Sequence[Any]],
        metrics: QueueMetrics,
        *,
        recorder: Recorder | None = None,
        on_error: OnPluginError | None = None,
    ) -> None:
        self._checks: dict[str, tuple[Check, ...]] = {
            profile: tuple((plugin.name, plugin.pre_enqueue) for plugin in of_profile)
            for profile, of_profile in plugins.items()
        }
        self._metrics = metrics
        self._recorder = recorder
        self._on_error = on_error

    def admits(self, queued: QueuedPod) -> bool:
        """Ask the plugins of the pod's profile; the first to object becomes its gating plugin."""
        info = queued.info
        checks = self._checks.get(info.pod.spec.scheduler_name, ())
        if queued.gating_plugin:
            checks = _gating_first(checks, queued.gating_plugin)
        if self._recorder is not None:
            status = self._timed(info, checks, self._recorder)
        else:
            status = self._ask(info, checks)
        if status is not None:
            self._close(queued, status)
            return False
        # Its name stays among the rejectors: so it does upstream.
        queued.gating_plugin = ""
        queued.gating_status = None
        return True

    def _ask(self, info: PodInfo, checks: Iterable[Check]) -> Status | None:
        """The first objection, with the plugin's name; None when all let the pod pass."""
        for plugin, pre_enqueue in checks:
            try:
                status = pre_enqueue(info)
            except Exception as failure:
                if self._on_error is not None:
                    self._on_error(plugin, POINT, info, failure)
                return point_failed(plugin, POINT, failure).status
            if status is not None and status.code is not Code.SUCCESS:
                return Status(status.code, status.reasons, plugin)
        return None

    def _timed(self, info: PodInfo, checks: tuple[Check, ...], recorder: Recorder) -> Status | None:
        start_s = recorder.now()
        if recorder.sampled:
            status = next(self._timed_objections(info, checks, recorder), None)
        else:
            status = self._ask(info, checks)
        profile = info.pod.spec.scheduler_name
        recorder.point(POINT, profile, _label(status), recorder.now() - start_s)
        return status

    def _timed_objections(
        self, info: PodInfo, checks: tuple[Check, ...], recorder: Recorder
    ) -> Iterator[Status]:
        for check in checks:
            start_s = recorder.now()
            status = self._ask(info, (check,))
            recorder.plugin(check[0], POINT, _label(status), recorder.now() - start_s)
            if status is not None:
                yield status

    def _close(self, queued: QueuedPod, status: Status) -> None:
        plugin = status.plugin
        if plugin not in queued.rejectors:
            self._metrics.unschedulable_pods[plugin, queued.profile] += 1
        queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.gating_status = status
        queued.was_flushed = False


def _gating_first(checks: tuple[Check, ...], gating_plugin: str) -> tuple[Check, ...]:
    """The plugin that objected last time is the likeliest to do it again."""
    first = tuple(check for check in checks if check[0] == gating_plugin)
    return first + tuple(check for check in checks if check[0] != gating_plugin)


def _label(status: Status | None) -> str:
    return Code.SUCCESS.label if status is None else status.code.label
