"""What a user should know about a cluster before trusting an answer: one line each, with a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.printable import some_of as some_of
from stowplan.world.setup import Setup


class Remark(NamedTuple):
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text}\n  hint: {self.hint}" if self.hint else self.text


def remarks_on(
    setup: Setup,
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    profiles: list[str],
    missing: tuple[str, ...],
) -> list[Remark]:
    return [
        *(Remark(text) for text in missing),
        *_uncalled(setup.extenders),
        *_foreign(pods, profiles),
        *_ghosts(pods, {node.name for node in nodes}),
    ]


def _uncalled(extenders: Sequence[str]) -> Iterable[Remark]:
    if extenders:
        yield Remark(f"extenders are not called in a dry run: {some_of(extenders)}")


def _foreign(pods: Sequence[Pod], profiles: list[str]) -> Iterable[Remark]:
    by_scheduler: dict[str, list[str]] = {}
    for pod in pods:
        if _waits(pod) and pod.spec.scheduler_name not in profiles:
            by_scheduler.setdefault(pod.spec.scheduler_name, []).append(pod.key)
    for scheduler, keys in by_scheduler.items():
        near = get_close_matches(scheduler, profiles, n=1)
        yield Remark(
            f"no profile is for scheduler {scheduler!r}, so not decided: {some_of(keys)}",
            f"did you mean {near[0]!r}?"
            if near
            else f"there are profiles for: {', '.join(profiles)}",
        )


def _waits(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and pod.status.phase not in ENDED_PHASES
        and pod.metadata.deletion_timestamp is None
    )


def _ghosts(pods: Sequence[Pod], nodes: set[str]) -> Iterable[Remark]:
    if not nodes:
        yield Remark("the input has no nodes", "add them, as `kubectl get nodes -o yaml`")
        return
    absent = [
        pod.spec.node_name
        for pod in pods
        if pod.spec.node_name
        and pod.spec.node_name not in nodes
        and pod.status.phase not in ENDED_PHASES
    ]
    if absent:
        names = some_of(list(dict.fromkeys(absent)))
        count = "1 pod" if len(absent) == 1 else f"{len(absent)} pods"
        yield Remark(f"{count} on nodes that are not in the input: {names}")
