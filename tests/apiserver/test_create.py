"""Create: names, identity, namespaces, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from stowplan.objects.api import Bind, Create
from stowplan.objects.base import ObjectMeta
from stowplan.objects.kinds import JOB, NAMESPACE, NODE, POD, PRIORITY_CLASS
from stowplan.objects.pod import Pod, PodStatus, PVCVolumeSource, Volume
from stowplan.objects.workloads import Job, JobSpec
from tests.apiserver.things import (
    START,
    bind,
    create,
    create_pod,
    data,
    delete,
    exists,
    get_pod,
    make_pod,
    names,
    new_store,
    pod_data,
    pod_spec,
)


def test_a_cluster_begins_with_its_namespaces_and_priority_classes() -> None:
    store = new_store()

    assert names(store, NAMESPACE) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert names(store, PRIORITY_CLASS) == ["system-cluster-critical", "system-node-critical"]


def test_a_new_object_gets_uid_version_time_and_generation() -> None:
    store = new_store()
    before = int(store.resource_version)

    pod = create_pod(store)

    assert pod.metadata.uid
    assert int(pod.metadata.resource_version) == before + 1 == int(store.resource_version)
    assert pod.metadata.creation_timestamp == START
    assert pod.metadata.generation == 1
    assert (pod.api_version, pod.kind) == ("v1", "Pod")
    assert get_pod(store) == pod


def test_what_only_the_server_decides_is_not_taken_from_the_client() -> None:
    store = new_store()
    meta = ObjectMeta(name="p", uid="mine", generation=7, deletion_timestamp=START)

    pod = create(
        store,
        POD,
        Pod(metadata=meta, spec=pod_spec(), status=PodStatus(phase="Running")),
    )

    assert pod.metadata.uid != "mine"
    assert pod.metadata.generation == 1
    assert pod.metadata.deletion_timestamp is None
    assert pod.status == PodStatus(phase="Pending")


def test_json_data_keeps_the_fields_that_no_struct_has() -> None:
    store = new_store()
    body = pod_data(hostname="h", containers=[{"name": "c", "image": "app", "command": ["sleep"]}])
    body["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    body["status"] = {"phase": "Running", "podIP": "10.0.0.1"}

    create(store, POD, body)

    stored = data(store, POD, "p")
    assert stored["spec"]["hostname"] == "h"
    assert stored["spec"]["containers"][0]["command"] == ["sleep"]
    assert "managedFields" not in stored["metadata"]
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_structs_and_json_data_make_the_same_object() -> None:
    typed, untyped = new_store(), new_store()

    create(typed, POD, make_pod())
    create(untyped, POD, pod_data())

    assert data(typed, POD, "p") == data(untyped, POD, "p")


def test_a_node_may_be_created_with_its_status() -> None:
    store = new_store()

    create(store, NODE, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})

    assert data(store, NODE, "n")["status"]["allocatable"] == {"cpu": "4"}


def test_the_same_name_twice_already_exists() -> None:
    store = new_store()
    create_pod(store)

    with pytest.raises(AlreadyExists, match='pods "p" already exists'):
        create_pod(store)


def test_the_same_name_again_after_a_deletion_is_another_object() -> None:
    store = new_store()
    first = create_pod(store)
    delete(store, POD, "p")

    assert create_pod(store).uid != first.uid


def test_generated_names_differ() -> None:
    store = new_store()

    made = [
        create(store, POD, Pod(metadata=ObjectMeta(generate_name="web-"), spec=pod_spec())).name
        for _ in range(50)
    ]

    assert len(set(made)) == 50
    assert all(name.startswith("web-") and len(name) == 9 for name in made)


def test_a_long_base_of_a_generated_name_is_cut() -> None:
    store = new_store()

    pod = create(store, POD, Pod(metadata=ObjectMeta(generate_name="a" * 80), spec=pod_spec()))

    assert len(pod.name) == 63


def test_two_stores_with_one_seed_are_equal_and_with_two_are_not() -> None:
    first, second, third = new_store(seed=1), new_store(seed=1), new_store(seed=2)

    uids = [create_pod(store).uid for store in (first, second, third)]

    assert uids[0] == uids[1] != uids[2]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"metadata": {"name": "p", "namespace": "other"}},
            "the namespace of the provided object does not match",
            id="another-namespace",
        ),
        pytest.param({"kind": "Node", "metadata": {"name": "p"}}, "unrecognized", id="kind"),
        pytest.param({"apiVersion": "v2", "metadata": {"name": "p"}}, "unrecognized", id="version"),
        pytest.param({"metadata": []}, "cannot be handled as a Pod", id="metadata"),
        pytest.param({"metadata": {"name": 5}}, "cannot be handled as a Pod", id="name"),
        pytest.param({"metadata": {"name": "p"}, "spec": 5}, "cannot be handled", id="spec"),
        pytest.param(5, "the body must be an object, not int", id="number"),
        pytest.param(Job(), "the body must be an object, not Job", id="another-struct"),
    ],
)
def test_a_malformed_body_is_a_bad_request(body: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        create(new_store(), POD, body)


def test_a_namespace_that_is_missing_is_not_found() -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        create(new_store(), POD, make_pod(namespace="nowhere"), "nowhere")


def test_or_it_is_made_if_the_store_was_told_so() -> None:
    store = new_store(create_namespaces=True)

    create(store, POD, make_pod(namespace="nowhere"), "nowhere")

    assert "nowhere" in names(store, NAMESPACE)


def test_no_namespace_at_all_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        new_store().execute(Create(POD, "", make_pod(namespace="")))


def test_a_namespace_carries_its_name_as_a_label() -> None:
    store = new_store()

    made = create(store, NAMESPACE, {"metadata": {"name": "team", "labels": {"a": "b"}}})

    assert made.metadata.labels == {"a": "b", "kubernetes.io/metadata.name": "team"}


def test_nothing_new_in_a_namespace_that_is_being_deleted() -> None:
    store = new_store(create_namespaces=True)
    create(store, POD, make_pod(namespace="team"), "team")
    store.execute(Bind("team", "p", "", "n"))
    delete(store, NAMESPACE, "team")

    with pytest.raises(Forbidden, match="because it is being terminated"):
        create(store, POD, make_pod("q", namespace="team"), "team")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a" * 254, "a..b"])
def test_a_bad_name_is_invalid(name: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name"):
        create(new_store(), POD, make_pod(name))


@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "c d"}, {"/x": "y"}])
def test_bad_labels_are_invalid(labels: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=r"metadata\.labels"):
        create(new_store(), POD, make_pod(labels=labels))


def test_a_refused_create_leaves_no_trace() -> None:
    store = new_store()
    version = store.resource_version

    with pytest.raises(Invalid):
        create(store, POD, make_pod("A"))

    assert store.resource_version == version
    assert names(store, POD) == []


@pytest.mark.parametrize("typed", [True, False])
def test_a_job_selects_its_pods_by_its_uid(typed: bool) -> None:
    store = new_store()
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    body: Any = {"metadata": {"name": "j"}, "spec": {"template": template}}
    if typed:
        body = Job(metadata=ObjectMeta(name="j"), spec=JobSpec(template=template))

    job = create(store, JOB, body)

    key = "batch.kubernetes.io/controller-uid"
    assert job.spec.selector.match_labels == {key: job.uid}
    assert job.spec.template["metadata"]["labels"][key] == job.uid
    assert job.spec.template["metadata"]["labels"]["job-name"] == "j"
    assert (job.spec.parallelism, job.spec.completions) == (1, 1)


def test_pods_of_one_template_share_their_spec_in_memory() -> None:
    store = new_store()

    made = [create(store, POD, pod_data(f"p{n}")) for n in range(3)]

    assert made[0].spec is made[1].spec is made[2].spec
    bind(store, "p0")
    assert get_pod(store, "p0").spec.containers is made[1].spec.containers


def with_claim(name: str, claim: str, volume: str = "data") -> Pod:
    volumes = [Volume(name=volume, persistent_volume_claim=PVCVolumeSource(claim_name=claim))]
    return make_pod(name, volumes=volumes)


def test_pods_of_one_template_with_claims_of_their_own_share_the_rest() -> None:
    store = new_store()

    made = [create(store, POD, with_claim(f"p{n}", f"claim-{n}")) for n in range(3)]
    without = create_pod(store, "without")

    assert [pod.spec.volumes[0].persistent_volume_claim.claim_name for pod in made] == [
        "claim-0",
        "claim-1",
        "claim-2",
    ]
    assert made[0].spec.containers is made[2].spec.containers is without.spec.containers
    assert made[0].spec.tolerations is made[2].spec.tolerations
    assert without.spec.volumes is None
    fresh = create(new_store(), POD, with_claim("p2", "claim-2"))
    assert fresh.spec == made[2].spec, "the same as if it had come first"


def test_volumes_are_checked_though_the_rest_is_known() -> None:
    store = new_store()
    create(store, POD, with_claim("good", "claim"))

    with pytest.raises(Invalid, match=r"spec\.volumes\[0\]\.name: Invalid value: \"Bad_Name\""):
        create(store, POD, with_claim("bad", "claim", volume="Bad_Name"))

    assert not exists(store, POD, "bad")
