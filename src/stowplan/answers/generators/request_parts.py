"""How a pod's request can be made to fit: which of its containers asks for less, and how much less.

What a pod requests is the larger of its containers together and each init container, with whatever
runs beside it; or what the pod as a whole says.  The scheduler decides whether a way is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.answers.changes import Data
from stowplan.answers.situation import Situation
from stowplan.objects.quantity import ceil_value, parse_quantity
from stowplan.objects.resources import amounts, is_hugepages

Where = tuple[str, int]
"""Which list of containers, and which of them; `("", 0)` is the pod as a whole."""
POD: Where = ("", 0)


def ways_to_fit(s: Situation, name: str, room: int) -> Iterator[dict[Where, int]]:
    """Each way to ask for no more than that: who asks for how much then."""
    spec = s.manifest["spec"]
    left = room - asked_by({"resources": {"requests": s.pod.spec.overhead or {}}}, name)
    if left <= 0:
        return
    running = _running(spec, name)
    if name in ((spec.get("resources") or {}).get("requests") or {}):
        # Containers may not ask for more than the pod as a whole.
        shared = _in_proportion(running, left, unit_of(name)) if _sum(running) > left else {}
        yield {POD: left, **shared}
        return
    starting = _starting(spec, name, left)
    if any(amount <= 0 for amount in starting.values()):
        return
    too_much = _sum(running) - left
    if too_much <= 0:
        if starting:
            yield starting
        return
    alone = {at: asked - too_much for at, asked in running.items() if asked > too_much}
    for at in sorted(alone, key=lambda at: -alone[at]):
        yield {at: alone[at], **starting}
    if not alone:
        yield {**_in_proportion(running, left, unit_of(name)), **starting}


def _running(spec: Data, name: str) -> dict[Where, int]:
    """What containers ask for that run at the same time."""
    found = {
        (field, place): asked_by(container, name)
        for field in ("containers", "initContainers")
        for place, container in enumerate(spec.get(field) or ())
        if field == "containers" or _stays(container)
    }
    return {at: asked for at, asked in found.items() if asked}


def _starting(spec: Data, name: str, left: int) -> dict[Where, int]:
    """What is left for init containers that ask for more, beside those that stay."""
    found: dict[Where, int] = {}
    beside = 0
    for place, container in enumerate(spec.get("initContainers") or ()):
        asked = asked_by(container, name)
        if _stays(container):
            beside += asked
        elif asked + beside > left:
            found["initContainers", place] = left - beside
    return found


def _stays(container: Data) -> bool:
    return container.get("restartPolicy") == "Always"


def _in_proportion(asked: dict[Where, int], left: int, unit: int) -> dict[Where, int]:
    """No container alone can give up enough: all do, each its part."""
    total = _sum(asked)
    parts = {at: amount * left // total // unit * unit for at, amount in asked.items()}
    largest = max(parts, key=lambda at: parts[at])
    parts[largest] += left - _sum(parts)
    return parts


def _sum(asked: dict[Where, int]) -> int:
    return sum(asked.values())


def unit_of(resource: str) -> int:
    """What amounts of it are multiples of."""
    if not is_hugepages(resource):
        return 1
    return max(ceil_value(parse_quantity(resource.partition("-")[2])), 1)


def asked_by(container: Data, name: str) -> int:
    resources = container.get("resources") or {}
    text = (resources.get("requests") or {}).get(name, (resources.get("limits") or {}).get(name, 0))
    return amounts({name: parse_quantity(text)}).get(name, 0)


def container_at(spec: Data, where: Where) -> Data:
    field, place = where
    found: Data = spec[field][place] if field else spec
    return found
