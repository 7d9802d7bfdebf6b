"""Deciding without a cluster: what would the scheduler do with these objects?

The same cache, table, plugins and cycle as live; only the queue is a sorted list, binding always
succeeds, and victims are gone at once.  Objects come in as structs, complete as an API server
would store them; `stowplan.offline` makes them so, for `stowplan dry-run` and `stowplan.dry_run`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explainer, score_alone
from stowplan.core.profiles import Registry, build_frameworks
from stowplan.core.schedule_one import Attempt, schedule_one
from stowplan.framework.handle import Handle
from stowplan.framework.runtime import Framework
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.times import parse_time
from stowplan.plugins import IN_TREE
from stowplan.queue import Nominator
from stowplan.state.cache import Cache
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

TRIES_MAX = 3
"""Of one pod: the first, and one after each preemption made for it."""

_FINISHED = frozenset({"Succeeded", "Failed"})
_DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(slots=True)
class Waiting:
    """A pod that waits for its decision."""

    info: PodInfo


class DryRun:
    """A cluster in memory and the frameworks that decide on it."""

    def __init__(
        self,
        objects: Sequence[KubeObject],
        *,
        random: Random,
        config: SchedulerConfig | None = None,
        tie_break: TieBreak = "random",
        registry: Registry = IN_TREE,
        detail: bool = True,
    ) -> None:
        self.config = config or load_config(None)
        self.registry = registry
        self.detail = detail
        self.cache = Cache()
        self.table = NodeTable()
        self.objects = ObjectIndex()
        self.pending: list[PodInfo] = []
        """In queue order."""
        self.foreign: list[PodInfo] = []
        """Pending, but for a scheduler that no profile is: nobody here decides on them."""
        self._waiting: dict[str, Waiting] = {}
        self._pods: dict[str, PodInfo] = {}
        self._nominator = Nominator(self._waiting.get)
        now_s = _moment_of(objects)
        handle = Handle(
            nodes=self.table,
            objects=self.objects,
            random=random,
            now=lambda: now_s,
            nominated=self._nominator,
            pod_by_key=self._pods.get,
        )
        self.frameworks = build_frameworks(self.config, handle, registry=registry)
        self.algorithm = Algorithm(
            percentage_of_nodes_to_score=self.config.percentage_of_nodes_to_score,
            tie_break=tie_break,
            explain=Explainer().explain if detail else score_alone,
        )
        for obj in objects:
            self._add(obj)
        self._sort()

    def _add(self, obj: KubeObject) -> None:
        if isinstance(obj, Node):
            self.cache.add_node(obj)
        elif isinstance(obj, Pod):
            self._add_pod(obj)
        else:
            self.objects.put(obj)

    def _add_pod(self, pod: Pod) -> None:
        if pod.status.phase in _FINISHED:
            return
        if not pod.metadata.uid:
            metadata = msgspec.structs.replace(pod.metadata, uid=f"uid of {pod.key}")
            pod = msgspec.structs.replace(pod, metadata=metadata)
        if pod.spec.node_name:
            info = self.cache.add_pod(pod)
            self._pods[info.key] = info
            return
        info = self._pods[pod.key] = PodInfo(pod)
        if pod.metadata.deletion_timestamp is not None:
            return
        if self.framework_of(info) is None:
            self.foreign.append(info)
            return
        self.pending.append(info)
        self._waiting[info.key] = Waiting(info)
        self._nominator.add(info)

    def _sort(self) -> None:
        """Queue order; among equals, the order the pods were given in."""
        sort = next(iter(self.frameworks.values())).plugins.queue_sort
        self.pending.sort(key=lambda pod: sort.sort_key(pod, _created_s(pod.pod)))

    @property
    def node_count(self) -> int:
        return sum(1 for info in self.cache.nodes.values() if info.node is not None)

    def framework_of(self, pod: PodInfo) -> Framework | None:
        return self.frameworks.get(pod.pod.spec.scheduler_name or _DEFAULT_SCHEDULER)

    # -- deciding ---------------------------------------------------------------------------

    def decide(self) -> Iterator[Decision]:
        """Decisions on all pending pods, in queue order; a preemptor is tried again at once."""
        for key in [pod.key for pod in self.pending]:
            pod = self._waiting[key].info
            framework = self.framework_of(pod)
            assert framework is not None, "pods of other schedulers are not pending here"
            gated = _gate(framework, pod)
            if gated is None:
                yield from self._decide_one(framework, pod)
            else:
                yield gated

    def _decide_one(self, framework: Framework, pod: PodInfo) -> Iterator[Decision]:
        for _ in range(TRIES_MAX):
            attempt = self._attempt(framework, pod)
            yield attempt.decision
            nominate = attempt.nominate
            if nominate is None:
                return
            self._nominator.add(pod, nominate)
            if not nominate.node:
                return
            pod = self._make_room(pod, nominate.node, attempt.victims)

    def _attempt(self, framework: Framework, pod: PodInfo) -> Attempt:
        steps = schedule_one(framework, self.cache, self.algorithm, pod)
        try:
            while True:
                raise AssertionError(f"a dry run has nobody to ask: {next(steps)}")
        except StopIteration as stop:
            attempt: Attempt = stop.value
        if attempt.assumed is not None:
            self._pods[pod.key] = attempt.assumed
            del self._waiting[pod.key]
            self._nominator.delete(pod.uid)
        return attempt

    def _make_room(self, pod: PodInfo, node: str, victims: Iterable[PodInfo]) -> PodInfo:
        """The victims go, less important pods lose their promise of the node, the pod gets it."""
        for victim in victims:
            self.cache.remove_pod(victim.pod)
            self._pods.pop(victim.key, None)
        for other in self._nominator.pods_for_node(node):
            if other.priority < pod.priority:
                self._nominator.delete(other.uid)
                self._waiting[other.key].info = _nominated(other, "")
        promised = _nominated(pod, node)
        self._waiting[pod.key].info = self._pods[pod.key] = promised
        return promised


def _gate(framework: Framework, pod: PodInfo) -> Decision | None:
    for plugin in framework.plugins.pre_enqueue:
        status = plugin.pre_enqueue(pod)
        if status is not None:
            name: Any = getattr(plugin, "name", "")
            return Decision(
                pod.key, message=status.message, unschedulable_plugins=(name,), gated=True
            )
    return None


def _nominated(pod: PodInfo, node: str) -> PodInfo:
    status = msgspec.structs.replace(pod.pod.status, nominated_node_name=node)
    return PodInfo(msgspec.structs.replace(pod.pod, status=status), pod.kind)


def _created_s(pod: Pod) -> float:
    """A pod that does not say when it was created would be created now, after all others."""
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else math.inf


def _moment_of(objects: Iterable[KubeObject]) -> float:
    """The latest time that a pod speaks of: whatever has no time yet comes after it."""
    times = (
        text
        for obj in objects
        if isinstance(obj, Pod)
        for text in (obj.metadata.creation_timestamp, obj.status.start_time)
    )
    return max((parse_time(text) for text in times if text), default=0.0)
