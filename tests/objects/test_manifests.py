"""Files become objects, or are refused with file, object and field."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.objects.kinds import KINDS
from stowplan.objects.manifests import decode, describe, flatten, read_manifests
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


def listed(*items: Any, kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def dump(*documents: Any) -> bytes:
    return yaml.safe_dump_all(documents).encode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(listed(POD, NODE)).encode(), id="json-list"),
        pytest.param(dump(listed(POD, NODE)), id="yaml-list"),
        pytest.param(dump(POD, None, NODE), id="yaml-documents"),
        pytest.param(dump(listed(POD), listed(listed(NODE))), id="lists-in-lists"),
        pytest.param(f"{json.dumps(POD)}\n{json.dumps(NODE)}\n".encode(), id="json-stream"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps(listed(POD, NODE)).encode(), id="with-a-mark"),
        pytest.param(
            b"{apiVersion: v1, kind: Pod, metadata: {name: web}}\n---\n" + dump(NODE),
            id="yaml-in-braces",
        ),
    ],
)
def test_every_way_to_write_objects(text: bytes) -> None:
    assert read_manifests(text, "all.yaml") == [("all.yaml", POD), ("all.yaml", NODE)]


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n", b"---\n---\n", b"null"])
def test_nothing_is_no_error(text: bytes) -> None:
    assert read_manifests(text, "empty.yaml") == []


def test_items_of_a_typed_list_get_its_kind() -> None:
    found = list(flatten(listed({"metadata": {"name": "web"}}, kind="PodList"), "f"))

    assert found == [("f", POD)]
    assert list(flatten(listed(kind="PodList") | {"items": None}, "f")) == []


def test_a_kind_that_ends_in_list_is_no_list() -> None:
    blocklist = {"apiVersion": "example.com/v1", "kind": "BlockList", "metadata": {"name": "x"}}

    assert list(flatten(blocklist, "f")) == [("f", blocklist)]


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        (b"just text", "f.yaml:1", "found 'just text'"),
        (b"- a\n- b", "f.yaml:1", "found ['a', 'b']"),
        (b"a: 1\n---\nb: 2", "f.yaml", "`kind` is missing"),
        (b"kind: Pod", "f.yaml", "`apiVersion` is missing"),
        (b"kind: 5\napiVersion: v1", "f.yaml", "`kind` is 5"),
        (b"kind: ''\napiVersion: v1", "f.yaml", "`kind` is ''"),
        (b"[1, 2]", "f.yaml", "found [1, 2]"),
        (b"{", "f.yaml:1", "not readable as JSON"),
        (b'\n{"kind": "Pod",\n "x": ]}', "f.yaml:3", "not readable as JSON: Expecting value"),
        (b"a: [", "f.yaml:", "not readable as YAML"),
        (b"{}", "f.yaml", "`kind` is missing"),
        (dump(listed(POD, {"metadata": {}})), "f.yaml: items[1]", "`kind` is missing"),
        (dump(listed(POD, "x")), "f.yaml: items[1]", "found 'x'"),
        (dump(listed(POD) | {"items": {"a": 1}}), "f.yaml: List", "`items` is not a list"),
        (b"[" * 100_000, "f.yaml", "not readable as JSON"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
def test_what_is_no_object_is_refused(text: bytes, where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read_manifests(text, "f.yaml")

    assert caught.value.where.startswith(where)
    assert problem in caught.value.problem


def test_bottomless_lists_are_refused() -> None:
    data = listed()
    for _ in range(20):
        data = listed(data)

    with pytest.raises(InputError, match="lists in lists"):
        list(flatten(data, "f"))


def test_decode_gives_the_struct() -> None:
    pod, node = decode(POD, "f"), decode(NODE, "f")

    assert isinstance(pod, Pod)
    assert isinstance(node, Node)
    assert (pod.key, node.key) == ("default/web", "n1")


def test_a_namespace_belongs_to_namespaced_objects_only() -> None:
    namespaced = {**POD, "metadata": {"name": "web", "namespace": "shop"}}
    odd_node = {**NODE, "metadata": {"name": "n1", "namespace": "shop"}}

    pod, node = decode(namespaced, "f"), decode(odd_node, "f")

    assert pod is not None
    assert node is not None
    assert (pod.key, node.key) == ("shop/web", "n1")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_we_know(kind: Any) -> None:
    decoded = decode(
        {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "x"}}, "f"
    )

    assert decoded is not None
    assert type(decoded) is kind.struct
    assert decoded.namespace == ("default" if kind.namespaced else "")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "ConfigMap"), ("v1", "Event"), ("example.com/v1", "Pod"), ("batch/v1", "CronJob")],
)
def test_kinds_that_scheduling_does_not_read_are_ignored(api_version: str, kind: str) -> None:
    assert decode({"apiVersion": api_version, "kind": kind}, "f") is None


def test_another_version_of_a_kind_that_counts_is_refused() -> None:
    old = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}

    with pytest.raises(InputError) as caught:
        decode(old, "f.yaml")

    assert str(caught.value) == (
        "f.yaml: PodDisruptionBudget default/x: "
        "apiVersion 'policy/v1beta1' of PodDisruptionBudget is not known\n"
        "  hint: write it as policy/v1"
    )


@pytest.mark.parametrize("data", [None, [], "Pod", {}, {"kind": "Pod"}, {"apiVersion": "v1"}])
def test_decode_refuses_what_is_no_object(data: Any) -> None:
    with pytest.raises(InputError, match="found"):
        decode(data, "objects[0]")


def put(path: str, value: Any, base: dict[str, Any] = POD) -> dict[str, Any]:
    """The object with `value` at a path such as `spec.containers.0.image`."""
    data = copy.deepcopy(base)
    place: Any = data
    steps = path.split(".")
    for step, following in pairwise(steps):
        fresh: Any = [] if following == "0" else {}
        if step == "0":
            place.append(fresh)
            place = fresh
        else:
            place = place.setdefault(step, fresh)
    if steps[-1] == "0":
        place.append(value)
    else:
        place[steps[-1]] = value
    return data


CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
NODE_AFFINITY = "spec.affinity.nodeAffinity"
POD_AFFINITY = "spec.affinity.podAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("path", "value", "field", "problem"),
    [
        ("spec.containers.0.resources.requests.cpu", "1x", "", "'1x' is not a quantity"),
        ("spec.containers.0.resources.limits.memory", "1 Gi", "", "'1 Gi' is not a quantity"),
        ("spec.initContainers.0.resources.requests.cpu", "5K", "", "'5K' is not a quantity"),
        ("spec.resources.requests.cpu", "abc", "", "'abc' is not a quantity"),
        ("spec.overhead.cpu", "1m ~", "", "'1m ~' is not a quantity"),
        ("status.containerStatuses.0.allocatedResources.cpu", "?", "", "'?' is not a quantity"),
        ("spec.containers", {}, "", "expected `array | null`, got `object`"),
        ("spec.priority", "high", "", "expected `int | null`, got `str`"),
        ("metadata.labels.a", 1, "metadata.labels[...]", "expected `str`, got `int`"),
        ("metadata.creationTimestamp", "today", "", "'today' is not a time"),
        ("metadata.deletionTimestamp", "2026-02-30T00:00:00Z", "", "is not a time"),
        ("status.startTime", "soon", "", "'soon' is not a time"),
        ("status.conditions.0.lastTransitionTime", "x", "", "'x' is not a time"),
        ("spec.tolerations.0", {"operator": "exists"}, ".operator", "'exists' is not one of"),
        ("spec.tolerations.0", {"value": "a"}, ".operator", "without one the operator must be"),
        ("spec.tolerations.0", {"key": "a b"}, ".key", "'a b' is not a taint key"),
        (
            "spec.tolerations.0",
            {"key": "a", "operator": "Exists", "value": "b"},
            ".value",
            "'b' must be empty when the operator is Exists",
        ),
        (
            "spec.tolerations.0",
            {"key": "a", "operator": "Gt", "value": "b"},
            ".value",
            "'b' must be an integer",
        ),
        ("spec.tolerations.0", {"key": "a", "effect": "Never"}, ".effect", "'Never' is not one of"),
        (
            f"{NODE_AFFINITY}.{REQUIRED}.nodeSelectorTerms.0.matchExpressions.0",
            {"key": "a", "operator": "In"},
            f"{NODE_AFFINITY}.{REQUIRED}.nodeSelectorTerms[0]",
            "values set can't be empty",
        ),
        (
            f"{NODE_AFFINITY}.{PREFERRED}.0.preference.matchFields.0",
            {"key": "metadata.name", "operator": "Gt", "values": ["1"]},
            f"{NODE_AFFINITY}.{PREFERRED}[0].preference",
            "'Gt' is not a valid node field selector operator",
        ),
        (
            f"{POD_AFFINITY}.{REQUIRED}.0",
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b c"}}},
            ".labelSelector",
            "label value 'b c'",
        ),
        (
            f"{POD_AFFINITY}.{REQUIRED}.0",
            {"topologyKey": "z", "namespaceSelector": {"matchExpressions": [{"key": "a"}]}},
            ".namespaceSelector",
            "'' is not a valid label selector operator",
        ),
        (f"{POD_AFFINITY}.{REQUIRED}.0", {}, ".topologyKey", "'' is not a label key"),
        (
            f"{POD_AFFINITY}.{PREFERRED}.0.podAffinityTerm.topologyKey",
            "a/b/c",
            "",
            "'a/b/c' is not a label key",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "maxSkew": 0},
            ".maxSkew",
            "0 must be greater than zero",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "topologyKey": ""},
            ".topologyKey",
            "'' is not a label key",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "whenUnsatisfiable": "Maybe"},
            ".whenUnsatisfiable",
            "'Maybe' is not one of DoNotSchedule, ScheduleAnyway",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "minDomains": 0},
            ".minDomains",
            "0 must be greater than zero",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "nodeTaintsPolicy": "honor"},
            ".nodeTaintsPolicy",
            "'honor' is not one of Honor, Ignore",
        ),
        (
            "spec.topologySpreadConstraints.0",
            {**CONSTRAINT, "labelSelector": {"matchLabels": {"": ""}}},
            ".labelSelector",
            "label key '' is not valid",
        ),
    ],
)
def test_a_bad_value_is_found_with_its_field(
    path: str, value: Any, field: str, problem: str
) -> None:
    expected = path.replace(".0", "[0]")
    if field:
        expected = f"{expected}{field}" if field.startswith(".") else field

    with pytest.raises(InputError) as caught:
        decode(put(path, value), "f.yaml")

    assert caught.value.where == f"f.yaml: Pod default/web: {expected}"
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "value", "problem"),
    [
        ("v1", "Node", "status.allocatable.cpu", "4 cores", "'4 cores' is not a quantity"),
        ("v1", "Node", "status.capacity.memory", "1GB", "'1GB' is not a quantity"),
        ("v1", "PersistentVolume", "spec.capacity.storage", "big", "'big' is not a quantity"),
        ("storage.k8s.io/v1", "CSIStorageCapacity", "capacity", "x", "'x' is not a quantity"),
        ("node.k8s.io/v1", "RuntimeClass", "overhead.podFixed.cpu", "x", "'x' is not a quantity"),
        ("policy/v1", "PodDisruptionBudget", "spec.selector.matchLabels", {"a": "?"}, "'?'"),
        ("apps/v1", "ReplicaSet", "spec.selector.matchLabels", {"a b": ""}, "'a b'"),
        ("coordination.k8s.io/v1", "Lease", "spec.renewTime", "x", "'x' is not a time"),
    ],
)
def test_bad_values_of_other_kinds(
    api_version: str, kind: str, path: str, value: Any, problem: str
) -> None:
    data = put(path, value, {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})

    with pytest.raises(InputError) as caught:
        decode(data, "f.yaml")

    assert path.removesuffix(".matchLabels") in caught.value.where
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("taint", "field", "problem"),
    [
        ({"key": "a"}, "effect", "'' is not one of NoSchedule, PreferNoSchedule, NoExecute"),
        ({"key": "", "effect": "NoSchedule"}, "key", "'' is not a taint key"),
        ({"key": "a", "value": "b c", "effect": "NoSchedule"}, "value", "'b c' is not a taint"),
        ({"key": "a", "effect": "NoSchedule", "timeAdded": "x"}, "timeAdded", "'x' is not a time"),
    ],
)
def test_bad_taints(taint: dict[str, str], field: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(put("spec.taints.0", taint, NODE), "f.yaml")

    assert caught.value.where == f"f.yaml: Node n1: spec.taints[0].{field}"
    assert problem in caught.value.problem


def test_the_whole_message() -> None:
    with pytest.raises(InputError) as caught:
        decode(put("spec.containers.0.resources.requests.cpu", "1x"), "pods.yaml")

    assert str(caught.value) == (
        "pods.yaml: Pod default/web: spec.containers[0].resources.requests.cpu: "
        "'1x' is not a quantity\n"
        "  hint: a quantity is a number with an optional suffix: n u m k M G T P E, "
        "Ki Mi Gi Ti Pi Ei, or an exponent such as e3; for example 100m, 1.5Gi, 2"
    )


def test_a_name_is_needed() -> None:
    nameless = {**POD, "metadata": {"generateName": "web-", "namespace": "shop"}}

    with pytest.raises(InputError) as caught:
        decode(nameless, "f.yaml")

    assert caught.value.where == "f.yaml: Pod shop/web-: metadata.name"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (POD, "Pod default/web"),
        (NODE, "Node n1"),
        ({"kind": "Pod", "metadata": 5}, "Pod default/(no name)"),
        ({}, "None default/(no name)"),
    ],
)
def test_describe_never_fails(data: dict[str, Any], text: str) -> None:
    assert describe(data) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "name", "labels", "containers", "items"]), inner
        )
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([(kind.api_version, kind.name) for kind in KINDS] + [("v1", "List")]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "items"]), json_values),
)
def test_anything_is_an_object_or_an_input_error(
    kind: tuple[str, str], body: dict[str, Any]
) -> None:
    with suppress(InputError):
        for where, data in flatten({**body, "apiVersion": kind[0], "kind": kind[1]}, "f"):
            decode(data, where)
