"""Who depends on whom: owner references, indexed by the owner's uid.

The ledger keeps it in step with every write; garbage collection asks it what a deleted owner
leaves behind.  Objects without owners, which is most of a benchmark, cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stowplan.objects.base import OwnerReference
from stowplan.objects.kinds import Kind

Owners = Sequence[OwnerReference] | None


class Ref(NamedTuple):
    kind: Kind
    namespace: str
    name: str


class OwnerIndex:
    def __init__(self) -> None:
        # A dict as a set that keeps its order: deletions then happen in a repeatable one.
        self._dependants: dict[str, dict[Ref, None]] = {}

    def fork(self) -> OwnerIndex:
        other = OwnerIndex()
        other._dependants = {uid: refs.copy() for uid, refs in self._dependants.items()}
        return other

    def move(self, ref: Ref, before: Owners, after: Owners) -> None:
        """The owners of `ref` were `before` and are `after`."""
        for owner in before or ():
            dependants = self._dependants.get(owner.uid)
            if dependants is not None:
                dependants.pop(ref, None)
                if not dependants:
                    del self._dependants[owner.uid]
        for owner in after or ():
            self._dependants.setdefault(owner.uid, {})[ref] = None

    def dependants(self, uid: str) -> list[Ref]:
        return list(self._dependants.get(uid, ()))

    def has_dependants(self, uid: str) -> bool:
        return uid in self._dependants

    def owner_uids(self) -> list[str]:
        return list(self._dependants)
