"""Why another scheduler decided differently: tried on a fork, not guessed.

What it may not have heard of yet is undone change by change, and what it knew before the cluster
showed it is taken in ahead; when its node is then among the best, its view was another one.  Asked
by `answers.shadow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.answers.tally import Cause, Reason
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.pod import Pod
from stowplan.world.judging import Judge, Standing, Verdict

UNDONE_MAX = 24
AHEAD_MAX = 12
"""Changes that are undone or taken in ahead, one after the other, for one difference."""

SAMPLE_MIN = 100
PERCENTAGE_MIN = 5


@dataclass(frozen=True, slots=True)
class Followed:
    """A change and when it came."""

    change: Change
    time_s: float


def explain(
    judge: Judge,
    pod: Pod,
    node: str,
    verdict: Verdict,
    *,
    recent: Sequence[Followed],
    coming: Sequence[Followed],
    percentage: int,
    lacking: Sequence[str],
) -> Reason:
    """Why the pod is on this node, which is none of our best."""
    standing = verdict.standing(node)
    text = _another_view(judge, pod, node, recent, coming)
    if text:
        return Reason(Cause.STALE, text)
    ours = _ours(verdict, standing)
    unseen = verdict.feasible_count - sample_size(judge.node_count, percentage)
    if standing.gap and 0 < standing.better_count <= unseen:
        seen = verdict.feasible_count - unseen
        return Reason(
            Cause.SAMPLING,
            f"it looks at {seen} of {verdict.feasible_count} nodes that fit, "
            f"and {standing.better_count} of them are better; {ours}",
        )
    if lacking:
        return Reason(Cause.PLUGIN, f"not here: {', '.join(lacking)}; {ours}")
    return Reason(Cause.PLUGIN, f"its plugins or weights are others than given here; {ours}")


def sample_size(node_count: int, percentage: int) -> int:
    """How many nodes that fit kube-scheduler looks for.

    >>> sample_size(80, 0), sample_size(1000, 0), sample_size(1000, 100), sample_size(6000, 0)
    (80, 420, 1000, 300)
    """
    if node_count < SAMPLE_MIN or percentage >= 100:
        return node_count
    if not percentage:
        percentage = max(PERCENTAGE_MIN, 50 - node_count // 125)
    return max(SAMPLE_MIN, node_count * percentage // 100)


def _another_view(
    judge: Judge, pod: Pod, node: str, recent: Sequence[Followed], coming: Sequence[Followed]
) -> str:
    """With which other view of the cluster the node is among the best; empty if none is found."""
    if recent:
        text = _before(judge, pod, node, recent)
        if text:
            return text
    return _after(judge, pod, node, coming)


def _before(judge: Judge, pod: Pod, node: str, recent: Sequence[Followed]) -> str:
    trial = judge.fork()
    try:
        for followed in [*reversed(recent)][:UNDONE_MAX]:
            if _of(followed.change).uid == pod.uid:
                continue
            trial.undo(followed.change, followed.time_s)
            if node in trial.judge(pod, node).best:
                return f"among the best before {_told(followed.change)}"
    finally:
        trial.close()
    return ""


def _after(judge: Judge, pod: Pod, node: str, coming: Sequence[Followed]) -> str:
    ahead = [it for it in coming if _of(it.change).uid != pod.uid][:AHEAD_MAX]
    if not ahead:
        return ""
    trial = judge.fork()
    try:
        for followed in ahead:
            trial.take((followed.change,), followed.time_s)
            if node in trial.judge(pod, node).best:
                return f"among the best after {_told(followed.change)}, which was seen later"
    finally:
        trial.close()
    return ""


def _of(change: Change) -> KubeObject:
    return change.new if isinstance(change, Updated) else change.object


def _told(change: Change) -> str:
    thing = _of(change)
    name = f"{type(thing).__name__.lower()} {thing.key}"
    match change:
        case Added():
            return f"{name} came"
        case Deleted():
            return f"{name} went"
        case Updated(old, new):
            if isinstance(old, Pod) and isinstance(new, Pod) and _node(old) != _node(new):
                return f"{name} was bound to {_node(new)}"
            return f"{name} changed"


def _node(pod: Pod) -> str:
    return pod.spec.node_name


def _ours(verdict: Verdict, standing: Standing) -> str:
    if verdict.problem:
        return f"to us {verdict.problem}"
    if standing.turned_down_by:
        return f"our {standing.turned_down_by} turns it down: {', '.join(standing.reasons)}"
    if standing.tipped_by:
        tipped = ", ".join(f"{plugin} {by:+d}" for plugin, by in standing.tipped_by.items())
        return f"ours is {verdict.picked}, better by {standing.gap} ({tipped})"
    return f"ours is {verdict.picked}; {', '.join(standing.reasons)}"
