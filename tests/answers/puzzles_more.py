"""More puzzles: what two constraints do together, words of volumes and affinity, facts of nodes."""

from __future__ import annotations

from tests.answers.building import (
    GONE,
    HOST,
    ZONE,
    Data,
    Puzzle,
    claim,
    node,
    pod,
    storage_class,
    taint,
    uses,
    volume,
)
from tests.answers.puzzles_nodes import REQ, TERMS, affinity, expr, port, tolerating
from tests.answers.puzzles_pods import PREF, PRIORITIES, TERM, away, near, spread, web, wish
from tests.answers.puzzles_storage import LOCAL, TIE, reserved, tied


def near_expression(*expressions: Data, **more: object) -> Data:
    selector = {"matchExpressions": list(expressions)}
    term = {"labelSelector": selector, "topologyKey": HOST, **more}
    return {"podAffinity": {REQ: [term]}}


def csi_node(name: str, count: int) -> Data:
    driver = {"name": "disk.example", "nodeID": name, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def disk(number: int, **spec: object) -> list[Data]:
    handle = {"driver": "disk.example", "volumeHandle": f"h{number}"}
    name = f"data{number}"
    return [
        volume(f"pv-{number}", csi=handle, claimRef=reserved(name), **spec),
        claim(name, volumeName=f"pv-{number}", storageClassName=""),
    ]


def runtime_class(**more: object) -> Data:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "handler": "sandbox",
        **more,
    }


def with_init(cpu: str) -> Data:
    made = pod()
    container = {"name": "init", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    made["spec"]["initContainers"] = [container]
    return made


def as_a_whole(cpu: str) -> Data:
    made = pod()
    made["spec"]["resources"] = {"requests": {"cpu": cpu}}
    return made


UDP = [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
CONSTRAINTS = "/spec/topologySpreadConstraints"
EPHEMERAL = {"volumeClaimTemplate": {"spec": {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "gold",
    "resources": {"requests": {"storage": "1Gi"}},
}}}  # fmt: skip

SPREAD = [
    Puzzle(
        "two spread constraints, both in the way",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            node("c", zone="za"),
            pod("full", "4", on="b"),
            pod("full2", "4", on="c"),
            web("w1", "a", "100m"),
            web(topologySpreadConstraints=spread() + spread(HOST)),
        ],
        [("Pod", "p", {f"{CONSTRAINTS}/0/maxSkew": 2, f"{CONSTRAINTS}/1/maxSkew": 2})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "the zone that would do is tainted",
        [
            node("a", zone="za"),
            node("b", zone="zb", taints=[taint("gpu")]),
            web("w1", "a"),
            web(topologySpreadConstraints=spread()),
        ],
        [("Pod", "p", {"/spec/tolerations": [tolerating("gpu")]})],
        covers="PodTopologySpread TaintToleration",
    ),
    Puzzle(
        "the only node with room is in no zone",
        [
            node("a", zone="za"),
            node("b"),
            pod("full", "4", on="a"),
            web(topologySpreadConstraints=spread()),
        ],
        [("Pod", "p", {f"{CONSTRAINTS}/0/whenUnsatisfiable": "ScheduleAnyway"})],
        covers="PodTopologySpread NodeResourcesFit",
    ),
    Puzzle(
        "a topology key by its old name",
        [
            node("a", zone="za"),
            web(topologySpreadConstraints=spread("failure-domain.beta.kubernetes.io/zone")),
        ],
        [("Pod", "p", {f"{CONSTRAINTS}/0/topologyKey": ZONE})],
        covers="PodTopologySpread",
    ),
]

AFFINITY = [
    Puzzle(
        "away from its like, and the other node is tainted",
        [node("a"), node("b", taints=[taint("gpu")]), web("w1", "a"), web(affinity=away())],
        [("Pod", "p", {"/spec/tolerations": [tolerating("gpu")]})],
        covers="InterPodAffinity TaintToleration",
    ),
    Puzzle(
        "beside a label that is misspelt in an expression",
        [
            node("a"),
            pod("db-0", on="a", labels={"database": "x"}),
            pod(affinity=near_expression({"key": "databse", "operator": "Exists"})),
        ],
        [("Pod", "p", {f"{TERM}/0/labelSelector/matchExpressions/0/key": "database"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside pods of a namespace that is misspelt",
        [
            node("a"),
            pod("db-0", on="a", namespace="data", labels={"app": "db"}),
            pod(
                affinity=near_expression(
                    {"key": "app", "operator": "In", "values": ["db"]}, namespaces=["dtaa"]
                )
            ),
        ],
        [("Pod", "p", {f"{TERM}/0/namespaces/0": "data"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside pods of namespaces whose label is misspelt",
        [
            node("a"),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "data", "labels": {"team": "storage"}},
            },
            pod("db-0", on="a", namespace="data", labels={"app": "db"}),
            pod(
                affinity=near_expression(
                    {"key": "app", "operator": "In", "values": ["db"]},
                    namespaceSelector={"matchLabels": {"team": "storge"}},
                )
            ),
        ],
        [("Pod", "p", {f"{TERM}/0/namespaceSelector/matchLabels/team": "storage"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "one of two labels of an affinity is wrong",
        [
            node("a"),
            pod("db-0", on="a", labels={"app": "db", "tier": "backend"}),
            pod(
                affinity={
                    "podAffinity": {
                        REQ: [
                            {
                                "labelSelector": {"matchLabels": {"app": "db", "tier": "back-end"}},
                                "topologyKey": HOST,
                            }
                        ]
                    }
                }
            ),
        ],
        [("Pod", "p", {f"{TERM}/0/labelSelector/matchLabels/tier": "backend"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod whose node's zone is cordoned off, a wish",
        [
            node("a", zone="za", unschedulable=True),
            node("b", zone="zb"),
            pod("db-0", on="a", labels={"app": "db"}),
            pod(affinity=near("db", ZONE)),
        ],
        [
            (
                "Pod",
                "p",
                {
                    f"/spec/affinity/podAffinity/{PREF}": wish("podAffinity", near("db", ZONE))[
                        "podAffinity"
                    ][PREF],
                    f"/spec/affinity/podAffinity/{REQ}": GONE,
                },
            )
        ],
        covers="InterPodAffinity NodeUnschedulable",
    ),
]

VOLUMES = [
    Puzzle(
        "a claim that selects another volume",
        [
            node("a"),
            LOCAL,
            claim(storageClassName="local", selector={"matchLabels": {"tier": "gold"}}),
            volume("pv-1", storageClassName="local", labels={"tier": "silver"}),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/selector/matchLabels/tier": "silver"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim for a block device",
        [
            node("a"),
            LOCAL,
            claim(storageClassName="local", volumeMode="Block"),
            volume("pv-1", storageClassName="local", volumeMode="Filesystem"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/volumeMode": "Filesystem"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a claim for many writers",
        [
            node("a"),
            LOCAL,
            claim(mode="ReadWriteMany", storageClassName="local"),
            volume("pv-1", storageClassName="local"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/accessModes/0": "ReadWriteOnce"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a free volume whose host is misspelt",
        [
            node("worker-1"),
            LOCAL,
            claim(storageClassName="local"),
            volume(
                "pv-1",
                storageClassName="local",
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [expr(HOST, "In", "wroker-1")]}]
                    }
                },
            ),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolume",
                "pv-1",
                {f"{TIE}/0/matchExpressions/0/values/0": "worker-1"},
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume in a zone that has no node: a node there",
        [
            node("a", zone="za"),
            volume("pv-1", nodeAffinity=tied("zb"), claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        create=["Node"],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume by its label in a zone whose node is full",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            pod("full", "4", on="b"),
            volume("pv-1", labels={ZONE: "zb"}, claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        create=["Node"],
        covers="VolumeZone NodeResourcesFit",
    ),
    Puzzle(
        "more volumes than a node takes, and its zone has no other",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            csi_node("a", 1),
            csi_node("b", 1),
            *disk(1),
            *disk(2, nodeAffinity=tied("za")),
            pod("old", on="a", volumes=uses("data1")),
            pod(volumes=uses("data2")),
        ],
        create=["Node", "CSINode"],
        covers="NodeVolumeLimits VolumeBinding",
    ),
    Puzzle(
        "more volumes than a node takes, and the other is cordoned",
        [
            node("a"),
            node("b", unschedulable=True),
            csi_node("a", 1),
            csi_node("b", 1),
            *disk(1),
            *disk(2),
            pod("old", on="a", volumes=uses("data1")),
            pod(volumes=uses("data2")),
        ],
        [("Node", "b", {"/spec/unschedulable": GONE})],
        covers="NodeVolumeLimits NodeUnschedulable",
    ),
    Puzzle(
        "a class of a claim that comes with the pod, which nothing is like",
        [
            node("a"),
            storage_class("fast"),
            pod(volumes=[{"name": "v", "ephemeral": EPHEMERAL}]),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/storageClassName": "fast"},
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "more than the driver has room for",
        [
            node("a", zone="za"),
            storage_class("fast"),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": "disk.example"},
                "spec": {"storageCapacity": True},
            },
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": "c", "namespace": "kube-system"},
                "storageClassName": "fast",
                "capacity": "5Gi",
                "nodeTopology": {"matchLabels": {ZONE: "za"}},
            },
            claim(size="10Gi", storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolumeClaim", "data", {"/spec/resources/requests/storage": "5Gi"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a disk of another pod: another node",
        [
            node("a"),
            *(
                pod(name, on=on, volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "x"}}])
                for name, on in (("old", "a"), ("p", ""))
            ),
        ],
        create=["Node"],
        covers="VolumeRestrictions",
    ),
]

NODES = [
    Puzzle(
        "an architecture that is not there",
        [
            node("a", labels={"kubernetes.io/arch": "arm64"}),
            pod(nodeSelector={"kubernetes.io/arch": "amd64"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/kubernetes.io~1arch": "arm64"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a label by its old name",
        [
            node("a", labels={"kubernetes.io/arch": "arm64"}),
            pod(nodeSelector={"beta.kubernetes.io/arch": "arm64"}),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/nodeSelector/kubernetes.io~1arch": "arm64",
                    "/spec/nodeSelector/beta.kubernetes.io~1arch": GONE,
                },
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a key in the wrong case",
        [node("a", labels={"Disk": "ssd"}), pod(nodeSelector={"disk": "ssd"})],
        [("Pod", "p", {"/spec/nodeSelector/Disk": "ssd", "/spec/nodeSelector/disk": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "two selectors that are both misspelt",
        [
            node("a", labels={"disk": "ssd", "gen": "three"}),
            pod(nodeSelector={"disk": "sdd", "gen": "thre"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/disk": "ssd", "/spec/nodeSelector/gen": "three"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "the first of two terms is nearly right",
        [
            node("a", labels={"disk": "ssd"}),
            pod(
                affinity={
                    "nodeAffinity": {
                        REQ: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [expr("disk", "In", "sdd")]},
                                {"matchExpressions": [expr("backup", "Exists")]},
                            ]
                        }
                    }
                }
            ),
        ],
        [("Pod", "p", {f"{TERMS}/0/matchExpressions/0/values/0": "ssd"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a term that asks for nothing",
        [node("a"), pod(affinity=affinity())],
        [("Pod", "p", {"/spec/affinity": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a runtime class whose nodes there are not",
        [
            node("a"),
            runtime_class(scheduling={"nodeSelector": {"sandbox": "yes"}}),
            pod(runtimeClassName="sandbox"),
        ],
        [("Pod", "p", {"/spec/runtimeClassName": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "what a runtime class takes for itself",
        [
            node("a"),
            runtime_class(overhead={"podFixed": {"cpu": "1"}}),
            pod(cpu="4", runtimeClassName="sandbox"),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/cpu": "3"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "what kubelets here do not know",
        [node("a"), pod(hostNetwork=True, hostUsers=False)],
        [("Pod", "p", {"/spec/hostUsers": GONE})],
        covers="NodeDeclaredFeatures",
    ),
    Puzzle(
        "an init container that asks for too much",
        [node("a"), with_init("6")],
        [("Pod", "p", {"/spec/initContainers/0/resources/requests/cpu": "4"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a request of the pod as a whole",
        [node("a"), as_a_whole("6")],
        [("Pod", "p", {"/spec/resources/requests/cpu": "4"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a host port of another protocol is no help",
        [
            node("a"),
            pod("old", on="a", ports=UDP),
            pod("older", on="a", ports=port(80, 54)),
            pod(ports=UDP),
        ],
        [("Pod", "p", {"/spec/containers/0/ports/0/hostPort": 55})],
        covers="NodePorts",
    ),
    Puzzle(
        "a host port of the host's network",
        [
            node("a"),
            pod("old", on="a", hostNetwork=True, ports=port(80, 80)),
            pod(hostNetwork=True, ports=port(80, 80)),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/ports/0/hostPort": 81,
                    "/spec/containers/0/ports/0/containerPort": 81,
                },
            )
        ],
        covers="NodePorts",
    ),
    Puzzle(
        "a pod that may evict nobody",
        [
            *PRIORITIES,
            node("a", taints=[taint("t")], pods="1"),
            pod("old", on="a", priority=10),
            pod(
                priorityClassName="high",
                preemptionPolicy="Never",
                tolerations=[{"key": "t", "operator": "Exists"}],
                affinity=affinity(fields=(expr("metadata.name", "In", "a"),)),
            ),
        ],
        [("Pod", "p", {"/spec/preemptionPolicy": "PreemptLowerPriority"})],
        evicts=["default/old"],
        covers="DefaultPreemption",
    ),
]

PUZZLES = [*SPREAD, *AFFINITY, *VOLUMES, *NODES]
