"""Deciding without a cluster: what would the scheduler do with these objects?

The same cache, table, plugins and cycle as live; only the queue is a sorted list, binding always
succeeds, and victims are gone at once.  `stowplan dry-run` and `stowplan.dry_run` call it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.decision import Decision
from stowplan.core.profiles import Registry, build_frameworks
from stowplan.core.schedule_one import Attempt, schedule_one
from stowplan.framework.handle import Handle
from stowplan.framework.runtime import Framework
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.times import parse_time
from stowplan.plugins import IN_TREE
from stowplan.state.cache import Cache
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

_FINISHED = frozenset({"Succeeded", "Failed"})


class DryRun:
    """A cluster in memory and the frameworks that decide on it."""

    def __init__(
        self,
        objects: Sequence[KubeObject],
        *,
        config: SchedulerConfig | None = None,
        tie_break: TieBreak = "random",
        seed: int | None = None,
        registry: Registry = IN_TREE,
        now_s: float = 0.0,
        detail: bool = True,
    ) -> None:
        config = config or load_config(None)
        self.cache = Cache()
        self.table = NodeTable()
        self.objects = ObjectIndex()
        self.pending: list[PodInfo] = []
        self._pods: dict[str, PodInfo] = {}
        handle = Handle(
            nodes=self.table,
            objects=self.objects,
            random=Random(seed),
            now=lambda: now_s,
            pod_by_key=self._pods.get,
        )
        self.frameworks = build_frameworks(config, handle, registry=registry)
        self.algorithm = Algorithm(
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            tie_break=tie_break,
            detail=detail,
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
        else:
            info = PodInfo(pod)
            if info.pod.metadata.deletion_timestamp is None:
                self.pending.append(info)
        self._pods[info.key] = info

    def _sort(self) -> None:
        """Queue order; among equals, the order the pods were given in."""
        sort = next(iter(self.frameworks.values())).plugins.queue_sort
        self.pending.sort(key=lambda pod: sort.sort_key(pod, _created_s(pod)))

    def framework_of(self, pod: PodInfo) -> Framework | None:
        name = pod.pod.spec.scheduler_name or "default-scheduler"
        return self.frameworks.get(name)

    def decide(self) -> Iterator[Decision]:
        """Decisions on all pending pods, in queue order; a preemptor is tried a second time."""
        for pod in self.pending:
            framework = self.framework_of(pod)
            if framework is None:
                continue
            gated = _gate(framework, pod)
            if gated is not None:
                yield gated
                continue
            attempt = self._attempt(framework, pod)
            yield attempt.decision
            if attempt.nominate is not None and attempt.nominate.node:
                self._evict(attempt)
                nominated = self._nominated(pod, attempt.nominate.node)
                yield self._attempt(framework, nominated).decision

    def _attempt(self, framework: Framework, pod: PodInfo) -> Attempt:
        steps = schedule_one(framework, self.cache, self.algorithm, pod)
        try:
            while True:
                raise AssertionError(f"a dry run has nobody to ask: {next(steps)}")
        except StopIteration as stop:
            attempt: Attempt = stop.value
        if attempt.assumed is not None:
            self._pods[pod.key] = attempt.assumed
        return attempt

    def _evict(self, attempt: Attempt) -> None:
        for victim in attempt.victims:
            self.cache.remove_pod(victim.pod)
            self._pods.pop(victim.key, None)

    def _nominated(self, pod: PodInfo, node: str) -> PodInfo:
        status = msgspec.structs.replace(pod.pod.status, nominated_node_name=node)
        return PodInfo(msgspec.structs.replace(pod.pod, status=status), pod.kind)


def _gate(framework: Framework, pod: PodInfo) -> Decision | None:
    for plugin in framework.plugins.pre_enqueue:
        status = plugin.pre_enqueue(pod)
        if status is not None:
            name: Any = getattr(plugin, "name", "")
            return Decision(pod.key, message=status.message, unschedulable_plugins=(name,))
    return None


def _created_s(pod: PodInfo) -> float:
    created = pod.pod.metadata.creation_timestamp
    return parse_time(created) if created else 0.0
