"""What `kubectl get` and `kubectl get -o wide` print: one row of each kind, as kubectl shows it.

Rows come from kube-apiserver's printers; `tests/e2e` compares them with a real one.
"""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.http.durations import age, human_duration
from stowplan.apiserver.http.pod_cells import pod_cells, pod_state
from stowplan.apiserver.http.table_cells import selector_text
from stowplan.apiserver.http.tables import table_of
from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.objects.times import parse_time

NOW_S = parse_time("2026-01-01T01:00:00Z")
HOUR_AGO = "2026-01-01T00:00:00Z"
META = {"name": "x", "creationTimestamp": HOUR_AGO}
TEMPLATE = {
    "template": {
        "spec": {
            "nodeSelector": {"disk": "ssd", "arch": "arm"},
            "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}],
        }
    },
    "selector": {"matchLabels": {"app": "web"}},
}
WORKLOAD = "a,b i:1,j:2 app=web"


def row(kind: str, **fields: Any) -> dict[str, str]:
    """What is printed under each heading, wide columns included."""
    found = next(one for one in STORED_KINDS if one.name == kind)
    data = {"metadata": META, **fields}
    table = table_of(found, [data], NOW_S)
    names = [column["name"] for column in table.columns]
    (cells,) = table.rows
    assert len(cells) == len(names)
    return dict(zip(names, map(str, cells), strict=True))


def shown(kind: str, **fields: Any) -> str:
    return " ".join(row(kind, **fields).values())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (179 * 60 + 59, "179m"),
        (180 * 60, "3h"),
        (181 * 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        ((2 * 365 + 1) * 86400, "2y1d"),
        (8 * 365 * 86400 - 1, "7y364d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_how_long_ago_in_few_letters(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize("nonsense", [None, "", 5, "yesterday"])
def test_a_time_that_is_none_is_unknown(nonsense: Any) -> None:
    assert age(nonsense, NOW_S) == "<unknown>"


def test_nodes() -> None:
    status = {
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "True"},
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36", "osImage": "Linux"},
    }
    labels = {
        "node-role.kubernetes.io/worker": "",
        "node-role.kubernetes.io/db": "",
        "node-role.kubernetes.io/": "",
        "kubernetes.io/role": "old",
        "other": "x",
    }
    assert row("Node", metadata={**META, "labels": labels}, status=status) == {
        "Name": "x",
        "Status": "Ready",
        "Roles": "db,old,worker",
        "Age": "60m",
        "Version": "v1.36",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "Linux",
        "Kernel-Version": "<unknown>",
        "Container-Runtime": "<unknown>",
    }
    unready = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    cordoned = row("Node", spec={"unschedulable": True}, status=unready)
    assert (cordoned["Status"], cordoned["Roles"]) == ("NotReady,SchedulingDisabled", "<none>")
    assert row("Node")["Status"] == "Unknown"


def test_services() -> None:
    ports = [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]
    spec = {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": ports, "selector": {"b": "2"}}
    assert row("Service", spec=spec) == {
        "Name": "x",
        "Type": "NodePort",
        "Cluster-IP": "10.96.0.9",
        "External-IP": "<none>",
        "Port(s)": "80:30080/TCP,53/UDP",
        "Age": "60m",
        "Selector": "b=2",
    }
    named = row("Service", spec={"type": "ExternalName", "externalName": "db.example"})
    assert (named["External-IP"], named["Port(s)"]) == ("db.example", "<none>")
    assert (named["Cluster-IP"], named["Selector"]) == ("<none>", "<none>")
    addresses = row("Service", spec={"externalIPs": ["1.2.3.4", "1.2.3.5"]})
    assert addresses["External-IP"] == "1.2.3.4,1.2.3.5"


def test_workloads() -> None:
    spec = {"replicas": 3, **TEMPLATE}
    status = {"replicas": 4, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 5}
    assert shown("Deployment", spec=spec, status=status) == f"x 1/3 2 5 60m {WORKLOAD}"
    assert shown("Deployment", spec=TEMPLATE) == f"x 0/0 0 0 60m {WORKLOAD}"
    assert shown("ReplicaSet", spec=spec, status=status) == f"x 3 4 1 60m {WORKLOAD}"
    assert shown("ReplicaSet", spec=TEMPLATE) == f"x 0 0 0 60m {WORKLOAD}"
    assert shown("StatefulSet", spec=spec, status=status) == "x 1/3 60m a,b i:1,j:2"
    assert shown("StatefulSet", spec=TEMPLATE) == "x 0/0 60m a,b i:1,j:2"
    counts = {
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 2,
        "numberReady": 3,
        "updatedNumberScheduled": 4,
        "numberAvailable": 5,
    }
    daemons = f"arch=arm,disk=ssd 60m {WORKLOAD}"
    assert shown("DaemonSet", spec=TEMPLATE, status=counts) == f"x 1 2 3 4 5 {daemons}"
    assert shown("DaemonSet", spec=TEMPLATE) == f"x 0 0 0 0 0 {daemons}"


@pytest.mark.parametrize(
    ("spec", "succeeded", "text"),
    [
        ({"completions": 3, "parallelism": 2}, 1, "1/3"),
        ({"parallelism": 2}, 1, "1/1 of 2"),
        ({"parallelism": 1}, 1, "1/1"),
        ({}, 0, "0/1"),
    ],
)
def test_completions_of_a_job(spec: dict[str, int], succeeded: int, text: str) -> None:
    assert row("Job", spec=spec, status={"succeeded": succeeded})["Completions"] == text


@pytest.mark.parametrize(
    ("true", "deleted", "state"),
    [
        ([], False, "Running"),
        ([], True, "Terminating"),
        (["Suspended"], False, "Suspended"),
        (["FailureTarget"], False, "FailureTarget"),
        (["SuccessCriteriaMet"], False, "SuccessCriteriaMet"),
        (["SuccessCriteriaMet", "Complete"], True, "Complete"),
        (["FailureTarget", "Failed"], True, "Failed"),
        (["Suspended"], True, "Terminating"),
    ],
)
def test_the_state_of_a_job(true: list[str], deleted: bool, state: str) -> None:
    conditions = [{"type": name, "status": "True"} for name in true]
    conditions.append({"type": "Complete" if "Complete" not in true else "x", "status": "False"})
    metadata = {**META, **({"deletionTimestamp": HOUR_AGO} if deleted else {})}
    assert row("Job", metadata=metadata, status={"conditions": conditions})["Status"] == state


def test_how_long_a_job_took() -> None:
    began = {"startTime": "2026-01-01T00:10:00Z"}
    assert row("Job", status={})["Duration"] == ""
    assert row("Job", status=began)["Duration"] == "50m"
    ended = {**began, "completionTime": "2026-01-01T00:11:00Z"}
    assert row("Job", status=ended)["Duration"] == "60s"
    assert row("Job", status={"startTime": "long ago"})["Duration"] == "<unknown>"


def test_storage() -> None:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce", "Odd"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "team", "name": "data"},
        "storageClassName": "fast",
        "volumeMode": "Block",
    }
    status = {"phase": "Bound", "reason": "why"}
    volume = "x 5Gi RWO,ROX,Odd Retain Bound team/data fast <unset> why 60m Block"
    assert shown("PersistentVolume", spec=spec, status=status) == volume
    leaving = {**META, "deletionTimestamp": HOUR_AGO}
    empty = row("PersistentVolume", metadata=leaving, status=status)
    assert (empty["Status"], empty["Claim"], empty["VolumeMode"]) == ("Terminating", "", "<unset>")

    spec = {"volumeName": "pv", "storageClassName": "fast", "volumeAttributesClassName": "gold"}
    status = {
        "phase": "Bound",
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOncePod"],
    }
    claim = "x Bound pv 5Gi RWX,RWOP fast gold 60m <unset>"
    assert shown("PersistentVolumeClaim", spec=spec, status=status) == claim
    unbound = row("PersistentVolumeClaim", metadata=leaving, spec={}, status=status)
    assert (unbound["Status"], unbound["Capacity"]) == ("Terminating", "")
    assert unbound["Access Modes"] == ""

    yes = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (
        shown(
            "StorageClass",
            metadata={**META, "annotations": yes},
            provisioner="p",
            allowVolumeExpansion=True,
        )
        == "x (default) p Delete Immediate True 60m"
    )
    assert (
        shown(
            "StorageClass",
            provisioner="p",
            reclaimPolicy="Retain",
            volumeBindingMode="WaitForFirstConsumer",
        )
        == "x p Retain WaitForFirstConsumer False 60m"
    )
    attachment = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    assert (
        shown("VolumeAttachment", spec=attachment, status={"attached": True}) == "x a pv n True 60m"
    )
    assert shown("VolumeAttachment", spec=attachment) == "x a pv n False 60m"
    assert shown("CSINode", spec={"drivers": [{}, {}]}) == "x 2 60m"


def test_small_kinds() -> None:
    assert shown("Namespace", status={"phase": "Active"}) == "x Active 60m"
    budget = {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}
    assert shown("PodDisruptionBudget", **budget) == "x 50% N/A 2 60m"
    assert shown("PodDisruptionBudget", spec={"maxUnavailable": 0}) == "x N/A 0 0 60m"
    high = {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    assert shown("PriorityClass", **high) == "x 7 True 60m Never"
    assert shown("PriorityClass") == "x 0 False 60m "
    assert shown("RuntimeClass", handler="h") == "x h 60m"
    assert shown("Lease", spec={"holderIdentity": "me"}) == "x me 60m"
    assert shown("ConfigMap", data={"a": "1"}, binaryData={"b": "", "c": ""}) == "x 3 60m"
    assert shown("Secret", data={"a": "1"}) == "x Opaque 1 60m"
    assert shown("Secret", type="t") == "x t 0 60m"
    assert shown("ServiceAccount", secrets=[{}, {}]) == "x 2 60m"
    assert shown("ResourceQuota") == "x 60m"


def test_events_in_both_shapes() -> None:
    about = {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"}
    assert row(
        "Event",
        apiVersion="v1",
        involvedObject=about,
        source={"component": "kubelet", "host": "n"},
        firstTimestamp=HOUR_AGO,
        lastTimestamp="2026-01-01T00:50:00Z",
        type="Normal",
        reason="Pulled",
        message=" text \n",
        count=4,
    ) == {
        "Last Seen": "10m",
        "Type": "Normal",
        "Reason": "Pulled",
        "Object": "pod/p",
        "Subobject": "spec.containers{a}",
        "Source": "kubelet, n",
        "Message": "text",
        "First Seen": "60m",
        "Count": "4",
        "Name": "x",
    }
    new = row(
        "Event",
        apiVersion="events.k8s.io/v1",
        regarding=about,
        reportingController="scheduler",
        eventTime=HOUR_AGO,
        series={"count": 9, "lastObservedTime": "2026-01-01T00:59:00Z"},
        note="hello",
    )
    assert (new["Last Seen"], new["First Seen"], new["Count"]) == ("60s", "60m", "9")
    assert (new["Source"], new["Message"]) == ("scheduler", "hello")
    once = row("Event", apiVersion="v1", eventTime=HOUR_AGO, reportingComponent="c")
    assert (once["Last Seen"], once["Count"], once["Source"]) == ("60m", "1", "c")
    old = row(
        "Event",
        apiVersion="events.k8s.io/v1",
        deprecatedFirstTimestamp=HOUR_AGO,
        deprecatedLastTimestamp="2026-01-01T00:58:00Z",
        deprecatedCount=3,
        deprecatedSource={"component": "old"},
    )
    assert (old["Last Seen"], old["Count"], old["Source"]) == ("2m", "3", "old")


def test_what_shows_only_with_wide() -> None:
    def wide(kind: str) -> list[str]:
        found = next(one for one in STORED_KINDS if one.name == kind)
        return [c["name"] for c in table_of(found, [], NOW_S).columns if c["priority"] == 1]

    assert wide("Pod") == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    assert wide("Deployment") == ["Containers", "Images", "Selector"]
    assert wide("Event") == ["Subobject", "Source", "First Seen", "Count", "Name"]
    assert wide("Namespace") == []


def test_columns_have_types() -> None:
    found = next(one for one in STORED_KINDS if one.name == "ConfigMap")
    name, count, since = table_of(found, [], NOW_S).columns
    assert (name["type"], name["format"], name["name"]) == ("string", "name", "Name")
    assert (count["type"], count["format"], count["name"]) == ("integer", "", "Data")
    assert (since["type"], since["format"], since["priority"]) == ("string", "", 0)


def test_an_object_that_makes_no_sense_hides_nobody() -> None:
    found = next(one for one in STORED_KINDS if one.name == "Service")
    odd = {"metadata": {"name": "odd"}, "spec": {"ports": "none"}}
    good = {"metadata": {"name": "good"}, "spec": {"type": "ClusterIP"}}

    rows = table_of(found, [odd, good], NOW_S).rows

    assert rows[0] == ["odd", *["<unknown>"] * 6]
    assert rows[1][:2] == ["good", "ClusterIP"]


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        ({}, "<none>"),
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ({"matchLabels": {}}, "<none>"),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, "k"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
        (
            {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["a", "b"]}]},
            "k notin (a,b)",
        ),
    ],
)
def test_selectors(selector: Any, text: str) -> None:
    assert selector_text(selector) == text


RUNNING = {"state": {"running": {}}, "ready": True}
READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
            },
            "SchedulingGated",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}],
            },
            "Pending",
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "Ready", "reason": "SchedulingGated"}]},
            "Pending",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "Backoff"}}}, RUNNING]},
            "Backoff",
        ),
        (
            {
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "First"}}},
                    {"state": {"waiting": {"reason": "Second"}}},
                ]
            },
            "First",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOM"}}}]}, "OOM"),
        ({"containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}, "Signal:9"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, "ExitCode:3"),
        ({"containerStatuses": [{"state": {"terminated": {}}}]}, "ExitCode:0"),
        (
            {"containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}, RUNNING]},
            "NotReady",
        ),
        (
            {
                "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}, RUNNING],
                "conditions": [{"type": "Other", "status": "True"}, READY],
            },
            "Running",
        ),
        (
            {
                "containerStatuses": [
                    {"state": {"terminated": {"reason": "Completed"}}},
                    {**RUNNING, "ready": False},
                ],
                "conditions": [READY],
            },
            "Completed",
        ),
    ],
)
def test_one_word_for_the_state_of_a_pod(status: dict[str, Any], state: str) -> None:
    assert pod_state({"status": status}) == state


@pytest.mark.parametrize(
    ("init", "state"),
    [
        ([{"state": {"running": {}}}], "Init:0/3"),
        ([{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}], "Init:1/3"),
        ([{"state": {"terminated": {"exitCode": 2}}}], "Init:ExitCode:2"),
        ([{"state": {"terminated": {"exitCode": 2, "reason": "Error"}}}], "Init:Error"),
        ([{"state": {"waiting": {"reason": "PodInitializing"}}}], "Init:0/3"),
        ([{"state": {"waiting": {"reason": "ErrImagePull"}}}], "Init:ErrImagePull"),
        ([{"state": {"waiting": {}}}], "Init:0/3"),
        ([{"name": "proxy", "started": True, "state": {"running": {}}}], "Waiting"),
        ([{"name": "proxy", "started": False, "state": {"running": {}}}], "Init:0/3"),
        ([{"name": "one", "started": True, "state": {"running": {}}}], "Init:0/3"),
    ],
)
def test_a_pod_that_is_being_initialized(init: list[dict[str, Any]], state: str) -> None:
    names = ["one", "two"]
    containers = [*({"name": n} for n in names), {"name": "proxy", "restartPolicy": "Always"}]
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "Waiting"}}}]}
    pod = {
        "spec": {"initContainers": containers},
        "status": {"phase": "Pending", "initContainerStatuses": init, **waiting},
    }
    assert pod_state(pod) == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed"}, "Failed"),
    ],
)
def test_a_pod_that_is_being_deleted(status: dict[str, str], state: str) -> None:
    assert pod_state({"metadata": {"deletionTimestamp": HOUR_AGO}, "status": status}) == state


def test_the_row_of_a_pod() -> None:
    ended = {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}
    earlier = {"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}}
    pod = {
        "metadata": META,
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "initContainers": [{"name": "i"}, {"name": "proxy", "restartPolicy": "Always"}],
            "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "nominatedNodeName": "m",
            "conditions": [{"type": "g", "status": "True"}, {"type": "h", "status": "False"}],
            "containerStatuses": [
                {"name": "a", **RUNNING, "restartCount": 2, "lastState": ended},
                {"name": "b", **RUNNING, "restartCount": 1, "lastState": earlier},
                {"name": "c", "state": {"running": {}}, "ready": False},
            ],
            "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {}}, "ready": True, "restartCount": 50},
                {"name": "proxy", **RUNNING, "started": True, "restartCount": 4},
            ],
        },
    }
    assert pod_cells(pod, NOW_S) == [
        *("x", "3/4", "Running", "7 (5m ago)", "60m", "10.0.0.9", "n", "m", "1/2"),
    ]
    bare = {"metadata": META, "spec": {"containers": [{}]}, "status": {"phase": "Pending"}}
    none = ["<none>"] * 4
    assert pod_cells(bare, NOW_S) == ["x", "0/1", "Pending", "0", "60m", *none]
    waits = {"state": {"waiting": {}}, "ready": True, "restartCount": 1}
    bare["status"] = {"phase": "Pending", "containerStatuses": [waits]}
    assert pod_cells(bare, NOW_S)[1:4] == ["0/1", "Pending", "1"]
