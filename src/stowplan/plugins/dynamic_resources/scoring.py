"""Score: where requests get what they like best.

Each request with alternatives gives the more points, the earlier the one that was chosen stands in
its list.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects.devices import ResourceClaim
from stowplan.plugins.dynamic_resources.allocator import Choices
from stowplan.plugins.dynamic_resources.attempt import Attempt

_ALTERNATIVES_MAX = 8


def has_alternatives(attempt: Attempt) -> bool:
    """Whether any request of any claim has: else all nodes are alike."""
    return any(
        request.first_available
        for own in attempt.claims
        for request in own.claim.spec.devices.requests or ()
    )


def score_of(attempt: Attempt, node: str) -> int:
    """0 where nothing had to be allocated, even if a claim got its alternative before."""
    found = attempt.on(node)
    if found is None or found.choices is None:
        return 0
    claims = [attempt.claims[number].claim for number in attempt.pending]
    return points_of_choices(claims, found.choices) + points_before(attempt)


def points_before(attempt: Attempt) -> int:
    """Of the claims that have their devices already."""
    return sum(
        _points(own.claim, (it.request for it in allocation.devices.results or ()))
        for own in attempt.claims
        if (allocation := own.claim.status.allocation) is not None
    )


def points_of_choices(claims: Iterable[ResourceClaim], choices: Choices) -> int:
    """Of claims that are to get these devices."""
    return sum(
        _points(claim, (choice.ask.name for choice in chosen))
        for claim, chosen in zip(claims, choices, strict=True)
    )


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
