"""A smaller request for every replica of a workload: where several wait, what is left for the last
of them says little, since all are of one template."""

from __future__ import annotations

import numpy as np

from stowplan.answers.changes import Edit, ObjectEdit
from stowplan.answers.generators.groups import on_pod
from stowplan.answers.situation import Situation
from stowplan.errors import InputError
from stowplan.objects.pod import Pod
from stowplan.objects.resources import pod_requests

REPLICAS_MAX = 200
"""Replicas that one change is made to."""


def replicas_that_wait(s: Situation) -> list[Pod]:
    """The pod and its like, as many as had no node when the question was asked."""
    if s.pod.metadata.controller() is None:
        return [s.pod]
    found = [pod for pod in s.cluster.pods() if s.is_sibling(pod) and _waited(s, pod)]
    return found if len(found) <= REPLICAS_MAX else [s.pod]


def _waited(s: Situation, pod: Pod) -> bool:
    """Whether the input has it without a node."""
    if not pod.spec.node_name:
        return True
    try:
        return s.cluster.has_sources and bool(s.cluster.decision(pod.key))
    except InputError:
        # It came with its node.
        return False


def room_for_all(s: Situation, rows: list[int], waiting: list[Pod], name: str) -> int:
    """The most of a resource, less than is asked for, with which all of them have a place on these
    nodes; 0 if there is none."""
    amounts = {**{key: amount for key, amount in s.requests.items() if amount}, "pods": 1}
    room = {each: np.zeros(len(rows), np.int64) for each in amounts}
    places = {s.names[row]: place for place, row in enumerate(rows)}
    held = [(places[pod.spec.node_name], pod) for pod in waiting if pod.spec.node_name in places]
    for each, left in room.items():
        if each in s.free:
            left += np.maximum(s.free[each][rows], 0)
        for place, pod in held:
            left[place] += {**pod_requests(pod, use_status=False), "pods": 1}.get(each, 0)
    others = [left // amounts[each] for each, left in room.items() if each != name]
    count = np.minimum.reduce(others)
    low, high = 0, amounts[name] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(count, room[name] // middle).sum() >= len(waiting):
            low = middle
        else:
            high = middle - 1
    return low


def in_the_input(
    s: Situation, waiting: list[Pod], edits: tuple[Edit, ...]
) -> tuple[ObjectEdit, ...]:
    """The same edits on every other replica that the input shows; others follow the template."""
    shown = [pod.key for pod in waiting if s.cluster.source("Pod", pod.key) is not None]
    return tuple(edit for key in shown if key != s.key for edit in on_pod(key, edits))
