"""Traces for tests: any, and small ones with names that can be read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stowplan.sim.trace import Change, Outcome, Remark, Trace

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=8)
TIMES = st.integers(0, 10_000).map(float)


def pod_template(cpu: str = "1", namespace: str = "default") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi"}
    containers = [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    metadata = {"namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers},
    }


def node_template(cpu: str = "8") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {}, "status": status}


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    pods, nodes = draw(st.integers(0, 30)), draw(st.integers(0, 10))
    templates, node_templates = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    arrival_s = sorted(draw(st.lists(TIMES, min_size=pods, max_size=pods)))
    joins_s = sorted(draw(st.lists(TIMES, min_size=nodes, max_size=nodes)))
    run_s = draw(st.lists(TIMES | st.just(math.inf), min_size=pods, max_size=pods))
    late_s = draw(st.lists(TIMES | st.just(math.nan), min_size=pods, max_size=pods))
    stay_s = draw(st.lists(TIMES | st.just(math.inf), min_size=nodes, max_size=nodes))
    placed = draw(st.booleans())
    changes = draw(
        st.lists(st.tuples(TIMES, st.sampled_from(["apply", "delete"]), TEXT), max_size=5)
    )
    return Trace(
        name=draw(TEXT),
        start_s=draw(TIMES),
        pod_templates=tuple(pod_template(str(n + 1), "abcd"[n]) for n in range(templates)),
        pod_template=draw(_columns(pods, 0, templates - 1)),
        pod_names=tuple(f"p{n}" for n in range(pods)) if draw(st.booleans()) else None,
        pod_arrival_s=np.array(arrival_s, np.float64),
        pod_run_s=np.array(run_s, np.float64),
        pod_end_s=np.array(arrival_s, np.float64) + np.array(late_s, np.float64),
        pod_outcome=draw(_columns(pods, 0, len(Outcome) - 1)),
        pod_node=draw(_columns(pods, -1, nodes - 1)) if placed else None,
        node_templates=tuple(node_template(str(8 + n)) for n in range(node_templates)),
        node_template=draw(_columns(nodes, 0, node_templates - 1)),
        node_names=tuple(f"n{n}" for n in range(nodes)),
        node_joins_s=np.array(joins_s, np.float64),
        node_leaves_s=np.array(joins_s, np.float64) + np.array(stay_s, np.float64),
        changes=tuple(
            Change(t, verb, {"kind": "Service", "metadata": {"name": name}})  # type: ignore[arg-type]
            for t, verb, name in sorted(changes, key=lambda change: change[0])
        ),
        remarks=tuple(
            Remark(text, 2, (text,)) for text in draw(st.lists(TEXT, max_size=2, unique=True))
        ),
    )


def _columns(count: int, low: int, high: int) -> st.SearchStrategy[Any]:
    numbers = st.lists(st.integers(low, max(low, high)), min_size=count, max_size=count)
    return numbers.map(lambda found: np.array(found, np.int64))


def steady(pods: int = 100, nodes: int = 10, templates: int = 3) -> Trace:
    """A pod a minute, each for an hour."""
    arrival_s = np.arange(pods) * 60.0
    return Trace(
        name="steady",
        start_s=0.0,
        pod_templates=tuple(pod_template(str(n + 1)) for n in range(templates)),
        pod_template=np.arange(pods) % templates,
        pod_names=None,
        pod_arrival_s=arrival_s,
        pod_run_s=np.full(pods, 3600.0),
        pod_end_s=arrival_s + 3600.0,
        pod_outcome=np.zeros(pods, np.uint8),
        pod_node=None,
        node_templates=(node_template(), node_template("16")),
        node_template=np.arange(nodes) % 2,
        node_names=tuple(f"n{n}" for n in range(nodes)),
        node_joins_s=np.zeros(nodes),
        node_leaves_s=np.full(nodes, np.inf),
    )
