"""NodeResourcesFit: a smaller request, and the largest that fits.

How much is left on each node is read from the scheduler's columns; the node where the least has to
be given up is taken, and what was found is tried like every other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from stowplan.answers.changes import Candidate, Data, Edit, Sort
from stowplan.answers.generators.node_labels import without_runtime_class
from stowplan.answers.generators.replicas import (
    in_the_input,
    replicas_that_wait,
    room_for_all,
)
from stowplan.answers.generators.request_parts import (
    Where,
    asked_by,
    container_at,
    unit_of,
    ways_to_fit,
)
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest, quantity, shown
from stowplan.objects.pod import Pod
from stowplan.objects.resources import is_extended, is_hugepages

LEAST = 0.1
"""A request below this part of what was asked for is hardly the same pod's."""


def smaller_requests(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    yield from _other_names(s)
    if s.pod.spec.overhead:
        yield from without_runtime_class(s)
    found: dict[tuple[str, ...], tuple[float, int]] = {}
    absent = _absent(s)
    for row in rows:
        room = {name: _room(s, name, row) for name in s.requests if name not in absent}
        short = tuple(name for name, left in room.items() if s.requests[name] > left)
        if not short or any(room[name] <= 0 for name in short) or _free(s, "pods", row) < 1:
            continue
        given_up = sum(1 - room[name] / s.requests[name] for name in short)
        if short not in found or given_up < found[short][0]:
            found[short] = given_up, row
    best = sorted(found.items(), key=lambda entry: (len(entry[0]), entry[1][0]))
    waiting = replicas_that_wait(s)
    shared = [*_for_all(s, rows, waiting)] if len(waiting) > 1 else []
    yield from shared
    if shared and s.cluster.source("Pod", s.key) is None:
        # It has no manifest of its own: whatever it asks for, all ask for.
        return
    for short, (given_up, row) in best[:4]:
        targets = {name: _room(s, name, row) for name in short}
        for edits, words in edits_to_fit(s, targets):
            yield Candidate(
                f"request {words}",
                Sort.LESS,
                given_up,
                pod=edits,
                last_resort=any(targets[n] < LEAST * s.requests[n] for n in short),
            )


def _for_all(s: Situation, rows: list[int], waiting: list[Pod]) -> Iterator[Candidate]:
    """One resource of which all replicas ask for less."""
    for name, asked in s.requests.items():
        limit = room_for_all(s, rows, waiting, name) if asked and rows else 0
        limit -= limit % unit_of(name)
        if not 0 < limit < asked:
            continue
        for edits, words in edits_to_fit(s, {name: limit}):
            yield Candidate(
                f"request {words}, in all {len(waiting)} replicas",
                Sort.LESS,
                1 - limit / asked,
                pod=edits,
                objects=in_the_input(s, waiting, edits),
                last_resort=limit < LEAST * asked,
                is_shared=True,
                # As long as the others ask for what they do, there is no room.
                is_indirect=True,
            )


def _other_names(s: Situation) -> Iterator[Candidate]:
    """A resource that no node has at all."""
    offered, absent = _offered(s), _absent(s)
    for name in absent if len(absent) == 1 else ():
        others = offered - {"cpu", "memory", "pods", "ephemeral-storage"}
        right = nearest(name, [each for each in others if s.requests[name] % unit_of(each) == 0])
        if right is not None:
            title = f"correct the resource's name: {right} instead of {name}"
            amount = 1 - likeness(name, right)
            yield Candidate(title, Sort.CORRECT, amount, pod=(partial(_rename, name, right),))
        title = f"do not request {name}, which no node has"
        yield Candidate(title, Sort.DROP, pod=(partial(_rename, name, ""),))


def _offered(s: Situation) -> set[str]:
    return {name for name, column in s.allocatable.items() if column.any()}


def _absent(s: Situation) -> list[str]:
    offered = _offered(s)
    return [name for name, amount in s.requests.items() if amount and name not in offered]


def _rename(name: str, right: str, pod: Data) -> None:
    spec = pod["spec"]
    for container in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for amounts_of in (container.get("resources") or {}).values():
            if isinstance(amounts_of, dict) and name in amounts_of:
                amount = amounts_of.pop(name)
                if right:
                    amounts_of[right] = amount


def _room(s: Situation, resource: str, row: int) -> int:
    """What is left that can be asked for: huge pages are whole."""
    free = _free(s, resource, row)
    return free - free % unit_of(resource)


def _free(s: Situation, resource: str, row: int) -> int:
    column = s.room.get(resource)
    return 0 if column is None else int(column[row])


def edits_to_fit(s: Situation, targets: dict[str, int]) -> Iterator[tuple[tuple[Edit, ...], str]]:
    """Ways to ask for no more than that, the one that leaves a container the most first."""
    choices = {name: list(ways_to_fit(s, name, left)) for name, left in targets.items()}
    for position in range(max(map(len, choices.values()), default=0)):
        if not all(choices.values()):
            return
        edits: list[Edit] = []
        words: list[str] = []
        for name, ways in choices.items():
            way = ways[min(position, len(ways) - 1)]
            edits += [partial(_set_request, at, name, quantity(name, n)) for at, n in way.items()]
            words.append(_words(s, name, way, targets[name]))
        yield tuple(edits), " and ".join(words)


def _words(s: Situation, name: str, way: dict[Where, int], left: int) -> str:
    spec = s.manifest["spec"]
    if len(way) > 1:
        all_asked = shown(name, s.requests[name])
        return f"{quantity(name, left)} {name} in all instead of {all_asked}"
    ((at, amount),) = way.items()
    several = len([*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]) > 1
    whose = container_at(spec, at).get("name", "the pod") if several else ""
    of = f" for {whose}" if whose else ""
    asked = shown(name, asked_by(container_at(spec, at), name))
    return f"{quantity(name, amount)} {name}{of} instead of {asked}"


def _set_request(where: Where, name: str, amount: str, pod: Data) -> None:
    resources = container_at(pod["spec"], where).setdefault("resources", {})
    resources.setdefault("requests", {})[name] = amount
    limits = resources.get("limits") or {}
    if name in limits and (is_extended(name) or is_hugepages(name)):
        # Of these the limit is the request.
        limits[name] = amount
