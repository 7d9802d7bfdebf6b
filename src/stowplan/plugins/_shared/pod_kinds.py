"""The kind of a pod that a queueing hint is given: hints see structs, plugins think in kinds.

A pending pod is asked about again and again, so its kind is remembered by its uid and resource
version.  Weakly: a kind holds one of its pods, and those that are gone must not stay for this.
"""

from __future__ import annotations

from weakref import ref

from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodKind, kind_of

_KNOWN_MAX = 8192


class PodKinds:
    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ref[PodKind]]] = {}

    def of(self, pod: Pod) -> PodKind:
        metadata = pod.metadata
        version, found = self._known.get(metadata.uid, _NOBODY)
        kind = found() if version == metadata.resource_version else None
        if kind is None:
            kind = kind_of(pod)
            if metadata.resource_version:
                if len(self._known) == _KNOWN_MAX:
                    del self._known[next(iter(self._known))]
                self._known[metadata.uid] = (metadata.resource_version, ref(kind))
        return kind


def _no_kind() -> None:
    return None


_NOBODY = ("", _no_kind)
