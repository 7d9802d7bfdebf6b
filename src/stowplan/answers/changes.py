"""A change that may help, and which of two changes less: the ranking rule of every answer.

docs/answers.md states the rule in words: nobody evicted before somebody evicted, what is meant
before what is a last resort, one change before two, fewer objects before more, the pod's own
manifest before the cluster's, then the sort of change (`Sort`, in that order), then how much of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Data = dict[str, Any]
Edit = Callable[[Data], None]
"""Changes an object in place; of a pod, or of a workload's template: `metadata` and `spec`."""


class Sort(IntEnum):
    """What is done, from the smallest to the largest."""

    CORRECT = 1
    """A word that looks misspelt becomes one that exists."""
    RELEASE = 2
    """A scheduling gate is taken away."""
    TOLERATE = 3
    LESS = 4
    """A smaller request."""
    RELAX = 5
    """A constraint asks for less, or becomes a wish."""
    OTHER = 6
    """Another value for one that is taken or does not exist, such as a host port."""
    DROP = 7
    """A constraint goes."""
    RELABEL = 8
    UNCORDON = 9
    LABEL = 10
    """A node is given a label."""
    PROVIDE = 11
    """An object that was missing: a claim, a volume, a class."""
    ADD_NODE = 12
    FREE = 13
    """A running pod is deleted."""
    PRIORITY = 14


@dataclass(frozen=True, slots=True)
class ObjectEdit:
    kind: str
    key: str
    edit: Edit


@dataclass(frozen=True, slots=True)
class Candidate:
    """Not proven yet."""

    title: str
    sort: Sort
    amount: float = 0.0
    """How much of it, for two of one sort: the less the better."""
    pod: tuple[Edit, ...] = ()
    """Of the pod itself."""
    objects: tuple[ObjectEdit, ...] = ()
    create: tuple[Data, ...] = ()
    delete: tuple[tuple[str, str], ...] = ()
    """Kind and key."""
    last_resort: bool = False
    """It works, but is hardly what anybody means."""
    sorts: tuple[Sort, ...] = field(default=())
    """Of a change that does several things: what it does."""
    parts: int = 1
    """How many changes it is made of."""
    is_shared: bool = False
    """The same is done to every pod of a group, which is one change to whoever wrote them."""
    is_indirect: bool = False
    """Somebody else acts on it before the scheduler can: only a trial tells whether it helps."""

    @property
    def is_own(self) -> bool:
        """Nothing but the pod's manifest changes."""
        return not (self.objects or self.create or self.delete)

    @property
    def object_count(self) -> int:
        keys = {
            (each.kind, each.key)
            for each in self.objects
            if not (self.is_shared and each.kind == "Pod")
        }
        return bool(self.pod) + len(keys) + len(self.create) + len(self.delete)

    def rank(self, evicted: int = 0) -> tuple[Any, ...]:
        """The lower the smaller; `evicted` is how many pods lose their place through it."""
        disturbed = evicted + len(self.delete)
        return (
            disturbed > 0,
            self.last_resort,
            self.parts,
            self.object_count,
            not (self.is_own or self.is_shared),
            tuple(sorted(self.sorts, reverse=True)) or (self.sort,),
            disturbed,
            round(self.amount, 6),
            self.title,
        )


def both(first: Candidate, second: Candidate) -> Candidate:
    return Candidate(
        f"{first.title}, and {second.title}",
        max(first.sort, second.sort),
        first.amount + second.amount,
        first.pod + second.pod,
        first.objects + second.objects,
        first.create + second.create,
        first.delete + second.delete,
        first.last_resort or second.last_resort,
        (first.sorts or (first.sort,)) + (second.sorts or (second.sort,)),
        first.parts + second.parts,
        first.is_shared or second.is_shared,
        first.is_indirect or second.is_indirect,
    )
