"""Manifests are completed as an API server would; objects of a dump stay as they are."""

from __future__ import annotations

import pytest

from stowplan.errors import InputError
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.objects.workloads import Namespace
from tests.offline.data import Data, cluster, node, pod, pods_of, thing, workload

STORED = {"uid": "1"}


def priority_class(name: str, value: int, **fields: object) -> Data:
    return thing("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **fields)


def only_pod(*objects: Data) -> Pod:
    (found,) = pods_of(*objects)
    return found


def test_requests_follow_from_limits() -> None:
    data = pod("a")
    data["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}

    spec = only_pod(data).spec

    assert spec.containers[0].resources.requests == {"cpu": "2"}
    assert spec.scheduler_name == "default-scheduler"


def test_a_stored_pod_stays_as_it_is() -> None:
    data = pod("a", metadata=STORED, schedulerName="default-scheduler")
    data["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}

    spec = only_pod(data, priority_class("default", 5, globalDefault=True)).spec

    assert spec.containers[0].resources.requests is None
    assert spec.priority is None
    assert spec.tolerations is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("high", 1000, id="of-the-input"),
        pytest.param("system-node-critical", 2_000_001_000, id="of-every-cluster"),
    ],
)
def test_a_priority_class_becomes_a_number(name: str, value: int) -> None:
    data = pod("a", priorityClassName=name)
    classes = priority_class("high", 1000, preemptionPolicy="Never")

    spec = only_pod(data, classes).spec

    assert spec.priority == value
    assert spec.preemption_policy == ("Never" if name == "high" else None)


def test_the_default_priority_class_is_for_pods_that_name_none() -> None:
    classes = [priority_class("high", 1000), priority_class("usual", 7, globalDefault=True)]

    assert only_pod(pod("a"), *classes).spec.priority == 7


def test_a_priority_that_is_written_down_is_kept() -> None:
    assert only_pod(pod("a", priority=50)).spec.priority == 50


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priorityClassName": "hihg"},
            "spec.priorityClassName: there is no PriorityClass 'hihg' in the input\n"
            "  hint: did you mean 'high'?",
            id="near-miss",
        ),
        pytest.param(
            {"priorityClassName": "gold"},
            "spec.priorityClassName: there is no PriorityClass 'gold' in the input\n"
            "  hint: add it, as `kubectl get priorityclasses -o yaml`",
            id="absent",
        ),
        pytest.param(
            {"runtimeClassName": "gvisor"},
            "spec.runtimeClassName: there is no RuntimeClass 'gvisor' in the input\n"
            "  hint: add it, as `kubectl get runtimeclasses -o yaml`",
            id="runtime-class",
        ),
    ],
)
def test_a_class_that_is_not_there(spec: Data, message: str) -> None:
    high = priority_class("high", 1)

    with pytest.raises(InputError) as of_pod:
        cluster(high, pod("a", **spec))
    with pytest.raises(InputError) as of_template:
        cluster(high, workload("Deployment", "web", template=pod("a", **spec)["spec"]))

    assert str(of_pod.value) == f"test.yaml: Pod default/a: {message}"
    assert str(of_template.value) == f"test.yaml: Deployment default/web: spec.template.{message}"


def test_a_runtime_class_brings_overhead_and_a_place() -> None:
    runtime = thing(
        "node.k8s.io/v1",
        "RuntimeClass",
        "gvisor",
        handler="runsc",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={
            "nodeSelector": {"sandbox": "yes"},
            "tolerations": [{"key": "sandbox", "operator": "Exists"}],
        },
    )

    spec = only_pod(pod("a", runtimeClassName="gvisor", nodeSelector={"disk": "ssd"}), runtime).spec

    assert spec.overhead == {"cpu": "250m"}
    assert spec.node_selector == {"sandbox": "yes", "disk": "ssd"}
    assert "sandbox" in [one.key for one in spec.tolerations]


def test_label_keys_are_folded_into_selectors() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app"],
    }
    data = pod("a", metadata={"labels": {"app": "x"}}, topologySpreadConstraints=[constraint])

    (found,) = only_pod(data).spec.topology_spread_constraints

    (requirement,) = found.label_selector.match_expressions
    assert (requirement.key, requirement.operator, requirement.values) == ("app", "In", ["x"])


@pytest.mark.parametrize(
    ("spec", "metadata", "expected"),
    [
        pytest.param({}, {}, "fast", id="default"),
        pytest.param({"storageClassName": ""}, {}, "", id="none-is-wanted"),
        pytest.param({}, STORED, None, id="stored"),
    ],
)
def test_a_claim_gets_the_default_storage_class(
    spec: Data, metadata: Data, expected: str | None
) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [
        thing("storage.k8s.io/v1", "StorageClass", "slow"),
        thing("storage.k8s.io/v1", "StorageClass", "fast", metadata={"annotations": annotations}),
    ]
    claim = thing("v1", "PersistentVolumeClaim", "data", spec=spec, metadata=metadata)

    (found,) = (o for o in cluster(claim, *classes) if isinstance(o, PersistentVolumeClaim))

    assert found.spec.storage_class_name == expected


def test_a_node_offers_its_capacity_where_it_says_no_more() -> None:
    (found,) = cluster(node("a", cpu=4))

    assert found.status.allocatable["cpu"] == 4


def test_every_pod_has_a_namespace_with_its_label() -> None:
    known = thing("v1", "Namespace", "shop", metadata={"labels": {"team": "a"}})

    objects = cluster(known, pod("a"), pod("b", metadata={"namespace": "shop"}))

    key = "kubernetes.io/metadata.name"
    assert {o.name: o.metadata.labels for o in objects if isinstance(o, Namespace)} == {
        "shop": {"team": "a", key: "shop"},
        "default": {key: "default"},
    }
