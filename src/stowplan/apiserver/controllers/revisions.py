"""Which pods were made of their owner's template as it is now.

The label that says so holds a hash, and another cluster hashes in another way: in a copy of one,
the pods that came with it count as made of the template that came with it.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.objects.workload_pods import REVISION_LABEL


class Revisions:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._copied: dict[str, str] = {}
        """Owner, by uid -> the revision of its template when the copy was made."""

    def resume(self, other: Revisions) -> None:
        self._copied = other._copied.copy()

    def note(self, owner: KubeObject, revision: str) -> None:
        """An owner is there: perhaps it came with the copy."""
        if self._shared.is_copy and not self._shared.synced():
            self._copied[owner.uid] = revision

    def forget(self, uid: str) -> None:
        self._copied.pop(uid, None)

    def is_current(self, pod: Pod, owner: KubeObject, revision: str) -> bool:
        return revision_of(pod) == revision or self._copied.get(owner.uid) == revision


def revision_of(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(REVISION_LABEL, "")
