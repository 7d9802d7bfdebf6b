"""Puzzles that take two changes, and some where one of several nodes needs the least."""

from __future__ import annotations

from tests.answers.building import (
    GONE,
    ZONE,
    Puzzle,
    claim,
    node,
    pod,
    storage_class,
    taint,
    uses,
    volume,
)
from tests.answers.puzzles_nodes import CPU, TERMS, affinity, expr, port, tolerating
from tests.answers.puzzles_pods import PREF, REQ, away, near, spread, web, wish
from tests.answers.puzzles_storage import reserved, tied

PUZZLES = [
    Puzzle(
        "a taint and too much cpu",
        [node("a", taints=[taint("team", "ml")]), pod(cpu="5")],
        [("Pod", "p", {CPU: "4", "/spec/tolerations": [tolerating("team", "ml")]})],
        covers="TaintToleration NodeResourcesFit",
    ),
    Puzzle(
        "a misspelt label and too much cpu",
        [node("a", labels={"disk": "ssd"}), pod(cpu="5", nodeSelector={"disk": "sdd"})],
        [("Pod", "p", {CPU: "4", "/spec/nodeSelector/disk": "ssd"})],
        covers="NodeAffinity NodeResourcesFit",
    ),
    Puzzle(
        "a misspelt label and a taint",
        [
            node("a", labels={"disk": "ssd"}, taints=[taint("gpu")]),
            pod(nodeSelector={"disk": "sdd"}),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/nodeSelector/disk": "ssd", "/spec/tolerations": [tolerating("gpu")]},
            )
        ],
        covers="NodeAffinity TaintToleration",
    ),
    Puzzle(
        "a cordon and too much cpu",
        [node("a", unschedulable=True), pod(cpu="5")],
        [("Pod", "p", {CPU: "4"}), ("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable NodeResourcesFit",
    ),
    Puzzle(
        "a cordon and a taint",
        [node("a", unschedulable=True, taints=[taint("gpu")]), pod()],
        [
            ("Pod", "p", {"/spec/tolerations": [tolerating("gpu")]}),
            ("Node", "a", {"/spec/unschedulable": GONE}),
        ],
        covers="NodeUnschedulable TaintToleration",
    ),
    Puzzle(
        "a host port and a taint",
        [
            node("a", taints=[taint("gpu")]),
            pod("old", on="a", ports=port(80, 8080)),
            pod(ports=port(80, 8080)),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/ports/0/hostPort": 8081,
                    "/spec/tolerations": [tolerating("gpu")],
                },
            )
        ],
        covers="NodePorts TaintToleration",
    ),
    Puzzle(
        "a gate and a misspelt label",
        [
            node("a", labels={"disk": "ssd"}),
            pod(nodeSelector={"disk": "sdd"}, schedulingGates=[{"name": "a.io/x"}]),
        ],
        [("Pod", "p", {"/spec/nodeSelector/disk": "ssd", "/spec/schedulingGates": GONE})],
        covers="SchedulingGates NodeAffinity",
    ),
    Puzzle(
        "a spread and a taint",
        [
            node("a", zone="za", taints=[taint("gpu")]),
            web("w1", "a"),
            web(topologySpreadConstraints=spread(minDomains=2)),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/topologySpreadConstraints/0/maxSkew": 2,
                    "/spec/tolerations": [tolerating("gpu")],
                },
            )
        ],
        covers="PodTopologySpread TaintToleration",
    ),
    Puzzle(
        "an affinity and too much cpu",
        [
            node("a", zone="za"),
            pod("db-0", on="a", labels={"app": "database"}),
            pod(cpu="4", affinity=near("databse")),
        ],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "3",
                    f"/spec/affinity/podAffinity/{REQ}/0/labelSelector/matchLabels/app": "database",
                },
            )
        ],
        covers="InterPodAffinity NodeResourcesFit",
    ),
    Puzzle(
        "a misspelt claim and a taint",
        [
            node("a", taints=[taint("gpu")]),
            storage_class("fast"),
            claim("database", storageClassName="fast"),
            pod(volumes=uses("databse")),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/tolerations": [tolerating("gpu")],
                    "/spec/volumes/0/persistentVolumeClaim/claimName": "database",
                },
            )
        ],
        covers="VolumeBinding TaintToleration",
    ),
    Puzzle(
        "a misspelt label here, a taint there: the word",
        [
            node("a", labels={"disk": "ssd"}),
            node("b", labels={"disk": "sdd"}, taints=[taint("x")]),
            pod(nodeSelector={"disk": "sdd"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/disk": "ssd"})],
        covers="NodeAffinity TaintToleration",
    ),
    Puzzle(
        "a taint here, too much cpu there: the toleration",
        [node("a", taints=[taint("spot")]), node("b", "2"), pod(cpu="3")],
        [("Pod", "p", {"/spec/tolerations": [tolerating("spot")]})],
        covers="TaintToleration NodeResourcesFit",
    ),
    Puzzle(
        "one change on one node before two on another",
        [
            node("a", labels={"disk": "ssd"}, taints=[taint("x"), taint("y")]),
            node("b", labels={"disk": "hdd"}, unschedulable=True),
            pod(nodeSelector={"disk": "hdd"}),
        ],
        [("Node", "b", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable",
    ),
    Puzzle(
        "an anti-affinity and a misspelt zone",
        [
            node("a", zone="eu-a"),
            web("w1", "a"),
            web(affinity={**away(key=ZONE), **affinity(expr(ZONE, "In", "eu-b"))}),
        ],
        [
            (
                "Pod",
                "p",
                {
                    f"{TERMS}/0/matchExpressions/0/values/0": "eu-a",
                    f"/spec/affinity/podAntiAffinity/{PREF}": wish(
                        "podAntiAffinity", away(key=ZONE)
                    )["podAntiAffinity"][PREF],
                    f"/spec/affinity/podAntiAffinity/{REQ}": GONE,
                },
            )
        ],
        covers="InterPodAffinity NodeAffinity",
    ),
    Puzzle(
        "a cordon, a taint and too much cpu",
        [node("a", unschedulable=True, taints=[taint("x")]), pod(cpu="5")],
        [
            ("Pod", "p", {CPU: "4", "/spec/tolerations": [tolerating("x")]}),
            ("Node", "a", {"/spec/unschedulable": GONE}),
        ],
        covers="NodeUnschedulable TaintToleration NodeResourcesFit",
    ),
    Puzzle(
        "a volume's zone whose node is cordoned",
        [
            node("a", zone="za", unschedulable=True),
            node("b", zone="zb"),
            volume("pv-1", nodeAffinity=tied("za"), claimRef=reserved("data")),
            claim(volumeName="pv-1", storageClassName=""),
            pod(volumes=uses("data")),
        ],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable VolumeBinding",
    ),
]
