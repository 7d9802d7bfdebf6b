"""Merge, strategic and JSON patches do what their specifications say."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.patch import (
    apply_json_patch,
    apply_merge_patch,
    apply_patch,
    apply_strategic_patch,
)
from stowplan.errors import ApiError, BadRequest, Invalid

# The table of RFC 7386, appendix A.
RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7386)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy(target)

    assert apply_merge_patch(target, patch) == result
    assert target == before


STRATEGIC = {
    "conditions-by-type": (
        {"status": {"conditions": [{"type": "A", "status": "False", "reason": "r"}]}},
        {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}},
        {"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B"}]}},
    ),
    "containers-by-name": (
        {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}},
        {"spec": {"containers": [{"name": "b", "image": "2"}]}},
        {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}},
    ),
    "deep-in-a-template": (
        {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "X"}]}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "Y"}]}]}}}},
        {
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": "a", "env": [{"name": "X"}, {"name": "Y"}]}]}
                }
            }
        },
    ),
    "init-containers-merge-like-containers": (
        {"spec": {"initContainers": [{"name": "a", "ports": [{"containerPort": 1}]}]}},
        {"spec": {"initContainers": [{"name": "a", "ports": [{"containerPort": 2}]}]}},
        {
            "spec": {
                "initContainers": [
                    {"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2}]}
                ]
            }
        },
    ),
    "service-ports-by-port": (
        {"spec": {"ports": [{"port": 80, "name": "http"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        {"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}]}},
    ),
    "tolerations-are-atomic": (
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    "taints-are-atomic": (
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}},
    ),
    "finalizers-are-a-set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    "delete-from-a-primitive-list": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "owners-by-uid": (
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}},
        {"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2"}]}},
        {"metadata": {"ownerReferences": [{"uid": "2"}]}},
    ),
    "delete-what-is-not-there": (
        {"spec": {"volumes": [{"name": "a"}]}},
        {"spec": {"volumes": [{"name": "b", "$patch": "delete"}]}},
        {"spec": {"volumes": [{"name": "a"}]}},
    ),
    "replace-a-keyed-list": (
        {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
        {"spec": {"containers": [{"name": "c"}]}},
    ),
    "replace-a-map": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "delete-a-map": (
        {"spec": {"affinity": {"nodeAffinity": {"x": 1}}}},
        {"spec": {"affinity": {"$patch": "delete"}}},
        {"spec": {"affinity": {}}},
    ),
    "retain-keys": (
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    "element-order-is-ignored": (
        {"status": {"conditions": [{"type": "A"}]}},
        {
            "status": {
                "$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}],
                "conditions": [{"type": "B"}],
            }
        },
        {"status": {"conditions": [{"type": "A"}, {"type": "B"}]}},
    ),
    "null-removes": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "null-in-a-new-map-is-nothing": (
        {},
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
}


@pytest.mark.parametrize(("target", "patch", "result"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_patch(target: Any, patch: Any, result: Any) -> None:
    before, patch_before = deepcopy(target), deepcopy(patch)

    assert apply_strategic_patch(target, patch) == result
    assert (target, patch) == (before, patch_before)


def test_the_selector_of_a_disruption_budget_is_replaced_whole() -> None:
    target = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}

    assert apply_strategic_patch(target, patch, "PodDisruptionBudget") == patch
    assert apply_strategic_patch(target, patch, "Deployment") == {
        "spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}
    }


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": ["x"]}},
        {"spec": {"$patch": "explode"}},
        {"spec": {"$retainKeys": 5}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
    ],
)
def test_a_strategic_patch_that_makes_no_sense_is_a_bad_request(patch: Any) -> None:
    target = {"spec": {"containers": [{"name": "a"}]}, "metadata": {"finalizers": ["a"]}}

    with pytest.raises(BadRequest):
        apply_strategic_patch(target, patch)


JSON = {
    "add-a-key": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "add-over-a-key": ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    "insert": ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    "append": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "append-at-the-index": ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
    "remove": ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    "remove-from-a-list": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "replace": ({"a": 1}, [{"op": "replace", "path": "/a", "value": [2]}], {"a": [2]}),
    "replace-all": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    "move": ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    "copy": (
        {"a": {"b": 1}},
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "remove", "path": "/a/b"}],
        {"a": {}, "c": {"b": 1}},
    ),
    "test": ({"a": [1, {"b": None}]}, [{"op": "test", "path": "/a/1/b", "value": None}], None),
    "test-object": (
        {"a": [1, {"b": [True, "x"]}]},
        [{"op": "test", "path": "/a", "value": [1, {"b": [True, "x"]}]}],
        None,
    ),
    "test-absence": ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], None),
    "escapes": (
        {"a/b": 1, "m~n": 2},
        [{"op": "remove", "path": "/a~1b"}, {"op": "replace", "path": "/m~0n", "value": 3}],
        {"m~n": 3},
    ),
}


@pytest.mark.parametrize(("target", "operations", "result"), JSON.values(), ids=JSON)
def test_json_patch(target: Any, operations: Any, result: Any) -> None:
    before = deepcopy(target)

    patched = apply_json_patch(target, operations)

    assert patched == (before if result is None else result)
    assert target == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/z", "value": 1},
        {"op": "test", "path": "/l", "value": [1]},
        {"op": "test", "path": "/l", "value": [1, 3]},
        {"op": "test", "path": "/l", "value": [True, 2]},
        {"op": "test", "path": "/l", "value": {}},
        {"op": "test", "path": "/o", "value": {"p": 1}},
        {"op": "test", "path": "", "value": {"a": 1, "l": [1, 2], "o": {"p": 1}}},
        {"op": "test", "path": "", "value": {"a": True, "l": [1, 2], "o": {}}},
        {"op": "test", "path": "", "value": {"a": 1, "o": {}}},
        {"op": "remove", "path": "/z"},
        {"op": "remove", "path": ""},
        {"op": "spin", "path": "/a"},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "copy", "from": "/z", "path": "/y"},
        {"op": "move", "from": "/o", "path": "/o/p"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_unprocessable(operation: Any) -> None:
    with pytest.raises(Invalid) as raised:
        apply_json_patch({"a": 1, "l": [1, 2], "o": {}}, [operation])

    assert raised.value.code == 422


@pytest.mark.parametrize(
    "operations",
    [
        {},
        [5],
        [{"op": "add"}],
        [{"op": "add", "path": "/a"}],
        [{"op": "copy", "path": "/a"}],
        [{"op": "remove", "path": "a"}],
    ],
)
def test_a_malformed_json_patch_is_a_bad_request(operations: Any) -> None:
    with pytest.raises(BadRequest):
        apply_json_patch({"a": 1}, operations)


def test_a_json_patch_has_a_maximum_of_operations() -> None:
    with pytest.raises(ApiError) as raised:
        apply_json_patch({}, [{"op": "test", "path": ""}] * 10_001)

    assert raised.value.code == 413


def test_an_unknown_patch_type_is_unsupported() -> None:
    with pytest.raises(ApiError) as raised:
        apply_patch("apply", "Pod", {}, {})

    assert raised.value.code == 415


def test_a_patch_may_not_turn_an_object_into_something_else() -> None:
    with pytest.raises(Invalid):
        apply_patch("json", "Pod", {}, [{"op": "replace", "path": "", "value": []}])
    with pytest.raises(BadRequest):
        apply_patch("merge", "Pod", {}, [])


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
without_nulls = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from("abc"), values), st.dictionaries(st.sampled_from("abc"), values)
)
def test_where_no_list_is_keyed_strategic_is_merge(target: Any, patch: Any) -> None:
    assert apply_strategic_patch(target, patch) == apply_merge_patch(target, patch)


def difference(before: Any, after: Any) -> Any:
    """A merge patch, made in the plainest way."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    patch = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before or before[key] != value or type(before[key]) is not type(value):
            patch[key] = difference(before.get(key), value)
    return patch


@given(
    st.dictionaries(st.sampled_from("abc"), without_nulls),
    st.dictionaries(st.sampled_from("abc"), without_nulls),
)
def test_a_difference_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    assert apply_merge_patch(before, difference(before, after)) == after
