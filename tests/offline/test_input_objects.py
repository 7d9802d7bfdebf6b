"""What is no cluster is refused, with file, object and field, before anything is decided."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import InputError
from tests.offline.data import cluster, node, pod, pods_of, thing, workload


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            pod("a", "1,5"),
            "test.yaml: Pod default/a: spec.containers[0].resources.requests.cpu: ",
            id="quantity",
        ),
        pytest.param(
            pod("a", tolerations=[{"key": "x", "operator": "Equals"}]),
            "test.yaml: Pod default/a: spec.tolerations[0].operator: 'Equals' is not one of ",
            id="toleration",
        ),
        pytest.param(
            thing(
                "policy/v1",
                "PodDisruptionBudget",
                "a",
                spec={"selector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}},
            ),
            "test.yaml: PodDisruptionBudget default/a: spec.selector",
            id="selector",
        ),
        pytest.param(
            workload("Deployment", "a", template={"tolerations": [{"operator": "Equal"}]}),
            "test.yaml: Deployment default/a: spec.template.spec.tolerations[0].operator: ",
            id="in-a-template",
        ),
        pytest.param(
            workload("ReplicaSet", "a", replicas=0, template=pod("x", "?")["spec"]),
            "test.yaml: ReplicaSet default/a: spec.template.spec.containers[0].resources.requests",
            id="in-a-template-that-is-not-used",
        ),
        pytest.param(
            workload("Job", "a", parallelism="two"),
            "test.yaml: Job default/a: spec.parallelism: expected `int | null`, got `str`",
            id="type",
        ),
        pytest.param(
            thing("node.k8s.io/v1", "RuntimeClass", "a", scheduling={"nodeSelector": ["x"]}),
            "test.yaml: RuntimeClass a: scheduling.nodeSelector: ",
            id="field-that-only-admission-reads",
        ),
        pytest.param(
            pod("a", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": 1}}}]),
            "test.yaml: Pod default/a: spec.volumes[0].ephemeral.volumeClaimTemplate: spec: ",
            id="claim-template",
        ),
        pytest.param(
            thing("apps/v1", "Deploymnet", "a"),
            "test.yaml: Deploymnet default/a: there is no kind 'Deploymnet' in 'apps/v1'\n"
            "  hint: did you mean `kind: Deployment` with `apiVersion: apps/v1`?",
            id="misspelled-kind",
        ),
        pytest.param(
            thing("v1", "Deployment", "a"),
            "test.yaml: Deployment default/a: there is no kind 'Deployment' in 'v1'\n"
            "  hint: did you mean `kind: Deployment` with `apiVersion: apps/v1`?",
            id="kind-of-another-group",
        ),
        pytest.param(
            thing("v1", "pod", "a"),
            "test.yaml: pod default/a: there is no kind 'pod' in 'v1'\n"
            "  hint: did you mean `kind: Pod` with `apiVersion: v1`?",
            id="kind-in-small-letters",
        ),
        pytest.param(
            thing("policy/v1beta1", "PodDisruptionBudget", "a"),
            "test.yaml: PodDisruptionBudget default/a: apiVersion 'policy/v1beta1' of "
            "PodDisruptionBudget is not known\n  hint: write it as policy/v1",
            id="old-version",
        ),
        pytest.param(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
            },
            "test.yaml: a configuration is no object of a cluster\n  hint: give it as ",
            id="configuration",
        ),
    ],
)
def test_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(data)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "ServiceAccount"),
        ("v1", "Event"),
        ("v1", "ConfigMap"),
        ("batch/v1", "CronJob"),
        ("serving.knative.dev/v1", "Service"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("metrics.k8s.io/v1beta1", "PodMetrics"),
    ],
)
def test_other_kinds_are_left_out(api_version: str, kind: str) -> None:
    assert cluster(thing(api_version, kind, "a")) == []


def test_dumps_may_overlap() -> None:
    assert len(pods_of(pod("a"), node("n"), pod("a"), node("n"))) == 1


def test_an_object_that_comes_twice_must_be_the_same() -> None:
    with pytest.raises(InputError) as refused:
        cluster(pod("a"), pod("a", "1"))

    assert str(refused.value) == (
        "test.yaml: Pod default/a: the object comes twice, and the two differ\n"
        "  hint: keep one of them"
    )


def test_a_copied_pod_must_not_keep_its_uid() -> None:
    uid = {"uid": "123"}

    with pytest.raises(InputError) as refused:
        cluster(pod("a", metadata=uid), pod("b", metadata=uid))

    assert str(refused.value) == (
        "test.yaml: Pod default/b: metadata.uid: '123' is the uid of Pod default/a too\n"
        "  hint: remove the uid of a copy"
    )
