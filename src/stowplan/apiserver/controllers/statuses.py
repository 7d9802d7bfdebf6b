"""Statuses that controllers write: only when they say something new."""

from __future__ import annotations

from typing import Any

from stowplan.cluster.port import Answer, Cluster, call_one
from stowplan.errors import ApiError
from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

Data = dict[str, Any]


class Statuses:
    def __init__(self, cluster: Cluster, kind: Kind) -> None:
        self._cluster = cluster
        self._kind = kind
        self._written: dict[str, Data] = {}

    def resume(self, other: Statuses) -> None:
        self._written = other._written.copy()

    def write(self, thing: KubeObject, status: Data) -> None:
        """Make these fields of the status so; a zero is left out, as Kubernetes does."""
        uid = thing.uid
        if self._written.get(uid) == status:
            return
        self._written[uid] = status
        shown = {key: value or None for key, value in status.items()}
        body = {"metadata": {"uid": uid}, "status": shown}
        request = Patch(self._kind, thing.namespace, thing.name, body, "merge", "status")

        def done(answer: Answer) -> None:
            if isinstance(answer, ApiError):
                self._written.pop(uid, None)

        call_one(self._cluster, request, done)

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)
