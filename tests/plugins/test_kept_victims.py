"""KeptVictims finds what a walk from node to node would find, and asks no more than it would."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.handle import NobodyNominated
from stowplan.framework.status import Status, error, unresolvable
from stowplan.plugins.default_preemption.kept_victims import KeptVictims
from stowplan.plugins.default_preemption.victims import Candidate, Refusal
from stowplan.state.pod_info import PodInfo
from tests.builders import pod

Answers = list[Candidate | Refusal]

VICTIMS = (PodInfo(pod("victim", node="node")),)

answers = st.lists(st.sampled_from(["clean", "violating", "refused", "broken"]), min_size=1)


def answer(row: int, sort: str) -> Candidate | Refusal:
    if sort == "refused":
        return Refusal(unresolvable(f"{row} is of no use"))
    if sort == "broken":
        return Refusal(error(f"{row} is broken"))
    return Candidate.of(f"node-{row}", VICTIMS, 0 if sort == "clean" else 1)


def is_broken(found: Candidate | Refusal) -> bool:
    return isinstance(found, Refusal) and not found.status.is_rejected


def walk(of_row: Answers, rows: list[int], wanted: int) -> tuple[list[Any], dict[int, Status], int]:
    """As upstream's dry run goes, one node after the other."""
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    statuses: dict[int, Status] = {}
    for steps, row in enumerate(rows, 1):
        found = of_row[row]
        if isinstance(found, Refusal):
            statuses[row] = found.status
            continue
        (violating if found.violations else clean).append(found)
        if clean and len(clean) + len(violating) >= wanted:
            return clean[:wanted] + violating[:wanted], statuses, steps
    return clean[:wanted] + violating[:wanted], statuses, len(rows)


@given(sorts=answers, starts=st.lists(st.integers(0, 20), max_size=4), data=st.data())
def test_a_search_finds_what_a_walk_finds(
    sorts: list[str], starts: list[int], data: st.DataObject
) -> None:
    of_row = [answer(row, sort) for row, sort in enumerate(sorts)]
    size = len(of_row)
    versions = np.arange(size, dtype=np.int64)
    nodes: Any = SimpleNamespace(size=size, row_pods_version=versions, row_of={})
    kept = KeptVictims()
    for start in starts:
        changed = data.draw(st.sets(st.integers(0, size - 1)))
        for row in changed:
            versions[row] += size
            of_row[row] = answer(row, data.draw(st.sampled_from(["clean", "violating", "refused"])))
        asked: list[int] = []

        def ask(row: int, before: Refusal | None) -> Candidate | Refusal:
            assert before is None or before.status == unresolvable(f"{row} is of no use")
            asked.append(row)  # noqa: B023
            return of_row[row]

        wanted = data.draw(st.integers(1, size))
        rows = np.roll(np.arange(size), -start)
        kept.catch_up(nodes, NobodyNominated(), 0)

        candidates, statuses = kept.search(nodes, rows, wanted, ask)

        walked, reasons, steps = walk(of_row, rows.tolist(), wanted)
        assert candidates == walked
        if not walked:
            assert statuses == reasons
        assert set(asked) <= set(rows.tolist()[:steps]), "never further than the walk goes"
        asked.clear()
        again, _ = kept.search(nodes, rows, wanted, ask)
        assert again == walked
        assert all(is_broken(of_row[row]) for row in asked), "known by now"
