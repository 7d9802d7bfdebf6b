"""A kubelet for all nodes at once: bound pods run, jobs finish, deleted pods end.

The embedded cluster has no machines, but users expect pods to become Running and deletions to
finish.  It talks to the cluster through the port like any other client, so it works over HTTP
as well; it acts in its own turn, never inside somebody else's write.  What it writes about a pod
is put together in `kubelet_status`.

A pod of a Job succeeds after a second.  Annotations say otherwise, for any pod:
`stowplan/run-seconds: "30"` ends it after that time, `stowplan/exit-code: "1"` makes it fail.

In a copy of another cluster (`is_copy`) the pods that are there go on as they are, those that end
included, and no pod ends by itself: what the real ones would do is not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from stowplan.apiserver.kubelet_status import ended_status, running_status
from stowplan.clock import Clock
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import Cluster, Delete, Patch, ignore_all
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.times import format_time, parse_time

PODS_PER_TURN = 64
JOB_RUN_S = 1.0
RUN_SECONDS = "stowplan/run-seconds"
EXIT_CODE = "stowplan/exit-code"


class Kubelet:
    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], object],
        random: Random,
        detailed: bool = False,
        is_copy: bool = False,
    ) -> None:
        """`detailed`: also write what only people read, such as addresses and containers."""
        self._cluster = cluster
        self._clock = clock
        self._call_later = call_later
        self._detailed = detailed
        self._is_copy = is_copy
        self._ends_s: dict[str, float] = {}
        """When pods that run for a while will end, by uid."""
        self._todo: deque[Pod] = deque()
        self._turn_asked = False
        self._stopped = False
        self._homeless: dict[str, dict[str, Pod]] = {}
        """Pods that are bound to a node which is not there (yet), by node and uid."""
        self._nodes = Informer(
            cluster,
            NODE,
            self._nodes_changed,
            clock=clock,
            call_later=call_later,
            random=random,
        )
        self._pods = Informer(
            cluster, POD, self._pods_changed, clock=clock, call_later=call_later, random=random
        )

    def start(self) -> None:
        self._nodes.start()
        self._pods.start()

    def resume(self, other: Kubelet, resource_version: str) -> None:
        """Go on where another one is: on a fork of its cluster, made at this version."""
        self._nodes.resume(other._nodes, resource_version)
        self._pods.resume(other._pods, resource_version)
        self._ends_s, self._todo = other._ends_s.copy(), other._todo.copy()
        self._homeless = {node: pods.copy() for node, pods in other._homeless.items()}
        self._turn_asked = other._turn_asked

    def stop(self) -> None:
        self._stopped = True
        self._nodes.stop()
        self._pods.stop()

    @property
    def busy(self) -> bool:
        return bool(self._todo)

    @property
    def has_plans(self) -> bool:
        """Whether a pod will end by itself."""
        return bool(self._ends_s)

    def _pods_changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._gone(change.object)
            else:
                self._seen(change.new if isinstance(change, Updated) else change.object)

    def _seen(self, obj: KubeObject) -> None:
        assert isinstance(obj, Pod)
        node = obj.spec.node_name
        if not node or (self._is_copy and not self._pods.synced):
            return
        ends = obj.metadata.deletion_timestamp is not None
        starts = obj.status.phase not in ENDED_PHASES and obj.status.start_time is None
        if self._nodes.get(node) is None and (ends or starts):
            self._homeless.setdefault(node, {})[obj.uid] = obj
        elif ends or starts:
            self._todo.append(obj)
            self._ask_for_turn()
        elif obj.status.phase == "Running":
            self._plan_end(obj)

    def _gone(self, obj: KubeObject) -> None:
        self._ends_s.pop(obj.uid, None)
        if isinstance(obj, Pod) and obj.spec.node_name in self._homeless:
            self._homeless[obj.spec.node_name].pop(obj.uid, None)

    def _nodes_changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Added):
                for pod in self._homeless.pop(change.object.name, {}).values():
                    self._todo.append(pod)
                    self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self._call_later(0.0, self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        if self._stopped:
            return
        count, now = min(PODS_PER_TURN, len(self._todo)), format_time(self._clock.now())
        requests = [self._next(self._todo.popleft(), now) for _ in range(count)]
        # Gone or changed meanwhile: the watch will tell.
        self._cluster.call(requests, ignore_all)
        if self._todo:
            self._ask_for_turn()

    def _next(self, pod: Pod, now: str) -> Delete | Patch:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            return Delete(POD, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)
        return _status_patch(pod, running_status(pod, now, self._detailed))

    def _plan_end(self, pod: Pod) -> None:
        """Let a pod that does not run for ever finish when its time is up."""
        run_s = None if self._is_copy else run_seconds(pod)
        if run_s is None:
            return
        now_s = self._clock.now()
        started_s = parse_time(pod.status.start_time) if pod.status.start_time else 0.0
        end_s = self._ends_s[pod.uid] = max(now_s, started_s + run_s)
        self._call_later(end_s - now_s, partial(self._finish, pod.key, pod.uid))

    def _finish(self, key: str, uid: str) -> None:
        self._ends_s.pop(uid, None)
        known = self._pods.get(key)
        alive = isinstance(known, Pod) and known.uid == uid and known.status.phase == "Running"
        if not self._stopped and alive and isinstance(known, Pod):
            now = format_time(self._clock.now())
            status = ended_status(known, now, exit_code(known), self._detailed)
            self._cluster.call([_status_patch(known, status)], ignore_all)


def _status_patch(pod: Pod, status: dict[str, object]) -> Patch:
    meta = pod.metadata
    body = {"metadata": {"uid": meta.uid}, "status": status}
    return Patch(POD, meta.namespace, meta.name, body, "strategic", "status")


def run_seconds(pod: Pod) -> float | None:
    """How long the pod runs; None for one that does not end by itself."""
    text = (pod.metadata.annotations or {}).get(RUN_SECONDS)
    if text is not None:
        try:
            return max(0.0, float(text))
        except ValueError:
            return None
    owner = pod.metadata.controller()
    return JOB_RUN_S if owner is not None and owner.kind == "Job" else None


def exit_code(pod: Pod) -> int:
    text = (pod.metadata.annotations or {}).get(EXIT_CODE, "0")
    return int(text) if text.isdecimal() else 0
