"""More puzzles about volumes: where they are, whose they were, which class they have."""

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
from tests.answers.puzzles_nodes import tolerating
from tests.answers.puzzles_shapes import expression


def limited(name: str, count: int) -> Data:
    """A node that takes so many volumes of a driver."""
    driver = {"name": "disk.example", "nodeID": name, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def attached(count: int) -> list[Data]:
    """Claims with volumes of that driver."""
    volumes = [
        volume(
            f"pv-{n}",
            csi={"driver": "disk.example", "volumeHandle": f"h{n}"},
            claimRef={"name": f"data{n}", "namespace": "default"},
        )
        for n in range(count)
    ]
    return [
        *volumes,
        *(claim(f"data{n}", volumeName=f"pv-{n}", storageClassName="") for n in range(count)),
    ]


TIES = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions"

PUZZLES = [
    Puzzle(
        "a misspelt class that binds at once",
        [
            node("a"),
            storage_class("standard", wait=False),
            volume("pv1", storageClassName="standard"),
            claim(storageClassName="standrad"),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolumeClaim",
                "data",
                {
                    "/metadata/annotations/pv.kubernetes.io~1bind-completed": "yes",
                    "/spec/storageClassName": "standard",
                    "/spec/volumeName": "pv1",
                },
            )
        ],
        covers="VolumeBinding VolumeZone",
    ),
    Puzzle(
        "a volume in another zone than the selector says",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            volume("pv", labels={ZONE: "zb"}, claimRef={"name": "data", "namespace": "default"}),
            claim(volumeName="pv", storageClassName=""),
            pod(volumes=uses("data"), nodeSelector={ZONE: "za"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/topology.kubernetes.io~1zone": "zb"})],
        covers="NodeAffinity VolumeZone",
    ),
    Puzzle(
        "a volume whose zone is tainted",
        [
            node("a", zone="za"),
            node("b", zone="zb", taints=[taint("db")]),
            volume("pv", labels={ZONE: "zb"}, claimRef={"name": "data", "namespace": "default"}),
            claim(volumeName="pv", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("db", effect="NoSchedule")]},
            )
        ],
        covers="TaintToleration VolumeZone",
    ),
    Puzzle(
        "a volume of a misspelt class",
        [
            node("a"),
            storage_class("local", provisioner="kubernetes.io/no-provisioner"),
            volume("pv", storageClassName="lokal"),
            claim(storageClassName="local"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv", {"/spec/storageClassName": "local"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "more volumes than a node takes, and the other is tainted",
        [
            node("a"),
            node("b", taints=[taint("x")]),
            limited("a", 1),
            limited("b", 5),
            *attached(2),
            pod("o", on="a", volumes=uses("data0")),
            pod(volumes=uses("data1")),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("x", effect="NoSchedule")]},
            )
        ],
        covers="NodeVolumeLimits TaintToleration",
    ),
    Puzzle(
        "a class with a misspelt topology key",
        [
            node("a", zone="za"),
            storage_class(
                "fast",
                allowedTopologies=[
                    {
                        "matchLabelExpressions": [
                            {"key": "topology.kubernetes.io/zoen", "values": ["za"]}
                        ]
                    }
                ],
            ),
            claim(storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        [
            (
                "StorageClass",
                "fast",
                {"/allowedTopologies/0/matchLabelExpressions/0/key": "topology.kubernetes.io/zone"},
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a disk on a node that is gone",
        [
            node("new-1"),
            volume(
                "pv",
                claimRef={"name": "data", "namespace": "default"},
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [expression(HOST, "In", "old-7")]}
                        ]
                    }
                },
            ),
            claim(volumeName="pv", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [
            (
                "PersistentVolume",
                "pv",
                {f"{TIES}/0/values/0": "new-1"},
            )
        ],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a volume that another claim left",
        [
            node("a"),
            volume("pv", storageClassName="", claimRef={"name": "other", "namespace": "default"}),
            claim(storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [
            ("PersistentVolume", "pv", {"/spec/claimRef": GONE, "/status/phase": "Available"}),
            (
                "PersistentVolumeClaim",
                "data",
                {
                    "/metadata/annotations/pv.kubernetes.io~1bind-completed": "yes",
                    "/spec/volumeName": "pv",
                },
            ),
        ],
        covers="VolumeBinding VolumeZone",
    ),
    Puzzle(
        "a volume that an earlier claim of the same name left",
        [
            node("a"),
            storage_class("local", provisioner="kubernetes.io/no-provisioner"),
            volume(
                "pv",
                storageClassName="local",
                claimRef={"name": "data", "namespace": "default", "uid": "old"},
            ),
            claim(storageClassName="local"),
            pod(volumes=uses("data")),
        ],
        [("PersistentVolume", "pv", {"/spec/claimRef": GONE, "/status/phase": "Available"})],
        covers="VolumeBinding",
    ),
    Puzzle(
        "a disk on a cordoned node",
        [
            node("a", unschedulable=True),
            node("b"),
            storage_class("local", provisioner="kubernetes.io/no-provisioner"),
            volume(
                "pv",
                storageClassName="local",
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [expression(HOST, "In", "a")]}]
                    }
                },
            ),
            claim(storageClassName="local"),
            pod(volumes=uses("data")),
        ],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable VolumeBinding",
    ),
    Puzzle(
        "a class for one zone, a selector for another",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            storage_class(
                "fast",
                allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["zb"]}]}],
            ),
            claim(storageClassName="fast"),
            pod(volumes=uses("data"), nodeSelector={ZONE: "za"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/topology.kubernetes.io~1zone": "zb"})],
        covers="NodeAffinity VolumeBinding",
    ),
    Puzzle(
        "a class for a zone whose node is full",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            pod("f", "4", on="b"),
            storage_class(
                "fast",
                allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["zb"]}]}],
            ),
            claim(storageClassName="fast"),
            pod(volumes=uses("data")),
        ],
        [],
        create=["Node"],
        covers="NodeResourcesFit VolumeBinding",
    ),
    Puzzle(
        "one of two claims has a misspelt class",
        [
            node("a"),
            storage_class("fast"),
            claim("d1", storageClassName="fast"),
            claim("d2", storageClassName="fats"),
            pod(volumes=uses("d1", "d2")),
        ],
        [("PersistentVolumeClaim", "d2", {"/spec/storageClassName": "fast"})],
        covers="VolumeBinding VolumeZone",
    ),
    Puzzle(
        "both claims have a misspelt class",
        [
            node("a"),
            storage_class("fast"),
            claim("d1", storageClassName="fsat"),
            claim("d2", storageClassName="fats"),
            pod(volumes=uses("d1", "d2")),
        ],
        [
            ("PersistentVolumeClaim", "d2", {"/spec/storageClassName": "fast"}),
            ("PersistentVolumeClaim", "d1", {"/spec/storageClassName": "fast"}),
        ],
        covers="VolumeBinding VolumeZone",
    ),
    Puzzle(
        "a claim that is not there, nor any class",
        [node("a"), pod(volumes=uses("data"))],
        [],
        create=["PersistentVolumeClaim", "PersistentVolume"],
        covers="NodeVolumeLimits VolumeBinding VolumeRestrictions VolumeZone",
    ),
    Puzzle(
        "a disk that one node has already",
        [
            node("a"),
            pod("o", on="a", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "x"}}]),
            pod(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "x"}}]),
        ],
        [],
        create=["Node"],
        covers="VolumeRestrictions",
    ),
]
