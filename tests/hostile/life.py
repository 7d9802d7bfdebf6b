"""The life of a large pod, step by step, and what each step costs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

from msgspec.structs import replace

from stowplan.objects.pod import Pod
from tests.builders import node, pod
from tests.core.harness import Cluster
from tests.hostile.large_objects import NODE_COUNT, ZONE, Large

OTHERS = 20

Step = tuple[str, Callable[[], object]]
Costs = dict[str, float]


class Life:
    """A cluster of a few nodes, and some large pods that go through all that a pod can."""

    def __init__(self, larges: list[Large]) -> None:
        self._larges = larges
        self.others: list[Pod] = []
        merged: dict[str, Any] = {}
        for large in larges:
            merged.update(large.node)
        self._node = merged
        self.cluster = Cluster(*(thing for large in larges for thing in large.objects))

    def steps(self) -> Iterator[Step]:
        cluster, larges = self.cluster, self._larges
        yield "nodes", lambda: self._add([self._new_node(n) for n in range(NODE_COUNT)])
        yield (
            "fillers",
            lambda: self._add(
                [pod(f"filler-{n}", cpu="3", spec={"priority": -1}) for n in range(NODE_COUNT)]
            ),
        )
        yield "running", lambda: self._add(self._pods("running"))
        yield "others", self._add_others
        yield "too large", lambda: self._add(self._pods("huge", "64"))
        yield "preempting", lambda: self._add(self._pods("strong", "2", priority=1000))
        yield "events", self._make_events
        yield "others again", self._add_others
        yield (
            "victims",
            lambda: self._add([pod(cpu="3500m", spec={"priority": 2000}) for _ in range(2)]),
        )
        yield "later", lambda: cluster.run(400)
        yield "gone", lambda: [self._delete(f"running-{n}") for n in range(len(larges))]

    def others_left(self) -> list[Pod]:
        """The plain pods that were not taken away again."""
        return [other for other in self.others if self.cluster.exists(other.metadata.name)]

    def _delete(self, name: str) -> None:
        if self.cluster.exists(name):
            self.cluster.delete(name)

    def _new_node(self, n: int, **labels: str) -> Any:
        given = dict(self._node)
        given["labels"] = {
            ZONE: f"zone-{n % 3}",
            "rank": str(n),
            **given.get("labels", {}),
            **labels,
        }
        return node(f"n{n}", **given)

    def _pods(self, name: str, cpu: str = "", priority: int = 0) -> list[Pod]:
        pods = []
        for n, large in enumerate(self._larges):
            new = pod(
                f"{name}-{n}",
                labels={"app": "x", **large.labels},
                spec={**large.spec, "priority": priority},
                metadata=large.metadata,
                status=large.status,
            )
            if cpu:
                more = pod(cpu=cpu).spec.containers or []
                containers = [*(new.spec.containers or []), more[0]]
                new = _with_spec(new, containers=containers)
            pods.append(new)
        return pods

    def _add(self, things: list[Any]) -> None:
        for thing in things:
            self.cluster.store.put(thing)
        self.cluster.settle()

    def _add_others(self) -> None:
        tolerations = [{"operator": "Exists"}]
        new = [
            pod(cpu="1m", labels={"app": "x"}, spec={"tolerations": tolerations})
            for _ in range(OTHERS)
        ]
        self.others += new
        self._add(new)

    def _make_events(self) -> None:
        cluster = self.cluster
        for n in range(3):
            cluster.add(self._new_node(n, step=str(n)))
            self._delete(self.others[n].metadata.name)
            cluster.run(3)
        cluster.run(20)


def _with_spec(thing: Pod, **fields: Any) -> Pod:
    return replace(thing, spec=replace(thing.spec, **fields))


def cost_in_time(life: Life) -> Costs:
    """Milliseconds of processor time, step by step."""
    costs = {}
    with others_garbage_left_alone():
        for name, step in life.steps():
            started_s = process_time()
            step()
            costs[name] = (process_time() - started_s) * 1e3
    return costs


@contextmanager
def others_garbage_left_alone() -> Iterator[None]:
    """What other tests left in this process is not looked through again and again meanwhile."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def cost_in_calls(life: Life) -> Costs:
    """Calls of functions, of those written in C too."""
    costs = {}
    for name, step in life.steps():
        count = 0

        def note(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += 1

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            step()
        finally:
            sys.setprofile(before)
        costs[name] = float(count)
    return costs
