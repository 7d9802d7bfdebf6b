"""Groups as users see them: the columns of their listing, and what is known of those that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stowplan.core.group_outcome import GroupOutcome
from stowplan.core.machine import Machine
from stowplan.framework.errors import PluginFailed
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.pod_groups import GROUP_VERSIONS, PodGroup, group_key
from stowplan.state.groups import GroupedCache
from stowplan.state.pod_info import PodInfo
from stowplan.world.listing import Cells
from stowplan.world.objections import run_steps

_CONDITIONS = frozenset(version.condition for version in GROUP_VERSIONS)


def group_cells(pods: Iterable[Pod]) -> Cells:
    """`pods` are all there are."""
    members: Counter[str] = Counter()
    placed: Counter[str] = Counter()
    for pod in pods:
        key = group_key(pod)
        if key and pod.status.phase not in ENDED_PHASES:
            members[key] += 1
            placed[key] += bool(pod.spec.node_name)
    return {
        "policy": lambda group: "Gang" if group.spec.scheduling_policy.gang else "Basic",
        "minCount": lambda group: group.spec.min_count,
        "members": lambda group: members[group.key],
        "placed": lambda group: placed[group.key],
        "status": lambda group: _told(group)[0],
        "message": lambda group: _told(group)[1],
    }


def _told(group: PodGroup) -> tuple[str, str]:
    """What the scheduler said last of the group."""
    for condition in group.status.conditions or ():
        if condition.type in _CONDITIONS:
            return condition.reason, condition.message
    return "", ""


def outcome_of_gated(machine: Machine, pod: PodInfo) -> GroupOutcome | None:
    """Of a member that waits outside the queue: nobody had a place, since nobody looked."""
    if not pod.kind.is_member or not isinstance(machine.cache, GroupedCache):
        return None
    key = pod.group_key
    group, state = machine.objects.get(PodGroup, key), machine.cache.groups.of(key)
    needed = 0 if group is None else group.spec.min_count
    return GroupOutcome(key, needed, state.count, state.scheduled_count)


def outcome_in_domain(
    machine: Machine, key: str, pods: Iterable[str], value: str
) -> GroupOutcome | None:
    """How these members of a group would fare in one domain; None if they wait no more.

    `machine` is nobody else's.
    """
    queued = [found for pod in pods if (found := machine.queue.get(pod)) is not None]
    framework = machine.frameworks.get(queued[0].profile) if queued else None
    if framework is None or machine.groups is None:
        return None
    try:
        return run_steps(machine.groups.try_domain(framework, key, queued, value))
    except PluginFailed:
        return None
