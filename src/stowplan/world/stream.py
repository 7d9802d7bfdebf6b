"""Pods by the thousand through a cluster: made from templates, ended when their time is up.

For whoever brings months of a cluster (`stowplan.sim`): a pod is made of a template that was read
and checked once, its end is planned when it is bound, and a listener hears of pods that are bound
or lost, many at a time.  Nothing is kept of a pod that has ended.  The scheduler is the one that
runs everywhere; a `lean` setup leaves out everybody else.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from msgspec.structs import replace

from stowplan.cluster.port import Answer, ListOptions, WatchEvent, WatchHandlers, ignore_all
from stowplan.core.attempts import AttemptObserver, Bound
from stowplan.core.decision import Decision
from stowplan.errors import AlreadyExists, ApiError, InputError
from stowplan.objects.api import Create, Delete, Request
from stowplan.objects.base import ObjectMeta
from stowplan.objects.kinds import NODE, POD, PRIORITY_CLASS
from stowplan.objects.manifests import check
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.resources import allocatable, pod_requests
from stowplan.objects.workloads import PriorityClass
from stowplan.queue import QueuedPod
from stowplan.state.pod_info import PodKind
from stowplan.world.cluster import Cluster
from stowplan.world.engine import Engine
from stowplan.world.screening import Screen
from stowplan.world.setup import Setup

NAMESPACE = "default"
KINDS_MAX = 1024
"""Kinds of pods that are remembered when none is there."""


class Listener(Protocol):
    """Who hears of pods as things happen to them, by `namespace/name`."""

    def bound(self, key: str, node: str, now_s: float) -> float | None:
        """It has its node; how many seconds it will run there, None until somebody ends it."""

    def due(self, keys: Sequence[str], now_s: float) -> None:
        """The time they were given is up: to be ended, if they are still the ones."""

    def lost(self, keys: Sequence[str], now_s: float) -> None:
        """They were evicted, or went with their nodes."""

    def decided(self, key: str, node: str, now_s: float) -> None:
        """One more attempt has ended, with a node or without (empty)."""


class Stream:
    def __init__(self, setup: Setup, listener: Listener) -> None:
        self._engine = Engine.new(setup)
        self._engine.start()
        self.cluster = Cluster.of_engine(self._engine)
        """The same cluster as everybody knows it: to ask, to apply other objects, to fork."""
        self._listener = listener
        self._ends: list[tuple[float, int, str]] = []
        """Planned ends: when, by number so that equal times have an order, and whose."""
        self._end_count = 0
        self._lost: list[str] = []
        self._is_ours = False
        """A delete of ours is being carried out."""
        self._classes: set[str] = set()
        self._engine.driver.machine.log.observe(_Ear(listener, self._plan_end))
        store = self._engine.store
        handlers = WatchHandlers(self._seen, lambda error: None)
        store.watch(POD, ListOptions(), store.resource_version, handlers)

    def close(self) -> None:
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- pods -------------------------------------------------------------------------------

    def template(self, manifest: Mapping[str, Any], where: str = "") -> Pod:
        """What pods are made of; a priority that no class gives gets a class."""
        pod = check(dict(manifest), Pod, where)
        namespace = pod.metadata.namespace or NAMESPACE
        meta = replace(pod.metadata, namespace=namespace, name="")
        spec = pod.spec
        if spec.priority is not None or spec.priority_class_name:
            name = spec.priority_class_name or f"priority-{spec.priority}".replace("--", "-minus-")
            self._ensure_class(name, spec.priority or 0)
            spec = replace(spec, priority_class_name=name, priority=None)
        return replace(pod, metadata=meta, spec=replace(spec, node_name=""))

    def _ensure_class(self, name: str, value: int) -> None:
        if name in self._classes:
            return
        self._classes.add(name)
        body = PriorityClass(metadata=ObjectMeta(name=name), value=value)
        try:
            self._engine.store.execute(Create(PRIORITY_CLASS, "", body))
        except AlreadyExists:
            return

    def create(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Pods of templates, each with a name of its own."""
        requests = [
            Create(
                POD,
                template.metadata.namespace,
                replace(template, metadata=replace(template.metadata, name=name)),
            )
            for template, name in pods
        ]
        self._carry_out(requests)

    def feasible(self, pod: Mapping[str, Any]) -> list[str]:
        """The nodes that the scheduler would let such a pod onto now; nothing changes by asking."""
        self._engine.take_in()
        return Screen(self._engine, {}).feasible(pod)

    def end(self, keys: Iterable[str]) -> None:
        """These pods are over, wherever they are."""
        requests = []
        for key in keys:
            namespace, _, name = key.partition("/")
            requests.append(Delete(POD, namespace, name, grace_period_seconds=0))
        self._is_ours = True
        try:
            self._engine.store.call(requests, ignore_all)
        finally:
            self._is_ours = False

    # -- nodes ------------------------------------------------------------------------------

    def add_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        self._carry_out([Create(NODE, "", dict(node)) for node in nodes])

    def remove_node(self, name: str) -> None:
        """The node is gone, and its pods with it."""
        store = self._engine.store
        table = self._engine.driver.machine.table
        table.refresh(self._engine.driver.machine.cache)
        row = table.row_of.get(name)
        pods = [] if row is None else [info.pod for info in table.info(row).pods.values()]
        with store.batch():
            store.call([Delete(NODE, "", name)], ignore_all)
            store.call(
                [Delete(POD, it.namespace, it.name, grace_period_seconds=0) for it in pods],
                ignore_all,
            )

    def _carry_out(self, requests: Sequence[Request]) -> None:
        def told(first: int, answers: Sequence[Answer]) -> None:
            for answer in answers:
                if isinstance(answer, ApiError):
                    raise InputError(answer.message, where=self._describe(requests[first]))

        if requests:
            self._engine.store.call(requests, told)

    def _describe(self, request: Request) -> str:
        body: Any = getattr(request, "body", None)
        name = body["metadata"]["name"] if isinstance(body, dict) else body.metadata.name
        return f"{getattr(request, 'kind', '')} {name}"

    # -- time -------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self._engine.clock.now()

    def run_until(self, time_s: float) -> None:
        """Everything that is planned until then, the moment itself included."""
        engine, ends = self._engine, self._ends
        while True:
            now_s = self.now_s
            engine.step(now_s)
            if self._lost:
                lost, self._lost = self._lost, []
                self._listener.lost(lost, now_s)
            elif ends and ends[0][0] <= now_s:
                self._tell_due(now_s)
            elif engine.timers.next_s is None or engine.timers.next_s > now_s:
                if now_s >= time_s:
                    return
                engine.step(min(time_s, ends[0][0]) if ends else time_s)

    def _plan_end(self, key: str, delay_s: float) -> None:
        self._end_count += 1
        heapq.heappush(self._ends, (self.now_s + delay_s, self._end_count, key))

    def _tell_due(self, now_s: float) -> None:
        due: list[str] = []
        while self._ends and self._ends[0][0] <= now_s:
            due.append(heapq.heappop(self._ends)[2])
        self._listener.due(due, now_s)

    # -- counting ---------------------------------------------------------------------------

    def pending_by_cause(self) -> dict[str, int]:
        """How many pods wait: those turned down by each plugin (a pod may count for several), and
        those `active`, in `backoff` or `gated`; `all` has each once."""
        queue = self._engine.driver.machine.queue
        counts = queue.pending_counts()
        causes: dict[str, int] = {"all": sum(counts.values())}
        for place in ("active", "backoff", "gated"):
            causes[place] = counts[place]
        for (plugin, _), count in queue.metrics.unschedulable_pods.items():
            causes[plugin] = causes.get(plugin, 0) + count
        return causes

    @property
    def pending_count(self) -> int:
        return sum(self._engine.driver.machine.queue.pending_counts().values())

    # -- told by the store ------------------------------------------------------------------

    def _seen(self, events: Sequence[WatchEvent]) -> None:
        if self._is_ours:
            return
        for event in events:
            if event.type == "DELETED":
                self._lost.append(event.object.key)


class _Ear(AttemptObserver):
    """Passes on what the machine tells."""

    def __init__(self, listener: Listener, plan_end: Callable[[str, float], None]) -> None:
        self._listener, self._plan_end = listener, plan_end
        self._kinds: set[PodKind] = set()
        """Held on to: what is kept per kind goes with its last pod, and in a trace pods of the
        same kind come again, often when the last one has long ended."""

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        tell, plan = self._listener.bound, self._plan_end
        for attempt in attempts:
            key = attempt.queued.info.key
            run_s = tell(key, attempt.decision.node, now_s)
            if run_s is not None:
                plan(key, run_s)

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        if len(self._kinds) < KINDS_MAX:
            self._kinds.add(queued.info.kind)
        self._listener.decided(decision.pod, decision.node, now_s)


def requests_of(manifest: Mapping[str, Any], where: str = "") -> dict[str, int]:
    """What a pod asks for, as the scheduler counts it: cpu in thousandths, the rest in units."""
    return pod_requests(check(dict(manifest), Pod, where), use_status=False)


def offers_of(manifest: Mapping[str, Any], where: str = "") -> dict[str, int]:
    """What a node has for pods, likewise."""
    return allocatable(check(dict(manifest), Node, where))
