"""Audit logs of Kubernetes: what was asked of an API server becomes pods, nodes and changes."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import InputError
from stowplan.objects.times import format_micro_time
from stowplan.sim.files import read_trace
from stowplan.sim.trace import Outcome

START_S = 1_700_000_000.0


def pod(name: str, **status: Any) -> dict[str, Any]:
    token = {"name": f"kube-api-access-{name}", "projected": {}}
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": f"kube-api-access-{name}", "mountPath": "/var"}],
    }
    metadata = {"name": name, "namespace": "shop", "labels": {"app": "web"}, "uid": name}
    spec = {"containers": [container], "volumes": [token]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def node(name: str, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "4", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "zone": "a"}
    status = {"capacity": amounts, "allocatable": amounts}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def event(at: float, verb: str, resource: str, name: str, **fields: Any) -> dict[str, Any]:
    resource, _, subresource = resource.partition("/")
    ref = {"resource": resource, "subresource": subresource, "name": name, "apiVersion": "v1"}
    if resource != "nodes":
        ref["namespace"] = "shop"
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": ref,
        "responseStatus": {"code": 200},
        "stageTimestamp": format_micro_time(START_S + at),
    } | fields


def binding(target: str) -> dict[str, Any]:
    return {"kind": "Binding", "target": {"kind": "Node", "name": target}}


def log(tmp_path: Path, *events: dict[str, Any] | str) -> Path:
    path = tmp_path / "audit.log"
    path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in events))
    return path


def test_pods_come_are_bound_and_end(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        event(0, "create", "nodes", "n1", responseObject=node("n1")),
        event(1, "create", "pods", "", responseObject=pod("a")),
        event(2, "create", "pods", "b", requestObject=pod("b")),
        event(3, "create", "pods/binding", "a", requestObject=binding("n1")),
        event(4, "create", "pods/binding", "b", requestObject=binding("n1")),
        event(9, "patch", "pods/status", "a", responseObject=pod("a", phase="Succeeded")),
        event(10, "delete", "pods", "a", responseObject=pod("a", phase="Succeeded")),
        event(20, "delete", "pods", "b", responseObject=pod("b", phase="Running")),
        event(25, "delete", "pods", "b", responseObject=pod("b", phase="Running")),
        event(30, "create", "pods", "b", responseObject=pod("b")),
        event(40, "delete", "nodes", "n1"),
    )

    trace = read_trace(path)

    assert trace.start_s == START_S
    assert trace.pod_names == ("a", "b", "b-2")
    assert len(trace.pod_templates) == 1
    assert trace.pod(0)["spec"]["volumes"] == []
    assert trace.pod_arrival_s.tolist() == [1.0, 2.0, 30.0]
    assert trace.pod_run_s.tolist() == [6.0, 21.0, math.inf]
    assert trace.pod_outcome.tolist()[:2] == [Outcome.SUCCEEDED, Outcome.DELETED]
    assert trace.pod_node is not None
    assert trace.pod_node.tolist() == [0, 0, -1]
    assert (trace.node_joins_s[0], trace.node_leaves_s[0]) == (0.0, 40.0)
    assert trace.node(0)["metadata"]["labels"] == {"kubernetes.io/hostname": "n1", "zone": "a"}
    assert trace.remarks == ()


def test_what_is_older_than_the_log_is_there_from_its_start(tmp_path: Path) -> None:
    old = pod("old", phase="Running")
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    old["spec"]["nodeName"] = "n1"
    path = log(
        tmp_path,
        event(0, "patch", "nodes/status", "n1", responseObject=node("n1")),
        event(5, "patch", "pods/status", "old", responseObject=old),
        event(8, "delete", "pods", "old", responseObject=old),
    )

    trace = read_trace(path)

    assert trace.pod_arrival_s.tolist() == [0.0]
    assert trace.pod_end_s.tolist() == [8.0]
    assert trace.pod_node is not None
    assert trace.pod_node.tolist() == [0]
    assert [r.text for r in trace.remarks] == [
        "pods older than the trace: they arrive at its start"
    ]


def test_a_cordon_and_a_service_are_changes_and_heartbeats_are_not(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "uid": "u"}}
    path = log(
        tmp_path,
        event(0, "create", "nodes", "n1", responseObject=node("n1")),
        event(1, "patch", "nodes/status", "n1", responseObject=node("n1")),
        event(2, "patch", "nodes", "n1", responseObject=node("n1", unschedulable=True)),
        event(3, "create", "services", "s", responseObject=service),
        event(4, "delete", "services", "s"),
    )

    changes = read_trace(path).changes

    assert [(c.time_s, c.verb, c.object["kind"]) for c in changes] == [
        (2.0, "apply", "Node"),
        (3.0, "apply", "Service"),
        (4.0, "delete", "Service"),
    ]
    assert changes[0].object["spec"] == {"unschedulable": True}
    assert changes[1].object["metadata"] == {"name": "s"}


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    nonsense = pod("x") | {"spec": {"containers": 7}}
    path = log(
        tmp_path,
        "not json",
        '{"kind": "Event", "apiVersion": "v1"}',
        event(0, "create", "pods", "secret"),
        event(0, "create", "pods", "x", responseObject=nonsense),
        event(1, "create", "pods/binding", "nobody", requestObject=binding("n1")),
        event(2, "create", "pods", "no", responseStatus={"code": 403}, responseObject=pod("no")),
        event(3, "create", "pods", "when", stageTimestamp="yesterday"),
        event(4, "patch", "pods/status", "who", responseObject={"kind": "Status"}),
    )

    trace = read_trace(path)

    assert trace.pod_count == 0
    assert {r.text: (r.count, r.examples[0]) for r in trace.remarks} == {
        "lines that are no JSON of an audit event: left out": (1, "audit.log:1"),
        "lines that are no audit.k8s.io/v1: left out": (1, "audit.log:2"),
        "pods whose create has no object (level Metadata): left out": (2, "audit.log:3"),
        "bindings of pods that the log does not show: left out": (1, "audit.log:5"),
        "events without a time: left out": (1, "audit.log:7"),
        "events of pods that the log does not show: left out": (1, "audit.log:8"),
    }


def test_a_log_may_be_packed_and_must_be_one(tmp_path: Path) -> None:
    packed = tmp_path / "audit.log.gz"
    packed.write_bytes(gzip.compress(log(tmp_path, event(0, "get", "pods", "a")).read_bytes()))

    assert read_trace(packed).pod_count == 0
    with pytest.raises(InputError, match="no event of audit"):
        read_trace(log(tmp_path, '{"a": 1}'))
