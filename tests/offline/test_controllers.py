"""Workloads stand for the pods they lack, and only for those."""

from __future__ import annotations

import pytest

from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.objects.workloads import ReplicaSet
from tests.offline.data import Data, cluster, node, pod, pod_spec, pods_of, workload

REVISION = "deployment.kubernetes.io/revision"


def replica_set(name: str, deployment: str, replicas: int, revision: int = 1) -> Data:
    owner = {"kind": "Deployment", "name": deployment, "controller": True}
    metadata = {"ownerReferences": [owner], "annotations": {REVISION: str(revision)}}
    return workload("ReplicaSet", name, metadata=metadata, replicas=replicas)


def made(*objects: Data) -> list[Pod]:
    """The pods that were not given."""
    given = {data["metadata"]["name"] for data in objects if data["kind"] == "Pod"}
    return [found for found in pods_of(*objects) if found.name not in given]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param(workload("Deployment", "web", replicas=3), 3, id="deployment"),
        pytest.param(workload("ReplicaSet", "web"), 1, id="one-is-the-default"),
        pytest.param(workload("ReplicationController", "web", replicas=2), 2, id="controller"),
        pytest.param(workload("StatefulSet", "db", replicas=2), 2, id="stateful-set"),
        pytest.param(workload("DaemonSet", "agent"), 2, id="daemon-set-on-every-node"),
        pytest.param(workload("Job", "run", parallelism=2, completions=9), 2, id="job"),
        pytest.param(workload("Deployment", "web", replicas=0), 0, id="none"),
        pytest.param(workload("Job", "run", suspend=True), 0, id="suspended"),
    ],
)
def test_a_manifest_is_expanded(data: Data, count: int) -> None:
    assert len(made(node("a"), node("b"), data)) == count


def test_a_dump_of_everything_is_left_as_it_is() -> None:
    pods = [pod(f"web-1-{n}", owner=("ReplicaSet", "web-1")) for n in range(3)]

    assert (
        made(workload("Deployment", "web", replicas=3), replica_set("web-1", "web", 3), *pods) == []
    )


def test_a_replica_set_is_expanded_to_what_it_lacks() -> None:
    pods = [pod(f"web-1-{n}", owner=("ReplicaSet", "web-1")) for n in range(2)]

    found = made(replica_set("web-1", "web", 5), *pods)

    assert len(found) == 3
    assert all(one.metadata.controller().name == "web-1" for one in found)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"phase": "Failed"}, id="failed"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="being-deleted"
        ),
    ],
)
def test_a_pod_that_ended_is_replaced(gone: Data) -> None:
    old = pod("web-1-a", owner=("ReplicaSet", "web-1"))
    if "phase" in gone:
        old["status"] = gone
    old["metadata"].update(gone.get("metadata", {}))

    assert len(made(replica_set("web-1", "web", 1), old)) == 1


def test_a_deployment_that_grew_lets_its_newest_replica_set_grow() -> None:
    pods = [pod(f"web-2-{n}", owner=("ReplicaSet", "web-2")) for n in range(2)]

    found = made(
        replica_set("web-2", "web", 2, revision=12),
        workload("Deployment", "web", replicas=5),
        replica_set("web-1", "web", 0, revision=9),
        *pods,
    )

    assert [one.metadata.controller().name for one in found] == ["web-2"] * 3


def test_pods_of_a_replica_set_that_the_dump_lacks_are_counted() -> None:
    labels = {"app": "web", "pod-template-hash": "77"}
    pods = [
        pod(f"web-77-{n}", owner=("ReplicaSet", "web-77"), metadata={"labels": labels})
        for n in range(2)
    ]

    assert len(made(workload("Deployment", "web", replicas=2), *pods)) == 0
    assert len(made(workload("Deployment", "web", replicas=3), *pods)) == 1


def test_a_workload_of_another_namespace_owns_nothing_here() -> None:
    other = pod("web-1-a", owner=("ReplicaSet", "web-1"), metadata={"namespace": "elsewhere"})

    assert len(made(replica_set("web-1", "web", 1), other)) == 1


def test_a_workload_that_is_being_deleted_makes_nothing() -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert made(workload("ReplicaSet", "web", metadata=metadata)) == []


def test_a_daemon_is_made_for_nodes_that_have_none() -> None:
    running = pod("agent-a", owner=("DaemonSet", "agent"), nodeName="a")
    on_its_way = made(node("b"), workload("DaemonSet", "agent"))[0]

    found = made(node("a"), node("b"), workload("DaemonSet", "agent"), running)

    assert len(found) == 1
    assert found[0].spec.affinity == on_its_way.spec.affinity


def test_a_stateful_set_is_made_whole_with_its_claims() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    data = workload("StatefulSet", "db", replicas=3, volumeClaimTemplates=claims)
    kept = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-1"},
        "spec": {"volumeName": "pv-1"},
    }

    objects = cluster(data, pod("db-0", owner=("StatefulSet", "db")), kept)

    found = [obj for obj in objects if isinstance(obj, PersistentVolumeClaim)]
    assert sorted(obj.name for obj in objects if isinstance(obj, Pod)) == ["db-0", "db-1", "db-2"]
    assert {claim.name: claim.spec.volume_name for claim in found} == {
        "data-db-1": "pv-1",
        "data-db-2": "",
    }


@pytest.mark.parametrize(
    ("spec", "phases", "count"),
    [
        pytest.param({"parallelism": 3}, ["Running"], 2, id="running-ones-count"),
        pytest.param({"parallelism": 3, "completions": 4}, ["Succeeded"] * 2, 2, id="nearly-done"),
        pytest.param({"parallelism": 3, "completions": 2}, ["Succeeded"] * 2, 0, id="done"),
        pytest.param({"parallelism": 3}, ["Succeeded"], 0, id="work-queue-is-empty"),
        pytest.param({"parallelism": 1, "completions": 1}, ["Failed"], 1, id="tried-again"),
        pytest.param({}, ["Succeeded"], 0, id="one-is-the-default"),
    ],
)
def test_a_job_is_expanded_to_what_it_lacks(spec: Data, phases: list[str], count: int) -> None:
    pods = [pod(f"p{n}", owner=("Job", "run"), phase=phase) for n, phase in enumerate(phases)]

    assert len(made(workload("Job", "run", **spec), *pods)) == count


def test_an_indexed_job_goes_on_with_the_next_index() -> None:
    key = "batch.kubernetes.io/job-completion-index"
    done = [
        pod(
            f"p{n}",
            owner=("Job", "run"),
            phase="Succeeded",
            metadata={"annotations": {key: str(n)}},
        )
        for n in range(2)
    ]
    data = workload("Job", "run", parallelism=1, completions=5, completionMode="Indexed")

    assert [one.metadata.annotations[key] for one in made(data, *done)] == ["2"]


def test_an_ephemeral_volume_gets_its_claim() -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

    objects = cluster(
        pod("a", volumes=[volume]), workload("ReplicaSet", "b", template=pod_spec(volumes=[volume]))
    )

    claims = {obj.name: obj for obj in objects if isinstance(obj, PersistentVolumeClaim)}
    owners = {obj.name: obj for obj in objects if isinstance(obj, Pod)}
    assert set(claims) == {f"{name}-scratch" for name in owners}
    assert all(
        claims[f"{name}-scratch"].metadata.controller().uid == owner.uid
        for name, owner in owners.items()
    )


def test_a_deployment_brings_its_replica_set() -> None:
    """Default spreading looks at the selector of a pod's ReplicaSet."""
    objects = cluster(workload("Deployment", "web", replicas=2))

    (owner,) = (obj for obj in objects if isinstance(obj, ReplicaSet))
    assert all(
        one.metadata.controller().uid == owner.uid for one in objects if isinstance(one, Pod)
    )


def test_pods_are_made_now_however_old_their_workload_is() -> None:
    metadata = {"creationTimestamp": "2020-01-01T00:00:00Z"}

    (found,) = made(workload("ReplicaSet", "web", metadata=metadata))

    assert found.metadata.creation_timestamp is None
