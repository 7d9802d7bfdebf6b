"""Delete: grace periods, finalizers, preconditions, owners and namespaces."""

from __future__ import annotations

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.errors import Conflict, Forbidden, Invalid, NotFound
from stowplan.objects.api import Bind, Delete
from stowplan.objects.base import ObjectMeta, OwnerReference
from stowplan.objects.kinds import (
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
    Kind,
)
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Service
from tests.apiserver.things import (
    START_S,
    Log,
    bind,
    create,
    create_node,
    create_pod,
    delete,
    exists,
    get,
    get_pod,
    make_pod,
    new_store,
    patch,
    pod_spec,
    select,
)

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def test_deleting_again_what_is_on_its_way_out_changes_nothing_and_answers_with_it() -> None:
    store = new_store()
    create_node(store, "n")
    create_pod(store)
    bind(store, "p", "n")
    going, log = delete(store, POD, "p"), Log(store)

    assert delete(store, POD, "p") == going == get_pod(store, "p")
    assert log.story == []


def test_a_pod_on_no_node_goes_at_once() -> None:
    store = new_store()
    create_pod(store)
    log = Log(store)

    delete(store, POD, "p")

    assert not exists(store, POD, "p")
    assert log.story == [("DELETED", "p")]
    last = log.events[0].object
    assert log.events[0].resource_version == last.metadata.resource_version
    assert last.metadata.resource_version == store.resource_version


def test_a_pod_on_a_node_is_given_its_time() -> None:
    store = new_store()
    create_pod(store)
    bind(store)

    delete(store, POD, "p")

    meta = get_pod(store).metadata
    assert meta.deletion_timestamp == "2026-01-01T00:00:30Z"
    assert meta.deletion_grace_period_seconds == 30
    assert meta.generation == 2
    delete(store, POD, "p", 0)
    assert not exists(store, POD, "p")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(phase: str) -> None:
    store = new_store()
    create_pod(store)
    bind(store)
    patch(store, POD, "p", {"status": {"phase": phase}}, subresource="status")

    delete(store, POD, "p")

    assert not exists(store, POD, "p")


@pytest.mark.parametrize(
    ("own", "asked", "period"), [(60, None, 60), (60, 5, 5), (0, 7, 7), (60, -1, 1)]
)
def test_who_decides_on_the_period(own: int, asked: int | None, period: int) -> None:
    store = new_store()
    create_pod(store, termination_grace_period_seconds=own)
    bind(store)

    delete(store, POD, "p", asked)

    assert get_pod(store).metadata.deletion_grace_period_seconds == period


def test_a_second_delete_may_only_shorten_the_period() -> None:
    clock = VirtualClock(START_S)
    store = Store(clock)
    create_pod(store)
    bind(store)
    delete(store, POD, "p", 30)
    clock.advance(10)
    version = store.resource_version

    delete(store, POD, "p", 60)
    delete(store, POD, "p", 30)
    delete(store, POD, "p")
    assert store.resource_version == version

    delete(store, POD, "p", 20)
    meta = get_pod(store).metadata
    assert meta.deletion_timestamp == "2026-01-01T00:00:20Z"
    assert meta.deletion_grace_period_seconds == 20
    assert meta.generation == 2


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    store = new_store()
    create_node(store)
    patch(store, NODE, "n", {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}})
    log = Log(store, NODE)

    delete(store, NODE, "n")
    delete(store, NODE, "n")
    assert get(store, NODE, "n").metadata.deletion_timestamp is not None
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        patch(store, NODE, "n", {"metadata": {"finalizers": ["a.b/new"]}})
    patch(store, NODE, "n", {"metadata": {"finalizers": ["a.b/c"]}}, "merge")
    assert exists(store, NODE, "n")
    patch(store, NODE, "n", {"metadata": {"finalizers": None}}, "merge")

    assert not exists(store, NODE, "n")
    assert log.story == [("MODIFIED", "n"), ("MODIFIED", "n"), ("DELETED", "n")]


def test_finalizers_hold_a_pod_even_after_its_period() -> None:
    store = new_store()
    create_pod(store)
    bind(store)
    patch(store, POD, "p", {"metadata": {"finalizers": ["a.b/c"]}})

    delete(store, POD, "p")
    patch(store, POD, "p", {"metadata": {"finalizers": None}}, "merge")
    assert exists(store, POD, "p"), "the kubelet has not confirmed yet"
    delete(store, POD, "p", 0)

    assert not exists(store, POD, "p")


def test_the_uid_is_a_precondition() -> None:
    store = new_store()
    pod = create_pod(store)

    with pytest.raises(Conflict, match="the UID in the precondition \\(other\\) does not match"):
        delete(store, POD, "p", uid="other")
    delete(store, POD, "p", uid=pod.uid)

    with pytest.raises(NotFound):
        delete(store, POD, "p", uid=pod.uid)


def owned(kind: Kind, name: str, uid: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=name, uid=uid, controller=controller
    )


def create_owned(store: Store, name: str, *owners: OwnerReference) -> None:
    meta = ObjectMeta(name=name, owner_references=list(owners))
    create(store, POD, Pod(metadata=meta, spec=pod_spec()))


def family(store: Store) -> None:
    """A deployment, its replica set and two pods."""
    deployment = create(store, DEPLOYMENT, {"metadata": {"name": "d"}, "spec": WORKLOAD})
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "d",
        "uid": deployment.uid,
        "controller": True,
    }
    replica_set = create(
        store,
        REPLICA_SET,
        {"metadata": {"name": "r", "ownerReferences": [reference]}, "spec": WORKLOAD},
    )
    for name in ("p1", "p2"):
        create_owned(store, name, owned(REPLICA_SET, "r", replica_set.uid))


def test_what_a_deleted_owner_leaves_behind_is_deleted() -> None:
    store = new_store()
    family(store)
    create_pod(store, "stranger")
    bind(store, "p2")

    delete(store, DEPLOYMENT, "d")

    assert not exists(store, REPLICA_SET, "r")
    assert not exists(store, POD, "p1")
    assert get_pod(store, "p2").metadata.deletion_timestamp is not None
    assert exists(store, POD, "stranger")


def test_orphans_live_on() -> None:
    store = new_store()
    family(store)

    store.delete(Delete(DEPLOYMENT, "default", "d"), propagation="Orphan")

    assert get(store, REPLICA_SET, "r").metadata.owner_references is None
    assert exists(store, POD, "p1")


def test_in_the_foreground_the_owner_goes_last() -> None:
    store = new_store()
    family(store)
    bind(store, "p1")

    store.delete(Delete(REPLICA_SET, "default", "r"), propagation="Foreground")
    assert not exists(store, POD, "p2")
    assert get(store, REPLICA_SET, "r").metadata.finalizers == ["foregroundDeletion"]
    delete(store, POD, "p1", 0)

    assert not exists(store, REPLICA_SET, "r")


def test_one_living_owner_is_enough() -> None:
    store = new_store()
    services = [create(store, SERVICE, Service(metadata=ObjectMeta(name=n))) for n in ("s1", "s2")]
    owners = [owned(SERVICE, s.name, s.uid, controller=False) for s in services]
    create_owned(store, "p", *owners)

    delete(store, SERVICE, "s1")

    left = get_pod(store).metadata.owner_references
    assert left is not None
    assert [owner.name for owner in left] == ["s2"]
    delete(store, SERVICE, "s2")
    assert not exists(store, POD, "p")


def test_an_owner_that_never_was_is_found_by_the_collector() -> None:
    store = new_store()
    create_owned(store, "p", owned(SERVICE, "ghost", "no-such-uid"))
    create_owned(store, "q", OwnerReference(api_version="x/v1", kind="Y", name="z", uid="1"))
    assert exists(store, POD, "p")

    store.collect_garbage()

    assert not exists(store, POD, "p")
    assert exists(store, POD, "q"), "nobody can say that an object of an unknown kind is gone"


def test_a_namesake_of_the_owner_is_not_the_owner() -> None:
    store = new_store()
    first = create(store, SERVICE, Service(metadata=ObjectMeta(name="s")))
    delete(store, SERVICE, "s")
    create(store, SERVICE, Service(metadata=ObjectMeta(name="s")))
    create_owned(store, "p", owned(SERVICE, "s", first.uid))

    store.collect_garbage()

    assert not exists(store, POD, "p")


def test_a_long_chain_of_owners_and_a_ring_of_them() -> None:
    store = new_store()
    first = previous = create(store, SERVICE, Service(metadata=ObjectMeta(name="s0")))
    for n in range(1, 1500):
        meta = ObjectMeta(
            name=f"s{n}", owner_references=[owned(SERVICE, previous.name, previous.uid)]
        )
        previous = create(store, SERVICE, Service(metadata=meta))
    reference = {"apiVersion": "v1", "kind": "Service", "name": previous.name, "uid": previous.uid}
    ported = {"spec": {"ports": [{"port": 80}]}}
    patch(store, SERVICE, "s0", {"metadata": {"ownerReferences": [reference]}, **ported})

    delete(store, SERVICE, first.name)

    assert select(store, SERVICE) == []


def test_a_namespace_takes_its_contents_with_it() -> None:
    store = new_store(create_namespaces=True)
    create(store, POD, make_pod("a", namespace="team"), "team")
    create(store, POD, make_pod("b", namespace="team"), "team")
    create_pod(store, "stays")
    store.execute(Bind("team", "b", "", "n"))
    log = Log(store, NAMESPACE)

    delete(store, NAMESPACE, "team")

    assert not exists(store, POD, "a", "team")
    assert get(store, NAMESPACE, "team").metadata.deletion_timestamp is not None
    store.execute(Delete(POD, "team", "b", "", 0))
    assert not exists(store, NAMESPACE, "team")
    assert exists(store, POD, "stays")
    assert log.story == [("MODIFIED", "team"), ("DELETED", "team")]


def test_an_empty_namespace_goes_at_once() -> None:
    store = new_store()
    create(store, NAMESPACE, {"metadata": {"name": "team"}})

    delete(store, NAMESPACE, "team")

    assert not exists(store, NAMESPACE, "team")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_are_immortal(name: str) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        delete(new_store(), NAMESPACE, name)
