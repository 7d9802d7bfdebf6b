"""One line per decision, for people who read logs (-v 2), and whatever went wrong, always.

Hears of every attempt from `core.attempts`, beside the metrics.  The messages are those
kube-scheduler writes, so that searches for them go on finding something.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.attempts import AttemptObserver, Bound, Failed
from stowplan.framework.errors import describe, place_of
from stowplan.queue import QueuedPod
from stowplan.runtime.log import KObj, Log

DECISIONS = 2
ATTEMPTS = 3


class DecisionLog(AttemptObserver):
    def __init__(self, log: Log, *, with_traces: bool = False) -> None:
        """`with_traces`: of what plugins raise, as from -v 2 on."""
        self._log = log
        self._with_traces = with_traces

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        if self._log.enabled(ATTEMPTS, "decision_log"):
            pod = KObj.of(queued.info.key)
            self._log.info(ATTEMPTS, "Attempting to schedule pod", pod=pod)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        if not self._log.enabled(DECISIONS, "decision_log"):
            return
        for attempt in attempts:
            queued, decision = attempt.queued, attempt.decision
            self._log.info(
                DECISIONS,
                "Successfully bound pod to node",
                pod=KObj.of(decision.pod),
                node=decision.node,
                profile=queued.profile,
                attempt=queued.attempts,
                evaluatedNodes=decision.evaluated_count,
                feasibleNodes=decision.feasible_count,
                score=decision.score,
            )

    def failed(self, attempt: Failed, now_s: float) -> None:
        queued, decision, status = attempt.queued, attempt.decision, attempt.status
        pod = KObj.of(decision.pod)
        if not status.is_rejected:
            self._log.error(
                "Error scheduling pod; retrying", status.message, pod=pod, attempt=queued.attempts
            )
        elif self._log.enabled(DECISIONS, "decision_log"):
            optional = {"nominatedNode": decision.nominated_node, "victims": list(decision.victims)}
            self._log.info(
                DECISIONS,
                "Unable to schedule pod; no fit; waiting",
                pod=pod,
                profile=queued.profile,
                attempt=queued.attempts,
                err=status.message,
                plugins=list(decision.unschedulable_plugins),
                **{name: value for name, value in optional.items() if value},
            )

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        with_trace = self._with_traces or self._log.enabled(DECISIONS, "decision_log")
        fields = {"plugin": plugin, "extensionPoint": point, "at": place_of(cause)}
        known = {name: text for name, text in fields.items() if text}
        self._log.error("Plugin failed", cause if with_trace else describe(cause), **known)

    def problem(self, text: str) -> None:
        self._log.warning("The cluster is not as the cache has it", problem=text)
