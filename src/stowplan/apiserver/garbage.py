"""What a deletion leaves behind: dependants without owners, and namespaces that must be emptied.

The garbage collector and the namespace controller of Kubernetes, as far as a cluster in one
process needs them, at work right after each deletion and once more on demand (`collect`).
`store` carries out the deletions; nothing here recurses, however long the chain of owners is.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from msgspec.structs import replace

from stowplan.apiserver.ledger import Ledger
from stowplan.apiserver.owners import Ref
from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME, STORED_KINDS
from stowplan.objects.base import ObjectMeta, OwnerReference
from stowplan.objects.kinds import NAMESPACE
from stowplan.objects.workloads import Namespace

FOREGROUND = "foregroundDeletion"


class Hands(Protocol):
    """How the garbage collector acts on the store."""

    def delete_ref(self, ref: Ref) -> None:
        """Delete with the grace period of the object; nothing happens if it is gone."""
        ...

    def rewrite_meta(self, ref: Ref, meta: ObjectMeta) -> None:
        """Store other owners or finalizers; an object with nothing to wait for then goes."""
        ...

    def remove_namespace(self, name: str) -> None: ...


class Garbage:
    def __init__(self, ledger: Ledger, hands: Hands) -> None:
        self._ledger = ledger
        self._hands = hands
        self._removed: deque[ObjectMeta] = deque()
        self._working = False
        self._terminating: set[str] = set()

    def fork(self, ledger: Ledger, hands: Hands) -> Garbage:
        other = Garbage(ledger, hands)
        other._terminating = self._terminating.copy()
        return other

    def after_removal(self, meta: ObjectMeta) -> None:
        """Look after what depended on an object that is gone now."""
        owners = self._ledger.owners
        if self._terminating or meta.owner_references or owners.has_dependants(meta.uid):
            self._removed.append(meta)
            self._work()

    def begin_namespace(self, name: str) -> None:
        """Delete everything in a namespace, then the namespace."""
        self._terminating.add(name)
        for ref in self._contents(name):
            self._hands.delete_ref(ref)
        self._finish_namespace(name)

    def orphan(self, uid: str) -> None:
        """Let the dependants of an owner live on without it."""
        for ref in self._ledger.owners.dependants(uid):
            self._drop_owners(ref, {uid})

    def delete_dependants(self, uid: str) -> None:
        """Delete what an owner has, before the owner itself."""
        for ref in self._ledger.owners.dependants(uid):
            self._hands.delete_ref(ref)

    def collect(self) -> None:
        """Look at everything once: owners that never were, namespaces that are emptying."""
        for uid in self._ledger.owners.owner_uids():
            for ref in self._ledger.owners.dependants(uid):
                self._check(ref)
        for thing in list(self._ledger.tables[Namespace].every()):
            if thing.metadata.deletion_timestamp is not None:
                self.begin_namespace(thing.name)

    def _work(self) -> None:
        if self._working:
            return
        self._working = True
        try:
            while self._removed:
                meta = self._removed.popleft()
                for ref in self._ledger.owners.dependants(meta.uid):
                    self._check(ref)
                for owner in meta.owner_references or ():
                    self._release(owner, meta.namespace)
                if meta.namespace in self._terminating:
                    self._finish_namespace(meta.namespace)
        finally:
            self._working = False

    def _check(self, ref: Ref) -> None:
        """Delete an object whose owners are all gone; forget the gone ones otherwise."""
        thing = self._ledger.tables[ref.kind.struct].find(ref.namespace, ref.name)
        if thing is None:
            return
        owners = thing.metadata.owner_references or []
        gone = {owner.uid for owner in owners if self._is_gone(owner, ref.namespace)}
        if len(gone) == len({owner.uid for owner in owners}):
            self._hands.delete_ref(ref)
        elif gone:
            self._drop_owners(ref, gone)

    def _is_gone(self, owner: OwnerReference, namespace: str) -> bool:
        kind = STORED_KIND_BY_NAME.get((owner.api_version, owner.kind))
        if kind is None:
            # A kind that is not served here: nobody can say that its object is gone.
            return False
        found = self._ledger.tables[kind.struct].find(
            namespace if kind.namespaced else "", owner.name
        )
        return found is None or found.metadata.uid != owner.uid

    def _drop_owners(self, ref: Ref, uids: set[str]) -> None:
        thing = self._ledger.tables[ref.kind.struct].find(ref.namespace, ref.name)
        if thing is None:
            return
        meta = thing.metadata
        kept = [owner for owner in meta.owner_references or () if owner.uid not in uids]
        self._hands.rewrite_meta(ref, replace(meta, owner_references=kept or None))

    def _release(self, owner: OwnerReference, namespace: str) -> None:
        """An owner that is deleted in the foreground goes when its last dependant has gone."""
        kind = STORED_KIND_BY_NAME.get((owner.api_version, owner.kind))
        if kind is None:
            return
        ref = Ref(kind, namespace if kind.namespaced else "", owner.name)
        found = self._ledger.tables[kind.struct].find(ref.namespace, ref.name)
        if found is None or found.metadata.uid != owner.uid:
            return
        meta = found.metadata
        waits = meta.deletion_timestamp is not None and FOREGROUND in (meta.finalizers or ())
        if waits and not self._ledger.owners.dependants(owner.uid):
            kept = [item for item in meta.finalizers or () if item != FOREGROUND]
            self._hands.rewrite_meta(ref, replace(meta, finalizers=kept or None))

    def _contents(self, namespace: str) -> list[Ref]:
        return [
            Ref(kind, namespace, name)
            for kind in STORED_KINDS
            if kind.namespaced
            for name in sorted(self._ledger.tables[kind.struct].objects.get(namespace, ()))
        ]

    def _finish_namespace(self, name: str) -> None:
        # A table has no entry for a namespace without objects.
        if any(name in table.objects for table in self._ledger.tables.values()):
            return
        self._terminating.discard(name)
        found = self._ledger.tables[NAMESPACE.struct].find("", name)
        # Its deletion may have been undone, by a journal that failed or a dry run.
        if found is not None and found.metadata.deletion_timestamp is not None:
            self._hands.remove_namespace(name)
