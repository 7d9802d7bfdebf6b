"""Job: pods that run to their end, until enough of them have.

Mirrors `pkg/controller/job`, without its finalizers: a pod that succeeded and was deleted before
the Job was done may be run again.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.controllers.readiness import ready_since
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.workload import WorkloadController
from stowplan.objects.api import Create, Delete
from stowplan.objects.kinds import JOB, POD
from stowplan.objects.pod import Pod
from stowplan.objects.times import format_time, parse_time
from stowplan.objects.workload_pods import (
    count_succeeded,
    free_indexes,
    has_ended,
    is_active,
    is_indexed,
    job_pod,
    job_pods_wanted,
)
from stowplan.objects.workloads import Job

BURST_MAX = 200
BACKOFF_LIMIT_DEFAULT = 6
BACKOFF_MIN_S = 10.0
BACKOFF_MAX_S = 600.0

Data = dict[str, Any]


class JobController(WorkloadController):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, JOB)
        self._failed_at_s: dict[str, float] = shared.memory["jobs: failed at"]
        """When the last pod of a job failed, by the job's uid."""
        self._failures: dict[str, int] = shared.memory["jobs: failures"]
        self._ended: dict[str, str] = shared.memory["jobs: ended"]
        """When a job ended, until its status says so itself."""

    def forget(self, uid: str) -> None:
        super().forget(uid)
        for known in (self._failed_at_s, self._failures, self._ended):
            known.pop(uid, None)

    def sync(self, key: str) -> None:
        job = self._shared.get(JOB, key)
        if not isinstance(job, Job) or not self.calls.settled(key):
            return
        pods = [pod for pod in self._claims.of(job) if isinstance(pod, Pod)]
        if has_ended(job) or job.metadata.deletion_timestamp is not None:
            return
        active = [pod for pod in pods if is_active(pod)]
        succeeded = count_succeeded(job, pods)
        failed = max(job.status.failed, sum(1 for pod in pods if pod.status.phase == "Failed"))
        now_s = self._shared.clock.now()
        start = job.status.start_time or format_time(now_s)
        verdict = self._verdict(job, active, succeeded, failed, parse_time(start))
        suspended = bool(job.spec.suspend)
        if verdict is not None or suspended:
            for pod in active:
                self.calls.send(key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))
        else:
            self._run(job, pods, active, succeeded, failed)
        self._write_status(job, active, succeeded, failed, start, verdict)
        if self.calls.settled(key):
            self.queue.forget(key)

    def _verdict(
        self, job: Job, active: list[Pod], succeeded: int, failed: int, start_s: float
    ) -> tuple[str, str, str] | None:
        """The condition that ends the job, with its reason and message."""
        limit = job.spec.backoff_limit
        limit = BACKOFF_LIMIT_DEFAULT if limit is None else limit
        if failed > limit:
            message = "Job has reached the specified backoff limit"
            return "Failed", "BackoffLimitExceeded", message
        deadline_s = job.spec.active_deadline_seconds
        if deadline_s is not None and not job.spec.suspend:
            left_s = start_s + deadline_s - self._shared.clock.now()
            if left_s <= 0:
                message = "Job was active longer than specified deadline"
                return "Failed", "DeadlineExceeded", message
            self.queue.add_after(job.key, left_s)
        if job.spec.completions is None:
            done = succeeded > 0 and not active
        else:
            done = succeeded >= job.spec.completions
        if done:
            message = "Reached expected number of succeeded pods"
            return "Complete", "CompletionsReached", message
        return None

    def _run(
        self, job: Job, pods: list[Pod], active: list[Pod], succeeded: int, failed: int
    ) -> None:
        wanted = job_pods_wanted(job, active=len(active), succeeded=succeeded)
        if len(active) > wanted:
            for pod in active[: len(active) - wanted]:
                self.calls.send(job.key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))
        elif len(active) < wanted:
            wait_s = self._backoff_s(job, failed)
            if wait_s > 0:
                self.queue.add_after(job.key, wait_s)
            else:
                self._create(job, pods, min(wanted - len(active), BURST_MAX))

    def _backoff_s(self, job: Job, failed: int) -> float:
        """How long to wait after failures: longer each time."""
        now_s = self._shared.clock.now()
        if failed > self._failures.get(job.uid, 0):
            self._failed_at_s[job.uid] = now_s
        self._failures[job.uid] = failed
        if not failed or job.uid not in self._failed_at_s:
            return 0.0
        delay_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2.0 ** min(failed - 1, 16))
        return self._failed_at_s[job.uid] + delay_s - now_s

    def _create(self, job: Job, pods: list[Pod], count: int) -> None:
        if is_indexed(job):
            bodies = [job_pod(job, index) for index in free_indexes(job, pods)[:count]]
        else:
            bodies = [job_pod(job, None)] * count
        for number, body in enumerate(bodies):
            request = Create(POD, job.namespace, body)
            self.calls.send(job.key, request, self._reporter.creation(job, number))

    def _write_status(
        self,
        job: Job,
        active: list[Pod],
        succeeded: int,
        failed: int,
        start: str,
        verdict: tuple[str, str, str] | None,
    ) -> None:
        now = format_time(self._shared.clock.now())
        ended = verdict is not None
        status: Data = {
            "startTime": start,
            "active": 0 if ended or job.spec.suspend else len(active),
            "ready": 0 if ended else sum(1 for pod in active if ready_since(pod) is not None),
            "succeeded": succeeded,
            "failed": failed,
        }
        conditions = _suspension(job, now)
        if verdict is not None:
            type_, reason, message = verdict
            if job.uid not in self._ended:
                self._ended[job.uid] = now
                note = "Job completed" if type_ == "Complete" else message
                event = "Completed" if type_ == "Complete" else reason
                self._reporter.report(job, event, note, warning=type_ == "Failed")
            now = self._ended[job.uid]
            conditions.append(_condition(type_, "True", reason, message, now))
            if type_ == "Complete":
                status["completionTime"] = now
        if conditions:
            status["conditions"] = conditions
        self._statuses.write(job, status)


def _suspension(job: Job, now: str) -> list[Data]:
    known = next((one for one in job.status.conditions or () if one.type == "Suspended"), None)
    wanted = "True" if job.spec.suspend else "False"
    if known is None and wanted == "False":
        return []
    since = known.last_transition_time if known is not None and known.status == wanted else now
    word = "JobSuspended" if job.spec.suspend else "JobResumed"
    return [_condition("Suspended", wanted, word, word, since or now)]


def _condition(type_: str, status: str, reason: str, message: str, since: str) -> Data:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": since,
        "lastTransitionTime": since,
    }
