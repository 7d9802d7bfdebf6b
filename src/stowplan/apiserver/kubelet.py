"""A kubelet for all nodes at once: bound pods run, deleted pods end.

The embedded cluster has no machines, but users expect pods to become Running and deletions to
finish.  It talks to the cluster through the port like any other client, so it works over HTTP
as well; it acts in its own turn, never inside somebody else's write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from stowplan.clock import Clock
from stowplan.cluster.informer import Informer, InformerHandlers
from stowplan.cluster.port import Answer, Cluster, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from stowplan.objects.times import format_time

PODS_PER_TURN = 64

_FINISHED = frozenset({"Succeeded", "Failed"})


class Kubelet:
    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], object],
        random: Random,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._call_later = call_later
        self._todo: deque[Pod] = deque()
        self._turn_asked = False
        handlers = InformerHandlers(on_add=self._seen, on_update=lambda old, new: self._seen(new))
        self._pods = Informer(
            cluster, POD, handlers, clock=clock, call_later=call_later, random=random
        )

    def start(self) -> None:
        self._pods.start()

    def stop(self) -> None:
        self._pods.stop()

    @property
    def busy(self) -> bool:
        return bool(self._todo)

    def _seen(self, obj: KubeObject) -> None:
        assert isinstance(obj, Pod)
        if not obj.spec.node_name:
            return
        ends = obj.metadata.deletion_timestamp is not None
        starts = obj.status.phase not in _FINISHED and obj.status.start_time is None
        if ends or starts:
            self._todo.append(obj)
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self._call_later(0.0, self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        for _ in range(min(PODS_PER_TURN, len(self._todo))):
            pod = self._todo.popleft()
            if pod.metadata.deletion_timestamp is not None:
                self._end(pod)
            else:
                self._start(pod)
        if self._todo:
            self._ask_for_turn()

    def _end(self, pod: Pod) -> None:
        metadata = pod.metadata
        request = Delete(
            POD, metadata.namespace, metadata.name, uid=metadata.uid, grace_period_seconds=0
        )
        self._cluster.call(request, _ignore)

    def _start(self, pod: Pod) -> None:
        metadata = pod.metadata
        now = format_time(self._clock.now())
        ready = [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        ]
        body: dict[str, Any] = {
            "metadata": {"uid": metadata.uid},
            "status": {"phase": "Running", "startTime": now, "conditions": ready},
        }
        request = Patch(POD, metadata.namespace, metadata.name, body, "strategic", "status")
        self._cluster.call(request, _ignore)


def _ignore(answer: Answer) -> None:
    """Gone or changed meanwhile: the watch will tell."""
