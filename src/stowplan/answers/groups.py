"""What a group lacks: who of it had a place, who had none and why, and where it came closest.

Of several domains (values of the topology label) the scheduler tells how many members each could
take at most; those with the highest numbers are tried on a fork until no other can be better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stowplan.answers.words import count_of, some_of
from stowplan.core.group_outcome import GroupOutcome
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision

Data = dict[str, Any]

SHOWN = 8
"""Pods and reasons that are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Of a group that was not placed."""

    outcome: GroupOutcome
    """As it was where the group came closest."""
    counts: dict[str, int]
    """Value of the topology label -> how many members had a place there, for those tried."""

    @property
    def pods(self) -> list[str]:
        """The members that were decided on."""
        return [*self.outcome.placed, *self.outcome.unplaced]

    def to_dict(self) -> Data:
        found = self.outcome
        data: Data = {
            "name": found.group,
            "needed": found.needed,
            "members": found.member_count,
            "scheduled": found.scheduled_count,
            "placed": found.placed,
            "unplaced": found.unplaced,
        }
        if found.topology_key:
            domains = {"key": found.topology_key, "closest": found.domain, "placed": self.counts}
            data["topology"] = domains
        return data

    def headlines(self) -> Iterator[str]:
        """How many of the group had a place, and where."""
        found = self.outcome
        yield _headline(found)
        if found.topology_key and found.placed:
            of = f"{len(found.placed)} of {len(self.pods)}"
            yield f"{found.topology_key}={found.domain} came closest: {of}"

    def lines(self) -> Iterator[str]:
        """The first one is a headline."""
        found = self.outcome
        yield from self.headlines()
        places = [f"{pod} had a place on {node}" for pod, node in found.placed.items()]
        yield from _some(places)
        alike: dict[str, list[str]] = {}
        for pod, message in found.unplaced.items():
            alike.setdefault(message, []).append(pod)
        yield from _some([f"{some_of(pods)}: {message}" for message, pods in alike.items()])


def lack_of(world: Cluster, decision: Decision) -> Lack | None:
    """What the group of a pod lacks that was decided on; None if nothing, or if it has no group.

    `world` has been run.
    """
    outcome = decision.group
    if outcome is None or outcome.is_placed or decision.error or not outcome.unplaced:
        return None
    if not outcome.topology_key:
        return Lack(outcome, {})
    return _closest(world, outcome)


def lacks_of(world: Cluster, decisions: Iterable[Decision]) -> list[Lack]:
    """Of each group once, in the order their members come."""
    found: dict[str, Lack | None] = {}
    for decision in decisions:
        if decision.group is not None and decision.group.group not in found:
            found[decision.group.group] = lack_of(world, decision)
    return [lack for lack in found.values() if lack is not None]


def _closest(world: Cluster, outcome: GroupOutcome) -> Lack:
    best, counts = outcome, {}
    if outcome.domain:
        counts[outcome.domain] = len(outcome.placed)
    members = [*outcome.placed, *outcome.unplaced]
    with world.screen() as screen:
        for domain in outcome.domains:
            if domain.count <= len(best.placed):
                break
            tried = screen.group_in(outcome.group, members, domain.value)
            if tried is not None:
                counts[domain.value] = len(tried.placed)
                best = max(best, tried, key=lambda each: len(each.placed))
    return Lack(best, counts)


def _headline(found: GroupOutcome) -> str:
    count = len(found.placed)
    had = f"{count or 'none'} had a place"
    if found.scheduled_count:
        has = "has" if found.scheduled_count == 1 else "have"
        had = f"{found.scheduled_count} {has} a node, {had}"
    if not found.needed:
        return f"group {found.group} has {count_of(found.member_count, 'pod')}; {had}"
    return (
        f"group {found.group} needs {found.needed} of its {count_of(found.member_count, 'pod')}; "
        f"{had}"
    )


def _some(lines: list[str]) -> Iterator[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"and {len(lines) - SHOWN} more"
