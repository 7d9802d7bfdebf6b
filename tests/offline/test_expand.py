"""Workloads become the pods that their controllers would make."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.objects.labels import compile_selector
from stowplan.objects.manifests import decode
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import ReplicaSet
from stowplan.offline.controllers import with_missing
from stowplan.offline.input_objects import decode_all, stable_uid

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "1"}},
    "spec": {"containers": [{"name": "c", "image": "web:1"}], "dnsPolicy": "None"},
}


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "the-uid"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": copy.deepcopy(TEMPLATE),
            **spec,
        },
    }


def node(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"disk": "ssd"} if name.endswith("ssd") else {}
    data = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return {"apiVersion": "v1", "kind": "Node", **data}


def expand_workload(
    data: dict[str, Any], nodes: Iterable[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """What is made of it."""
    given = decode_all(("f.yaml", each) for each in [*nodes, data])
    return [entry.data for entry in with_missing(given) if entry.made_by]


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [data["metadata"]["name"] for data in objects]


def owner(data: dict[str, Any]) -> tuple[str, str, str, bool]:
    (reference,) = data["metadata"]["ownerReferences"]
    return reference["kind"], reference["name"], reference["uid"], reference["controller"]


def test_a_deployment_makes_a_replica_set_and_its_pods() -> None:
    replica_set, *pods = expand_workload(workload("Deployment", replicas=3))

    assert replica_set["kind"] == "ReplicaSet"
    assert owner(replica_set) == ("Deployment", "web", "the-uid", True)
    assert len(pods) == 3
    for pod in pods:
        assert pod["metadata"]["name"].startswith(f"{replica_set['metadata']['name']}-")
        assert pod["metadata"]["namespace"] == "shop"
        assert owner(pod)[:3] == (
            "ReplicaSet",
            replica_set["metadata"]["name"],
            stable_uid("ReplicaSet", "shop", replica_set["metadata"]["name"]),
        )
        assert pod["spec"] == TEMPLATE["spec"]
        assert pod["metadata"]["annotations"] == {"note": "1"}


def test_the_replica_sets_selector_is_read_by_spreading() -> None:
    made, pod_data = expand_workload(workload("Deployment"))

    replica_set, pod = decode(made, ""), decode(pod_data, "")

    assert isinstance(replica_set, ReplicaSet)
    assert isinstance(pod, Pod)
    assert pod.metadata.labels is not None
    assert set(pod.metadata.labels) == {"app", "pod-template-hash"}
    assert compile_selector(replica_set.spec.selector).matches(pod.metadata.labels)


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [("ReplicaSet", "apps/v1"), ("ReplicationController", "v1")],
)
def test_replicas(kind: str, api_version: str) -> None:
    data = workload(kind, api_version, replicas=2)
    if kind == "ReplicationController":
        data["spec"]["selector"] = {"app": "web"}

    pods = expand_workload(data)

    assert [owner(pod) for pod in pods] == [(kind, "web", "the-uid", True)] * 2
    assert all(pod["metadata"]["generateName"] == "web-" for pod in pods)


@pytest.mark.parametrize(("replicas", "count"), [(None, 1), (0, 0), (7, 7)])
def test_number_of_pods(replicas: int | None, count: int) -> None:
    assert len(expand_workload(workload("ReplicaSet", replicas=replicas))) == count


def test_names_are_unique_and_the_same_every_time() -> None:
    many = workload("ReplicaSet", replicas=5_000)

    first, second = names(expand_workload(many)), names(expand_workload(many))

    assert first == second
    assert len(set(first)) == 5_000
    assert all(len(name) == len("web-") + 5 for name in first)


def test_another_template_is_another_replica_set() -> None:
    one, *_ = expand_workload(workload("Deployment"))
    changed = workload("Deployment")
    changed["spec"]["template"]["spec"]["dnsPolicy"] = "Default"

    other, *_ = expand_workload(changed)

    assert one["metadata"]["name"] != other["metadata"]["name"]


def test_a_stateful_set_makes_ordinals_and_claims() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]},
    }
    data = workload("StatefulSet", replicas=2, ordinals={"start": 3}, volumeClaimTemplates=[claim])
    data["spec"]["template"]["spec"]["volumes"] = [{"name": "data"}, {"name": "tmp"}]

    made = expand_workload(data)

    assert [data["kind"] for data in made] == ["PersistentVolumeClaim", "Pod"] * 2
    assert names(made) == ["data-web-3", "web-3", "data-web-4", "web-4"]
    assert made[1]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "3"
    assert made[1]["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-3"}},
        {"name": "tmp"},
    ]
    assert all(decode(each, "") is not None for each in made)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 2}, 2),
        ({"parallelism": 2, "completions": 9}, 2),
        ({"parallelism": 4, "suspend": True}, 0),
    ],
)
def test_a_job_makes_as_many_pods_as_run_at_once(spec: dict[str, Any], count: int) -> None:
    pods = expand_workload(workload("Job", "batch/v1", **spec))

    assert len(set(names(pods))) == count
    for pod in pods:
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "web"


def test_an_indexed_job_numbers_its_pods() -> None:
    pods = expand_workload(
        workload("Job", "batch/v1", parallelism=2, completions=2, completionMode="Indexed")
    )

    key = "batch.kubernetes.io/job-completion-index"
    assert [pod["metadata"]["annotations"][key] for pod in pods] == ["0", "1"]
    assert names(pods)[1].startswith("web-1-")


def test_a_job_that_has_ended_makes_none() -> None:
    job = workload("Job", "batch/v1")
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    assert expand_workload(job) == []


def test_a_daemon_set_runs_where_it_may() -> None:
    nodes = [
        node("a-ssd"),
        node("b"),
        node("c-ssd", taints=[{"key": "team", "effect": "NoSchedule"}]),
        node("d-ssd", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
        node("e-ssd", unschedulable=True),
        node("f-ssd", taints=[{"key": "x", "effect": "PreferNoSchedule"}]),
    ]
    data = workload("DaemonSet")
    data["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}

    pods = expand_workload(data, nodes)

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pinned = [
        pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] for pod in pods
    ]
    assert pinned == [
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
        for name in ("a-ssd", "d-ssd", "e-ssd", "f-ssd")
    ]
    assert all(decode(pod, "") is not None for pod in pods)


@pytest.mark.parametrize(("host_network", "count"), [(False, 6), (True, 7)])
def test_daemons_tolerate_nodes_in_trouble(host_network: bool, count: int) -> None:
    data = workload("DaemonSet")
    spec = data["spec"]["template"]["spec"]
    spec["hostNetwork"] = host_network
    own = {"key": "team", "operator": "Exists"}
    twice = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec["tolerations"] = [own, {**twice, "tolerationSeconds": 5}]

    (pod,) = expand_workload(data, [node("a")])

    assert pod["spec"]["tolerations"][0] == own
    assert pod["spec"]["tolerations"].count(twice) == 1
    assert len(pod["spec"]["tolerations"]) == 1 + count


def test_a_daemon_keeps_its_preferences_but_not_its_required_terms() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    data = workload("DaemonSet")
    data["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {preferred: [], required: {"nodeSelectorTerms": [term]}},
        "podAffinity": {},
    }

    (pod,) = expand_workload(data, [node("a"), node("b-ssd")])

    affinity = pod["spec"]["affinity"]
    assert affinity["podAffinity"] == {}
    assert affinity["nodeAffinity"][preferred] == []
    (only,) = affinity["nodeAffinity"][required]["nodeSelectorTerms"]
    assert list(only) == ["matchFields"]


def test_a_whole_cluster_is_expanded_in_place() -> None:
    cluster = [("a", workload("DaemonSet")), ("b", workload("Deployment")), ("c", node("n"))]

    expanded = with_missing(decode_all(cluster))

    assert [(entry.where, entry.data["kind"]) for entry in expanded] == [
        ("a", "DaemonSet"),
        ("a", "Pod"),
        ("b", "Deployment"),
        ("b", "ReplicaSet"),
        ("b", "Pod"),
        ("c", "Node"),
    ]


def test_what_is_there_already_is_not_made_again() -> None:
    deployment = workload("Deployment", replicas=3)
    dump = [("f", deployment), *(("f", made) for made in expand_workload(deployment))]

    assert [entry.data for entry in with_missing(decode_all(dump))] == [data for _, data in dump]


def test_without_a_uid_the_owner_is_still_found() -> None:
    data = workload("ReplicaSet")
    del data["metadata"]["uid"]

    (pod,) = expand_workload(data)

    assert owner(pod)[2] == stable_uid("ReplicaSet", "shop", "web")


@pytest.mark.parametrize(
    ("data", "where", "problem"),
    [
        (workload("Deployment", replicas=-1), "spec.replicas", "-1 must be from 0"),
        (workload("Deployment", replicas=10**9), "spec.replicas", "must be from 0 to 1000000"),
        (workload("Deployment", replicas="3"), "spec.replicas", "expected `int | null`"),
        (workload("Job", "batch/v1", suspend="no"), "spec.suspend", "expected `bool | null`"),
        (
            workload(
                "StatefulSet",
                volumeClaimTemplates=[{"spec": {"resources": {"requests": {"storage": "x"}}}}],
            ),
            "spec.volumeClaimTemplates[0].spec.resources.requests.storage",
            "'x' is not a quantity",
        ),
        (workload("Deployment", template=None), "spec.template", "there is no pod template"),
        (workload("Deployment", template=[]), "spec.template", "expected `object | null`"),
        (
            workload("Deployment", template={"spec": {"tolerations": [{"operator": "x"}]}}),
            "spec.template.spec.tolerations[0].operator",
            "'x' is not one of",
        ),
        (
            workload("Deployment", template={"spec": {"containers": 5}}),
            "spec.template.spec.containers",
            "expected `array | null`",
        ),
        (workload("StatefulSet", ordinals={"start": "x"}), "spec.ordinals.start", "expected `int`"),
        (
            workload("StatefulSet", volumeClaimTemplates=[{}]),
            "spec.volumeClaimTemplates[0].metadata.name",
            "the claim has no name",
        ),
        (
            workload("StatefulSet", volumeClaimTemplates={"a": 1}),
            "spec.volumeClaimTemplates",
            "expected `array | null`",
        ),
    ],
)
def test_refused(data: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        expand_workload(data)

    assert caught.value.where == f"f.yaml: {data['kind']} shop/web: {where}"
    assert problem in caught.value.problem


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["metadata", "labels", "spec", "volumes", "affinity", "name"]), inner
        )
    ),
    max_leaves=6,
)


@given(
    st.sampled_from(["Deployment", "StatefulSet", "DaemonSet"]),
    st.dictionaries(
        st.sampled_from(["template", "replicas", "ordinals", "volumeClaimTemplates", "selector"]),
        json_values,
    ),
)
def test_anything_is_expanded_or_an_input_error(kind: str, spec: dict[str, Any]) -> None:
    data = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}

    with suppress(InputError):
        for made in expand_workload(data, [node("n")]):
            decode(made, "")
