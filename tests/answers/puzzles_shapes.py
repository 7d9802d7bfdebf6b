"""Puzzles of other shapes: taints, labels, terms, gates, and pairs of them."""

from __future__ import annotations

from tests.answers.building import GONE, HOST, ZONE, Data, Puzzle, node, pod, taint
from tests.answers.puzzles_nodes import tolerating
from tests.answers.puzzles_pods import PREF, REQ, away, near, web


def node_affinity(*expressions: Data, fields: list[Data] | None = None) -> Data:
    term: Data = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"nodeAffinity": {REQ: {"nodeSelectorTerms": [term]}}}


def expression(key: str, operator: str, *values: str) -> Data:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def port(container: int, host: int, **more: str) -> list[Data]:
    return [{"containerPort": container, "hostPort": host, **more}]


EXPRESSIONS = f"/spec/affinity/nodeAffinity/{REQ}/nodeSelectorTerms/0/matchExpressions"

PUZZLES = [
    Puzzle(
        "a toleration of any value with a misspelt key",
        [
            node("a", taints=[taint("dedicated", "ml", "NoExecute")]),
            pod(tolerations=[{"key": "dedicted", "operator": "Exists"}]),
        ],
        [("Pod", "p", {"/spec/tolerations/0/key": "dedicated"})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration of another value",
        [
            node("a", taints=[taint("team", "blue")]),
            pod(tolerations=[{"key": "team", "value": "red", "effect": "NoSchedule"}]),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations/-": tolerating("team", "blue", "NoSchedule")},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "one of two taints is tolerated",
        [
            node("a", taints=[taint("x", "1"), taint("y", "2", "NoExecute")]),
            pod(tolerations=[{"key": "x", "value": "1", "effect": "NoSchedule"}]),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations/-": tolerating("y", "2", "NoExecute")},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "a node that is not ready beside one for others",
        [
            node("a", taints=[taint("node.kubernetes.io/not-ready")]),
            node("b", taints=[taint("dedicated", "db")]),
            pod(),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("dedicated", "db", "NoSchedule")]},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration with two wrong words",
        [
            node("a", taints=[taint("gpu", "true")]),
            pod(tolerations=[{"key": "gpu", "value": "treu", "effect": "NoExecute"}]),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations/-": tolerating("gpu", "true", "NoSchedule")},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration without the value",
        [
            node("a", taints=[taint("gpu", "true")]),
            pod(tolerations=[{"key": "gpu", "operator": "Equal"}]),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations/-": tolerating("gpu", "true", "NoSchedule")},
            )
        ],
        covers="TaintToleration",
    ),
    Puzzle(
        "the only zone is kept away from",
        [node("a", zone="za"), pod(affinity=node_affinity(expression(ZONE, "NotIn", "za")))],
        [("Pod", "p", {"/spec/affinity": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a bound that is too low",
        [node("a", labels={"gen": "7"}), pod(affinity=node_affinity(expression("gen", "Lt", "5")))],
        [
            (
                "Pod",
                "p",
                {f"{EXPRESSIONS}/0/values/0": "8"},
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a bound that the newest node only equals",
        [
            node("a", labels={"gen": "7"}),
            node("b", labels={"gen": "4"}),
            pod(affinity=node_affinity(expression("gen", "Gt", "7"))),
        ],
        [
            (
                "Pod",
                "p",
                {f"{EXPRESSIONS}/0/values/0": "6"},
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a bound of a misspelt key",
        [
            node("a", labels={"generation": "7"}),
            pod(affinity=node_affinity(expression("genration", "Gt", "5"))),
        ],
        [
            (
                "Pod",
                "p",
                {f"{EXPRESSIONS}/0/key": "generation"},
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "none of several values",
        [
            node("a", labels={"size": "small"}),
            pod(affinity=node_affinity(expression("size", "In", "large", "huge"))),
        ],
        [
            (
                "Pod",
                "p",
                {f"{EXPRESSIONS}/0/values/-": "small"},
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "one of two expressions",
        [
            node("a", labels={"disk": "ssd", "arch": "arm"}),
            pod(
                affinity=node_affinity(
                    expression("disk", "In", "ssd"), expression("arch", "In", "amd")
                )
            ),
        ],
        [
            (
                "Pod",
                "p",
                {f"{EXPRESSIONS}/1/values/0": "arm"},
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a key that no node has",
        [node("a"), pod(affinity=node_affinity(expression("accelerator", "Exists")))],
        [("Pod", "p", {"/spec/affinity": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a value in the wrong case",
        [node("a", labels={"disk": "SSD"}), pod(nodeSelector={"disk": "ssd"})],
        [("Pod", "p", {"/spec/nodeSelector/disk": "SSD"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a key that is another word",
        [node("a", labels={"disktype": "ssd"}), pod(nodeSelector={"storage": "ssd"})],
        [("Pod", "p", {"/spec/nodeSelector": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a key and its value are misspelt",
        [node("a", labels={"disktype": "ssd"}), pod(nodeSelector={"disktpe": "sdd"})],
        [("Pod", "p", {"/spec/nodeSelector/disktype": "ssd", "/spec/nodeSelector/disktpe": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a key without its prefix",
        [node("a", labels={"node.example.com/pool": "ml"}), pod(nodeSelector={"pool": "ml"})],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/nodeSelector/node.example.com~1pool": "ml",
                    "/spec/nodeSelector/pool": GONE,
                },
            )
        ],
        covers="NodeAffinity",
    ),
    Puzzle(
        "running pods keep away from two labels together",
        [
            node("a"),
            pod(
                "h",
                on="a",
                affinity={
                    "podAntiAffinity": {
                        REQ: [
                            {
                                "labelSelector": {"matchLabels": {"app": "web", "tier": "x"}},
                                "topologyKey": HOST,
                            }
                        ]
                    }
                },
            ),
            pod(labels={"app": "web", "tier": "x"}),
        ],
        [("Pod", "p", {"/metadata/labels/app": GONE})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "two terms that no one pod meets",
        [
            node("a"),
            pod("db", on="a", labels={"app": "db"}),
            pod(
                affinity={
                    "podAffinity": {
                        REQ: [
                            {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST},
                            {
                                "labelSelector": {"matchLabels": {"app": "cahce"}},
                                "topologyKey": HOST,
                            },
                        ]
                    }
                }
            ),
            pod("c", on="a", labels={"app": "cache"}),
        ],
        [
            (
                "Pod",
                "p",
                {
                    f"/spec/affinity/podAffinity/{REQ}/1": GONE,
                    f"/spec/affinity/podAffinity/{PREF}": [
                        {
                            "weight": 100,
                            "podAffinityTerm": {
                                "labelSelector": {"matchLabels": {"app": "cahce"}},
                                "topologyKey": "kubernetes.io/hostname",
                            },
                        }
                    ],
                },
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "a gate and a misspelt scheduler",
        [node("a"), pod(schedulingGates=[{"name": "x"}], schedulerName="defualt-scheduler")],
        [("Pod", "p", {"/spec/schedulerName": "default-scheduler", "/spec/schedulingGates": GONE})],
        covers="SchedulingGates schedulerName",
    ),
    Puzzle(
        "a scheduler that is not here",
        [node("a"), pod(schedulerName="volcano")],
        [("Pod", "p", {"/spec/schedulerName": "default-scheduler"})],
        covers="schedulerName",
    ),
    Puzzle(
        "a gate and a taint",
        [node("a", taints=[taint("gpu")]), pod(schedulingGates=[{"name": "x"}])],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/tolerations": [tolerating("gpu", effect="NoSchedule")],
                    "/spec/schedulingGates": GONE,
                },
            )
        ],
        covers="SchedulingGates TaintToleration",
    ),
    Puzzle(
        "a cordon and a misspelt value",
        [node("a", unschedulable=True, labels={"disk": "ssd"}), pod(nodeSelector={"disk": "sdd"})],
        [("Node", "a", {"/metadata/labels/disk": "sdd", "/spec/unschedulable": GONE})],
        covers="NodeAffinity NodeUnschedulable",
    ),
    Puzzle(
        "a misspelt scheduler and a misspelt label",
        [
            node("a", labels={"disk": "ssd"}),
            pod(schedulerName="default-schedule", nodeSelector={"disk": "sdd"}),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/schedulerName": "default-scheduler", "/spec/nodeSelector/disk": "ssd"},
            )
        ],
        covers="NodeAffinity schedulerName",
    ),
    Puzzle(
        "beside a pod on a tainted node",
        [
            node("a", taints=[taint("db", "only")]),
            pod("db", on="a", labels={"app": "db"}, tolerations=[tolerating("db", "only")]),
            node("b"),
            pod(affinity=near("db")),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("db", "only", "NoSchedule")]},
            )
        ],
        covers="InterPodAffinity TaintToleration",
    ),
    Puzzle(
        "a running pod keeps its whole zone free",
        [
            node("a", zone="za"),
            node("b", zone="za"),
            pod("h", on="a", affinity=away("web", ZONE)),
            web(),
        ],
        [("Pod", "p", {"/metadata/labels": GONE})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "the taint that a cordon left",
        [node("a", taints=[taint("node.kubernetes.io/unschedulable")]), pod()],
        [("Node", "a", {"/spec/taints": GONE})],
        covers="TaintToleration",
    ),
    Puzzle(
        "away from its like, to the node with fewer taints",
        [
            node("a"),
            node("b", taints=[taint("x")]),
            node("c", taints=[taint("y"), taint("z")]),
            web("w", "a"),
            web(affinity=away()),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("x", effect="NoSchedule")]},
            )
        ],
        covers="InterPodAffinity TaintToleration",
    ),
]
