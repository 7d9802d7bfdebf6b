"""No body, however malformed, gets anything but an ordinary refusal; and it leaves no trace."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.errors import ApiError
from stowplan.objects.api import Create, Patch, Request, Update
from stowplan.objects.kinds import (
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    Kind,
)
from tests.apiserver.things import create, data, new_store

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "restartPolicy": "Always",
        "activeDeadlineSeconds": 5,
        "schedulingGates": [{"name": "g"}],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"a": "b"},
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            }
        ],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                }
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "z",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                        "matchLabelKeys": ["rev"],
                    }
                ]
            },
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
}
META = {
    "name": "x",
    "labels": {"a": "b", "rev": "1"},
    "finalizers": ["a.b/c"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u"}],
}
LASTING = {
    **TEMPLATE,
    "spec": {k: v for k, v in TEMPLATE["spec"].items() if k != "activeDeadlineSeconds"},
}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": LASTING}
ONE_OFF = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}

BODIES: dict[Kind, dict[str, Any]] = {
    POD: {"metadata": META, "spec": TEMPLATE["spec"], "status": {"conditions": [{"type": "A"}]}},
    NODE: {
        "metadata": META,
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    DEPLOYMENT: {
        "metadata": META,
        "spec": {**WORKLOAD, "strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
    },
    JOB: {"metadata": META, "spec": {"template": ONE_OFF}},
    SERVICE: {"metadata": META, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    NAMESPACE: {"metadata": META, "spec": {"finalizers": ["kubernetes"]}},
    PRIORITY_CLASS: {"metadata": META, "value": 5, "globalDefault": True},
    PERSISTENT_VOLUME_CLAIM: {
        "metadata": META,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    },
}

junk = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 5) | st.floats(0, 2) | st.sampled_from(["", "a b"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "$patch", "$retainKeys", "key", "a"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)


@st.composite
def damaged(draw: st.DrawFn, whole: Any) -> Any:
    """A copy with one to three places replaced by junk, or taken out."""
    body = deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        places = [(owner, key) for owner, key in _places(body)]
        if not places:
            break
        owner, key = places[draw(st.integers(0, len(places) - 1))]
        if draw(st.booleans()):
            owner[key] = draw(junk)
        else:
            del owner[key]
    return body


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found.append((value, key))
        found += _places(item)
    return found


kinds = pytest.mark.parametrize("kind", BODIES, ids=str)
pytestmark = pytest.mark.slow


@kinds
@given(st.data())
@settings(max_examples=30)
def test_a_damaged_create_is_taken_or_refused(kind: Kind, data: st.DataObject) -> None:
    store = new_store()
    body = data.draw(damaged(BODIES[kind]))
    before = deepcopy(body)

    _try(store, Create(kind, "default" if kind.namespaced else "", body))

    assert body == before


@kinds
@given(st.data(), st.sampled_from(["update", "merge", "strategic", "json"]))
@settings(max_examples=30)
def test_a_damaged_change_is_taken_or_refused(kind: Kind, drawn: st.DataObject, how: str) -> None:
    store = new_store()
    create(store, kind, BODIES[kind])
    namespace = "default" if kind.namespaced else ""
    body = drawn.draw(damaged(data(store, kind, "x", namespace)))
    subresource = drawn.draw(st.sampled_from(["", "status", "resize"]))
    request: Request
    if how == "update":
        request = Update(kind, namespace, "x", body, subresource)
    elif how == "json":
        operations = [{"op": "replace", "path": f"/{key}", "value": body[key]} for key in body]
        request = Patch(kind, namespace, "x", operations, how, subresource)
    else:
        request = Patch(kind, namespace, "x", body, how, subresource)
    before = deepcopy(request)

    _try(store, request)

    assert request == before


def _try(store: Any, request: Request) -> None:
    version = store.resource_version
    try:
        store.execute(request)
    except ApiError:
        assert store.resource_version == version
