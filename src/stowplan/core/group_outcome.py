"""What came of a group, as its members' decisions tell it: who had a place, and who had none."""

from __future__ import annotations

from heapq import nlargest
from typing import Any

from msgspec import Struct

DOMAINS_MAX = 16
"""Values of the topology label that are told of, those with room for the most members."""


class Domain(Struct, frozen=True):
    """Nodes that share the value of the topology label."""

    value: str
    count: int
    """Members that had a place there; for one that was not tried, at most so many."""
    is_tried: bool = True


class GroupOutcome(Struct, frozen=True):
    """One for all members that were decided on together."""

    group: str
    """`namespace/name`."""
    needed: int
    """Members that must have a node, at least; 0 for a group without a minimum."""
    member_count: int
    """All there are, those with a node among them."""
    scheduled_count: int = 0
    """Those that had a node before."""
    is_placed: bool = False
    placed: dict[str, str] = {}
    """Pod -> the node it had a place on."""
    unplaced: dict[str, str] = {}
    """Pod -> why it had none."""
    topology_key: str = ""
    domain: str = ""
    """The value of the label where all this was so."""
    domains: tuple[Domain, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For the decision on a member; who had a place is said once for all of them."""
        return {
            "name": self.group,
            "needed": self.needed,
            "members": self.member_count,
            "scheduled": self.scheduled_count,
            "placed": len(self.placed),
        }


def most_promising(bounds: dict[str, int], tried: dict[str, int]) -> tuple[Domain, ...]:
    """`bounds`: how many members a domain takes at most; `tried`: how many it took."""
    found = [Domain(value, tried.get(value, most), value in tried)
             for value, most in bounds.items()]  # fmt: skip
    return tuple(nlargest(DOMAINS_MAX, found, key=lambda each: each.count))
