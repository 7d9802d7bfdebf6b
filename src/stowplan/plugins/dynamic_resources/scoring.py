"""Score: where requests get what they like best.

Each request with alternatives gives the more points, the earlier the one that was chosen stands in
its list.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects.devices import ResourceClaim
from stowplan.plugins.dynamic_resources.attempt import Attempt

_ALTERNATIVES_MAX = 8


def score_of(attempt: Attempt, node: str) -> int:
    """0 where nothing had to be allocated, even if a claim got its alternative before."""
    found = attempt.nodes.get(node)
    if found is None or found.choices is None:
        return 0
    score = 0
    pending = iter(found.choices)
    for number, own in enumerate(attempt.claims):
        allocation = own.claim.status.allocation
        if number in attempt.pending or allocation is None:
            score += _points(own.claim, (choice.ask.name for choice in next(pending)))
        else:
            score += _points(own.claim, (it.request for it in allocation.devices.results or ()))
    return score


def _points(claim: ResourceClaim, chosen: Iterable[str]) -> int:
    alternatives = [it for it in claim.spec.devices.requests or () if it.first_available]
    if not alternatives:
        return 0
    names = set(chosen)
    return sum(
        _ALTERNATIVES_MAX - number
        for request in alternatives
        for number, sub in enumerate(request.first_available or ())
        if f"{request.name}/{sub.name}" in names
    )
