"""PodTopologySpread: a larger skew (the smallest that works), a wish instead of a demand, a key
that nodes have, fewer domains."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from stowplan.answers.changes import Candidate, Data, ObjectEdit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest

FIELD = "topologySpreadConstraints"
ROWS_MAX = 200
"""Nodes whose labels are looked at."""
SKEWS = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 1000)


def spread(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    keys = {label for row in rows[:ROWS_MAX] for label in s.labels(row)}
    hard = [
        (place, constraint)
        for place, constraint in enumerate(s.manifest["spec"].get(FIELD) or ())
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    for place, constraint in hard:
        key = constraint.get("topologyKey", "")
        right = nearest(key, keys) if not s.has_label(key) else None
        if right is not None:
            title = f"correct the topology key: {right} instead of {key}"
            edit = partial(_set, place, "topologyKey", right)
            yield Candidate(title, Sort.CORRECT, 1 - likeness(key, right), pod=(edit,))
        yield from _looser(s, place, constraint)
        title = f"make the spread over {key} a wish (ScheduleAnyway)"
        wish = partial(_set, place, "whenUnsatisfiable", "ScheduleAnyway")
        yield Candidate(title, Sort.RELAX, 0.9, pod=(wish,))
        yield from _counted_less(place, constraint)
        if key not in keys:
            yield from _labelled(s, rows, key)
    if len(hard) > 1:
        yield from _together(s, hard)


def _counted_less(place: int, constraint: Data) -> Iterator[Candidate]:
    """Nodes that the pod may not go to are no domains to fill."""
    for field, default in (("nodeAffinityPolicy", "Honor"), ("nodeTaintsPolicy", "Ignore")):
        if constraint.get(field, default) == "Ignore":
            key = constraint.get("topologyKey", "")
            title = f"do not count nodes it may not go to over {key} ({field}: Honor)"
            edit = partial(_set, place, field, "Honor")
            yield Candidate(title, Sort.RELAX, 0.7, pod=(edit,))


def _together(s: Situation, hard: list[tuple[int, Data]]) -> Iterator[Candidate]:
    """Several stand in the way: each gets the smallest skew that does while others are wishes."""
    edits, words, more = [], [], 0
    for place, constraint in hard:
        skew = int(constraint.get("maxSkew", 1))
        others = [partial(_set, other, "whenUnsatisfiable", "ScheduleAnyway")
                  for other, _ in hard if other != place]  # fmt: skip
        if s.screen.fits(s.edited(others)):
            continue
        tried = sorted({skew + 1, *(each for each in SKEWS if each > skew)})
        chosen = next(
            (n for n in tried if s.screen.fits(s.edited([*others, _skewed(place, n)]))), None
        )
        if chosen is None:
            return
        edits.append(_skewed(place, chosen))
        words.append(f"{chosen} instead of {skew} over {constraint.get('topologyKey', '')}")
        more += chosen - skew
    if len(edits) > 1:
        title = f"allow a skew of {' and of '.join(words)}"
        yield Candidate(title, Sort.RELAX, 1 + 0.01 * more, pod=tuple(edits))


def _skewed(place: int, skew: int) -> partial[None]:
    return partial(_set, place, "maxSkew", skew)


def _looser(s: Situation, place: int, constraint: Data) -> Iterator[Candidate]:
    key, skew = constraint.get("topologyKey", ""), int(constraint.get("maxSkew", 1))
    larger = [each for each in SKEWS if each > skew]
    tried = sorted({skew + 1, *larger})
    # The smallest that helps; where no skew does alone, another objection stands.
    fits = _smallest(s, [_skewed(place, each) for each in tried])
    chosen = tried[fits] if fits is not None else skew + 1
    if fits:
        between = list(range(tried[fits - 1] + 1, tried[fits]))
        exact = _smallest(s, [_skewed(place, each) for each in between])
        chosen = between[exact] if exact is not None else chosen
    title = f"allow a skew of {chosen} instead of {skew} over {key}"
    amount = 0.1 + 0.01 * min(chosen - skew, 50)
    yield Candidate(title, Sort.RELAX, amount, pod=(_skewed(place, chosen),))
    domains = constraint.get("minDomains")
    if domains:
        fewer = list(range(int(domains) - 1, 0, -1))
        fits = _smallest(s, [partial(_set, place, "minDomains", each) for each in fewer])
        if fits is not None:
            title = f"ask for {fewer[fits]} domains of {key} instead of {domains}"
            edit = partial(_set, place, "minDomains", fewer[fits])
            yield Candidate(title, Sort.RELAX, 0.05 + fits / 1000, pod=(edit,))


def _smallest(s: Situation, edits: list[partial[None]]) -> int | None:
    """The first of these, from the smallest on, with which the pod fits; larger ones fit too."""
    if not edits or not s.screen.fits(s.edited([edits[-1]])):
        return None
    low, high = 0, len(edits) - 1
    while low < high:
        middle = (low + high) // 2
        if s.screen.fits(s.edited([edits[middle]])):
            high = middle
        else:
            low = middle + 1
    return high


def _set(place: int, field: str, value: str | int, pod: Data) -> None:
    pod["spec"][FIELD][place][field] = value


def _labelled(s: Situation, rows: list[int], key: str) -> Iterator[Candidate]:
    """A node that lacks the key gets a value of its own."""
    for row in rows[:2]:
        name = s.names[row]
        value = next(
            (labels[key] for labels in map(s.labels, range(len(s.names))) if key in labels), name
        )
        edit = ObjectEdit("Node", name, partial(_label, key, value))
        title = f"label {name} with {key}={value}"
        yield Candidate(title, Sort.LABEL, row / 1e6, objects=(edit,))


def _label(key: str, value: str, node: Data) -> None:
    node["metadata"].setdefault("labels", {})[key] = value
