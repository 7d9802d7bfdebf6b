"""Lives of pods, jobs and nodes, as a busy cluster has them: each comes, is seen to be right, goes.

Used by `soak`.  A life that does not go as it should is a failure of the server or the scheduler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.load.honest import Client, Data, pod
from tests.load.target import PODS

NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
URGENT = "urgent"
BOUND_MAX_S = 600.0
"""Much: a machine that is busy with other things is not what is tested here."""
LOOK_S = 2.0
WRITERS = 16


class Wrong(Exception):
    """Something is not as it should be."""


class Cluster:
    """What lives do to a cluster."""

    def __init__(self, client: Client, random: Random) -> None:
        self.client = client
        self.random = random

    async def prepare(self, event_count: int) -> None:
        """With the events of the last hour, of which a cluster keeps only so many."""
        body: Data = {"metadata": {"name": URGENT}, "value": 1000}
        await self.client.ask("POST", CLASSES, body)
        numbers = iter(range(event_count))

        async def write() -> None:
            for number in numbers:
                await self.client.ask("POST", EVENTS, _event(number))

        await asyncio.gather(*(write() for _ in range(WRITERS)))

    async def create_pod(self, name: str, **spec: Any) -> None:
        await self.client.ask("POST", PODS, pod(name, **spec))

    async def delete_pod(self, name: str) -> None:
        await self.client.ask("DELETE", f"{PODS}/{name}")

    async def node_of(self, name: str) -> str:
        found: Data = await self.client.ask("GET", f"{PODS}/{name}")
        node: str = found["spec"].get("nodeName", "")
        return node

    async def until_bound(self, name: str) -> None:
        deadline_s = time.monotonic() + BOUND_MAX_S
        while not await self.node_of(name):
            if time.monotonic() > deadline_s:
                raise Wrong(f"pod {name} was not bound within {BOUND_MAX_S:.0f} s")
            await asyncio.sleep(LOOK_S)

    async def add_node(self, name: str) -> None:
        room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        labels = {"kubernetes.io/hostname": name}
        body = {
            "metadata": {"name": name, "labels": labels},
            # For whoever tolerates it; it would be full of others else.
            "spec": {"taints": [{"key": name, "effect": "NoSchedule"}]},
            "status": {"capacity": room, "allocatable": room, "conditions": ready},
        }
        await self.client.ask("POST", NODES, body)

    async def stay(self) -> None:
        await asyncio.sleep(1.0 + 5.0 * self.random.random())


def _event(number: int) -> Data:
    """As large as those that a scheduler writes."""
    name = f"soak-{number}"
    return {
        "metadata": {"name": f"{name}.{number:016x}"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-soak",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned default/{name} to node-1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": name,
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(number),
        },
    }


async def plain(cluster: Cluster, name: str, **spec: Any) -> None:
    await cluster.create_pod(name, **spec)
    await cluster.stay()
    await cluster.until_bound(name)
    await cluster.delete_pod(name)


async def one_of_its_kind(cluster: Cluster, name: str) -> None:
    """No other pod is like it, so that nothing kept for it serves another."""
    await plain(
        cluster,
        name,
        cpu=f"{cluster.random.randrange(1, 90)}m",
        nodeSelector={"kubernetes.io/os": "linux"},
        tolerations=[{"key": name, "operator": "Exists"}],
    )


async def spread(cluster: Cluster, name: str) -> None:
    constraint = {
        "maxSkew": 5,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "load"}},
    }
    await plain(cluster, name, topologySpreadConstraints=[constraint])


async def hopeless(cluster: Cluster, name: str) -> None:
    await _waits(cluster, name, nodeSelector={"no-node": "has-this"})


async def gated(cluster: Cluster, name: str) -> None:
    await _waits(cluster, name, schedulingGates=[{"name": "example.com/gate"}])


async def _waits(cluster: Cluster, name: str, **spec: Any) -> None:
    await cluster.create_pod(name, **spec)
    await cluster.stay()
    if node := await cluster.node_of(name):
        raise Wrong(f"pod {name} was bound to {node}")
    await cluster.delete_pod(name)


async def job(cluster: Cluster, name: str) -> None:
    template = {"spec": {"containers": pod("x")["spec"]["containers"], "restartPolicy": "Never"}}
    body = {"metadata": {"name": name}, "spec": {"completions": 2, "template": template}}
    await cluster.client.ask("POST", JOBS, body)
    deadline_s = time.monotonic() + BOUND_MAX_S
    while True:
        await cluster.stay()
        found: Data = await cluster.client.ask("GET", f"{JOBS}/{name}")
        if found.get("status", {}).get("succeeded") == 2:
            break
        if time.monotonic() > deadline_s:
            raise Wrong(f"job {name} did not finish")
    await cluster.client.ask("DELETE", f"{JOBS}/{name}?propagationPolicy=Background")


async def preemption(cluster: Cluster, name: str) -> None:
    """A node comes, is filled, and a pod of high priority takes it over; then all of it goes."""
    here: Data = {
        "cpu": "2",
        "nodeSelector": {"kubernetes.io/hostname": name},
        "tolerations": [{"key": name, "operator": "Exists"}],
    }
    await cluster.add_node(name)
    await cluster.create_pod(f"{name}-low", **here)
    await cluster.until_bound(f"{name}-low")
    await cluster.create_pod(f"{name}-high", priorityClassName=URGENT, **here)
    await cluster.until_bound(f"{name}-high")
    await cluster.stay()
    await cluster.delete_pod(f"{name}-high")
    await cluster.client.ask("DELETE", f"{NODES}/{name}")


Life = Callable[[Cluster, str], Awaitable[None]]

LIVES: dict[Life, int] = {
    plain: 50,
    one_of_its_kind: 15,
    spread: 15,
    hopeless: 8,
    gated: 4,
    job: 4,
    preemption: 4,
}
"""How often each is lived, of a hundred."""
