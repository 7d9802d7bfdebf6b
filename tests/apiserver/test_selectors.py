"""Lists and watches select by namespace, labels and fields."""

from __future__ import annotations

import pytest

from stowplan.apiserver.selectors import parse_field_selector, predicate
from stowplan.cluster.port import ListOptions
from stowplan.errors import BadRequest
from stowplan.objects.api import Patch
from stowplan.objects.base import ObjectMeta, ObjectReference
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import (
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_SLICE,
    SERVICE,
    Kind,
)
from tests.apiserver.things import (
    bind,
    create,
    create_node,
    create_pod,
    make_pod,
    names,
    new_store,
    patch,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("a=b", [("a", "=", "b")]),
        ("a==b,c!=d", [("a", "=", "b"), ("c", "!=", "d")]),
        ("a=", [("a", "=", "")]),
        ("a=x\\,y", [("a", "=", "x,y")]),
        ("a=x\\=y", [("a", "=", "x=y")]),
    ],
)
def test_a_field_selector_is_a_list_of_terms(text: str, terms: list[tuple[str, str, str]]) -> None:
    assert parse_field_selector(text) == terms


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("spec.nodeName=n", ["a"]),
        ("spec.nodeName=", ["b", "c"]),
        ("spec.nodeName!=", ["a"]),
        ("spec.schedulerName=mine", ["c"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["a", "b"]),
        ("status.phase=Failed", ["c"]),
        ("status.phase=Failed,status.phase=Pending", []),
        ("spec.nodeName=n,metadata.name=b", []),
        ("spec.hostNetwork=true", []),
    ],
)
def test_pods_are_selected_by_fields(selector: str, found: list[str]) -> None:
    store = new_store()
    create(store, NAMESPACE, {"metadata": {"name": "other"}})
    create_pod(store, "a")
    create_pod(store, "b")
    create(store, POD, make_pod("c", namespace="other", scheduler_name="mine"), "other")
    bind(store, "a", "n")
    store.execute(Patch(POD, "other", "c", {"status": {"phase": "Failed"}}, "merge", "status"))

    assert names(store, POD, field_selector=selector) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=web", ["a", "b"]),
        ("app=web,tier!=front", ["b"]),
        ("tier in (front,back)", ["a", "b"]),
        ("!tier", ["c"]),
    ],
)
def test_labels_select(selector: str, found: list[str]) -> None:
    store = new_store()
    create_pod(store, "a", labels={"app": "web", "tier": "front"})
    create_pod(store, "b", labels={"app": "web", "tier": "back"})
    create_pod(store, "c")

    assert names(store, POD, label_selector=selector) == found


def test_a_namespace_selects_and_a_list_is_sorted() -> None:
    store = new_store(create_namespaces=True)
    for namespace, name in (("z", "b"), ("default", "c"), ("z", "a"), ("a", "d")):
        create(store, POD, make_pod(name, namespace=namespace), namespace)

    assert names(store, POD) == ["d", "c", "a", "b"]
    assert names(store, POD, namespace="z") == ["a", "b"]
    assert names(store, POD, namespace="nowhere") == []
    # A kind without namespaces has all its objects everywhere.
    assert len(names(store, NAMESPACE, namespace="z")) == 6


def test_events_are_selected_by_what_they_are_about() -> None:
    store = new_store()
    for name, about in (("x", "p"), ("y", "q")):
        regarding = ObjectReference(kind="Pod", namespace="default", name=about, uid=about)
        meta = ObjectMeta(name=name, namespace="default")
        create(store, EVENT, Event(metadata=meta, regarding=regarding, reason="Scheduled"))

    # `kubectl describe` asks with the names of core/v1.
    assert names(store, EVENT, field_selector="involvedObject.name=p,involvedObject.kind=Pod") == [
        "x"
    ]
    assert names(store, EVENT, field_selector="regarding.uid=q,reason=Scheduled") == ["y"]


def test_nodes_are_selected_by_being_cordoned() -> None:
    store = new_store()
    create_node(store, "a")
    create_node(store, "b")
    patch(store, NODE, "b", {"spec": {"unschedulable": True}})

    assert names(store, NODE, field_selector="spec.unschedulable=false") == ["a"]


@pytest.mark.parametrize("selector", ["spec.containers=x", "nonsense", "a!b"])
def test_a_field_that_cannot_be_selected_is_a_bad_request(selector: str) -> None:
    with pytest.raises(BadRequest):
        names(new_store(), SERVICE, field_selector=selector)


def test_a_label_selector_that_makes_no_sense_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        names(new_store(), POD, label_selector="a in")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (JOB, 'field label "spec.x" not supported for Job'),
        (
            RESOURCE_SLICE,
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x",
        ),
        (POD, "field label not supported: spec.x"),
        (NODE, "field label not supported: spec.x"),
        (
            DEPLOYMENT,
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_fields_that_cannot_be_selected_by_are_named_as_kube_apiserver_does(
    kind: Kind, text: str
) -> None:
    for operator in ("=", "!="):
        with pytest.raises(BadRequest) as refused:
            predicate(kind, ListOptions("", f"metadata.name=a,spec.x{operator}1"))
        assert refused.value.message == text
