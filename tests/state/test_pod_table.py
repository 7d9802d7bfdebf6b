"""Pods on nodes, one slot each: slots are used again, and a fork is a table of its own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.state.pod_info import PodInfo
from stowplan.state.pod_table import PodTable
from tests.builders import pod


def _pod(number: int) -> PodInfo:
    """Of ten kinds; some carry terms, mount claims or have labels.  Few have a priority."""
    sort = number % 10
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{sort}"}}}
    spec: dict[str, Any] = {"priority": max(0, sort - 7)}
    if sort % 3 == 0:
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity" if sort % 2 else "podAffinity": rule}
    if sort % 4 == 1:
        claim = {"claimName": f"c{sort}"}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    labels = {"app": f"a{sort}"}
    return PodInfo(pod(f"p{number}", node="n", labels=labels, cpu=sort + 1, spec=spec))


def _content(table: PodTable) -> dict[str, object]:
    """What can be asked of it, whatever slots things are in."""
    found: list[tuple[str, int]] = []
    for slot, row in zip(table.kind_slots.tolist(), table.rows.tolist(), strict=True):
        kind = table.kinds[slot] if row >= 0 else None
        if kind is not None:
            found.append((str(sorted(kind.labels.items())), row))
    terms = {
        sort: sorted(str(term) for term in getattr(table, sort).matching(_pod(number).kind, {}))
        for sort in ("required_anti_affinity", "required_affinity")
        for number in range(10)
    }
    below = [table.has_below(priority) for priority in range(4)]
    claims = dict(table.claims)
    return {"pods": sorted(found), "claims": claims, "size": len(table), "below": below, **terms}


def _churn(table: PodTable, there: dict[int, PodInfo], random: Random, steps: int) -> None:
    for _ in range(steps):
        number = random.randrange(40)
        if number in there:
            table.remove(there.pop(number))
        else:
            there[number] = _pod(number)
            table.add(there[number], number % 7)


def _anew(there: dict[int, PodInfo]) -> PodTable:
    table = PodTable()
    for number, info in there.items():
        table.add(info, number % 7)
    return table


@pytest.mark.parametrize("seed", range(5))
def test_a_table_after_many_changes_is_as_one_made_at_once(seed: int) -> None:
    table, there = PodTable(), dict[int, PodInfo]()
    _churn(table, there, Random(seed), 300)
    assert _content(table) == _content(_anew(there))


@pytest.mark.parametrize("seed", range(5))
def test_a_fork_and_its_origin_go_their_own_ways(seed: int) -> None:
    random, table, there = Random(seed), PodTable(), dict[int, PodInfo]()
    _churn(table, there, random, 100)
    fork, theirs = table.fork(), dict(there)

    _churn(table, there, random, 100)
    _churn(fork, theirs, random, 100)

    assert _content(table) == _content(_anew(there))
    assert _content(fork) == _content(_anew(theirs))


def test_who_is_less_important_is_known_while_it_is_there() -> None:
    table, plain, urgent = PodTable(), _pod(1), _pod(9)
    assert not table.has_below(100)

    table.add(urgent, 0)
    assert not table.has_below(2)
    assert table.has_below(3)
    table.add(plain, 1)
    assert table.has_below(2)
    table.remove(plain)
    assert not table.has_below(2)


def test_slots_of_kinds_and_pods_that_are_gone_are_used_again() -> None:
    table = PodTable()
    for number in range(500):
        info = PodInfo(pod(f"p{number}", node="n", cpu=number + 1))
        table.add(info, 0)
        table.remove(info)
    assert len(table.kinds) == 1
    assert len(table.rows) == len(PodTable().rows)
