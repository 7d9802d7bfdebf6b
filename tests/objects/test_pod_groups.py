"""Groups in both versions of scheduling.k8s.io are read as one and the same thing."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.errors import InputError
from stowplan.objects.kinds import KIND_BY_NAME, KIND_BY_STRUCT, POD_GROUP, WORKLOAD
from stowplan.objects.manifests import decode
from stowplan.objects.pod_groups import GROUP_VERSIONS, GroupWorkload, PodGroup, group_key
from stowplan.state.pod_info import PodInfo
from tests.builders import pod


def read(version: str, spec: Any, kind: str = "PodGroup") -> Any:
    return decode(
        {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": "x"},
            "spec": spec,
        },
        "test",
    )


@pytest.mark.parametrize(
    ("version", "template", "mode"),
    [
        (
            "v1alpha2",
            {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "w", "podGroupTemplateName": "t"}
                }
            },
            "PodGroup",
        ),
        (
            "v1beta1",
            {"workloadRef": {"workloadName": "w", "templateName": "t"}},
            {"all": {}},
        ),
    ],
)
def test_both_versions_say_the_same(version: str, template: Any, mode: Any) -> None:
    group = read(
        version,
        {
            **template,
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": mode,
            "priority": 7,
            "resourceClaims": [{"name": "net", "resourceClaimName": "c"}],
        },
    )

    assert isinstance(group, PodGroup)
    assert group.key == "default/x"
    spec = group.spec
    assert (spec.template, spec.min_count, spec.topology_key) == (("w", "t"), 3, "rack")
    assert (spec.is_disrupted_whole, spec.priority) == (True, 7)
    assert spec.resource_claims is not None
    assert spec.resource_claims[0].resource_claim_name == "c"


@pytest.mark.parametrize("mode", ["Pod", {"single": {}}, None])
def test_a_group_is_disrupted_pod_by_pod_unless_it_says_otherwise(mode: Any) -> None:
    version = "v1beta1" if isinstance(mode, dict) else "v1alpha2"

    group = read(version, {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode})

    assert not group.spec.is_disrupted_whole
    assert (group.spec.min_count, group.spec.topology_key, group.spec.template) == (0, "", None)


def test_workloads_are_read_too() -> None:
    templates = [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]

    workload = read("v1alpha2", {"podGroupTemplates": templates}, "Workload")

    assert isinstance(workload, GroupWorkload)
    assert workload.spec.pod_group_templates is not None
    assert workload.spec.pod_group_templates[0].min_count == 2


def test_another_version_is_refused_rather_than_ignored() -> None:
    with pytest.raises(InputError, match=r"v1alpha3' of PodGroup is not known"):
        read("v1alpha3", {})


def test_events_and_requests_name_the_version_of_the_kind() -> None:
    for version in GROUP_VERSIONS:
        assert KIND_BY_NAME[version.api_version, "PodGroup"].struct is PodGroup
    assert KIND_BY_STRUCT[PodGroup] is POD_GROUP
    assert KIND_BY_STRUCT[GroupWorkload] is WORKLOAD


def test_pods_of_two_groups_are_of_one_kind_and_know_their_own() -> None:
    one, other, alone = (PodInfo(pod("p", group=name)) for name in ("one", "other", ""))

    assert one.kind is other.kind
    assert one.kind is not alone.kind
    assert [one.group_key, other.group_key, alone.group_key] == ["default/one", "default/other", ""]
    assert group_key(one.pod) == one.group_key
