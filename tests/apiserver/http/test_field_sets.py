"""Sets of fields, as `metadata.managedFields` has them."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.http.field_sets import (
    contains,
    difference,
    fields_of,
    leaves,
    readable,
    value_at,
    without,
)

POD: dict[str, Any] = {
    "metadata": {"finalizers": ["a", "b"], "labels": {"app": "web"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {"name": "web", "image": "i:1", "ports": [{"containerPort": 80}], "args": ["-v"]},
            {"name": "log", "image": "j:1"},
        ],
    },
}
WEB, LOG = 'k:{"name":"web"}', 'k:{"name":"log"}'
PORT = 'k:{"containerPort":80,"protocol":"TCP"}'


def test_the_fields_of_an_object() -> None:
    assert fields_of(POD) == {
        "f:metadata": {"f:finalizers": {'v:"a"': {}, 'v:"b"': {}}, "f:labels": {"f:app": {}}},
        "f:spec": {
            "f:nodeSelector": {},
            "f:containers": {
                WEB: {
                    ".": {},
                    "f:name": {},
                    "f:image": {},
                    "f:ports": {PORT: {".": {}, "f:containerPort": {}}},
                    "f:args": {},
                },
                LOG: {".": {}, "f:name": {}, "f:image": {}},
            },
        },
    }


def test_every_leaf_is_contained_and_has_its_value() -> None:
    fields = fields_of(POD)
    found = {readable(path): value_at(POD, path) for path in leaves(fields) if path[-1] != "."}

    assert found == {
        '.metadata.finalizers[="a"]': "a",
        '.metadata.finalizers[="b"]': "b",
        ".metadata.labels.app": "web",
        ".spec.nodeSelector": {"disk": "ssd"},
        '.spec.containers[name="web"].name': "web",
        '.spec.containers[name="web"].image': "i:1",
        '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort': 80,
        '.spec.containers[name="web"].args': ["-v"],
        '.spec.containers[name="log"].name': "log",
        '.spec.containers[name="log"].image': "j:1",
    }
    assert all(contains(fields, path) for path in leaves(fields))
    assert contains(fields, ("f:spec", "f:nodeSelector", "f:disk")), "part of one value"
    assert contains(fields, ("f:spec", "f:containers", WEB))
    assert not contains(fields, ("f:spec", "f:containers", WEB, "f:command"))
    assert not contains(fields, ("f:status",))


@pytest.mark.parametrize(
    "path",
    [
        ("f:status",),
        ("f:spec", "f:containers", 'k:{"name":"x"}', "f:image"),
        ("f:spec", WEB),
        ("f:metadata", "f:finalizers", 'v:"c"'),
        ("f:metadata", "f:finalizers", "f:a"),
    ],
)
def test_what_is_not_there_equals_nothing(path: tuple[str, ...]) -> None:
    found = value_at(POD, path)

    assert found not in (None, "", [], {})
    assert value_at(POD, ("f:metadata", ".")) is True


def test_taking_fields_out() -> None:
    assert without(POD, fields_of(POD)) == {}
    some = {
        "f:metadata": {"f:finalizers": {'v:"a"': {}}},
        "f:spec": {
            "f:nodeSelector": {},
            "f:containers": {WEB: {"f:image": {}}, LOG: {".": {}, "f:image": {}}},
        },
    }
    assert without(POD, some) == {
        "metadata": {"finalizers": ["b"], "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "web", "ports": [{"containerPort": 80}], "args": ["-v"]}],
        },
    }
    assert without(POD, {"f:spec": {"f:containers": {WEB: {}}}})["spec"]["containers"] == [
        {"name": "log", "image": "j:1"}
    ]


def test_what_one_set_has_and_another_has_not() -> None:
    fields = fields_of(POD)

    assert difference(fields, fields) == {}
    assert difference(fields, {}) == fields
    less = fields_of({"metadata": POD["metadata"]})
    assert difference(fields, less) == {"f:spec": fields["f:spec"]}
