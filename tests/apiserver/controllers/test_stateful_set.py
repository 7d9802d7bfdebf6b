"""StatefulSets: names and claims that stay, one pod after the other."""

from __future__ import annotations

from stowplan.apiserver.controllers.volumes import DEFAULT_CLASS
from stowplan.objects.kinds import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    STORAGE_CLASS,
)
from tests.apiserver.controllers.world import World, workload
from tests.apiserver.things import data, delete, get_pod, names, patch


def stateful(replicas: int = 3, **spec: object) -> dict[str, object]:
    return workload("db", replicas, serviceName="db", **spec)


def test_pods_come_one_after_the_other(world: World) -> None:
    world.create(STATEFUL_SET, stateful(minReadySeconds=5))
    world.run(3.0)
    assert world.pod_names() == ["db-0"]
    world.run(5.0)
    assert world.pod_names() == ["db-0", "db-1"]
    world.run(20.0)

    assert world.pod_names() == ["db-0", "db-1", "db-2"]
    status = world.status(STATEFUL_SET, "db")
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)


def test_or_all_together(world: World) -> None:
    body = stateful(minReadySeconds=60, podManagementPolicy="Parallel")
    world.create(STATEFUL_SET, body)

    assert world.pod_names() == ["db-0", "db-1", "db-2"]


def test_what_a_pod_knows_about_itself(world: World) -> None:
    world.create(STATEFUL_SET, stateful(1))
    (pod,) = world.pods()

    assert pod["spec"]["hostname"] == "db-0"
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


def test_a_pod_that_goes_comes_back_under_its_name(world: World) -> None:
    world.create(STATEFUL_SET, stateful())
    before = get_pod(world.store, "db-1").uid
    delete(world.store, POD, "db-1")
    world.run(5.0)

    assert world.pod_names() == ["db-0", "db-1", "db-2"]
    assert get_pod(world.store, "db-1").uid != before


def test_the_last_goes_first(world: World) -> None:
    world.create(STATEFUL_SET, stateful())
    world.seen.clear()
    patch(world.store, STATEFUL_SET, "db", {"spec": {"replicas": 1}})
    world.run(5.0)

    assert world.seen == [("DELETED", "db-2"), ("DELETED", "db-1")]


def test_claims_are_made_and_outlive_their_pods(world: World) -> None:
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    world.create(STATEFUL_SET, stateful(2, volumeClaimTemplates=[template]))
    world.run(2.0)
    claims = names(world.store, PERSISTENT_VOLUME_CLAIM)
    volumes = {pod["metadata"]["name"]: pod["spec"]["volumes"] for pod in world.pods()}
    assert claims == ["data-db-0", "data-db-1"]
    assert volumes["db-1"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    ]

    patch(world.store, STATEFUL_SET, "db", {"spec": {"replicas": 0}})
    world.run(5.0)
    assert world.pods() == []
    assert names(world.store, PERSISTENT_VOLUME_CLAIM) == claims


def test_a_new_template_replaces_from_the_last_to_the_first(world: World) -> None:
    world.create(STATEFUL_SET, stateful())
    world.seen.clear()
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "app:2"}]}}}}
    patch(world.store, STATEFUL_SET, "db", image)
    world.run(10.0)

    assert world.seen == [(what, f"db-{n}") for n in (2, 1, 0) for what in ("DELETED", "ADDED")]
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"app:2"}


def test_below_the_partition_pods_stay(world: World) -> None:
    strategy = {"rollingUpdate": {"partition": 2}}
    world.create(STATEFUL_SET, stateful(updateStrategy=strategy))
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "app:2"}]}}}}
    patch(world.store, STATEFUL_SET, "db", image)
    world.run(10.0)

    found = [pod["spec"]["containers"][0]["image"] for pod in world.pods()]
    assert found == ["app:1", "app:1", "app:2"]


def test_numbers_may_start_elsewhere(world: World) -> None:
    world.create(STATEFUL_SET, stateful(2, ordinals={"start": 5}))
    world.run(2.0)

    assert world.pod_names() == ["db-5", "db-6"]


def test_claims_of_the_simulated_class_get_volumes_that_go_with_them(world: World) -> None:
    world.create(STORAGE_CLASS, DEFAULT_CLASS)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]
    world.create(STATEFUL_SET, stateful(1, volumeClaimTemplates=templates))
    world.run(5.0)

    bound = data(world.store, PERSISTENT_VOLUME_CLAIM, "data-db-0")
    volume = bound["spec"]["volumeName"]
    assert bound["status"]["phase"] == "Bound"
    assert bound["spec"]["storageClassName"] == "standard"
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert names(world.store, PERSISTENT_VOLUME) == [volume]

    delete(world.store, PERSISTENT_VOLUME_CLAIM, "data-db-0")
    world.run(5.0)
    assert names(world.store, PERSISTENT_VOLUME) == []
