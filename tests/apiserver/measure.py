"""Print what the store costs per write: `python -m tests.apiserver.measure [pods]`.

Not a test: numbers depend on the machine.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from stowplan.apiserver.store import Store
from stowplan.clock import RealClock
from stowplan.cluster.port import ListOptions, WatchEvent, WatchHandlers, call_one
from stowplan.objects.api import Bind, Create, Delete, Patch
from stowplan.objects.base import ObjectMeta, Resources
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, NODE, POD
from stowplan.objects.node import Node, NodeStatus
from stowplan.objects.pod import Container, Pod, PodSpec, ResourceRequirements

NODE_COUNT = 1000
ROUND = 1000
LABELS = {"app": "web"}
SPEC = PodSpec(
    containers=[
        Container(
            name="c",
            image="registry.k8s.io/pause:3.9",
            resources=ResourceRequirements(requests={"cpu": "100m", "memory": "500Mi"}),
        )
    ]
)


def pod(n: int, spec: PodSpec = SPEC) -> Pod:
    return Pod(metadata=ObjectMeta(name=f"pod-{n}", namespace="default", labels=LABELS), spec=spec)


def condition(n: int) -> dict[str, object]:
    return {
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": f"0/{n} nodes are available: {n} Insufficient cpu.",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "nominatedNodeName": "node-1",
        }
    }


def measure(what: str, count: int, act: Callable[[int], object]) -> None:
    """Best and middle of many small rounds: a shared machine disturbs the others."""
    rounds = []
    for start in range(0, count, ROUND):
        begun = time.perf_counter()
        for n in range(start, start + ROUND):
            act(n)
        rounds.append((time.perf_counter() - begun) / ROUND * 1e6)
    rounds.sort()
    print(f"{what:28} best {rounds[0]:6.2f}  median {rounds[len(rounds) // 2]:6.2f} µs")


def _ignore(_: object) -> None:
    return None


def _store() -> Store:
    store = Store(RealClock())
    for n in range(NODE_COUNT):
        zone = {"topology.kubernetes.io/zone": f"z{n % 3}", "kubernetes.io/hostname": f"node-{n}"}
        capacity: Resources = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        meta = ObjectMeta(name=f"node-{n}", labels=zone)
        node = Node(metadata=meta, status=NodeStatus(capacity=capacity, allocatable=capacity))
        store.execute(Create(NODE, "", node))
    return store


def _uid(store: Store, n: int) -> str:
    return store.read(POD, "default", f"pod-{n}")[0].uid


def _round(store: Store, count: int) -> None:
    measure(
        "create, shared spec",
        count,
        lambda n: call_one(store, Create(POD, "default", pod(n)), _ignore),
    )
    measure(
        "status patch",
        count,
        lambda n: call_one(
            store, Patch(POD, "default", f"pod-{n}", condition(n), subresource="status"), _ignore
        ),
    )
    uids = [_uid(store, n) for n in range(count)]
    measure(
        "bind",
        count,
        lambda n: call_one(
            store, Bind("default", f"pod-{n}", uids[n], f"node-{n % NODE_COUNT}"), _ignore
        ),
    )
    measure(
        "delete, grace 0",
        count,
        lambda n: call_one(
            store, Delete(POD, "default", f"pod-{n}", uid=uids[n], grace_period_seconds=0), _ignore
        ),
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    gc.freeze()
    store = _store()
    print("without watchers")
    _round(store, count)
    print("with one unfiltered watcher and one pod informer's filter")
    seen = [0]

    def heard(events: list[WatchEvent]) -> None:
        seen[0] += len(events)

    options = ListOptions(field_selector="status.phase!=Succeeded,status.phase!=Failed")
    handlers = WatchHandlers(heard, _ignore)
    store.watch(POD, ListOptions(), store.resource_version, handlers)
    store.watch(POD, options, store.resource_version, handlers)
    _round(store, count)
    assert seen[0] == 8 * count, seen
    specs = [
        PodSpec(
            containers=[
                Container(
                    name="c",
                    image="i:1",
                    resources=ResourceRequirements(requests={"cpu": "100m", "memory": "500Mi"}),
                )
            ]
        )
        for _ in range(count)
    ]
    measure(
        "create, spec of its own",
        count,
        lambda n: call_one(store, Create(POD, "default", pod(n, specs[n])), _ignore),
    )
    measure(
        "create an event",
        count,
        lambda n: call_one(
            store,
            Create(
                EVENT,
                "default",
                Event(metadata=ObjectMeta(name=f"e-{n}", namespace="default"), note="x"),
            ),
            _ignore,
        ),
    )
    body = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    measure(
        "create from JSON data",
        count // 10,
        lambda n: call_one(
            store, Create(POD, "default", {**body, "metadata": {"name": f"j-{n}"}}), _ignore
        ),
    )


if __name__ == "__main__":
    main()
