"""Would the properties of groups notice?  Each bug is planted, and one of them must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan.core.groups import GroupCycles
from stowplan.core.schedule_group import GroupAttempt, GroupScheduler, Member
from stowplan.framework.plugin import Nominate
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.gang_scheduling import GangScheduling
from stowplan.plugins.volume_binding import VolumeBinding
from tests.core.group_world import ALL, GANGS, PREEMPTION
from tests.core.test_group_properties import enough_or_none
from tests.core.test_group_traces import CLAIMS, nothing_remains, victims_go_whole
from tests.simulation.planted import split_domain, split_victims, table_misses_changes

SEEDS_MAX = 120

Plant = Callable[[pytest.MonkeyPatch], None]
Property = Callable[[int, str], None]


def half_bound(patch: pytest.MonkeyPatch) -> None:
    """Those that found a node are bound, however few."""
    patch.setattr(GangScheduling, "permit", lambda *_: None)


def kept_place(patch: pytest.MonkeyPatch) -> None:
    """The first member of a group that did not fit stays on its node."""
    give_back = GroupScheduler._give_back

    def forgetful(self: GroupScheduler, member: Member, attempt: GroupAttempt) -> None:
        if member is not attempt.members[0]:
            give_back(self, member, attempt)

    patch.setattr(GroupScheduler, "_give_back", forgetful)


def kept_claim(patch: pytest.MonkeyPatch) -> None:
    """Devices that were set aside for a claim stay so."""
    patch.setattr(DynamicResources, "unreserve", lambda *_: None)


def kept_volume(patch: pytest.MonkeyPatch) -> None:
    """Volumes that were set aside stay so."""
    patch.setattr(VolumeBinding, "unreserve", lambda *_: None)


def kept_nomination(patch: pytest.MonkeyPatch) -> None:
    """A member that had a place remains nominated to it."""
    submit = GroupCycles.submit

    def nominating(self: GroupCycles, framework: Any, entry: Any, members: Any, result: Any,
                   times: Any) -> None:  # fmt: skip
        submit(self, framework, entry, members, result, times)
        for member in result.members:
            if result.status is not None and member.attempt.assumed is not None:
                node = Nominate(member.attempt.assumed.node_name)
                self._machine.queue.nominator.add(member.queued.info, node)

    patch.setattr(GroupCycles, "submit", nominating)


def kept_answers(patch: pytest.MonkeyPatch) -> None:
    """What is kept per row misses that members were taken off again."""
    undo = GroupScheduler.undo

    def blind(self: GroupScheduler, attempt: GroupAttempt) -> None:
        before = self._cycle.nodes.version
        undo(self, attempt)
        self._cycle.nodes.version = before

    patch.setattr(GroupScheduler, "undo", blind)


FOUND_BY: list[tuple[Plant, Property, str]] = [
    (half_bound, enough_or_none, GANGS),
    (split_domain, enough_or_none, ALL),
    (kept_place, nothing_remains, GANGS),
    (kept_claim, nothing_remains, CLAIMS),
    (kept_volume, nothing_remains, GANGS),
    (kept_nomination, nothing_remains, GANGS),
    (table_misses_changes, nothing_remains, GANGS),
    (kept_answers, nothing_remains, GANGS),
    (split_victims, victims_go_whole, PREEMPTION),
]


@pytest.mark.parametrize(
    ("plant", "holds", "gates"), FOUND_BY, ids=lambda it: getattr(it, "__name__", "")
)
def test_a_planted_bug_is_found(
    plant: Plant, holds: Property, gates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        _hold(holds, gates)


def _hold(holds: Property, gates: str) -> None:
    for seed in range(SEEDS_MAX):
        holds(seed, gates)
