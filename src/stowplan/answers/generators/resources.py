"""NodeResourcesFit: a smaller request, and the largest that fits.

How much is left on each node is read from the scheduler's columns; the node where the least has to
be given up is taken, and what was found is tried like every other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, Edit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest, quantity, shown
from stowplan.objects.quantity import parse_quantity
from stowplan.objects.resources import amounts, is_extended, is_hugepages

LEAST = 0.1
"""A request below this part of what was asked for is hardly the same pod's."""


def smaller_requests(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    yield from _other_names(s)
    found: dict[tuple[str, ...], tuple[float, int]] = {}
    for row in rows:
        room = {name: _free(s, name, row) for name in s.requests}
        short = tuple(name for name, amount in s.requests.items() if amount > room[name])
        if not short or any(room[name] <= 0 for name in short) or _free(s, "pods", row) < 1:
            continue
        given_up = sum(1 - room[name] / s.requests[name] for name in short)
        if short not in found or given_up < found[short][0]:
            found[short] = given_up, row
    best = sorted(found.items(), key=lambda entry: (len(entry[0]), entry[1][0]))
    for short, (given_up, row) in best[:4]:
        targets = {name: _free(s, name, row) for name in short}
        for edits, words in _edits(s, targets):
            yield Candidate(
                f"request {words}",
                Sort.LESS,
                given_up,
                pod=edits,
                last_resort=any(targets[n] < LEAST * s.requests[n] for n in short),
            )


def _other_names(s: Situation) -> Iterator[Candidate]:
    """A resource that no node has at all."""
    offered = {name for name, column in s.allocatable.items() if column.any()}
    absent = [name for name, amount in s.requests.items() if amount and name not in offered]
    for name in absent if len(absent) == 1 else ():
        right = nearest(name, offered - {"cpu", "memory", "pods", "ephemeral-storage"})
        if right is not None:
            title = f"correct the resource's name: {right} instead of {name}"
            amount = 1 - likeness(name, right)
            yield Candidate(title, Sort.CORRECT, amount, pod=(partial(_rename, name, right),))
        title = f"do not request {name}, which no node has"
        yield Candidate(title, Sort.DROP, pod=(partial(_rename, name, ""),))


def _rename(name: str, right: str, pod: Data) -> None:
    spec = pod["spec"]
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for amounts_of in (container.get("resources") or {}).values():
            if isinstance(amounts_of, dict) and name in amounts_of:
                amount = amounts_of.pop(name)
                if right:
                    amounts_of[right] = amount


def _free(s: Situation, resource: str, row: int) -> int:
    column = s.free.get(resource)
    return 0 if column is None else int(column[row])


def _edits(s: Situation, targets: dict[str, int]) -> Iterator[tuple[tuple[Edit, ...], str]]:
    """For each container that asks for enough of it, the largest first."""
    if any(not _containers(s, name, s.requests[name] - left) for name, left in targets.items()):
        yield from _in_proportion(s, targets)
        return
    choices = {
        name: _containers(s, name, s.requests[name] - left) for name, left in targets.items()
    }
    for position in range(max((len(found) for found in choices.values()), default=0)):
        edits: list[Edit] = []
        words: list[str] = []
        for name, found in choices.items():
            if not found:
                return
            where, container, amount = found[min(position, len(found) - 1)]
            edits.append(partial(_set_request, where, name, quantity(name, amount)))
            asked = shown(name, _asked(container, name))
            several = len(s.manifest["spec"].get("containers") or ()) > 1
            of = f" for {container.get('name', '')}" if several else ""
            words.append(f"{quantity(name, amount)} {name}{of} instead of {asked}")
        yield tuple(edits), " and ".join(words)


def _in_proportion(s: Situation, targets: dict[str, int]) -> Iterator[tuple[tuple[Edit, ...], str]]:
    """No container alone can give up enough: all do, each its part."""
    edits: list[Edit] = []
    for name, left in targets.items():
        asked = [_asked(container, name) for container in s.manifest["spec"]["containers"]]
        rest = left - (s.requests[name] - sum(asked))
        if rest <= 0 or not sum(asked):
            return
        parts = [amount * rest // sum(asked) for amount in asked]
        parts[parts.index(max(parts))] += rest - sum(parts)
        for place, part in enumerate(parts):
            if asked[place]:
                edits.append(
                    partial(_set_request, ("containers", place), name, quantity(name, part))
                )
    words = " and ".join(
        f"{quantity(name, left)} {name} in all instead of {shown(name, s.requests[name])}"
        for name, left in targets.items()
    )
    yield tuple(edits), words


Where = tuple[str, int]


def _containers(s: Situation, name: str, too_much: int) -> list[tuple[Where, Data, int]]:
    """Containers that could ask for so much less, and what they would then ask for."""
    found = []
    spec = s.manifest["spec"]
    if name in ((spec.get("resources") or {}).get("requests") or {}):
        left = _asked(spec, name) - too_much
        return [(("", 0), {**spec, "name": "the pod"}, left)] if left > 0 else []
    for field in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(field) or ()):
            left = _asked(container, name) - too_much
            if left > 0:
                found.append(((field, place), container, left))
    if not found:
        return []
    return sorted(found, key=lambda entry: -entry[2])


def _asked(container: Data, name: str) -> int:
    resources = container.get("resources") or {}
    text = (resources.get("requests") or {}).get(name, (resources.get("limits") or {}).get(name, 0))
    return amounts({name: parse_quantity(text)}).get(name, 0)


def _set_request(where: Where, name: str, amount: str, pod: Data) -> None:
    field, place = where
    container: Any = pod["spec"] if not field else pod["spec"][field][place]
    resources = container.setdefault("resources", {})
    resources.setdefault("requests", {})[name] = amount
    limits = resources.get("limits") or {}
    if name in limits and (is_extended(name) or is_hugepages(name)):
        # Of these the limit is the request.
        limits[name] = amount
