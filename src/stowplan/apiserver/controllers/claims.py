"""Which pods are whose: a workload adopts orphans that match it, and lets go of what does not.

Mirrors `pkg/controller/controller_ref_manager.go`.  Orphans are looked through once, when a
workload appears; later each new orphan finds its owner by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject, LabelSelector
from stowplan.objects.kinds import Kind
from stowplan.objects.labels import SelectorError, compile_selector
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.workload_pods import owner_reference

Matches = Callable[[dict[str, str]], bool]


class Claims:
    def __init__(
        self,
        shared: Shared,
        calls: Calls,
        *,
        owner_kind: Kind,
        child_kind: Kind,
        look_again: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._calls = calls
        self._owner_kind = owner_kind
        self._child_kind = child_kind
        self._look_again = look_again
        self._scanned: set[str] = set()
        self._owners: dict[str, dict[str, tuple[KubeObject, Matches]]] = {}
        """namespace -> uid -> the owner and its selector"""
        shared.listen(owner_kind, self._owner_changed)
        shared.listen(child_kind, self._child_changed)

    def resume(self, other: Claims) -> None:
        self._scanned = other._scanned.copy()
        self._owners = {namespace: owners.copy() for namespace, owners in other._owners.items()}

    def of(self, owner: KubeObject) -> list[KubeObject]:
        """The children of an owner, those that it is just adopting included."""
        _, matches = self._owners.get(owner.namespace, {}).get(owner.uid, (owner, _nothing))
        stays = owner.metadata.deletion_timestamp is None
        children = []
        for child in self._shared.owned(self._child_kind, owner.uid):
            if matches(child.metadata.labels or {}):
                children.append(child)
            elif stays:
                self._release(owner, child)
        if owner.uid not in self._scanned and stays:
            self._scanned.add(owner.uid)
            for child in self._shared.orphans(self._child_kind, owner.namespace):
                if _adoptable(child) and matches(child.metadata.labels or {}):
                    self._adopt(owner, child)
                    children.append(child)
        return children

    def _adopt(self, owner: KubeObject, child: KubeObject) -> None:
        self._patch(owner, child, owner_reference(owner))

    def _release(self, owner: KubeObject, child: KubeObject) -> None:
        self._patch(owner, child, {"$patch": "delete", "uid": owner.uid})

    def _patch(self, owner: KubeObject, child: KubeObject, reference: dict[str, Any]) -> None:
        body = {"metadata": {"uid": child.uid, "ownerReferences": [reference]}}
        self._calls.send(owner.key, Patch(self._child_kind, child.namespace, child.name, body))

    def _owner_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            known = self._owners.setdefault(new.namespace, {})
            known[new.uid] = (new, _matches(getattr(new, "spec", None)))
        elif old is not None:
            self._scanned.discard(old.uid)
            self._owners.get(old.namespace, {}).pop(old.uid, None)

    def _child_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Tell the owners before and after; an orphan is offered to whom it matches."""
        for child in (old, new):
            owner = None if child is None else child.metadata.controller()
            if child is not None and owner is not None and self._is_mine(owner.uid, child):
                self._look_again(f"{child.namespace}/{owner.name}")
        if new is None or new.metadata.controller() is not None or not _adoptable(new):
            return
        labels = new.metadata.labels
        same = old is not None and old.metadata.labels == labels
        if (
            not labels
            or not self._scanned
            or (same and old is not None and old.metadata.controller() is None)
        ):
            return
        for candidate, matches in self._owners.get(new.namespace, {}).values():
            scanned = candidate.uid in self._scanned
            if scanned and candidate.metadata.deletion_timestamp is None and matches(labels):
                self._adopt(candidate, new)
                return

    def _is_mine(self, uid: str, child: KubeObject) -> bool:
        return uid in self._owners.get(child.namespace, {})


def _nothing(_: dict[str, str]) -> bool:
    return False


def _matches(spec: Any) -> Matches:
    selector: LabelSelector | None = getattr(spec, "selector", None)
    if selector is None:
        return _nothing
    try:
        return compile_selector(selector).matches
    except SelectorError:
        return _nothing


def _adoptable(child: KubeObject) -> bool:
    if child.metadata.deletion_timestamp is not None:
        return False
    return not (isinstance(child, Pod) and child.status.phase in ENDED_PHASES)
