"""The only way back: what happens to a pod whose attempt failed.

The pod returns to the queue by the right rule, its PodScheduled condition says why, an event
tells its owner, and a preemption that was decided is set in motion.  Mirrors
`handleSchedulingFailure` in kube-scheduler's `schedule_one.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from stowplan.core.attempts import Failed
from stowplan.core.binding import BindFailed
from stowplan.core.decision import Decision
from stowplan.core.pod_status import StatusChange, patch_status, unschedulable_condition
from stowplan.core.preemption import Preemption, preempt
from stowplan.core.schedule_one import Attempt
from stowplan.framework.diagnosis import fit_message
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.objects.pod_groups import PodGroup
from stowplan.queue import GroupedQueue, QueuedGroup, QueuedPod
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine
    from stowplan.errors import ApiError

NOTE_BYTES_MAX = 1024

_VICTIM_GONE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


class Failure(Struct, frozen=True):
    status: Status
    decision: Decision
    nominate: Nominate | None
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, attempt: Attempt) -> Failure:
        assert attempt.status is not None
        return cls(
            attempt.status,
            attempt.decision,
            attempt.nominate,
            attempt.unschedulable_plugins,
            attempt.pending_plugins,
        )

    @classmethod
    def of_binding(cls, failed: BindFailed, attempt: Attempt) -> Failure:
        """Only a Permit rejection names a plugin whose events can help; the rest just retries."""
        status = failed.status
        plugins: frozenset[str] = frozenset()
        if failed.at_permit:
            plugins = frozenset({status.plugin})
            message = fit_message(1, dict.fromkeys(status.reasons, 1))
            status = Status(status.code, (message,), status.plugin)
        decision = Decision(
            attempt.decision.pod,
            node_count=attempt.decision.node_count,
            feasible_count=attempt.decision.feasible_count,
            message=status.message if status.is_rejected else "",
            error="" if status.is_rejected else status.message,
            unschedulable_plugins=tuple(plugins),
            explanation=attempt.decision.explanation,
        )
        pending = plugins if status.code == Code.PENDING else frozenset()
        return cls(status, decision, Nominate(""), plugins, pending)


class FailureHandler:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def handle(self, queued: QueuedPod, failure: Failure) -> None:
        machine = self._machine
        info = queued.info
        queued.set_rejectors(failure.unschedulable_plugins, failure.pending_plugins)
        current = machine.pods.get(info.key)
        if current is not None and current.uid != info.uid:
            # Another pod of the same name: ours is gone, and nothing about it is worth writing.
            machine.queue.done(info.uid)
            return
        if current is None or current.node_name:
            machine.queue.done(info.uid)
        else:
            queued.info = current
            machine.queue.add_unschedulable_if_not_present(queued)
        self._tell(queued, failure)

    def handle_group(
        self,
        entry: QueuedGroup,
        failures: list[tuple[QueuedPod, Failure]],
        rejectors: frozenset[str],
    ) -> None:
        """Members of a group failed together; `rejectors` are those of the group itself."""
        machine, queue = self._machine, self._machine.queue
        assert isinstance(queue, GroupedQueue)
        returning, told = [], []
        for queued, failure in failures:
            info = queued.info
            queued.set_rejectors(failure.unschedulable_plugins, failure.pending_plugins)
            current = machine.pods.get(info.key)
            if current is None or current.node_name or current.uid != info.uid:
                queue.done(info.uid)
            else:
                queued.info = current
                returning.append(queued)
            if current is None or current.uid == info.uid:
                told.append((queued, failure))
        queue.give_back(entry, returning, rejectors)
        for queued, failure in told:
            self._tell(queued, failure)

    def _tell(self, queued: QueuedPod, failure: Failure) -> None:
        """The nomination, an event and the condition: all that others see of it."""
        machine = self._machine
        machine.queue.nominator.add(queued.info, failure.nominate)
        message = failure.status.message
        pod = queued.info.pod
        machine.record(pod, "Warning", "FailedScheduling", "Scheduling", shortened(message))
        reason = "Unschedulable" if failure.status.is_rejected else "SchedulerError"
        change = StatusChange(unschedulable_condition(pod, reason, message), failure.nominate)
        machine.stepper.start(
            patch_status(pod, change, machine.now_s, machine.random), lambda problem: None
        )

    def binding_failed(
        self, queued: QueuedPod, failed: BindFailed, attempt: Attempt, seconds: float
    ) -> None:
        machine, failure = self._machine, Failure.of_binding(failed, attempt)
        failed_attempt = Failed(queued, failure.decision, failure.status, seconds)
        machine.log.failed(failed_attempt, machine.now_s)
        self.handle(queued, failure)

    def prepare(self, framework: Framework, attempt: Attempt, pod: PodInfo) -> Preemption | None:
        """Hold the preemptor back, if this attempt decided on a preemption with work to do."""
        if attempt.nominate is None or not attempt.nominate.node:
            return None
        victims = [victim for victim in attempt.victims if not victim.kind.terminating]
        if not victims:
            return None
        plugin = framework.plugins.instances.get("DefaultPreemption")
        preempting = plugin.preempting if plugin is not None else {}
        preemption = Preemption(self._machine, pod, attempt.nominate.node, victims, preempting)
        preemption.mark()
        return preemption

    def prepare_group(
        self, framework: Framework, member: PodInfo, group: PodGroup, victims: list[PodInfo]
    ) -> Preemption:
        """Hold a group back for which all of these have to go."""
        victims = [victim for victim in victims if not victim.kind.terminating]
        preempting = framework.plugins.instances["DefaultPreemption"].preempting_groups
        preemption = Preemption(self._machine, member, "cluster", victims, preempting, group)
        preemption.mark()
        return preemption

    def preempt(self, preemption: Preemption) -> None:
        """Carry it out, beside whatever comes next."""
        machine = self._machine

        def finished(problem: ApiError | None) -> None:
            if problem is not None:
                machine.log.problem(f"preemption for {preemption.preemptor.key}: {problem.problem}")
                machine.queue.activate([preemption.preemptor])
            else:
                self._tell_of_missed_ends(preemption)

        machine.stepper.start(preempt(preemption, self._losers(preemption)), finished)

    def _tell_of_missed_ends(self, preemption: Preemption) -> None:
        """A victim that ended while the preemptor was held back did not wake it: now it may."""
        machine = self._machine
        for victim in preemption.victims:
            # Or whose binding failed: its end is then the end of a pod without a node.
            if machine.cache.pod(victim.uid) is None:
                if preemption.group is not None:
                    machine.queue.move_all(_VICTIM_GONE, victim.pod, None)
                else:
                    machine.queue.move_one(preemption.preemptor, _VICTIM_GONE, victim.pod, None)

    def _losers(self, preemption: Preemption) -> list[PodInfo]:
        """Less important pods that were promised this node: the promise is withdrawn."""
        if preemption.group is not None:
            return []
        machine, priority = self._machine, preemption.preemptor.priority
        nominated = machine.queue.nominator.pods_for_node(preemption.node)
        live = [machine.pods.get(pod.key) for pod in nominated if pod.priority < priority]
        return [pod for pod in live if pod is not None]


def shortened(message: str) -> str:
    """
    >>> len(shortened("x" * 2000)), shortened("short")
    (1024, 'short')
    """
    data = message.encode()
    if len(data) <= NOTE_BYTES_MAX:
        return message
    return data[: NOTE_BYTES_MAX - 4].decode(errors="ignore") + " ..."
