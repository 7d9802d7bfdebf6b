"""All pending pods, grouped by cause, with the one change that helps most of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.groups import lack_of
from stowplan.answers.proving import Fix
from stowplan.answers.text import WIDTH, wrapped
from stowplan.answers.words import count_of, some_of
from stowplan.apiserver.patch import apply_json_patch
from stowplan.errors import ApiError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster

OWN = ("Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job",
       "ReplicationController")  # fmt: skip
"""Whose change is a change of the pod."""

GROUPS_MAX = 10
"""Groups for which a change is looked for, the largest first."""


@dataclass(slots=True)
class Group:
    """Pods that are turned down with the same words."""

    message: str
    pods: list[str]
    fix: Fix | None = None
    """Of one of them."""
    helps: int = 0
    """How many of all pending pods are placed once the objects of that fix are changed."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "message": self.message,
            "pods": self.pods,
            "fix": None if self.fix is None else self.fix.to_dict(),
            "helps": self.helps,
        }


@dataclass(slots=True, repr=False)
class Overview:
    """Truth: no pod is pending."""

    groups: list[Group] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.groups

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        return {"pending": [group.to_dict() for group in self.groups]}

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        if not self.groups:
            yield "No pod is pending."
            return
        total = sum(len(group.pods) for group in self.groups)
        are = "has" if total == 1 else "have"
        yield from wrapped(f"{count_of(total, 'pod')} {are} no node:", width)
        for group in self.groups:
            yield ""
            yield from wrapped(f"{count_of(len(group.pods), 'pod')}: {some_of(group.pods)}",
                               width, "  ")  # fmt: skip
            yield from wrapped(group.message, width, "    ")
            if group.fix is not None:
                pods = "it" if group.helps == 1 else f"{group.helps} pods"
                yield from wrapped(f"would place {pods}: {group.fix.title}", width, "    ")


def grouped(world: Cluster) -> list[Group]:
    """`world` has been run."""
    found: dict[str, list[str]] = {}
    gangs: dict[str, str] = {}
    for pod in world.pods(pending=True):
        if pod.metadata.deletion_timestamp is not None:
            continue
        if pod.spec.scheduler_name not in world.profiles:
            message = f"no profile is for scheduler {pod.spec.scheduler_name!r}"
        else:
            message = _message(world, pod.key, gangs)
        found.setdefault(message, []).append(pod.key)
    groups = [Group(message, pods) for message, pods in found.items()]
    return sorted(groups, key=lambda group: (-len(group.pods), group.message))


def _message(world: Cluster, key: str, gangs: dict[str, str]) -> str:
    """What is said of a pod; of all members of a group that was not placed, what the group lacks.

    `gangs` has that for the groups that were met before.
    """
    decision = world.decision(key)
    if decision.group is None:
        return decision.message
    name = decision.group.group
    if name not in gangs:
        lack = lack_of(world, decision)
        gangs[name] = "" if lack is None else "; ".join(lack.headlines())
    return gangs[name] or decision.message


def placed_by(world: Cluster, pods: list[str], fix: Fix) -> int:
    """How many of these have a node once all of them are changed as the first one is."""
    with world.fork() as trial:
        trial.put([*_changed(trial, pods, fix), *fix.create])
        for each in fix.delete:
            trial.delete(f"{each['namespace']}/{each['name']}", each["kind"])
        for key in pods:
            trial.retry(key)
        trial.run()
        return sum(bool(trial.pod(key).spec.node_name) for key in pods)


def _changed(trial: Cluster, pods: list[str], fix: Fix) -> list[dict[str, Any]]:
    """The other objects as the fix has them; of pods, each with the same patch."""
    objects = [data for data in fix.manifests if data["kind"] not in OWN]
    for change in fix.changes:
        if change["kind"] not in OWN:
            continue
        below = "" if change["kind"] == "Pod" else "/spec/template"
        for key in pods if not objects or below == "" else ():
            data = trial.source("Pod", key) or trial.get("Pod", key)
            patch = [{**op, "path": op["path"].removeprefix(below)} for op in change["patch"]]
            try:
                objects.append(apply_json_patch(data, patch))
            except ApiError:
                # Another sort of pod: the change does not concern it.
                continue
        break
    return objects
