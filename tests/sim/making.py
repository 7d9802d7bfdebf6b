"""Small traces for tests of the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.sim.trace import Trace


def pod_template(cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app",
                 "resources": {"requests": {"cpu": cpu, "memory": memory}}}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "labels": {}},
        "spec": {"containers": [container], **spec},
    }


def node_template(cpu: str = "4", memory: str = "16Gi", **labels: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def trace(
    pods: Sequence[tuple[float, float, int]],
    *,
    templates: Sequence[dict[str, Any]] = (),
    nodes: int = 2,
    node: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
    name: str = "small",
    **more: Any,
) -> Trace:
    """`pods`: arrival, length of life (inf: no end), template."""
    pods = sorted(pods, key=lambda pod: pod[0])
    arrival_s = np.array([pod[0] for pod in pods], np.float64)
    life_s = np.array([pod[1] for pod in pods], np.float64)
    end_s = np.where(np.isfinite(life_s), arrival_s + life_s, np.nan)
    return Trace(
        name,
        0.0,
        tuple(templates) or (pod_template(),),
        np.array([pod[2] for pod in pods], np.int32),
        None if names is None else tuple(names),
        arrival_s,
        life_s,
        end_s,
        np.zeros(len(pods), np.uint8),
        None,
        (node or node_template(),),
        np.zeros(nodes, np.int32),
        tuple(f"node-{n}" for n in range(nodes)),
        np.zeros(nodes),
        np.full(nodes, np.inf),
        **more,
    )
