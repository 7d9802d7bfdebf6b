"""The group's own status: whether it was scheduled, as a condition.

Compared with what was written last, not only with what the cluster has shown: a group that was
scheduled is never said to be unschedulable afterwards, however late the answer comes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from stowplan.core.pod_status import retried
from stowplan.core.schedule_group import GroupAttempt
from stowplan.errors import ApiError
from stowplan.objects.api import Patch
from stowplan.objects.base import Condition
from stowplan.objects.kinds import KIND_BY_NAME
from stowplan.objects.pod_groups import GroupVersion, PodGroup
from stowplan.objects.times import format_time

if TYPE_CHECKING:
    from stowplan.core.machine import Machine


class GroupConditions:
    def __init__(self, machine: Machine, version: GroupVersion) -> None:
        self._machine = machine
        self.version = version
        self._written: dict[str, Condition] = {}
        """What was written last, by the group's uid, until the cluster shows it."""

    def write(self, key: str, result: GroupAttempt) -> None:
        """Say what came of the group, if that is news."""
        machine = self._machine
        group = machine.objects.get(PodGroup, key)
        if group is None:
            return
        known = self._known(group)
        wanted = self._condition(result, known)
        if known is not None and (_is_same(known, wanted) or known.status == "True"):
            return
        self._written[group.uid] = wanted
        machine.stepper.start(self._patch(group, wanted), lambda problem: None)

    def shown(self, group: PodGroup) -> None:
        """The cluster shows the group: what it says from now on is what counts."""
        written = self._written.get(group.uid)
        if written is not None and any(_is_same(c, written) for c in self._own(group)):
            del self._written[group.uid]

    def gone(self, group: PodGroup) -> None:
        self._written.pop(group.uid, None)

    def _own(self, group: PodGroup) -> list[Condition]:
        conditions = group.status.conditions or ()
        return [each for each in conditions if each.type == self.version.condition]

    def _known(self, group: PodGroup) -> Condition | None:
        return self._written.get(group.uid) or next(iter(self._own(group)), None)

    def _condition(self, result: GroupAttempt, known: Condition | None) -> Condition:
        status, reason, message = "True", "Scheduled", ""
        if result.status is not None:
            status, message = "False", result.status.message
            reason = "Unschedulable" if result.status.is_rejected else "SchedulerError"
        since = format_time(self._machine.now_s)
        if known is not None and known.status == status:
            since = known.last_transition_time or since
        return Condition(
            type=self.version.condition,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since,
        )

    def _patch(self, group: PodGroup, condition: Condition) -> Generator[Any, Any, ApiError | None]:
        data = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": condition.last_transition_time,
        }
        body = {"metadata": {"uid": group.uid}, "status": {"conditions": [data]}}
        kind = KIND_BY_NAME[self.version.api_version, "PodGroup"]
        patch = Patch(kind, group.namespace, group.name, body, "strategic", "status")
        answer = yield patch
        problem = None
        if isinstance(answer, ApiError):
            problem = yield from retried(patch, answer, self._machine.random)
        if problem is not None and self._written.get(group.uid) is condition:
            # It was not written after all: the next attempt says it again.
            del self._written[group.uid]
        return problem


def _is_same(known: Condition, wanted: Condition) -> bool:
    return (
        known.type == wanted.type
        and known.status == wanted.status
        and known.reason == wanted.reason
        and known.message == wanted.message
    )
