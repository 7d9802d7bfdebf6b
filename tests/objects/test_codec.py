"""What a struct does not know is kept, and what it does know wins."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.base import ObjectMeta
from stowplan.objects.codec import convert, decode_json, encode, join, split
from stowplan.objects.node import Node
from stowplan.objects.pod import Container, Pod
from stowplan.objects.workloads import Deployment

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl"}],
        "labels": {},
    },
    "spec": {
        "nodeName": "",
        "dnsPolicy": "ClusterFirst",
        "hostNetwork": False,
        "containers": [
            {"name": "a", "image": "a:1", "command": ["run"], "resources": {}},
            {"name": "b", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]},
        ],
    },
    "status": {"phase": "Pending", "qosClass": "BestEffort"},
}


def test_nothing_is_lost() -> None:
    pod, rest = split(POD, Pod)

    assert join(pod, rest) == POD


def test_no_rest_when_the_struct_holds_it_all() -> None:
    data = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {}}

    node, rest = split(data, Node)

    assert rest is None
    assert join(node, rest) == data


def test_a_rest_is_json() -> None:
    _, rest = split(POD, Pod)

    assert json.loads(json.dumps(rest)) == rest


def test_the_input_is_left_alone() -> None:
    before = copy.deepcopy(POD)

    pod, rest = split(POD, Pod)
    join(pod, rest)["spec"]["nodeName"] = "changed"

    assert before == POD


def replace_spec(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def test_the_struct_wins() -> None:
    pod, rest = split(POD, Pod)
    labels = msgspec.structs.replace(pod.metadata, labels={"a": "b"})
    changed = msgspec.structs.replace(
        replace_spec(pod, node_name="n1", host_network=True), metadata=labels
    )

    joined = join(changed, rest)

    assert joined["spec"]["nodeName"] == "n1"
    assert joined["spec"]["hostNetwork"] is True
    assert joined["spec"]["dnsPolicy"] == "ClusterFirst"
    assert joined["metadata"]["labels"] == {"a": "b"}
    assert joined["metadata"]["managedFields"] == [{"manager": "kubectl"}]
    assert joined["spec"]["containers"] == POD["spec"]["containers"]


def test_what_was_taken_away_is_gone() -> None:
    data = copy.deepcopy(POD)
    data["spec"]["affinity"] = {"podAffinity": {"unknown": 1}}
    pod, rest = split(data, Pod)

    joined = join(replace_spec(pod, affinity=None, containers=None), rest)

    assert "affinity" not in joined["spec"]
    assert "containers" not in joined["spec"]


def test_an_entry_that_moved_keeps_its_own_rest() -> None:
    pod, rest = split(POD, Pod)
    assert pod.spec.containers is not None
    first, second = pod.spec.containers

    joined = join(replace_spec(pod, containers=[Container(name="new"), second, first]), rest)
    without = join(replace_spec(pod, containers=[second]), rest)

    new, b, a = joined["spec"]["containers"]
    assert new == {"name": "new"}
    assert b == POD["spec"]["containers"][1]
    assert a == POD["spec"]["containers"][0]
    assert without["spec"]["containers"] == [POD["spec"]["containers"][1]]


def test_a_pod_template_is_kept_as_written() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"dnsPolicy": "None", "volumes": None}}
    data = {"kind": "Deployment", "spec": {"strategy": {}, "template": template}}

    deployment, rest = split(data, Deployment)

    assert deployment.spec.template == template
    assert join(deployment, rest) == data


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": None, "nodeName": None, "priority": None},
        {"containers": [{"name": None, "resources": {"requests": {"cpu": None}}}]},
        {"tolerations": [{"key": None, "operator": "Exists"}]},
    ],
)
def test_null_stands_for_not_given(spec: dict[str, Any]) -> None:
    data = {"metadata": {"name": "a"}, "spec": spec, "status": None}

    pod, rest = split(data, Pod)

    assert pod.spec.node_name == ""
    assert join(pod, rest) == data
    assert decode_json(json.dumps(data).encode(), Pod) == pod


def test_a_quantity_of_null_is_zero() -> None:
    pod = convert({"spec": {"containers": [{"resources": {"requests": {"cpu": None}}}]}}, Pod)

    assert msgspec.to_builtins(pod)["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 0}


@pytest.mark.parametrize("data", [{"spec": 1}, {"spec": {"priority": "high"}}, [], {"kind": 1}])
def test_wrong_types_raise(data: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        split(data, Pod)


def nested(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(depth):
        data = {"x": data}
    return data


def test_deep_nesting_is_kept_where_unknown() -> None:
    data = {"spec": {"unknown": nested(150)}}

    assert join(*split(data, Pod)) == data


def test_encode_writes_what_is_set() -> None:
    pod = Pod(kind="Pod", metadata=ObjectMeta(name="a"))

    assert encode(pod) == b'{"kind":"Pod","metadata":{"name":"a"}}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "x", "spec", "keep"]), inner, max_size=3)
    ),
    max_leaves=6,
)
unknown = st.dictionaries(
    st.sampled_from(["x", "y", "in", "items", "was"]), json_values, max_size=2
)


def with_unknown(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping in which every known field may be missing, and others may be there."""
    optional = st.fixed_dictionaries({}, optional=known)
    return st.builds(lambda known, more: {**more, **known}, optional, unknown)


text = st.none() | st.sampled_from(["", "a", "b"])
labels = st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x"]))
quantities = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.none() | st.integers(0, 3) | st.sampled_from(["1m", "1"])
)
containers = with_unknown(
    name=text,
    image=text,
    resources=st.none() | with_unknown(requests=st.none() | quantities),
    ports=st.none() | st.lists(with_unknown(hostPort=st.integers(0, 3)), max_size=2),
)
pods = with_unknown(
    apiVersion=text,
    kind=text,
    metadata=st.none() | with_unknown(name=text, labels=labels, annotations=labels),
    spec=st.none()
    | with_unknown(
        containers=st.none() | st.lists(containers, max_size=3),
        nodeName=text,
        hostNetwork=st.none() | st.booleans(),
        priority=st.none() | st.integers(-2, 2),
        volumes=st.none()
        | st.lists(
            with_unknown(
                name=text, ephemeral=with_unknown(volumeClaimTemplate=st.none() | unknown)
            ),
            max_size=2,
        ),
    ),
    status=st.none() | with_unknown(phase=text, conditions=st.lists(with_unknown(type=text))),
)


@given(pods)
def test_join_undoes_split(data: dict[str, Any]) -> None:
    pod, rest = split(data, Pod)

    assert join(pod, rest) == data


@given(pods, st.sampled_from(["", "n1"]))
def test_only_the_replaced_field_changes(data: dict[str, Any], node_name: str) -> None:
    pod, rest = split(data, Pod)

    joined = join(replace_spec(pod, node_name=node_name), rest)

    assert (joined["spec"].get("nodeName") or "") == node_name
    for whole in (joined, data):
        spec = {key: value for key, value in (whole.get("spec") or {}).items() if key != "nodeName"}
        whole["spec"] = spec
    assert joined == data
