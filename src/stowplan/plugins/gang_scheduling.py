"""GangScheduling: pods of a gang are scheduled when enough are there and fit, or not at all.

PreEnqueue holds members back until the group's object and `minCount` of them are there; Permit has
them wait until `minCount` have a node.  `core.schedule_group` tries all members in one go, so that
nobody really waits there.  Mirrors kube-scheduler's `gangscheduling/gangscheduling.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Status, error, unresolvable
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import GANG_SCHEDULING, PodGroup, group_key
from stowplan.state.pod_info import PodInfo

WAIT_S = 300.0
TOO_FEW = Status(
    unresolvable().code,
    ("waiting for minCount pods from a gang to appear in scheduling queue",),
    "GangScheduling",
)
"""One for all: a gate that says the same again is known by it at a glance."""
WAITING = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling:
    name = "GangScheduling"
    gates_groups = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle
        self._is_on = GANG_SCHEDULING in handle.features
        """A configuration may name the plugin without the gate: then it has nothing to say."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self.pre_enqueue_all([pod])[0]

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        """Members of a group come together: they are asked about once."""
        answers: list[Status | None] = []
        known: dict[str, Status | None] = {}
        for pod in pods:
            if not (pod.kind.is_member and self._is_on):
                answers.append(None)
                continue
            key = pod.group_key
            if key not in known:
                known[key] = self._objection(key)
            answers.append(known[key])
        return answers

    def _objection(self, key: str) -> Status | None:
        group = self._handle.objects.get(PodGroup, key)
        if group is None:
            name = key.rpartition("/")[2]
            return unresolvable(
                f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            )
        return TOO_FEW if self._handle.groups.of(key).count < group.spec.min_count else None

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | Wait | None:
        if not (pod.kind.is_member and self._is_on):
            return None
        key = pod.group_key
        group = self._handle.objects.get(PodGroup, key)
        if group is None:
            name = key.rpartition("/")[2]
            return error(
                f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{name}" not found'
            )
        state = self._handle.groups.of(key)
        if state.scheduled_count < group.spec.min_count:
            return Wait(WAIT_S, WAITING)
        waiting = self._handle.waiting
        for uid in state.assumed:
            waiting.allow(uid, self.name)
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.POD, Action.ADD, _is_member, by_group=True),
            on(Resource.POD_GROUP, Action.ADD | Action.UPDATE, _is_its_group, by_group=True),
        )


def _is_member(pod: Pod, old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if group_key(new) == group_key(pod) else Hint.SKIP


def _is_its_group(pod: Pod, old: PodGroup | None, new: PodGroup) -> Hint:
    """It came, or asks for less than before; our own condition is no news."""
    helps = old is None or new.spec.min_count < old.spec.min_count
    return Hint.QUEUE if helps and new.key == group_key(pod) else Hint.SKIP
