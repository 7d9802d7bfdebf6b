"""What each opcode does to the cluster, after section 3 of scheduler_perf's description."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME
from stowplan.bench.device_ops import RESOURCE_CLAIM, RESOURCE_SLICE
from stowplan.errors import ApiError, InputError, StowplanError
from stowplan.objects.kinds import (
    CSI_NODE,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
)
from tests.bench.playing import MEASURED, play, written

BIG_NODE = {"opcode": "createNodes", "count": 1, "nodeTemplatePath": "big-node.yaml"}
TEMPLATES = {
    "big-node.yaml": """
apiVersion: v1
kind: Node
metadata: {name: big}
status: {capacity: {cpu: 1000, memory: 1000Gi, pods: 10000}}
""",
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: "pod-", labels: {index: "{{ .Index }}"}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: pause, image: pause}]}
""",
    "large-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: "large-"}
spec: {containers: [{name: pause, image: pause, resources: {requests: {cpu: 5000}}}]}
""",
    "gated.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: "gated-"}
spec:
  schedulingGates: [{name: example.com/hold}]
  containers: [{name: pause, image: pause}]
""",
    "service.yaml": """
apiVersion: v1
kind: Service
metadata: {generateName: "service-"}
spec: {selector: {app: shop}}
""",
    "volume.yaml": """
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  csi: {driver: ebs.csi.aws.com, volumeHandle: to-be-replaced}
""",
    "claim.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
""",
    "device-claim.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {generateName: "claim-"}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: test-class}}]
""",
}


@pytest.fixture
def playing(tmp_path: Path) -> Any:
    def run(*ops: dict[str, Any], **case: Any) -> Any:
        return play(written(tmp_path, list(ops), TEMPLATES, **case))

    return run


# -- createNodes ----------------------------------------------------------------------------


def test_nodes_are_the_base_node_with_their_name_as_hostname(playing: Any) -> None:
    played = playing({"opcode": "createNodes", "count": 3}, MEASURED)

    nodes = played.nodes()
    assert len(nodes) == 3
    for name, node in nodes.items():
        assert node.metadata.labels["kubernetes.io/hostname"] == name
        assert node.status.allocatable == {"cpu": 4, "memory": "32Gi", "pods": 110}


def test_labels_are_given_in_turn(playing: Any) -> None:
    strategy = {"labelKey": "zone", "labelValues": ["moon-1", "moon-2", "moon-3"]}
    played = playing(
        {"opcode": "createNodes", "count": 7, "labelNodePrepareStrategy": strategy}, MEASURED
    )

    zones = Counter(node.metadata.labels["zone"] for node in played.nodes().values())
    assert zones == {"moon-1": 3, "moon-2": 2, "moon-3": 2}


def test_unique_labels_are_unique(playing: Any) -> None:
    played = playing(
        {"opcode": "createNodes", "count": 4, "uniqueNodeLabelStrategy": {"labelKey": "rack"}},
        MEASURED,
    )

    assert len({node.metadata.labels["rack"] for node in played.nodes().values()}) == 4


def test_allocatable_strategy_adds_amounts_and_csi_nodes(playing: Any) -> None:
    strategy = {
        "nodeAllocatable": {"example.com/disk": 7},
        "csiNodeAllocatable": {"ebs.csi.aws.com": {"count": 39}},
        "migratedPlugins": ["kubernetes.io/aws-ebs"],
    }
    played = playing(
        {"opcode": "createNodes", "count": 2, "nodeAllocatableStrategy": strategy}, MEASURED
    )

    assert all(
        str(node.status.allocatable["example.com/disk"]) == "7"
        and str(node.status.allocatable["cpu"]) == "4"
        for node in played.nodes().values()
    )
    csi_nodes = played.all(CSI_NODE)
    assert {each.name for each in csi_nodes} == set(played.nodes())
    for each in csi_nodes:
        (driver,) = each.spec.drivers
        assert (driver.name, driver.allocatable.count) == ("ebs.csi.aws.com", 39)
        assert each.metadata.annotations == {
            "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
        }


# -- namespaces and pods --------------------------------------------------------------------


def test_namespaces_have_a_prefix_and_a_number(playing: Any) -> None:
    played = playing(
        BIG_NODE, {"opcode": "createNamespaces", "prefix": "team", "count": 3}, MEASURED
    )

    names = {each.name for each in played.all(NAMESPACE)}
    assert {"team-0", "team-1", "team-2"} <= names
    assert "team-3" not in names


def test_pods_go_to_the_namespace_of_their_op_and_are_waited_for(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createPods", "count": 4},
        {"opcode": "createPods", "count": 3, "collectMetrics": True},
    )

    assert played.placed("namespace-1") == {"big": 4}
    assert played.placed("namespace-2") == {"big": 3}
    assert (played.result["init_pods"], played.result["pods"]) == (4, 3)


def test_a_template_gets_index_and_count(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createPods", "count": 3, "podTemplatePath": "pod.yaml", "collectMetrics": True},
    )

    labels = {pod.metadata.labels["index"] for pod in played.pods("namespace-1")}
    assert labels == {"0", "1", "2"}


def test_the_case_has_a_default_pod(playing: Any) -> None:
    played = playing(BIG_NODE, MEASURED, defaultPodTemplatePath="pod.yaml")

    (pod,) = played.pods("namespace-1")
    assert pod.metadata.labels == {"index": "0"}


def test_pod_sets_are_one_namespace_after_the_other(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createPodSets",
            "count": 3,
            "namespacePrefix": "set",
            "createPodsOp": {"opcode": "createPods", "count": 2},
        },
        MEASURED,
    )

    assert [len(played.pods(f"set-{n}")) for n in range(3)] == [2, 2, 2]
    assert played.result["init_pods"] == 6


def test_a_pod_with_volumes_has_a_claim_that_is_bound(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createPods",
            "count": 2,
            "namespace": "disks",
            "persistentVolumeTemplatePath": "volume.yaml",
            "persistentVolumeClaimTemplatePath": "claim.yaml",
            "collectMetrics": True,
        },
    )

    claims = {claim.name: claim for claim in played.all(PERSISTENT_VOLUME_CLAIM, "disks")}
    volumes = {volume.name: volume for volume in played.all(PERSISTENT_VOLUME)}
    assert set(claims) == {"pvc-0", "pvc-1"}
    for pod in played.pods("disks"):
        (mount,) = pod.spec.volumes
        claim = claims[mount.persistent_volume_claim.claim_name]
        assert claim.metadata.annotations["pv.kubernetes.io/bind-completed"]
        volume = volumes[claim.spec.volume_name]
        assert (volume.spec.claim_ref.namespace, volume.spec.claim_ref.name) == (
            "disks",
            claim.name,
        )
    handles = {volume.spec.csi.volume_handle for volume in volumes.values()}
    assert len(handles) == 2, "each volume is a disk of its own"


def test_pods_that_never_fit_are_named_after_a_minute(playing: Any) -> None:
    with pytest.raises(StowplanError, match=r"1 pod is without a node, and none found one") as info:
        playing(
            BIG_NODE,
            {"opcode": "createPods", "count": 1, "podTemplatePath": "large-pod.yaml"},
            MEASURED,
        )

    assert "Insufficient cpu" in info.value.hint


def test_steady_state_fills_and_empties_until_the_time_is_over(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createPods",
            "count": 5,
            "namespace": "steady",
            "podTemplatePath": "pod.yaml",
            "collectMetrics": True,
            "steadyState": True,
            "duration": "100ms",
        },
    )

    assert played.placed("steady") == {"big": 5}
    assert played.result["pods"] > 5
    assert played.result["pods"] % 5 == 0
    assert played.took_s >= 0.1


# -- barrier --------------------------------------------------------------------------------


def test_a_barrier_waits_for_pods_that_nobody_waited_for(playing: Any) -> None:
    unwaited = {
        "opcode": "createPods",
        "count": 200,
        "namespace": "unwaited",
        "skipWaitToCompletion": True,
    }
    played = playing(BIG_NODE, unwaited, {"opcode": "barrier"}, MEASURED)

    assert played.result["init_pods"] == 200


def test_attempted_is_enough_for_gated_and_unschedulable_pods(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        *(
            {
                "opcode": "createPods",
                "count": 2,
                "namespace": path,
                "podTemplatePath": f"{path}.yaml",
                "skipWaitToCompletion": True,
            }
            for path in ("gated", "large-pod")
        ),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        MEASURED,
    )

    reasons = {
        condition.reason
        for namespace in ("gated", "large-pod")
        for pod in played.pods(namespace)
        for condition in pod.status.conditions
        if condition.type == "PodScheduled"
    }
    assert reasons == {"SchedulingGated", "Unschedulable"}


def test_scheduled_is_not_reached_by_a_gated_pod(playing: Any) -> None:
    with pytest.raises(StowplanError, match="gated/gated-"):
        playing(
            BIG_NODE,
            {
                "opcode": "createPods",
                "count": 1,
                "namespace": "gated",
                "podTemplatePath": "gated.yaml",
                "skipWaitToCompletion": True,
            },
            {"opcode": "barrier", "namespaces": ["gated"]},
            MEASURED,
        )


def test_a_barrier_leaves_other_labels_alone(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createPods",
            "count": 1,
            "namespace": "gated",
            "podTemplatePath": "gated.yaml",
            "skipWaitToCompletion": True,
        },
        {"opcode": "barrier", "labelSelector": {"app": "another"}},
        MEASURED,
    )

    assert played.placed("gated") == {"": 1}


# -- pods go --------------------------------------------------------------------------------


@pytest.mark.parametrize(("per_second", "seconds"), [(0, 0.0), (50, 0.38)])
def test_pods_are_deleted_at_once_or_so_many_a_second(
    playing: Any, per_second: int, seconds: float
) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createPods",
            "count": 20,
            "namespace": "old",
            "podTemplatePath": "pod.yaml",
        },
        {"opcode": "deletePods", "namespace": "old", "deletePodsPerSecond": per_second},
        MEASURED,
    )

    assert played.pods("old") == []
    assert seconds <= played.took_s < seconds + 0.1


def test_pods_are_deleted_by_label(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createPods", "count": 5, "namespace": "old", "podTemplatePath": "pod.yaml"},
        {"opcode": "deletePods", "namespace": "old", "labelSelector": {"index": "3"}},
        MEASURED,
    )

    left = sorted(pod.metadata.labels["index"] for pod in played.pods("old"))
    assert left == ["0", "1", "2", "4"]


def test_pods_can_be_deleted_in_the_background(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createPods", "count": 10, "namespace": "old", "podTemplatePath": "pod.yaml"},
        {
            "opcode": "deletePods",
            "namespace": "old",
            "deletePodsPerSecond": 10,
            "skipWaitToCompletion": True,
        },
        {"opcode": "sleep", "duration": "450ms"},
        MEASURED,
    )

    assert len(played.pods("old")) == 5


# -- churn ----------------------------------------------------------------------------------


def test_churn_creates_one_of_each_template_per_tick(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "churn",
            "mode": "create",
            "namespace": "churned",
            "templatePaths": ["pod.yaml", "service.yaml"],
            "intervalMilliseconds": 100,
        },
        {"opcode": "sleep", "duration": "950ms"},
        MEASURED,
    )

    assert len(played.pods("churned")) == len(played.all(SERVICE, "churned")) == 10


def test_churn_creates_no_more_than_its_number(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "churn",
            "mode": "create",
            "number": 3,
            "namespace": "churned",
            "templatePaths": ["service.yaml"],
            "intervalMilliseconds": 10,
        },
        {"opcode": "sleep", "duration": "1s"},
        MEASURED,
    )

    assert len(played.all(SERVICE, "churned")) == 3


@pytest.mark.parametrize(("after", "there"), [("150ms", 2), ("250ms", 1), ("350ms", 0)])
def test_recreate_alternates_creates_and_deletes(playing: Any, after: str, there: int) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "churn",
            "mode": "recreate",
            "number": 2,
            "namespace": "churned",
            "templatePaths": ["service.yaml"],
            "intervalMilliseconds": 100,
        },
        {"opcode": "sleep", "duration": after},
        MEASURED,
    )

    assert len(played.all(SERVICE, "churned")) == there


# -- createAny, updateAny -------------------------------------------------------------------


def test_any_object_can_be_created(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {
            "opcode": "createAny",
            "templatePath": "service.yaml",
            "namespace": "shop",
            "count": 3,
        },
        MEASURED,
    )

    assert len(played.all(SERVICE, "shop")) == 3


def test_what_no_plugin_reads_is_kept_as_it_was_written(playing: Any, tmp_path: Path) -> None:
    (tmp_path / "class.yaml").write_text("""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: "class-{{ .Index }}"}
spec: {extendedResourceName: "example.com/gpu-{{ .Index }}"}
""")
    played = playing(
        BIG_NODE, {"opcode": "createAny", "templatePath": "class.yaml", "count": 2}, MEASURED
    )

    kind = STORED_KIND_BY_NAME["resource.k8s.io/v1", "DeviceClass"]
    names = {made["spec"]["extendedResourceName"] for made in played.data(kind)}
    assert names == {"example.com/gpu-0", "example.com/gpu-1"}


def test_create_any_makes_one_unless_told_otherwise(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createAny", "templatePath": "service.yaml", "namespace": "shop"},
        MEASURED,
    )

    assert len(played.all(SERVICE, "shop")) == 1


def test_update_any_changes_objects_and_their_status_at_a_pace(
    playing: Any, tmp_path: Path
) -> None:
    (tmp_path / "small-node.yaml").write_text("""
apiVersion: v1
kind: Node
metadata: {name: "small-{{ .Index }}"}
spec: {unschedulable: true}
status: {allocatable: {cpu: 1, memory: 1Gi, pods: 1}}
""")
    (tmp_path / "larger-node.yaml").write_text("""
apiVersion: v1
kind: Node
metadata: {name: "small-{{ .Index }}", labels: {size: "{{ MultiplyInt .Index 2 }}"}}
status: {allocatable: {cpu: 2, memory: 1Gi, pods: 1}}
""")
    played = playing(
        BIG_NODE,
        {"opcode": "createAny", "templatePath": "small-node.yaml", "count": 3},
        {
            "opcode": "updateAny",
            "templatePath": "larger-node.yaml",
            "count": 3,
            "updatePerSecond": 10,
        },
        MEASURED,
    )

    nodes = played.nodes()
    for number in range(3):
        node = nodes[f"small-{number}"]
        assert node.metadata.labels == {"size": str(2 * number)}
        assert not node.spec.unschedulable
        assert str(node.status.allocatable["cpu"]) == "2"
    assert 0.2 <= played.took_s < 0.3


def test_an_update_of_what_is_not_there_fails(playing: Any) -> None:
    with pytest.raises(ApiError, match="not found"):
        playing({"opcode": "updateAny", "templatePath": "big-node.yaml"}, MEASURED)


# -- sleep and measuring --------------------------------------------------------------------


def test_sleep_lets_time_pass(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "sleep", "durationParam": "$pause"},
        MEASURED,
        params={"pause": "90s"},
    )

    assert 90 <= played.took_s < 91


def test_collecting_counts_the_pods_of_its_namespaces_and_labels(playing: Any) -> None:
    def pods(namespace: str) -> dict[str, Any]:
        return {
            "opcode": "createPods",
            "count": 4,
            "namespace": namespace,
            "podTemplatePath": "pod.yaml",
        }

    played = playing(
        BIG_NODE,
        pods("before"),
        {
            "opcode": "startCollectingMetrics",
            "name": "some",
            "namespaces": ["counted", "before"],
            "labelSelector": {"index": "2"},
        },
        pods("counted"),
        pods("other"),
        {"opcode": "stopCollectingMetrics"},
    )

    assert played.result["pods"] == 1
    assert played.result["init_pods"] == 4


# -- devices --------------------------------------------------------------------------------


def test_a_driver_publishes_a_slice_per_matching_node(playing: Any) -> None:
    played = playing(
        BIG_NODE,
        {"opcode": "createNodes", "count": 2},
        {
            "opcode": "createResourceDriver",
            "driverName": "test-driver.cdi.k8s.io",
            "nodes": "b*g",
            "maxClaimsPerNodeParam": "$perNode",
        },
        MEASURED,
        params={"perNode": 3},
    )

    (published,) = played.data(RESOURCE_SLICE)
    spec = published["spec"]
    assert (spec["driver"], spec["nodeName"]) == ("test-driver.cdi.k8s.io", "big")
    assert len(spec["devices"]) == 3
    attributes = spec["devices"][0]["attributes"]
    assert attributes["model"] == {"string": "A100"}
    assert attributes["family"] == {"string": "GPU"}
    assert attributes["driverVersion"] == {"version": "1.2.3"}
    assert spec["devices"][0]["capacity"] == {"memory": {"value": "1Gi"}}


def test_claims_are_created_and_allocated_each_on_a_device_of_its_own(playing: Any) -> None:
    played = playing(
        {"opcode": "createNodes", "count": 3},
        {
            "opcode": "createResourceDriver",
            "driverName": "test-driver.cdi.k8s.io",
            "nodes": "*",
            "maxClaimsPerNode": 2,
        },
        {
            "opcode": "createResourceClaims",
            "namespace": "gpus",
            "templatePath": "device-claim.yaml",
            "count": 6,
        },
        {"opcode": "allocResourceClaims", "namespace": "gpus"},
        MEASURED,
    )

    claims = played.data(RESOURCE_CLAIM, "gpus")
    assert len(claims) == 6
    allocated = set()
    for claim in claims:
        allocation = claim["status"]["allocation"]
        (result,) = allocation["devices"]["results"]
        assert (result["request"], result["driver"]) == ("gpu", "test-driver.cdi.k8s.io")
        (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == [result["pool"]]
        allocated.add((result["pool"], result["device"]))
    assert len(allocated) == 6


def test_more_claims_than_devices_are_an_error(playing: Any) -> None:
    with pytest.raises(InputError, match="no node has 1 free devices"):
        playing(
            {"opcode": "createNodes", "count": 1},
            {
                "opcode": "createResourceDriver",
                "driverName": "d",
                "nodes": "*",
                "maxClaimsPerNode": 1,
            },
            {
                "opcode": "createResourceClaims",
                "namespace": "gpus",
                "templatePath": "device-claim.yaml",
                "count": 2,
            },
            {"opcode": "allocResourceClaims"},
            MEASURED,
        )
