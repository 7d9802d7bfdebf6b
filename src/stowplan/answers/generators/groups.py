"""Groups of pods: the group's name, how many it needs, its topology, and what is wrong with other
members.  A group is placed as a whole, so what helps one member mostly has to help them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest

GROUP = "PodGroup"
MEMBERS_MAX = 100
"""Pods that one change is made to."""


def group_changes(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    """Changes to the group itself, or to what the pod says of it."""
    name = (s.manifest["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if not name or s.group is None:
        return
    known = {each.name for each in s.objects(GROUP) if each.namespace == s.pod.namespace}
    if name in known:
        yield from _gated(s)
        yield from _fewer(s)
        yield from _topology(s)
    else:
        yield from _other_group(s, name, known)
        title = f"decide on it alone, without the group {name}"
        yield Candidate(title, Sort.DROP, 1, pod=(_alone,), is_indirect=True, last_resort=True)


def _alone(pod: Data) -> None:
    del pod["spec"]["schedulingGroup"]


def _other_group(s: Situation, name: str, known: set[str]) -> Iterator[Candidate]:
    right = nearest(name, known)
    if right is None:
        return
    title = f"correct the name of the group: {right} instead of {name}"
    one = Candidate(
        title,
        Sort.CORRECT,
        1 - likeness(name, right),
        pod=(partial(_set_group, right),),
        is_indirect=True,
    )
    yield one
    yield from for_all(s, one, _members(s))


def _set_group(name: str, pod: Data) -> None:
    pod["spec"]["schedulingGroup"]["podGroupName"] = name


def _members(s: Situation) -> list[str]:
    """Other pods of the same group that have no node."""
    own = s.pod.spec.scheduling_group
    return [
        pod.key
        for pod in s.cluster.pods(pending=True)
        if pod.key != s.key
        and pod.namespace == s.pod.namespace
        and pod.spec.scheduling_group == own
    ]


def _gated(s: Situation) -> Iterator[Candidate]:
    """Members that wait for a gate of their own."""
    for key in _members(s)[:MEMBERS_MAX]:
        gates = s.cluster.pod(key).spec.scheduling_gates
        if gates:
            names = ", ".join(gate.name for gate in gates)
            title = f"of {key}: remove the scheduling gate {names}"
            edit = ObjectEdit("Pod", key, _without_gates)
            yield Candidate(title, Sort.RELEASE, objects=(edit,))


def _without_gates(pod: Data) -> None:
    del pod["spec"]["schedulingGates"]


def _fewer(s: Situation) -> Iterator[Candidate]:
    """As many as there are; or, as a last resort, as many as have a place."""
    group = s.group
    assert group is not None
    placed = group.scheduled_count + len(group.placed)
    lacks_pods = group.member_count < group.needed
    count = group.member_count if lacks_pods else placed
    if 0 < count < group.needed:
        title = f"let the group {group.group} need {count} pods instead of {group.needed}"
        edit = ObjectEdit(GROUP, group.group, partial(_set_count, count))
        amount = 1 - count / group.needed
        yield Candidate(title, Sort.RELAX, amount, objects=(edit,), last_resort=not lacks_pods)


def _set_count(count: int, group: Data) -> None:
    group["spec"]["schedulingPolicy"]["gang"]["minCount"] = count


def _topology(s: Situation) -> Iterator[Candidate]:
    group = s.group
    assert group is not None
    spec = s.cluster.get(GROUP, group.group)["spec"]
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    labels = {key for node in s.nodes for key in node.metadata.labels or ()} if topology else set()
    for place, constraint in enumerate(topology):
        key = constraint.get("key", "")
        right = nearest(key, labels) if key not in labels else None
        if right is not None:
            title = f"correct the topology key of the group: {right} instead of {key}"
            edit = ObjectEdit(GROUP, group.group, partial(_set_key, place, right))
            yield Candidate(title, Sort.CORRECT, 1 - likeness(key, right), objects=(edit,))
        title = f"let the group {group.group} be placed over several {key}"
        edit = ObjectEdit(GROUP, group.group, _without_topology)
        yield Candidate(title, Sort.DROP, objects=(edit,))


def _set_key(place: int, key: str, group: Data) -> None:
    group["spec"]["schedulingConstraints"]["topology"][place]["key"] = key


def _without_topology(group: Data) -> None:
    del group["spec"]["schedulingConstraints"]["topology"]
    if not group["spec"]["schedulingConstraints"]:
        del group["spec"]["schedulingConstraints"]


# -- members --------------------------------------------------------------------------------


def unplaced(s: Situation) -> list[str]:
    """Other members that were decided on with the pod and had no place."""
    if s.group is None or s.group.is_placed:
        return []
    return [key for key in s.group.unplaced if key != s.key]


def for_all(s: Situation, one: Candidate, members: list[str]) -> Iterator[Candidate]:
    """The same change made to these members too."""
    if one.pod and 0 < len(members) <= MEMBERS_MAX:
        title = f"{one.title}, in all {len(members) + 1} pods of the group"
        edits = tuple(edit for key in members for edit in on_pod(key, one.pod))
        yield replace(one, title=title, objects=one.objects + edits, is_shared=True)


def on_member(one: Candidate, key: str) -> Candidate:
    """A change to the pod, made to another member instead."""
    title = f"of {key}: {one.title}"
    return replace(one, title=title, pod=(), objects=one.objects + tuple(on_pod(key, one.pod)))


def on_pod(key: str, edits: Iterable[Edit]) -> Iterator[ObjectEdit]:
    edits = tuple(edits)
    if edits:
        yield ObjectEdit("Pod", key, partial(_all, edits))


def _all(edits: tuple[Edit, ...], pod: Data) -> None:
    for edit in edits:
        edit(pod)
