"""Deployments: from one version of the template to the next, never with too few pods."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.controllers.readiness import is_available
from stowplan.objects.kinds import DEPLOYMENT, POD, REPLICA_SET
from stowplan.objects.pod import Pod
from tests.apiserver.controllers.world import World, workload
from tests.apiserver.things import delete, names, patch, select


def new_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def images(world: World) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in world.pods()]


def sizes(world: World) -> list[int]:
    sets = [world.get(REPLICA_SET, name) for name in names(world.store, REPLICA_SET)]
    by_age = sorted(sets, key=lambda one: int(one["metadata"]["annotations"][REVISION]))
    return [one["spec"]["replicas"] for one in by_age]


REVISION = "deployment.kubernetes.io/revision"


def test_it_makes_a_replica_set_that_makes_the_pods(world: World) -> None:
    made = world.create(DEPLOYMENT, workload(replicas=3))

    (name,) = names(world.store, REPLICA_SET)
    one = world.get(REPLICA_SET, name)
    digest = one["metadata"]["labels"]["pod-template-hash"]
    assert name == f"web-{digest}"
    assert one["metadata"]["ownerReferences"][0]["uid"] == made.uid
    assert one["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert all(pod["metadata"]["name"].startswith(f"{name}-") for pod in world.pods())
    status = world.status(DEPLOYMENT, "web")
    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (3, 3, 3)
    conditions = {one["type"]: one["reason"] for one in status["conditions"]}
    assert conditions == {
        "Available": "MinimumReplicasAvailable",
        "Progressing": "NewReplicaSetAvailable",
    }


def test_scaling_makes_no_new_version(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=3))
    patch(world.store, DEPLOYMENT, "web", {"spec": {"replicas": 5}})
    world.run()

    assert sizes(world) == [5]
    assert len(world.pods()) == 5


def test_a_new_template_replaces_all_pods(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=4))
    patch(world.store, DEPLOYMENT, "web", new_image("app:2"))
    world.run(5.0)

    assert images(world) == ["app:2"] * 4
    assert sizes(world) == [0, 4]
    assert world.get(DEPLOYMENT, "web")["metadata"]["annotations"][REVISION] == "2"


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [("25%", "25%", 5, 3), (1, 0, 5, 4), (0, 1, 4, 3), ("100%", "50%", 8, 2)],
)
def test_on_the_way_there_are_never_too_many_or_too_few(
    world: World, surge: int | str, unavailable: int | str, most: int, least: int
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    world.create(DEPLOYMENT, workload(replicas=4, strategy=strategy, minReadySeconds=5))
    world.run(10.0)
    seen: list[tuple[int, int]] = []

    def count() -> None:
        pods = [pod for pod in select(world.store, POD) if isinstance(pod, Pod)]
        alive = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        now_s = world.clock.now()
        available = sum(is_available(pod, 5, now_s) for pod in alive)
        seen.append((len(alive), available))

    patch(world.store, DEPLOYMENT, "web", new_image("app:2"))
    for _ in range(120):
        world.run(0.5)
        count()

    assert images(world) == ["app:2"] * 4
    assert max(alive for alive, _ in seen) <= most
    assert min(available for _, available in seen) >= least


def test_a_version_that_never_gets_ready_stops_the_way(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=4, progressDeadlineSeconds=60))
    world.nodes[:] = ["no-such-node"]
    patch(world.store, DEPLOYMENT, "web", new_image("app:broken"))
    world.run(30.0)
    assert images(world).count("app:1") == 3
    conditions = {one["type"]: one for one in world.status(DEPLOYMENT, "web")["conditions"]}
    assert conditions["Available"]["status"] == "True"


def test_no_progress_is_told_after_a_while() -> None:
    world = World(binds=False)
    world.create(DEPLOYMENT, workload(replicas=2, progressDeadlineSeconds=60))
    world.run(30.0)
    early = {one["type"]: one for one in world.status(DEPLOYMENT, "web")["conditions"]}
    world.run(40.0)
    late = {one["type"]: one for one in world.status(DEPLOYMENT, "web")["conditions"]}

    assert early["Progressing"]["status"] == "True"
    assert late["Progressing"]["status"] == "False"
    assert late["Progressing"]["reason"] == "ProgressDeadlineExceeded"
    assert late["Available"]["status"] == "False"


def test_back_to_an_earlier_template_its_replica_set_is_used_again(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=2))
    (first,) = names(world.store, REPLICA_SET)
    patch(world.store, DEPLOYMENT, "web", new_image("app:2"))
    world.run(5.0)
    patch(world.store, DEPLOYMENT, "web", new_image("app:1"))
    world.run(5.0)

    assert len(names(world.store, REPLICA_SET)) == 2
    found = world.get(REPLICA_SET, first)
    assert found["spec"]["replicas"] == 2
    assert found["metadata"]["annotations"][REVISION] == "3"
    assert images(world) == ["app:1"] * 2


def test_all_at_once(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=3, strategy={"type": "Recreate"}))
    world.seen.clear()
    patch(world.store, DEPLOYMENT, "web", new_image("app:2"))
    world.run(5.0)

    assert images(world) == ["app:2"] * 3
    assert [what for what, _ in world.seen] == ["DELETED"] * 3 + ["ADDED"] * 3


def test_while_paused_it_is_scaled_all_the_same(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=3))
    patch(world.store, DEPLOYMENT, "web", {"spec": {"paused": True, "replicas": 5}})
    world.run()

    assert sizes(world) == [5]
    assert len(world.pods()) == 5


def test_while_paused_nothing_moves(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=2))
    patch(world.store, DEPLOYMENT, "web", {"spec": {"paused": True}})
    patch(world.store, DEPLOYMENT, "web", new_image("app:2"))
    world.run(30.0)
    assert images(world) == ["app:1"] * 2

    patch(world.store, DEPLOYMENT, "web", {"spec": {"paused": False}})
    world.run(5.0)
    assert images(world) == ["app:2"] * 2


def test_only_so_many_old_ones_are_kept(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=1, revisionHistoryLimit=2))
    for number in range(2, 7):
        patch(world.store, DEPLOYMENT, "web", new_image(f"app:{number}"))
        world.run(5.0)

    assert sizes(world) == [0, 0, 1]


def test_everything_goes_with_it(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=3))
    delete(world.store, DEPLOYMENT, "web")
    world.run()

    assert names(world.store, REPLICA_SET) == []
    assert world.pods() == []
