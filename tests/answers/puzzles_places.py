"""Puzzles about where volumes say they are, and about words that few people use."""

from __future__ import annotations

from typing import Any

from tests.answers.building import (
    GONE,
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
from tests.answers.puzzles_more import csi_node, runtime_class
from tests.answers.puzzles_nodes import CPU
from tests.answers.puzzles_pods import REQ, spread, web
from tests.answers.puzzles_shapes import expression
from tests.answers.puzzles_storage import (
    TIE,
    claiming,
    device_class,
    reserved,
    resource_claim,
    resource_slice,
    tied,
)

ZONE_LABEL = "/metadata/labels/topology.kubernetes.io~1zone"


def bound(name: str, **spec: Any) -> list[Data]:
    """A claim and its volume."""
    return [
        claim(name, volumeName=f"pv-{name}", storageClassName=""),
        volume(f"pv-{name}", claimRef=reserved(name), **spec),
    ]


def at(*requirements: Data) -> Data:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}}


def namespace(name: str, **labels: str) -> Data:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def near_in(**selector: Any) -> Data:
    """Beside databases of namespaces that a selector says."""
    labels = {"matchLabels": {"app": "db"}}
    term = {"labelSelector": labels, "namespaceSelector": selector,
            "topologyKey": "kubernetes.io/hostname"}  # fmt: skip
    return {"podAffinity": {REQ: [term]}}


SHOP = [
    node("a"),
    namespace("default"),
    namespace("shop", team="blue"),
    pod("db", on="a", namespace="shop", labels={"app": "db"}),
]
SPACES = f"/spec/affinity/podAffinity/{REQ}/0/namespaceSelector"


def replica(name: str, on: str = "") -> Data:
    """Of a ReplicaSet that asks for 4 cpu each."""
    made = pod(name, "4", on, labels={"app": "w"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u"}
    made["metadata"] |= {"uid": f"u-{name}", "ownerReferences": [{**owner, "controller": True}]}
    return made


REPLICAS = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "w", "namespace": "default", "uid": "u"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod("t", "4")["spec"]},
    },
}

PLACES = [
    Puzzle(
        "volumes in two zones",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            *bound("one", nodeAffinity=tied("za")),
            *bound("two", nodeAffinity=tied("zb")),
            pod(volumes=uses("one", "two")),
        ],
        [("PersistentVolume", "pv-two", {f"{TIE}/0/matchExpressions/0/values/0": "za"})],
        covers="VolumeBinding VolumeZone",
    ),
    Puzzle(
        "volumes in two zones by their labels",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            *bound("one", labels={ZONE: "za"}),
            *bound("two", labels={ZONE: "zb"}),
            pod(volumes=uses("one", "two")),
        ],
        [("PersistentVolume", "pv-two", {ZONE_LABEL: "za"})],
        covers="VolumeZone",
    ),
    Puzzle(
        "a volume of two zones, one of them misspelt",
        [
            node("a", zone="eu-west-1a"),
            *bound("data", labels={ZONE: "eu-wset-1a__us-east-2c"}),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv-data", {ZONE_LABEL: "eu-west-1a__us-east-2c"})],
        covers="VolumeZone",
    ),
    Puzzle(
        "a volume of two zones that have no node",
        [node("a", zone="zc"), *bound("data", labels={ZONE: "za__zb"}), pod(volumes=uses("data"))],
        create=["Node"],
        covers="VolumeZone",
    ),
    Puzzle(
        "a volume that may be anywhere but here",
        [
            node("a", zone="za"),
            *bound("data", nodeAffinity=at(expression(ZONE, "NotIn", "za"))),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv-data", {"/spec/nodeAffinity": GONE})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume that may not be in two zones",
        [
            node("a", zone="za"),
            *bound("data", nodeAffinity=at(expression(ZONE, "NotIn", "zb", "za"))),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv-data", {f"{TIE}/0/matchExpressions/0/values/1": GONE})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume with a misspelt key",
        [
            node("a", zone="za"),
            *bound("data", nodeAffinity=at(expression("topology.kubernetes.io/zoen", "In", "za"))),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv-data", {f"{TIE}/0/matchExpressions/0/key": ZONE})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume for nodes with a label",
        [
            node("a"),
            *bound("data", nodeAffinity=at(expression("storage", "Exists"))),
            pod(volumes=uses("data")),
        ],
        [("Node", "a", {"/metadata/labels/storage": ""})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a class that there is not, where somebody makes volumes",
        [
            node("a"),
            csi_node("a", 5),
            claim(storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        create=["StorageClass"],
        covers="VolumeBinding",
    ),
]

RARE = [
    Puzzle(
        "two tolerations, both misspelt",
        [
            node("a", taints=[taint("gpu", "a100"), taint("team", "vision")]),
            pod(
                tolerations=[
                    {"key": "gpu", "value": "a10", "effect": "NoSchedule"},
                    {"key": "team", "value": "vison", "effect": "NoSchedule"},
                ]
            ),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations/0/value": "a100", "/spec/tolerations/1/value": "vision"},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "beside pods of a team whose name is misspelt in an expression",
        [
            *SHOP,
            pod(affinity=near_in(matchExpressions=[expression("team", "In", "bleu")])),
        ],
        [("Pod", "p", {f"{SPACES}/matchExpressions/0/values/0": "blue"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside pods of namespaces whose label's key is misspelt",
        [*SHOP, pod(affinity=near_in(matchLabels={"taem": "blue"}))],
        [("Pod", "p", {f"{SPACES}/matchLabels/taem": GONE, f"{SPACES}/matchLabels/team": "blue"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "what a runtime class takes leaves nothing",
        [
            node("a", "2"),
            runtime_class(overhead={"podFixed": {"cpu": "2"}}),
            pod(runtimeClassName="sandbox"),
        ],
        [("Pod", "p", {"/spec/runtimeClassName": GONE})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "more devices than there are, by the name of a resource",
        [
            node("a"),
            {
                **device_class(),
                "spec": {**device_class()["spec"], "extendedResourceName": "example.com/gpu"},
            },
            resource_slice(2),
            pod(room={"example.com/gpu": "3"}),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/example.com~1gpu": "2"})],
        covers="DynamicResources NodeResourcesFit",
    ),
    Puzzle(
        "a device class that there is not",
        [node("a"), resource_slice(1), resource_claim(), claiming()],
        create=["DeviceClass"],
        covers="DynamicResources",
    ),
    Puzzle(
        "a device claim where there are no devices",
        [node("a"), device_class(), resource_claim(), claiming()],
        [("Pod", "p", {"/spec/resourceClaims": GONE})],
        covers="DynamicResources",
    ),
    Puzzle(
        "three replicas where two fit",
        [node("a", "8"), REPLICAS, replica("w1"), replica("w2"), replica("w3")],
        [("Pod", name, {CPU: "2666m"}) for name in ("w3", "w1", "w2")]
        + [("ReplicaSet", "w", {f"/spec/template{CPU}": "2666m"})],
        pod="default/w3",
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a zone that it may not go to is counted",
        [
            node("a", zone="za", labels={"pool": "x"}),
            node("b", zone="zb"),
            web("w1", "a"),
            web(
                nodeSelector={"pool": "x"},
                topologySpreadConstraints=spread(nodeAffinityPolicy="Ignore"),
            ),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/maxSkew": 2})],
        covers="PodTopologySpread NodeAffinity",
    ),
]

PUZZLES = [*PLACES, *RARE]
