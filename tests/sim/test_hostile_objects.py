"""Objects of a wrong shape, wherever in a log or trace: counted or refused, never a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.sim.files import read_trace
from tests.sim import test_audit, test_simkube

JUNK = (None, 1, -1, "x", [], {}, [1], {"a": 1}, True, [None], [[]], 1e308)

hostile = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def spoiled(data: Any, draw: Any) -> Any:
    """One to three values replaced by junk."""
    data = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(data)[1:]))
        target = data
        for step in path:
            target = target[step]
        target[last] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return data


def read(path: Path) -> None:
    try:
        trace = read_trace(path)
    except InputError:
        return
    assert all(trace.pod(n)["metadata"]["name"] for n in range(trace.pod_count))
    assert all(trace.node(n)["metadata"]["name"] for n in range(trace.node_count))


@pytest.mark.slow
@hostile
@given(st.data())
def test_audit_events(tmp_path: Path, data: st.DataObject) -> None:
    event, node, pod = test_audit.event, test_audit.node, test_audit.pod
    taints = [{"key": "a", "effect": "NoSchedule"}]
    events = [
        event(0, "create", "nodes", "n1", responseObject=node("n1", taints=taints)),
        event(1, "patch", "nodes", "n1", responseObject=node("n1", unschedulable=True)),
        event(1, "create", "pods", "", responseObject=pod("a")),
        event(3, "create", "pods/binding", "a", requestObject=test_audit.binding("n1")),
        event(9, "patch", "pods/status", "a", responseObject=pod("a", phase="Succeeded")),
        event(10, "deletecollection", "pods", "", responseObject={"items": [pod("a")]}),
        event(11, "create", "services", "s", responseObject={"kind": "Service", "metadata": {}}),
    ]
    path = tmp_path / "audit.log"
    path.write_text("\n".join(map(json.dumps, spoiled(events, data.draw))))

    read(path)


@pytest.mark.slow
@hostile
@given(st.data())
def test_simkube_events(tmp_path: Path, data: st.DataObject) -> None:
    event, owner = test_simkube.event, test_simkube.owner
    lives = [{"lifecycle": {"Finished": [110, 150]}}]
    trace = {
        "version": 3,
        "config": {"trackedObjects": {"apps/v1.Job": {"podSpecTemplatePath": "/spec/template"}}},
        "events": [
            event(100, owner("Deployment", "web", replicas=2), owner("Job", "train")),
            event(200, deleted=(owner("Deployment", "web"),)),
        ],
        "index": {"apps/v1.Job": {"shop/train": {"100": lives}}},
    }
    path = tmp_path / "a.sktrace"
    path.write_bytes(msgspec.msgpack.encode(spoiled(trace, data.draw)))

    read(path)
