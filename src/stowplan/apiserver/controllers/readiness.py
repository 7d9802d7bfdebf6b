"""Whether pods are ready, since when, and how many make a percentage.

Pure functions that all workload controllers share; what they make is in `objects.workload_pods`.
"""

from __future__ import annotations

from stowplan.objects.pod import Pod
from stowplan.objects.times import parse_time


def ready_since(pod: Pod) -> float | None:
    """When the pod became ready; None when it is not."""
    for condition in pod.status.conditions or ():
        if condition.type == "Ready":
            if condition.status != "True":
                return None
            since = condition.last_transition_time
            return parse_time(since) if since else 0.0
    return None


def is_available(pod: Pod, min_ready_s: int, now_s: float) -> bool:
    since = ready_since(pod)
    return since is not None and since + min_ready_s <= now_s


def scaled_value(value: int | str | None, total: int, *, round_up: bool, default: int) -> int:
    """A number, or a percentage of `total`.

    >>> scaled_value("25%", 10, round_up=True, default=0)
    3
    >>> scaled_value("25%", 10, round_up=False, default=0)
    2
    """
    if value is None:
        return default
    if isinstance(value, int):
        return value
    percent = value.removesuffix("%")
    if not percent.isdecimal():
        return default
    exact = total * int(percent)
    return -(-exact // 100) if round_up else exact // 100
