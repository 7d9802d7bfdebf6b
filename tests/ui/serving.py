"""Serves the page for browser tests, as a process: `python -m tests.ui.serving KIND PORT`.

`busy`: 5,000 nodes with 50,000 pods, where 1,000 more are placed every second.  `hostile`: objects
whose texts try to be markup.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import stowplan as sp
from stowplan.cli._ui_serve import serve
from stowplan.web import Still

Answer = TypeVar("Answer")

NODES, PODS = 5000, 50_000
PER_SECOND, PER_TURN = 1000, 100
HOSTILE = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>"


HOSTILE_NAME = "<img src=x onerror=window.hurt=1>"
ZONE = "topology.kubernetes.io/zone"


def pod(name: str, node: str = "", **more: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


class Busy(Still):
    live = True

    def __init__(self, cluster: sp.Cluster) -> None:
        super().__init__(cluster, "busy")
        self._placed = 0
        self._placing: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        return self._placed

    async def start(self) -> None:
        await super().start()
        self._placing = asyncio.get_running_loop().create_task(self._place())

    async def _place(self) -> None:
        """What a turn is late with, the next ones make up for."""
        begun_s = time.monotonic()
        while True:
            due = int((time.monotonic() - begun_s) * PER_SECOND) - self._placed
            if due < PER_TURN:
                await asyncio.sleep((PER_TURN - due) / PER_SECOND)
            else:
                await self._worker.do(self._more)

    def _more(self) -> None:
        names = (f"more-{self._placed + n:06}" for n in range(PER_TURN))
        self._cluster.apply([pod(name) for name in names])
        self._cluster.run(0)
        self._placed += PER_TURN


def busy() -> Still:
    cluster = sp.Cluster(detail=False)
    cluster.add_nodes(NODES, cpu=32, memory="128Gi", zones=5)
    cluster.put([pod(f"pod-{n:06}", f"node-{n % NODES + 1}") for n in range(PODS)])
    return Busy(cluster)


def hostile() -> Still:
    cluster = sp.Cluster()
    cluster.add_nodes(2, labels={"note": "x"})
    waiting = pod("hurt", labels={"a": "b"}, annotations={"note": HOSTILE})
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    cluster.apply([waiting])
    # No API server would take these; a dump may have them.
    node = cluster.get("Node", "node-1")
    node["metadata"] = {"name": HOSTILE_NAME, "labels": {"note": HOSTILE, ZONE: HOSTILE}}
    node["spec"] = {}
    huge = pod(HOSTILE_NAME)
    huge["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
    huge["spec"]["nodeSelector"] = {"note": HOSTILE}
    cluster.put([node, huge])
    return Still(cluster, HOSTILE, HOSTILE)


SOURCES: dict[str, Callable[[], Still]] = {"busy": busy, "hostile": hostile}

if __name__ == "__main__":
    asyncio.run(serve(SOURCES[sys.argv[1]](), "127.0.0.1", int(sys.argv[2])))
