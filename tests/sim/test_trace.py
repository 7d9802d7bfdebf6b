"""A trace refuses what does not make one, and names its pods and nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stowplan as sp
from stowplan.errors import InputError
from stowplan.sim.trace import Change, Trace
from tests.sim.traces import pod_template, steady


@pytest.mark.parametrize(
    ("field", "values", "problem"),
    [
        ("pod_arrival_s", [60.0, 0.0], r"pod_arrival_s\[1\]: 0.0 must not be before the row above"),
        ("pod_arrival_s", [0.0, np.nan], "must be known"),
        ("pod_arrival_s", [-1.0, 0.0], "must not be negative"),
        ("pod_arrival_s", [0.0], "rows, not 2"),
        ("pod_run_s", [1.0, np.nan], "pod_run_s"),
        ("pod_end_s", [1.0, 59.0], "must not be before the arrival"),
        ("pod_template", [0, 3], "at least 0 and below 3"),
        ("pod_template", [0.0, 1.0], "does not make a column of int32"),
        ("pod_template", [0, 2**32], "do not fit int32"),
        ("pod_outcome", [0, 3], "below 3"),
        ("pod_node", [0, 10], "at least -1 and below 10"),
        ("pod_names", ("a", "a"), "two pods are called 'default/a'"),
        ("node_names", ("a",) * 10, "two nodes share a name"),
        ("node_leaves_s", [-1.0] * 10, "before it joins"),
    ],
)
def test_what_does_not_make_a_trace_is_refused_with_its_place(
    field: str, values: Any, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        replace(steady(pods=2), **{field: values})


def test_a_name_may_be_used_in_two_namespaces() -> None:
    templates = (pod_template(namespace="a"), pod_template(namespace="b"))

    trace = replace(
        steady(pods=2), pod_templates=templates, pod_template=[0, 1], pod_names=("web", "web")
    )

    assert [trace.pod(n)["metadata"]["namespace"] for n in range(2)] == ["a", "b"]


def test_pods_and_nodes_have_names_and_the_label_that_kubelets_give() -> None:
    trace = steady()

    assert trace.pod(0)["metadata"] == {"namespace": "default", "name": "pod-0000001"}
    assert trace.node(3)["metadata"]["labels"] == {"kubernetes.io/hostname": "n3"}
    assert "name" not in trace.pod_templates[0]["metadata"]


def test_a_trace_does_not_change() -> None:
    with pytest.raises(ValueError, match="read-only"):
        steady().pod_run_s[0] = 1.0


def test_changes_are_in_order_and_of_two_verbs() -> None:
    with pytest.raises(InputError, match="is no verb"):
        Change(0.0, "patch", {})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"changes\[1\]"):
        replace(steady(), changes=(Change(2.0, "apply", {}), Change(1.0, "apply", {})))


def test_openb_is_shipped() -> None:
    trace = sp.read_trace("openb")

    assert isinstance(trace, Trace)
    assert (trace.pod_count, trace.node_count, trace.remarks) == (8152, 1523, ())
    assert trace.span_s == 12902960.0
