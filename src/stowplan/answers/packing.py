"""The least that any placement could cost: a lower bound from an integer programme.

Pods of one kind may be put into any bin that takes them, in parts, and bins hold what their sums
allow: every real placement is one of these, so none costs less.  HiGHS solves it (`highspy`, in the
extra `plan`); without it the bound is that of the scarcest resource alone, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

NODES_MAX = 2_000
"""Of the solver's search; the bound it has then holds all the same."""

SECONDS_MAX = 10.0
CELLS_MAX = 40_000
"""Kinds times bins: beyond these, kinds with the same bins are added up."""

PROGRAMME = "integer programme (HiGHS)"
SUMS = "sum of the scarcest resource, which is weaker; `pip install stowplan[plan]` for HiGHS"

Room = dict[str, int]


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that request the same and may go to the same bins."""

    count: int
    requests: Room
    """Of each; `pods` is 1."""
    bins: frozenset[int]
    is_sum: bool = False
    """Of several kinds together: it may be cut anywhere."""


@dataclass(frozen=True, slots=True)
class Bin:
    price: float
    room: Room
    count_max: float = math.inf
    at_least: int = 0
    """Bins that are there anyway."""


@dataclass(slots=True)
class Bound:
    price: float = 0.0
    method: str = SUMS
    counts: list[int] = field(default_factory=list)
    """Bins of each sort in the best solution found; empty without a solver."""


def lower_bound(kinds: Sequence[PodKind], bins: Sequence[Bin]) -> Bound:
    """What it costs at least to have room for all; every kind fits some bin."""
    if find_spec("highspy") is None:
        return Bound(_scarcest(kinds, bins))
    if len(kinds) * len(bins) > CELLS_MAX:
        kinds = _merged(kinds)
    return _solved(kinds, bins)


def _scarcest(kinds: Sequence[PodKind], bins: Sequence[Bin]) -> float:
    """For each resource: all of it that is wanted, at the lowest price of a unit."""
    best = sum(each.price * each.at_least for each in bins)
    wanted: Room = {}
    for kind in kinds:
        for name, amount in kind.requests.items():
            wanted[name] = wanted.get(name, 0) + amount * kind.count
    for name, amount in wanted.items():
        rates = [each.price / each.room[name] for each in bins if each.room.get(name)]
        best = max(best, amount * min(rates, default=0.0))
    return best


def _merged(kinds: Sequence[PodKind]) -> list[PodKind]:
    merged: dict[frozenset[int], Room] = {}
    for kind in kinds:
        total = merged.setdefault(kind.bins, {})
        for name, amount in kind.requests.items():
            total[name] = total.get(name, 0) + amount * kind.count
    return [PodKind(1, total, where, is_sum=True) for where, total in merged.items()]


def _solved(kinds: Sequence[PodKind], bins: Sequence[Bin]) -> Bound:
    import highspy

    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("time_limit", SECONDS_MAX),
        ("mip_max_nodes", NODES_MAX),
    ):
        solver.setOptionValue(option, value)
    for number, each in enumerate(bins):
        solver.addVar(float(each.at_least), min(each.count_max, solver.inf))
        solver.changeColCost(number, each.price)
        solver.changeColIntegrality(number, highspy.HighsVarType.kInteger)
    _add_kinds(solver, kinds, bins)
    solver.run()
    info = solver.getInfo()
    bound = max(0.0, float(info.mip_dual_bound)) if math.isfinite(info.mip_dual_bound) else 0.0
    values = list(solver.getSolution().col_value)[: len(bins)]
    counts = [round(value) for value in values] if info.primal_solution_status else []
    return Bound(bound, PROGRAMME, counts)


def _add_kinds(solver: Any, kinds: Sequence[PodKind], bins: Sequence[Bin]) -> None:
    held: list[dict[str, list[tuple[int, float]]]] = [{} for _ in bins]
    column = len(bins)
    for kind in kinds:
        columns = []
        for place in sorted(kind.bins):
            solver.addVar(0.0, solver.inf)
            room = bins[place].room
            fits = [room.get(n, 0) // a for n, a in kind.requests.items() if a]
            if not kind.is_sum:
                # A single bin takes whole pods only.
                each = float(min(fits, default=kind.count))
                solver.addRow(-solver.inf, 0.0, 2, [place, column], [-each, 1.0])
            for name, amount in kind.requests.items():
                if amount:
                    held[place].setdefault(name, []).append((column, float(amount)))
            columns.append(column)
            column += 1
        solver.addRow(float(kind.count), solver.inf, len(columns), columns, [1.0] * len(columns))
    for place, resources in enumerate(held):
        for name, cells in resources.items():
            # In shares of a bin: amounts of memory are far from those of cpu.
            whole = float(bins[place].room.get(name, 0)) or 1.0
            where = [place, *(cell for cell, _ in cells)]
            weights = [-1.0, *(amount / whole for _, amount in cells)]
            solver.addRow(-solver.inf, 0.0, len(where), where, weights)


def gap(price: float, bound: float) -> float:
    """How much of the price is more than the bound, from 0 to 1."""
    return max(0.0, (price - bound) / price) if price > 0 else 0.0
