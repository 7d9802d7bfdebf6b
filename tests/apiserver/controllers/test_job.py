"""Jobs: run until enough pods have succeeded."""

from __future__ import annotations

from stowplan.objects.kinds import JOB, POD
from tests.apiserver.controllers.world import World, job
from tests.apiserver.things import delete, patch


def conditions(world: World) -> dict[str, str]:
    found = world.status(JOB, "job").get("conditions", [])
    return {one["type"]: one["reason"] for one in found if one["status"] == "True"}


def test_one_pod_runs_to_its_end(world: World) -> None:
    world.create(JOB, job())
    world.run(5.0)

    (pod,) = world.pods()
    status = world.status(JOB, "job")
    assert pod["status"]["phase"] == "Succeeded"
    assert conditions(world) == {"Complete": "CompletionsReached"}
    assert status["succeeded"] == 1
    assert "active" not in status
    assert status["completionTime"] >= status["startTime"]
    assert world.events("Completed") == ["Job completed"]


def test_so_many_at_a_time(world: World) -> None:
    world.create(JOB, job(completions=5, parallelism=2, annotations={"stowplan/run-seconds": "10"}))
    assert len(world.pods()) == 2
    world.run(11.0)
    assert len(world.pods()) == 4
    world.run(30.0)

    assert len(world.pods()) == 5
    assert world.status(JOB, "job")["succeeded"] == 5
    assert "Complete" in conditions(world)


def test_failures_are_tried_again_after_longer_and_longer_waits(world: World) -> None:
    world.create(JOB, job(backoffLimit=2, annotations={"stowplan/exit-code": "1"}))
    world.run(5.0)
    assert len(world.pods()) == 1
    world.run(10.0)
    assert len(world.pods()) == 2
    world.run(10.0)
    assert len(world.pods()) == 2
    world.run(60.0)

    assert len(world.pods()) == 3
    assert conditions(world) == {"Failed": "BackoffLimitExceeded"}
    assert world.status(JOB, "job")["failed"] == 3


def test_a_deadline(world: World) -> None:
    annotations = {"stowplan/run-seconds": "1000"}
    world.create(JOB, job(activeDeadlineSeconds=60, annotations=annotations))
    world.run(58.0)
    assert conditions(world) == {}
    world.run(5.0)

    assert conditions(world) == {"Failed": "DeadlineExceeded"}
    assert world.pods() == []


def test_every_index_once(world: World) -> None:
    world.create(JOB, job(completions=3, parallelism=3, completionMode="Indexed"))
    world.run(5.0)

    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["annotations"][key] for pod in world.pods()) == ["0", "1", "2"]
    assert "Complete" in conditions(world)


def test_suspended_it_has_no_pods(world: World) -> None:
    world.create(JOB, job(suspend=True))
    world.run(5.0)
    assert world.pods() == []
    assert conditions(world) == {"Suspended": "JobSuspended"}

    patch(world.store, JOB, "job", {"spec": {"suspend": False}})
    world.run(5.0)
    assert conditions(world) == {"Complete": "CompletionsReached"}


def test_its_pods_go_with_it(world: World) -> None:
    world.create(JOB, job())
    world.run(5.0)
    delete(world.store, JOB, "job")
    world.run()

    assert world.pods() == []


LONG = {"stowplan/run-seconds": "1000"}


def test_without_a_number_one_that_succeeds_is_enough_once_all_have_ended(world: World) -> None:
    """A queue of work: `completions` is not set, and pods end when there is no more to do."""
    world.create(JOB, job(parallelism=3, completions=None, annotations=LONG))
    first, *others = world.pod_names()
    assert len(others) == 2
    ended = {"status": {"phase": "Succeeded"}}
    patch(world.store, POD, first, ended, "merge", "status")
    world.run(5.0)
    assert conditions(world) == {}
    assert world.status(JOB, "job")["active"] == 2
    assert len(world.pods()) == 3

    for name in others:
        patch(world.store, POD, name, ended, "merge", "status")
    world.run(5.0)
    assert conditions(world) == {"Complete": "CompletionsReached"}
    assert world.status(JOB, "job")["succeeded"] == 3


def test_with_less_parallelism_some_pods_go(world: World) -> None:
    world.create(JOB, job(completions=5, parallelism=4, annotations=LONG))
    assert world.status(JOB, "job")["active"] == 4

    patch(world.store, JOB, "job", {"spec": {"parallelism": 1}})
    world.run(5.0)
    assert len(world.pods()) == 1
    assert (world.status(JOB, "job")["active"], world.status(JOB, "job")["ready"]) == (1, 1)
    assert conditions(world) == {}


def test_failures_up_to_the_limit_are_forgiven_and_one_more_is_not(world: World) -> None:
    world.create(JOB, job(backoffLimit=0, annotations={"stowplan/exit-code": "1"}))
    world.run(5.0)

    assert conditions(world) == {"Failed": "BackoffLimitExceeded"}
    status = world.status(JOB, "job")
    assert status["failed"] == 1
    assert "completionTime" not in status
    assert world.events("BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]


def test_suspension_and_its_end_are_both_told(world: World) -> None:
    world.create(JOB, job(suspend=True, activeDeadlineSeconds=3, annotations=LONG))
    world.run(10.0)
    assert conditions(world) == {"Suspended": "JobSuspended"}
    suspended_at = world.status(JOB, "job")["conditions"][0]["lastTransitionTime"]

    patch(world.store, JOB, "job", {"spec": {"suspend": False, "activeDeadlineSeconds": 600}})
    world.run(5.0)
    [told] = world.status(JOB, "job")["conditions"]
    assert (told["status"], told["reason"]) == ("False", "JobResumed")
    assert told["lastTransitionTime"] > suspended_at
    assert len(world.pods()) == 1

    patch(world.store, JOB, "job", {"spec": {"suspend": True}})
    world.run(5.0)
    assert world.pods() == []
    assert "active" not in world.status(JOB, "job")


def test_one_that_is_being_deleted_makes_no_more_pods(world: World) -> None:
    world.create(JOB, job(completions=2, parallelism=2, annotations=LONG))
    patch(world.store, JOB, "job", {"metadata": {"finalizers": ["example.com/stay"]}}, "merge")
    delete(world.store, JOB, "job")
    for name in world.pod_names():
        delete(world.store, POD, name)
    world.run(60.0)

    assert world.pods() == []
    assert world.get(JOB, "job")["metadata"]["deletionTimestamp"]
