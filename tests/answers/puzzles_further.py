"""Further puzzles, mostly of two filters: devices, groups, volumes, ports beside another cause."""

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
    taint,
    uses,
    volume,
)
from tests.answers.puzzles_groups import gang, member
from tests.answers.puzzles_nodes import CPU, tolerating
from tests.answers.puzzles_pods import REQ, spread, web
from tests.answers.puzzles_shapes import expression, port
from tests.answers.puzzles_storage import device_class, resource_claim, resource_slice


def a_claim(name: str = "gpus", cls: str = "gpu") -> Data:
    """For a device of a class."""
    found = resource_claim()
    found["metadata"]["name"] = name
    found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = cls
    return found


def with_claims(*names: str, **more: object) -> Data:
    entries = [{"name": f"c{n}", "resourceClaimName": name} for n, name in enumerate(names)]
    return pod(resourceClaims=entries, **more)


FIRST = f"/spec/affinity/podAffinity/{REQ}/0"

PUZZLES = [
    Puzzle(
        "both device claims have a misspelt class",
        [
            node("a"),
            device_class(),
            resource_slice(2),
            a_claim("c-one", cls="gup"),
            a_claim("c-two", cls="gpuu"),
            with_claims("c-one", "c-two"),
        ],
        [
            ("ResourceClaim", "c-two", {"/spec/devices/requests/0/exactly/deviceClassName": "gpu"}),
            ("ResourceClaim", "c-one", {"/spec/devices/requests/0/exactly/deviceClassName": "gpu"}),
        ],
        covers="DynamicResources",
    ),
    Puzzle(
        "a misspelt device class on a tainted node",
        [
            node("a", taints=[taint("x")]),
            device_class(),
            resource_slice(1),
            a_claim(cls="gup"),
            with_claims("gpus"),
        ],
        [
            ("Pod", "p", {"/spec/tolerations": [tolerating("x", effect="NoSchedule")]}),
            ("ResourceClaim", "gpus", {"/spec/devices/requests/0/exactly/deviceClassName": "gpu"}),
        ],
        covers="DynamicResources TaintToleration",
    ),
    Puzzle(
        "devices, and a misspelt label",
        [
            node("a", labels={"disk": "ssd"}),
            device_class(),
            resource_slice(1),
            a_claim(),
            with_claims("gpus", nodeSelector={"disk": "sdd"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/disk": "ssd"})],
        covers="NodeAffinity DynamicResources",
    ),
    Puzzle(
        "devices in another zone than the selector says",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            device_class(),
            resource_slice(1, "b"),
            a_claim(),
            with_claims("gpus", nodeSelector={ZONE: "za"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/topology.kubernetes.io~1zone": "zb"})],
        covers="DynamicResources NodeAffinity",
    ),
    Puzzle(
        "a device class that selects a misspelt driver",
        [
            node("a"),
            {
                **device_class(),
                "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.exmple'"}}]},
            },
            resource_slice(1),
            a_claim(),
            with_claims("gpus"),
        ],
        [
            (
                "DeviceClass",
                "gpu",
                {"/spec/selectors/0/cel/expression": "device.driver == 'gpu.example'"},
            )
        ],
        covers="DynamicResources",
    ),
    Puzzle(
        "a misspelt label in all of a gang",
        [
            node("a", labels={"disk": "ssd"}),
            gang(2),
            member("p", nodeSelector={"disk": "sdd"}),
            member("q", nodeSelector={"disk": "sdd"}),
        ],
        [
            ("Pod", "p", {"/spec/nodeSelector/disk": "ssd"}),
            ("Pod", "q", {"/spec/nodeSelector/disk": "ssd"}),
        ],
        covers="GangScheduling NodeAffinity",
    ),
    Puzzle(
        "a gang on a cordoned node",
        [node("a", unschedulable=True), gang(2), member("p"), member("q")],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="GangScheduling NodeUnschedulable",
    ),
    Puzzle(
        "another member of the gang has a gate",
        [node("a"), gang(2), member("p"), member("q", schedulingGates=[{"name": "x"}])],
        [("Pod", "q", {"/spec/schedulingGates": GONE})],
        covers="GangScheduling",
    ),
    Puzzle(
        "a misspelt node that has too little room",
        [node("worker-1", cpu="2"), node("worker-2"), pod(cpu="3", nodeName="worker-l")],
        [("Pod", "p", {"/spec/nodeName": GONE})],
        covers="NodeName NodeResourcesFit",
    ),
    Puzzle(
        "a volume whose zone has less room than is asked for",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            pod("f", "3", on="b"),
            volume("pv", labels={ZONE: "zb"}, claimRef={"name": "data", "namespace": "default"}),
            claim(volumeName="pv", storageClassName=""),
            pod(cpu="2", volumes=uses("data")),
        ],
        [("Pod", "p", {CPU: "1"})],
        covers="NodeResourcesFit VolumeZone",
    ),
    Puzzle(
        "a claim in use, on a tainted node",
        [
            node("a", taints=[taint("x")]),
            claim(mode="ReadWriteOncePod", volumeName="pv", storageClassName=""),
            volume(
                "pv",
                accessModes=["ReadWriteOncePod"],
                claimRef={"name": "data", "namespace": "default"},
            ),
            pod("h", on="a", volumes=uses("data"), tolerations=[tolerating("x")]),
            pod(volumes=uses("data")),
        ],
        [("Pod", "p", {"/spec/tolerations": [tolerating("x", effect="NoSchedule")]})],
        delete=["h"],
        covers="TaintToleration VolumeRestrictions",
    ),
    Puzzle(
        "five more than are allowed",
        [
            node("a", zone="za"),
            node("b", zone="zb", unschedulable=True),
            *[web(f"w{i}", "a", "100m") for i in range(7)],
            web(topologySpreadConstraints=spread(skew=3)),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/maxSkew": 8})],
        covers="NodeUnschedulable PodTopologySpread",
    ),
    Puzzle(
        "one of two values is misspelt",
        [
            node("a"),
            pod("db", on="a", labels={"app": "postgres"}),
            pod(
                affinity={
                    "podAffinity": {
                        REQ: [
                            {
                                "labelSelector": {
                                    "matchExpressions": [
                                        expression("app", "In", "postgras", "mysql")
                                    ]
                                },
                                "topologyKey": HOST,
                            }
                        ]
                    }
                }
            ),
        ],
        [
            (
                "Pod",
                "p",
                {f"{FIRST}/labelSelector/matchExpressions/0/values/0": "postgres"},
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside pods of a team whose name is misspelt",
        [
            node("a"),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "prod", "labels": {"team": "data"}},
            },
            pod("db", on="a", namespace="prod", labels={"app": "db"}),
            pod(
                affinity={
                    "podAffinity": {
                        REQ: [
                            {
                                "labelSelector": {"matchLabels": {"app": "db"}},
                                "namespaceSelector": {"matchLabels": {"team": "dta"}},
                                "topologyKey": HOST,
                            }
                        ]
                    }
                }
            ),
        ],
        [
            (
                "Pod",
                "p",
                {f"{FIRST}/namespaceSelector/matchLabels/team": "data"},
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "a host port and a misspelt label",
        [
            node("a", labels={"disk": "ssd"}),
            pod("o", on="a", ports=port(80, 8080)),
            pod(ports=port(80, 8080), nodeSelector={"disk": "sdd"}),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/containers/0/ports/0/hostPort": 8081, "/spec/nodeSelector/disk": "ssd"},
            )
        ],
        covers="NodeAffinity NodePorts",
    ),
    Puzzle(
        "what kubelets do not know, and a cordon",
        [node("a", unschedulable=True), pod(hostNetwork=True, hostUsers=False)],
        [("Pod", "p", {"/spec/hostUsers": GONE}), ("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeDeclaredFeatures NodeUnschedulable",
    ),
    Puzzle(
        "what kubelets do not know, and too much cpu",
        [node("a"), pod(cpu="5", hostNetwork=True, hostUsers=False)],
        [("Pod", "p", {CPU: "4", "/spec/hostUsers": GONE})],
        covers="NodeDeclaredFeatures NodeResourcesFit",
    ),
    Puzzle(
        "the one node it may go to is tainted",
        [node("a", taints=[taint("x")]), node("b"), pod(nodeSelector={HOST: "a"})],
        [("Pod", "p", {"/spec/tolerations": [tolerating("x", effect="NoSchedule")]})],
        covers="NodeAffinity TaintToleration",
    ),
    Puzzle(
        "a misspelt type of machine",
        [
            node("a", labels={"node.kubernetes.io/instance-type": "m5.large"}),
            pod(nodeSelector={"node.kubernetes.io/instance-type": "m5.lrage"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/node.kubernetes.io~1instance-type": "m5.large"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a type of machine by its old name",
        [
            node("a", labels={"node.kubernetes.io/instance-type": "m5.large"}),
            pod(nodeSelector={"beta.kubernetes.io/instance-type": "m5.large"}),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/nodeSelector/node.kubernetes.io~1instance-type": "m5.large",
                    "/spec/nodeSelector/beta.kubernetes.io~1instance-type": GONE,
                },
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a toleration whose key lacks its prefix",
        [
            node("a", taints=[taint("nvidia.com/gpu", "present")]),
            pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
        ],
        [("Pod", "p", {"/spec/tolerations/0/key": "nvidia.com/gpu"})],
        covers="TaintToleration",
    ),
    Puzzle(
        "the only device is taken",
        [
            node("a", room={"nvidia.com/gpu": "1"}),
            pod("o", on="a", room={"nvidia.com/gpu": "1"}),
            pod(room={"nvidia.com/gpu": "1"}),
        ],
        [],
        create=["Node"],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a free device on a tainted node",
        [
            node("a", room={"nvidia.com/gpu": "1"}),
            node("b", room={"nvidia.com/gpu": "1"}, taints=[taint("nvidia.com/gpu", "present")]),
            pod("o", on="a", room={"nvidia.com/gpu": "1"}),
            pod(room={"nvidia.com/gpu": "1"}),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("nvidia.com/gpu", "present", "NoSchedule")]},
            )
        ],
        covers="NodeResourcesFit TaintToleration",
    ),
]
