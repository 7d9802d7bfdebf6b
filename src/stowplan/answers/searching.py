"""From what stands in the way to proven fixes: generate, screen, try, rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations

from stowplan.answers.changes import Candidate, Sort, both
from stowplan.answers.generators import (
    BY_FAMILY,
    another_node,
    for_all,
    freed_pods,
    group_changes,
    on_member,
    priorities,
    unplaced,
)
from stowplan.answers.proving import Fix, Prover
from stowplan.answers.situation import Situation

ALIKE_MAX = 2
"""Fixes of one sort that are shown."""

PER_PART = 4
"""Changes for each of two causes that are combined."""

GROUPS_MAX = 6
"""Groups of nodes that are looked at, those with the fewest objections."""


MEMBERS_MAX = 3
"""Other members of a group whose own obstacles are looked at."""


def find_fixes(s: Situation, prover: Prover, limit: int) -> list[Fix]:
    groups = s.groups()
    singles = [*_singles(s, groups), *_of_group(s, groups)]
    found = _proven(s, prover, singles, limit)
    if not any(_is_good(fix) for fix in found):
        pairs = [*_pairs(s, groups)]
        members = unplaced(s)
        pairs += [each for one in pairs for each in for_all(s, one, members)]
        found += _proven(s, prover, pairs, limit)
    return sorted(found, key=lambda fix: fix.rank)[:limit]


def _is_good(fix: Fix) -> bool:
    disturbs, last_resort = fix.rank[:2]
    return not disturbs and not last_resort


Groups = list[tuple[frozenset[str], list[int]]]


def _singles(s: Situation, groups: Groups) -> Iterator[Candidate]:
    for family, rows in _alone(groups):
        yield from _generated(s, family, rows)
        yield from freed_pods(s, rows, family)
    if not s.whole:
        yield from another_node(s)
        yield from priorities(s)
    if not s.names:
        for family in s.whole & BY_FAMILY.keys():
            yield from BY_FAMILY[family](s, [])


def _alone(groups: Groups) -> Iterator[tuple[str, list[int]]]:
    """Nodes that only one family of plugins objects to."""
    for families, rows in groups:
        if len(families) == 1:
            (family,) = families
            yield family, rows


def _generated(s: Situation, family: str, rows: list[int]) -> Iterable[Candidate]:
    generate = BY_FAMILY.get(family)
    return () if generate is None else generate(s, rows)


def _of_group(s: Situation, groups: Groups) -> Iterator[Candidate]:
    """What the pod's group lacks: of itself, of all members, or of one other."""
    if s.group is None or s.group.is_placed:
        return
    if not s.whole:
        yield from group_changes(s, [])
    members = unplaced(s)
    for family, rows in _alone(groups):
        for one in _generated(s, family, rows):
            yield from for_all(s, one, members)
    for key in members[:MEMBERS_MAX]:
        other = Situation(s.cluster, key, s.screen)
        for family, rows in _alone(other.groups()):
            for one in _generated(other, family, rows):
                if one.pod:
                    yield on_member(one, key)


def _pairs(s: Situation, groups: Groups) -> Iterator[Candidate]:
    for families, rows in [group for group in groups if len(group[0]) == 2][:GROUPS_MAX]:
        parts = []
        for family in sorted(families):
            own = [*_generated(s, family, rows), *freed_pods(s, rows, family)]
            parts.append(sorted(own, key=Candidate.rank)[:PER_PART])
        first, second = parts
        yield from (both(one, other) for one in first for other in second)
    for family, rows in [*_alone(groups)][:GROUPS_MAX]:
        # Two things of one sort are wrong, such as the classes of two claims.
        own = sorted(_generated(s, family, rows), key=Candidate.rank)[: 2 * PER_PART]
        yield from (both(one, other) for one, other in combinations(own, 2))
    for families, rows in [group for group in groups if len(group[0]) > 2][:GROUPS_MAX]:
        best = [_best(s, family, rows) for family in sorted(families)]
        if all(best):
            yield reduce(both, [each for each in best if each is not None])


def _best(s: Situation, family: str, rows: list[int]) -> Candidate | None:
    return min(_generated(s, family, rows), key=Candidate.rank, default=None)


def _proven(s: Situation, prover: Prover, candidates: Iterable[Candidate], limit: int) -> list[Fix]:
    found: list[Fix] = []
    alike: Counter[tuple[Sort, ...]] = Counter()
    unique = {candidate.title: candidate for candidate in candidates}
    for candidate in sorted(unique.values(), key=Candidate.rank):
        if len(found) >= limit or prover.is_done:
            break
        sorts = candidate.sorts or (candidate.sort,)
        if alike[sorts] >= ALIKE_MAX or not _may_help(s, candidate):
            continue
        fix = prover.prove(candidate)
        if fix is not None and not any(_is_part(known, fix) for known in found):
            alike[sorts] += 1
            found.append(fix)
    return found


def _is_part(known: Fix, fix: Fix) -> bool:
    """Whether a known fix does a part of what this one does, which was enough."""
    if not (known.changes or fix.changes or known.delete or fix.delete):
        return bool(known.create) and all(each in fix.create for each in known.create)
    if not _operations(known) or (known.create, known.delete) != (fix.create, fix.delete):
        return False
    return _operations(known) < _operations(fix)


def _operations(fix: Fix) -> set[str]:
    return {f"{each['kind']} {each['name']} {op}" for each in fix.changes for op in each["patch"]}


def _may_help(s: Situation, candidate: Candidate) -> bool:
    """Whether the scheduler finds a node for the pod as changed, if nothing else changes."""
    is_preempting = Sort.PRIORITY in (candidate.sort, *candidate.sorts)
    if not candidate.is_own or candidate.is_indirect or is_preempting:
        return True
    try:
        return s.screen.fits(s.edited(candidate.pod)) > 0
    except (KeyError, IndexError, TypeError):
        return False
