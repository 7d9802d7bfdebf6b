"""The kind of a pod that a queueing hint is given: hints see structs, plugins think in kinds.

A pending pod is asked about again and again, with the same struct, so its kind is remembered by
the struct's identity.
"""

from __future__ import annotations

from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodKind, kind_of

_KNOWN_MAX = 8192


class PodKinds:
    def __init__(self) -> None:
        self._known: dict[int, tuple[Pod, PodKind]] = {}

    def of(self, pod: Pod) -> PodKind:
        # The struct is held, so its id cannot become another one's.
        known = self._known.get(id(pod))
        if known is None:
            if len(self._known) == _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            known = self._known[id(pod)] = (pod, kind_of(pod))
        return known[1]
