"""One scheduling cycle at a time, on objects as they are: no queue, no cluster, no binding.

For tests of what happens inside a cycle.  A pod that gets a node stays assumed there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explainer, score_alone
from stowplan.core.profiles import Registry, build_frameworks
from stowplan.core.schedule_one import Attempt, schedule_one
from stowplan.errors import NotFound
from stowplan.framework.handle import Handle
from stowplan.framework.runtime import Framework
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.times import parse_time
from stowplan.plugins import IN_TREE
from stowplan.queue.nominator import Nominator
from stowplan.state.cache import Cache
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo


@dataclass(slots=True)
class Waiting:
    info: PodInfo


class Deciding:
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
        self.cache, self.table, self.objects = Cache(), NodeTable(), ObjectIndex()
        self.pending: list[PodInfo] = []
        """In queue order."""
        self.waiting: dict[str, Waiting] = {}
        self.nominator = Nominator(self.waiting.get)
        handle = Handle(
            nodes=self.table,
            objects=self.objects,
            random=random,
            nominated=self.nominator,
            ties_by_name=tie_break == "name",
        )
        self.config = config or load_config(None)
        self.frameworks = build_frameworks(self.config, handle, registry=registry)
        self.algorithm = Algorithm(
            tie_break=tie_break,
            explain=Explainer().explain if detail else score_alone,
        )
        for obj in objects:
            self._add(obj)
        sort = next(iter(self.frameworks.values())).plugins.queue_sort
        self.pending.sort(key=lambda pod: sort.sort_key(pod, _created_s(pod.pod)))

    def _add(self, obj: KubeObject) -> None:
        if isinstance(obj, Node):
            self.cache.add_node(obj)
        elif not isinstance(obj, Pod):
            self.objects.put(obj)
        elif obj.status.phase not in ENDED_PHASES:
            self._add_pod(obj)

    def _add_pod(self, pod: Pod) -> None:
        if not pod.metadata.uid:
            metadata = msgspec.structs.replace(pod.metadata, uid=f"uid of {pod.key}")
            pod = msgspec.structs.replace(pod, metadata=metadata)
        if pod.spec.node_name:
            self.cache.add_pod(pod)
            return
        info = PodInfo(pod)
        if pod.metadata.deletion_timestamp is None and self.framework_of(info) is not None:
            self.pending.append(info)
            self.waiting[info.key] = Waiting(info)
            self.nominator.add(info)

    def framework_of(self, pod: PodInfo) -> Framework | None:
        return self.frameworks.get(pod.pod.spec.scheduler_name or "default-scheduler")

    def decide(self) -> Iterator[Decision]:
        """One decision on each pending pod, in queue order."""
        for pod in self.pending:
            framework = self.framework_of(pod)
            assert framework is not None, pod
            yield self.attempt(framework, pod).decision

    def attempt(self, framework: Framework, pod: PodInfo) -> Attempt:
        steps = schedule_one(framework, self.cache, self.algorithm, pod)
        try:
            asked = next(steps)
            while True:
                # Nobody is here to ask.
                asked = steps.send(NotFound(f"{asked}"))
        except StopIteration as stop:
            attempt: Attempt = stop.value
        if attempt.assumed is not None:
            del self.waiting[pod.key]
            self.nominator.delete(pod.uid)
        return attempt


def _created_s(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else math.inf
