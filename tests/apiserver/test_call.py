"""Many requests as one: the same as one after the other, but one commit and one answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver import writes
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.retention import EVENT_LIFE_S, EventRetention
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import Answer, call_one
from stowplan.errors import ApiError, NotFound, Unavailable
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request
from stowplan.objects.base import ObjectMeta, OwnerReference
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, NAMESPACE, POD
from stowplan.objects.pod import Pod, PodSpec
from stowplan.objects.workloads import Namespace
from tests.apiserver.things import (
    START_S,
    Log,
    bind,
    create,
    create_node,
    create_pod,
    data,
    delete,
    exists,
    gate,
    make_pod,
    names,
    patch,
    pod_data,
    pod_spec,
    select,
)

EVENTS_MAX = 6


def new_event(name: str, namespace: str = "default", **meta: Any) -> Create:
    metadata = ObjectMeta(name=name, namespace=namespace, **meta)
    return Create(EVENT, namespace, Event(metadata=metadata, note=f"about {name}"))


def call(store: Store, requests: list[Request]) -> list[Answer]:
    answers: dict[int, Answer] = {}
    store.call(requests, lambda first, told: answers.update(enumerate(told, first)))
    return [answers[number] for number in range(len(requests))]


def in_a_group(store: Store, requests: list[Request]) -> list[Answer]:
    turns: list[Callable[[], None]] = []
    grouped, told = GroupedStore(store, turns.append), {}
    for number, request in enumerate(requests):
        call_one(grouped, request, partial(told.__setitem__, number))
    while turns:
        turns.pop()()
    return [told[number] for number in range(len(requests))]


def one_by_one(store: Store, requests: list[Request]) -> list[Answer]:
    answers: list[Answer] = []
    for request in requests:
        call_one(store, request, answers.append)
    return answers


ODDITIES: dict[str, Request] = {
    "the name is taken": new_event("held"),
    "the name is taken by the first": new_event("first"),
    "no name": new_event(""),
    "a name of its own making": new_event("", generate_name="made-"),
    "a bad name": new_event("Not-A-Name"),
    "a name that is too long": new_event("x" * 254),
    "labels": new_event("labelled", labels={"a": "b"}),
    "bad labels": new_event("labelled", labels={"-": "-"}),
    "a version": new_event("e", resource_version="7"),
    "a deletion": new_event("e", deletion_timestamp="2020-01-01T00:00:00Z"),
    "no namespace": new_event("e", ""),
    "no such namespace": new_event("e", "gone"),
    "a namespace that is being deleted": new_event("e", "ending"),
    "two namespaces": Create(EVENT, "kube-system", new_event("e").body),
    "the namespace of the request": Create(EVENT, "default", Event(metadata=ObjectMeta(name="e"))),
    "data": Create(EVENT, "default", {"metadata": {"name": "e"}, "note": "n", "custom": 1}),
    "a kind that it is not": Create(POD, "default", new_event("e").body),
    "a patch": Patch(EVENT, "default", "first", {"note": "changed"}),
    "a delete": Delete(EVENT, "default", "first"),
    "a look": Get(EVENT, "default", "first"),
    "a binding": Bind("default", "web", "", "n"),
    "a pod": Create(POD, "default", make_pod("new")),
}
crowds = st.lists(st.builds(new_event, st.sampled_from([f"e{n}" for n in range(9)])), max_size=8)
mixtures = st.lists(st.sampled_from([*ODDITIES.values(), new_event("first")]), max_size=8)
BINDINGS = [
    *(Bind("default", name, "", "n") for name in ("web", "data", "tried", "zoned")),
    Bind("default", "web", "another-uid", "n"),
    Bind("default", "web", "", "n", {"example.com/gpus": "0,1"}),
    Bind("default", "web", "", ""),
    Bind("default", "zoned", "", "unknown-node"),
    Bind("default", "gated", "", "n"),
    Bind("default", "bound", "", "n"),
    Bind("default", "ending", "", "n"),
    Bind("default", "nobody", "", "n"),
    Bind("elsewhere", "web", "", "n"),
]
bindings = st.lists(st.sampled_from(BINDINGS), max_size=8)


def patch_of_status(name: str, body: Any, patch_type: str = "strategic", **more: Any) -> Patch:
    return Patch(POD, "default", name, {"status": body, **more}, patch_type, "status")


TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
PATCHES: list[Request] = [
    *(
        patch_of_status(name, {"conditions": [TARGET]})
        for name in ("web", "tried", "zoned", "bound", "data", "ending", "nobody")
    ),
    patch_of_status("web", {"conditions": [{**TARGET, "status": "False"}]}),
    patch_of_status("tried", {"conditions": [REFUSED]}),
    patch_of_status("tried", {"conditions": [REFUSED], "nominatedNodeName": None}),
    patch_of_status("zoned", {"nominatedNodeName": "n"}),
    patch_of_status("zoned", {"phase": "Running"}, "merge"),
    patch_of_status("bound", {"phase": "Running", "podIP": "10.0.0.1"}),
    patch_of_status("bound", {"conditions": "all"}),
    patch_of_status("web", {"conditions": [TARGET]}, metadata={"uid": "another-uid"}),
    patch_of_status("web", {"conditions": [TARGET]}, metadata={"labels": {"a": "b"}}),
    Patch(POD, "default", "web", {"metadata": {"labels": {"a": "b"}}}),
    Patch(EVENT, "default", "held", {"note": "changed"}),
    Patch(EVENT, "default", "zoned", {"status": {"phase": "Running"}}, "strategic", "status"),
    Patch(POD, "elsewhere", "web", {"status": {}}, "strategic", "status"),
]
DELETES: list[Request] = [
    *(
        Delete(POD, "default", name, grace_period_seconds=grace_s)
        for name in ("web", "data", "bound", "ending", "owner", "owned", "held", "nobody")
        for grace_s in (None, 0)
    ),
    Delete(POD, "default", "bound", "another-uid"),
    Delete(POD, "elsewhere", "web"),
    Delete(EVENT, "default", "held"),
    Delete(NAMESPACE, "", "default"),
]
evictions = st.lists(st.sampled_from([*PATCHES, *DELETES]), max_size=8)
evictions |= st.lists(st.sampled_from(PATCHES), max_size=8)
evictions |= st.lists(st.sampled_from(DELETES), max_size=8)


def new_pod(name: str, namespace: str = "default", spec: Any = None, **meta: Any) -> Create:
    metadata = ObjectMeta(name=name, namespace=namespace, **meta)
    return Create(POD, namespace, Pod(metadata=metadata, spec=spec or pod_spec()))


SOMEBODY = OwnerReference(api_version="v1", kind="Pod", name="owner", uid="somebody")
NEW_PODS: dict[str, Create] = {
    "the name is taken": new_pod("web"),
    "no name": new_pod(""),
    "a name of its own making": new_pod("", generate_name="made-"),
    "a long name of its own making": new_pod("", generate_name="x" * 80),
    "a bad name": new_pod("Not-A-Name"),
    "labels": new_pod("labelled", labels={"a": "b"}),
    "bad labels": new_pod("labelled", labels={"-": "-"}),
    "an owner": new_pod("child", owner_references=[SOMEBODY]),
    "a version": new_pod("p", resource_version="7"),
    "a deletion": new_pod("p", deletion_timestamp="2020-01-01T00:00:00Z"),
    "time to end": new_pod("p", deletion_grace_period_seconds=5),
    "no namespace": new_pod("p", ""),
    "no such namespace": new_pod("p", "gone"),
    "a namespace that is being deleted": new_pod("p", "ending"),
    "two namespaces": Create(POD, "kube-system", new_pod("p").body),
    "the namespace of the request": Create(
        POD, "default", Pod(metadata=ObjectMeta(name="p"), spec=pod_spec())
    ),
    "a node": new_pod("p", spec=pod_spec(node_name="n")),
    "gates": new_pod("p", spec=pod_spec(scheduling_gates=[gate("x/y")])),
    "no containers": new_pod("p", spec=PodSpec()),
    "a priority class that is not there": new_pod("p", spec=pod_spec(priority_class_name="x")),
    "data": Create(POD, "default", pod_data("p", hostname="h")),
    "a kind that it is not": Create(EVENT, "default", make_pod("p")),
}
new_pods = st.lists(
    st.builds(new_pod, st.sampled_from([f"p{n}" for n in range(9)]))
    | st.just(NEW_PODS["a name of its own making"]),
    max_size=8,
)
odd_pods = st.lists(st.sampled_from([*NEW_PODS.values(), new_pod("p1")]), max_size=8)


class World:
    """A store with a few things in it, in which few events have room.

    `calm`: no namespace is being deleted, so that nobody looks closer at every object that goes.
    """

    def __init__(self, *, calm: bool = False) -> None:
        self.clock = VirtualClock(START_S)
        with pytest.MonkeyPatch.context() as change:
            change.setattr(writes, "EventRetention", partial(EventRetention, events_max=EVENTS_MAX))
            self.store = Store(self.clock)
        create_node(self.store, **{"topology.kubernetes.io/zone": "z"})
        for name in ("web", "tried", "zoned", "bound", "ending"):
            create_pod(self.store, name, labels={"app": name})
        create_pod(self.store, "gated", scheduling_gates=[gate("x/y")])
        create(self.store, POD, pod_data("data", hostname="h"))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        tried = {"status": {"conditions": [condition], "nominatedNodeName": "n"}}
        patch(self.store, POD, "tried", tried, subresource="status")
        owner = create_pod(self.store, "owner")
        reference = OwnerReference(api_version="v1", kind="Pod", name="owner", uid=owner.uid)
        for name, meta in (
            ("owned", {"owner_references": [reference]}),
            ("held", {"finalizers": ["x/y"]}),
        ):
            create(self.store, POD, Pod(metadata=ObjectMeta(name=name, **meta), spec=pod_spec()))
        bind(self.store, "bound")
        bind(self.store, "ending")
        delete(self.store, POD, "ending")
        create(self.store, EVENT, new_event("held").body)
        if not calm:
            create(self.store, NAMESPACE, Namespace(metadata=ObjectMeta(name="ending")))
            held = new_event("held", "ending", finalizers=["x/y"]).body
            create(self.store, EVENT, held, "ending")
            delete(self.store, NAMESPACE, "ending")
        self.logs = [Log(self.store, kind) for kind in (EVENT, POD)]

    def outcome(self, answers: list[Answer]) -> Any:
        said = [
            (type(answer), str(answer)) if isinstance(answer, ApiError) else answer
            for answer in answers
        ]
        things = [select(self.store, kind) for kind in (EVENT, POD, NAMESPACE)]
        return said, things, [log.events for log in self.logs], self.store.resource_version


@given(
    st.lists(
        st.tuples(
            crowds | mixtures | bindings | evictions | new_pods | odd_pods,
            st.sampled_from([0.0, 1.0, EVENT_LIFE_S]),
        ),
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from([call, in_a_group]),
)
def test_the_same_comes_of_it_as_one_after_the_other(
    rounds: list[tuple[list[Request], float]],
    calm: bool,
    send: Callable[[Store, list[Request]], list[Answer]],
) -> None:
    together, apart = World(calm=calm), World(calm=calm)

    for requests, then_s in rounds:
        answers = send(together.store, requests)
        assert together.outcome(answers) == apart.outcome(one_by_one(apart.store, requests))
        together.clock.advance(then_s)
        apart.clock.advance(then_s)


def test_in_a_group_what_is_broken_takes_nothing_else_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = World().store
    turns: list[Callable[[], None]] = []
    grouped = GroupedStore(store, turns.append)
    told: list[Any] = []
    whole = patch_of_status("zoned", {"phase": "Running"})

    call_one(grouped, Bind("default", "web", "", "n"), told.append)
    grouped.submit(lambda: 1 // 0, told.append)
    grouped.submit(lambda: store.execute(whole), told.append)
    call_one(grouped, Bind("default", "tried", "", "n"), told.append)
    turns.pop()()

    bound, error, patched, also_bound = told
    assert (bound, also_bound) == (None, None)
    assert (
        str(error)
        == "Internal error occurred: ZeroDivisionError: integer division or modulo by zero"
    )
    assert patched.status.phase == "Running"
    assert "a write failed" in caplog.text


def test_bindings_of_all_sorts() -> None:
    together, apart = World(), World()
    once = [*{request.name: request for request in reversed(BINDINGS)}.values()]

    answers = call(together.store, once)

    assert together.outcome(answers) == apart.outcome(one_by_one(apart.store, once))
    bound = [request.name for request, answer in zip(once, answers, strict=True) if answer is None]
    assert sorted(bound) == ["data", "tried", "web", "zoned"]
    # What no struct holds is still there.
    assert data(together.store, POD, "data")["spec"]["hostname"] == "h"


@pytest.mark.parametrize("what", NEW_PODS)
def test_pods_of_all_sorts(what: str) -> None:
    together, apart = World(), World()
    requests: list[Request] = [new_pod("first"), NEW_PODS[what], new_pod("last")]

    answers = call(together.store, requests)

    assert together.outcome(answers) == apart.outcome(one_by_one(apart.store, requests))
    assert exists(together.store, POD, "last")


def test_new_pods_that_belong_to_another_go_with_it() -> None:
    store = World(calm=True).store
    owner = create_pod(store, "parent")
    reference = OwnerReference(api_version="v1", kind="Pod", name="parent", uid=owner.uid)

    call(store, [new_pod(name, owner_references=[reference]) for name in ("a", "b")])
    delete(store, POD, "parent")

    assert not {"a", "b"} & set(names(store, POD))


def test_pods_that_are_told_the_same_share_their_status() -> None:
    """Victims of one moment are no burden: one status serves all of them."""
    store = World().store
    for name in ("zoned", "web"):
        bind(store, name)
    requests: list[Request] = [
        patch_of_status("bound", {"conditions": [TARGET]}),
        patch_of_status("tried", {"nominatedNodeName": "n2"}),
        patch_of_status("zoned", {"conditions": [TARGET]}),
        patch_of_status("web", {"conditions": [{**TARGET, "reason": "Another"}]}),
    ]

    bound, tried, zoned, web = (
        answer.status  # type: ignore[union-attr]
        for answer in call(store, requests)
    )

    assert bound is zoned
    assert [condition.type for condition in bound.conditions] == ["PodScheduled", TARGET["type"]]
    assert tried.nominated_node_name == "n2"
    assert web.conditions[1].reason == "Another"


def test_watchers_hear_of_all_evictions_at_once() -> None:
    store = World().store
    log = Log(store, POD)

    call(store, PATCHES[:6])
    call(store, [Delete(POD, "default", name) for name in ("web", "tried", "zoned")])

    assert log.batches == [6, 3]


@pytest.mark.parametrize("oddity", ODDITIES.values(), ids=ODDITIES.keys())
def test_one_that_is_special_among_others(oddity: Request) -> None:
    requests = [new_event("first"), oddity, new_event("last")]
    together, apart = World(), World()

    answers = call(together.store, requests)

    assert together.outcome(answers) == apart.outcome(one_by_one(apart.store, requests))


@pytest.mark.parametrize("oddity", [*PATCHES, *DELETES], ids=str)
@pytest.mark.parametrize("ordinary", [(PATCHES[0], PATCHES[1]), (DELETES[0], DELETES[2])])
def test_one_that_is_special_among_evictions(
    oddity: Request, ordinary: tuple[Request, Request]
) -> None:
    requests = [ordinary[0], oddity, ordinary[1]]
    together, apart = World(calm=True), World(calm=True)

    answers = call(together.store, requests)

    assert together.outcome(answers) == apart.outcome(one_by_one(apart.store, requests))


def test_an_owner_that_waits_for_its_dependants_goes_with_the_last_one() -> None:
    store = World(calm=True).store
    bind(store, "owned")
    store.delete(Delete(POD, "default", "owner"), propagation="Foreground")
    assert exists(store, POD, "owner")

    call(store, [Delete(POD, "default", name, grace_period_seconds=0) for name in ("owned", "web")])

    assert not exists(store, POD, "owner")


def test_a_namespace_that_is_being_deleted_goes_with_the_last_pod() -> None:
    store = World(calm=True).store
    create(store, NAMESPACE, Namespace(metadata=ObjectMeta(name="shop")))
    for name in ("a", "b"):
        create(store, POD, make_pod(name, namespace="shop"), "shop")
        store.execute(Bind("shop", name, "", "n"))
    delete(store, NAMESPACE, "shop")
    assert exists(store, NAMESPACE, "shop", "")

    call(store, [Delete(POD, "shop", name, grace_period_seconds=0) for name in ("a", "b")])

    assert not exists(store, NAMESPACE, "shop", "")


def test_watchers_hear_of_a_crowd_at_once() -> None:
    store = Store(VirtualClock(START_S))
    log = Log(store, EVENT)

    call(store, [new_event(f"e{n}") for n in range(5)])

    assert log.batches == [5]


def test_it_is_on_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    store = Store(VirtualClock(START_S), journal=journal)

    answers = call(store, [new_event("a"), new_event("b")])
    journal.close()

    assert [answer.metadata.name for answer in answers] == ["a", "b"]  # type: ignore[union-attr]
    again = Store(VirtualClock(START_S), journal=SqliteJournal(tmp_path))
    assert names(again, EVENT) == ["a", "b"]


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([new_event("a"), new_event("b")], id="events"),
        pytest.param(PATCHES[:2], id="patches"),
        pytest.param(
            [Delete(POD, "default", "web"), Delete(POD, "default", "tried")], id="deletes"
        ),
        # Whoever reads sees only what is on the disk, so this one commits in the middle.
        pytest.param([new_event("a"), Get(EVENT, "default", "a"), new_event("b")], id="a-get"),
    ],
)
def test_a_disk_that_takes_nothing_refuses_all_of_them(
    tmp_path: Path, requests: list[Request]
) -> None:
    journal = SqliteJournal(tmp_path)
    store = Store(VirtualClock(START_S), journal=journal)
    before = [create_pod(store, name) for name in ("tried", "web")]
    version = store.resource_version

    for works in (0, 1):
        # Once it has failed nothing is taken any more, even if it would work again.
        journal._connection.execute(f"PRAGMA query_only={1 - works}")
        answers = call(store, requests)
        assert isinstance(answers[0], Unavailable)
        assert isinstance(answers[-1], Unavailable)
        assert len(answers) == len(requests)

    assert names(store, EVENT) == []
    assert select(store, POD) == before
    assert store.resource_version == version
    journal.close()


def test_inside_a_batch_it_is_answered_when_the_batch_ends() -> None:
    store = Store(VirtualClock(START_S))
    told: list[Any] = []

    with store.batch():
        store.call([new_event("a"), Delete(EVENT, "default", "x")], lambda *some: told.append(some))
        assert told == []

    (first, (made,)), (second, (missing,)) = told
    assert (first, second, made.metadata.name) == (0, 1, "a")
    assert isinstance(missing, NotFound)
