"""ReplicaSets: as many pods as asked for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.apiserver.controllers.replica_set import DELETION_COST, first_to_go
from stowplan.errors import Unavailable
from stowplan.objects.kinds import POD, PRIORITY_CLASS, REPLICA_SET
from stowplan.objects.pod import Pod
from tests.apiserver.controllers.world import Lagging, World, workload
from tests.apiserver.things import create, create_pod, delete, get_pod, patch
from tests.builders import pod as make_pod


def test_pods_are_made_and_counted(world: World) -> None:
    made = world.create(REPLICA_SET, workload(replicas=3))

    for pod in world.pods():
        assert pod["metadata"]["labels"]["app"] == "web"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", made.uid, True)
    status = world.status(REPLICA_SET, "web")
    assert len(world.pods()) == 3
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert sorted(world.events("SuccessfulCreate")) == [
        f"Created pod: {name}" for name in world.pod_names()
    ]


def test_without_a_number_it_is_one(world: World) -> None:
    world.create(REPLICA_SET, workload())

    assert len(world.pods()) == 1


def test_a_pod_that_goes_is_replaced(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=2))
    gone, stays = world.pod_names()
    delete(world.store, POD, gone)
    world.run()

    assert len(world.pods()) == 2
    assert stays in world.pod_names()
    assert gone not in world.pod_names()


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_replaced_and_stays_to_be_looked_at(world: World, phase: str) -> None:
    world.create(REPLICA_SET, workload(replicas=2))
    ended = world.pod_names()[0]
    patch(world.store, POD, ended, {"status": {"phase": phase}}, "merge", "status")
    world.run()

    assert len(world.pods()) == 3
    assert world.status(REPLICA_SET, "web")["replicas"] == 2


def test_fewer(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=5))
    patch(world.store, REPLICA_SET, "web", {"spec": {"replicas": 2}})
    world.run()

    assert len(world.pods()) == 2
    assert world.status(REPLICA_SET, "web")["replicas"] == 2


def test_those_that_do_the_least_go_first(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=2))
    running = world.pod_names()
    world.nodes[:] = ["no-such-node"]
    patch(world.store, REPLICA_SET, "web", {"spec": {"replicas": 4}})
    world.run()
    assert len(world.pod_names()) == 4
    patch(world.store, REPLICA_SET, "web", {"spec": {"replicas": 2}})
    # The node never comes, and its pods are given up in the end.
    world.run(100.0)

    assert world.pod_names() == running


def given_up(**of: Any) -> Pod:
    """A pod that runs on a node and is ready since the first of January, but for what is said."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    fields: dict[str, Any] = {"node": "n", "phase": "Running", "ready": ready, "cost": None} | of
    annotations = {} if fields["cost"] is None else {DELETION_COST: fields["cost"]}
    created = fields.get("created", "2026-01-01T00:00:00Z")
    return make_pod(
        fields.get("name", "p"),
        node=fields["node"],
        metadata={"creationTimestamp": created, "annotations": annotations},
        status={"phase": fields["phase"], "conditions": [fields["ready"]]},
    )


UNREADY = {"type": "Ready", "status": "False"}
READY_LATER = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}


def test_pods_are_given_up_in_the_order_of_what_is_lost_with_them() -> None:
    """Each rule decides only where all rules before it do not."""
    first_that_goes = [
        given_up(name="on no node", node="", cost="9"),
        given_up(name="pending", phase="Pending", cost="8"),
        given_up(name="unknown", phase="Unknown", cost="7"),
        given_up(name="phase of tomorrow", phase="Dozing", ready=UNREADY, cost="7"),
        given_up(name="not ready", ready=UNREADY, cost="6"),
        given_up(name="cheap", cost="-5"),
        given_up(name="a", ready=READY_LATER, cost="no number"),
        given_up(name="b", created="2026-01-03T00:00:00Z"),
        given_up(name="z"),
        given_up(name="y"),
        given_up(name="of a smaller crowd", node="m", ready=READY_LATER),
        given_up(name="dear", cost="5"),
    ]
    expected = [pod.name for pod in first_that_goes]
    expected[2:4] = ["phase of tomorrow", "unknown"]

    for turn in range(5):
        shuffled = Random(turn).sample(first_that_goes, len(first_that_goes))
        assert [pod.name for pod in first_to_go(shuffled)] == expected


def test_none_at_all(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=3))
    patch(world.store, REPLICA_SET, "web", {"spec": {"replicas": 0}})
    world.run()

    assert world.pods() == []
    assert world.status(REPLICA_SET, "web").get("replicas", 0) == 0


def test_many_are_made_in_bursts(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=500))
    world.run(5.0)

    assert len(world.pods()) == 500
    assert world.status(REPLICA_SET, "web")["readyReplicas"] == 500


def test_of_many_pods_only_a_few_are_told_about(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=30))
    world.run(5.0)

    told = world.events("SuccessfulCreate")
    assert len(told) == 10
    assert {note.removeprefix("Created pod: ") for note in told} <= {*world.pod_names()}


def test_a_status_that_could_not_be_written_is_written_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, requests: Any, done: Any) -> None:
        done(0, [Unavailable("not now")] * len(requests))

    world.create(REPLICA_SET, workload(replicas=1))
    with monkeypatch.context() as patched:
        patched.setattr(Lagging, "call", refuse)
        patch(world.store, REPLICA_SET, "web", {"metadata": {"labels": {"a": "b"}}})
        ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        patch(world.store, POD, world.pod_names()[0], ready, "strategic", "status")
        world.run()
        assert world.status(REPLICA_SET, "web")["readyReplicas"] == 1
    patch(world.store, REPLICA_SET, "web", {"metadata": {"labels": {"a": "c"}}})
    world.run()

    assert "readyReplicas" not in world.status(REPLICA_SET, "web")


def test_an_orphan_that_matches_is_adopted(world: World) -> None:
    create_pod(world.store, "orphan", labels={"app": "web"})
    world.run()
    made = world.create(REPLICA_SET, workload(replicas=2))

    owner = get_pod(world.store, "orphan").metadata.controller()
    assert owner is not None
    assert owner.uid == made.uid
    assert len(world.pods()) == 2


def test_a_pod_whose_labels_change_is_let_go_and_replaced(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=1))
    (name,) = world.pod_names()
    patch(world.store, POD, name, {"metadata": {"labels": {"app": "other"}}})
    world.run()

    assert get_pod(world.store, name).metadata.controller() is None
    assert len(world.pods()) == 2


def test_its_pods_go_with_it(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=3))
    delete(world.store, REPLICA_SET, "web")
    world.run()

    assert world.pods() == []


def test_ready_is_not_yet_available(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=1, minReadySeconds=30))
    early = world.status(REPLICA_SET, "web")
    world.run(31.0)
    late = world.status(REPLICA_SET, "web")

    assert (early["readyReplicas"], early.get("availableReplicas", 0)) == (1, 0)
    assert late["availableReplicas"] == 1


def test_pods_that_are_refused_are_tried_again_and_told(world: World) -> None:
    body = workload(replicas=2)
    body["spec"]["template"]["spec"]["priorityClassName"] = "late"
    world.create(REPLICA_SET, body)
    assert world.pods() == []
    assert "no PriorityClass with name late was found" in world.events("FailedCreate")[0]

    create(world.store, PRIORITY_CLASS, {"metadata": {"name": "late"}, "value": 5})
    world.run(60.0)
    assert len(world.pods()) == 2


def test_its_own_writes_are_waited_for() -> None:
    """A controller that does not see its last pods yet must not make them again."""
    world = World(lag_s=3.0)
    world.create(REPLICA_SET, workload(replicas=3))
    world.run(30.0)
    patch(world.store, REPLICA_SET, "web", {"spec": {"replicas": 1}})
    world.run(30.0)

    assert [what for what, _ in world.seen] == ["ADDED"] * 3 + ["DELETED"] * 2


def test_nothing_is_written_when_nothing_changes(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=3))
    world.run(10.0)
    version = world.store.resource_version
    world.run(300.0)

    assert world.store.resource_version == version
