"""Puzzles about groups: a group is placed as a whole."""

from __future__ import annotations

from tests.answers.building import ZONE, Data, Puzzle, node, pod, taint
from tests.answers.puzzles_nodes import tolerating


def gang(needed: int, name: str = "g", topology: str = "") -> Data:
    spec: Data = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def member(name: str, cpu: str = "1", of: str = "g", **more: object) -> Data:
    return pod(name, cpu, schedulingGroup={"podGroupName": of}, **more)


COUNT = "/spec/schedulingPolicy/gang/minCount"
KEY = "/spec/schedulingConstraints/topology/0/key"
TOLERATES = {"/spec/tolerations": [tolerating("gpu")]}

PUZZLES = [
    Puzzle(
        "a gang of which there are too few",
        [node("a"), gang(3), member("p"), member("q")],
        [("PodGroup", "g", {COUNT: 2})],
        covers="GangScheduling",
    ),
    Puzzle(
        "a gang that there is no room for",
        [node("a"), gang(3), member("p", "2"), member("q", "2"), member("r", "2")],
        create=["Node"],
        covers="GangScheduling NodeResourcesFit",
    ),
    Puzzle(
        "a gang whose name is misspelt by all",
        [node("a"), gang(2, "training"), member("p", of="trainng"), member("q", of="trainng")],
        [
            (kind, name, {"/spec/schedulingGroup/podGroupName": "training"})
            for kind, name in (("Pod", "p"), ("Pod", "q"))
        ],
        covers="GangScheduling",
    ),
    Puzzle(
        "a gang whose name is misspelt by one",
        [node("a"), gang(2, "training"), member("p", of="trainng"), member("q", of="training")],
        [("Pod", "p", {"/spec/schedulingGroup/podGroupName": "training"})],
        covers="GangScheduling",
    ),
    Puzzle(
        "a gang on tainted nodes",
        [node("a", taints=[taint("gpu")]), gang(2), member("p"), member("q")],
        [("Pod", "p", TOLERATES), ("Pod", "q", TOLERATES)],
        covers="GangScheduling TaintToleration",
    ),
    Puzzle(
        "another member of the gang has a misspelt label",
        [
            node("a", labels={"disk": "ssd"}),
            gang(2),
            member("p"),
            member("q", nodeSelector={"disk": "sdd"}),
        ],
        [("Pod", "q", {"/spec/nodeSelector/disk": "ssd"})],
        covers="GangScheduling NodeAffinity",
    ),
    Puzzle(
        "a gang in one zone, misspelt",
        [
            node("a", zone="za"),
            gang(2, topology="topology.kubernetes.io/zoen"),
            member("p"),
            member("q"),
        ],
        [("PodGroup", "g", {KEY: ZONE})],
        covers="TopologyPlacementGenerator",
    ),
    Puzzle(
        "a gang too large for one zone",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            gang(3, topology=ZONE),
            member("p", "2"),
            member("q", "2"),
            member("r", "2"),
        ],
        [("PodGroup", "g", {"/spec/schedulingConstraints": None})],
        covers="TopologyPlacementGenerator NodeResourcesFit",
    ),
]
