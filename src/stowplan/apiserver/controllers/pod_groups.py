"""Groups that are deleted stay until their last member is gone or has ended.

Admission puts a finalizer on every group; here it is taken away.
Mirrors `pkg/controller/scheduling/podgroupprotection`.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, POD_GROUP
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.pod_groups import PROTECTION, PodGroup, group_key


class PodGroupController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("pod group", self.sync)
        self.calls = Calls(shared, self.queue)
        self._members: dict[str, set[str]] = {}
        """Group -> its pods that have not ended, both by `namespace/name`."""
        shared.listen(POD_GROUP, self._group_changed)
        shared.listen(POD, self._pod_changed)

    def _group_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self.queue.add(new.key)

    def _pod_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        pod = old if new is None else new
        if not isinstance(pod, Pod) or not (key := group_key(pod)):
            return
        if new is not None and pod.status.phase not in ENDED_PHASES:
            self._members.setdefault(key, set()).add(pod.key)
            return
        members = self._members.get(key, set())
        members.discard(pod.key)
        if not members:
            self._members.pop(key, None)
            self.queue.add(key)

    def sync(self, key: str) -> None:
        group = self._shared.get(POD_GROUP, key)
        if not isinstance(group, PodGroup) or not self.calls.settled(key):
            return
        meta = group.metadata
        finalizers = meta.finalizers or []
        if meta.deletion_timestamp is None or PROTECTION not in finalizers or key in self._members:
            return
        kept = [it for it in finalizers if it != PROTECTION]
        body = {"metadata": {"uid": meta.uid, "finalizers": kept or None}}
        self.calls.send(key, Patch(POD_GROUP, meta.namespace, meta.name, body, "merge"))
