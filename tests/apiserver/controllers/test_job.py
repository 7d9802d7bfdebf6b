"""Jobs: run until enough pods have succeeded."""

from __future__ import annotations

from stowplan.objects.kinds import JOB
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
