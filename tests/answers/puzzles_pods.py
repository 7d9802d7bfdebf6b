"""Puzzles about pods: spreading, affinity, gates, schedulers, priority."""

from __future__ import annotations

from tests.answers.building import GONE, HOST, ZONE, Puzzle, node, pod, taint

REQ = "requiredDuringSchedulingIgnoredDuringExecution"
PREF = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}


def spread(key: str = ZONE, skew: int = 1, **more: object) -> list[dict]:
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": WEB,
            **more,
        }
    ]


def web(name: str = "p", on: str = "", cpu: str = "1", **more: object) -> dict:
    return pod(name, cpu, on, labels={"app": "web"}, **more)


FULL_B = [node("a", zone="za"), node("b", zone="zb"), pod("full", "4", on="b")]

SPREAD = [
    Puzzle(
        "one more in a zone than is allowed",
        [*FULL_B, web("w1", "a"), web(topologySpreadConstraints=spread())],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/maxSkew": 2})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "three more than are allowed",
        [
            *FULL_B,
            web("w1", "a", "100m"),
            web("w2", "a", "100m"),
            web("w3", "a", "100m"),
            web(topologySpreadConstraints=spread()),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/maxSkew": 4})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "a misspelt topology key",
        [node("a", zone="za"), web(topologySpreadConstraints=spread("topology.kubernetes.io/zon"))],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/topologyKey": ZONE})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "a topology key that nothing is like",
        [node("a"), web(topologySpreadConstraints=spread("rack"))],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/whenUnsatisfiable": "ScheduleAnyway"})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "fewer domains than are asked for",
        [
            node("a", zone="za"),
            node("b", zone="zb"),
            web("w1", "a"),
            web("w2", "b"),
            web(topologySpreadConstraints=spread(minDomains=3)),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/minDomains": 2})],
        covers="PodTopologySpread",
    ),
]


def near(
    value: str = "db", key: str = HOST, label: str = "app", stanza: str = "podAffinity"
) -> dict:
    term = {"labelSelector": {"matchLabels": {label: value}}, "topologyKey": key}
    return {stanza: {REQ: [term]}}


def away(value: str = "web", key: str = HOST) -> dict:
    return near(value, key, stanza="podAntiAffinity")


DB = pod("db-0", on="a", labels={"app": "db"})
TERM = f"/spec/affinity/podAffinity/{REQ}"


def wish(stanza: str, affinity: dict) -> dict:
    return {stanza: {PREF: [{"weight": 100, "podAffinityTerm": affinity[stanza][REQ][0]}]}}


AFFINITY = [
    Puzzle(
        "beside a pod whose label is misspelt",
        [node("a"), pod("db-0", on="a", labels={"app": "database"}), pod(affinity=near("databse"))],
        [("Pod", "p", {f"{TERM}/0/labelSelector/matchLabels/app": "database"})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod whose label's key is misspelt",
        [
            node("a"),
            pod("db-0", on="a", labels={"component": "db"}),
            pod(affinity=near("db", label="componnent")),
        ],
        [
            (
                "Pod",
                "p",
                {
                    f"{TERM}/0/labelSelector/matchLabels/component": "db",
                    f"{TERM}/0/labelSelector/matchLabels/componnent": GONE,
                },
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod of another namespace",
        [
            node("a"),
            pod("db-0", on="a", namespace="data", labels={"app": "db"}),
            pod(affinity=near()),
        ],
        [("Pod", "p", {f"{TERM}/0/namespaces": ["default", "data"]})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod that does not run",
        [node("a"), pod(affinity=near("cache"))],
        [
            (
                "Pod",
                "p",
                {
                    f"/spec/affinity/podAffinity/{PREF}": wish("podAffinity", near("cache"))[
                        "podAffinity"
                    ][PREF],
                    f"/spec/affinity/podAffinity/{REQ}": GONE,
                },
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod by a misspelt topology key",
        [node("a", zone="za"), DB, pod(affinity=near("db", "topology.kubernetes.io/zoen"))],
        [("Pod", "p", {f"{TERM}/0/topologyKey": ZONE})],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "beside a pod on a node that is full",
        [
            node("a"),
            node("b"),
            pod("db-0", "3", on="a", labels={"app": "db"}),
            pod(cpu="2", affinity=near()),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/cpu": "1"})],
        covers="InterPodAffinity NodeResourcesFit",
    ),
    Puzzle(
        "away from its like on the only node",
        [node("a", zone="za"), web("w1", "a"), web(affinity=away(key=ZONE))],
        [
            (
                "Pod",
                "p",
                {
                    f"/spec/affinity/podAntiAffinity/{PREF}": wish(
                        "podAntiAffinity", away(key=ZONE)
                    )["podAntiAffinity"][PREF],
                    f"/spec/affinity/podAntiAffinity/{REQ}": GONE,
                },
            )
        ],
        covers="InterPodAffinity",
    ),
    Puzzle(
        "running pods keep away from it",
        [
            node("a", zone="za"),
            pod("hermit", on="a", labels={"app": "h"}, affinity=away(key=ZONE)),
            web(),
        ],
        [("Pod", "p", {"/metadata/labels": GONE})],
        covers="InterPodAffinity",
    ),
]

PRIORITIES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    for name, value in (("low", 10), ("high", 1000))
]

WHOLE = [
    Puzzle(
        "a scheduling gate",
        [node("a"), pod(schedulingGates=[{"name": "example.com/quota"}])],
        [("Pod", "p", {"/spec/schedulingGates": GONE})],
        covers="SchedulingGates",
    ),
    Puzzle(
        "two scheduling gates",
        [node("a"), pod(schedulingGates=[{"name": "a.io/x"}, {"name": "b.io/y"}])],
        [("Pod", "p", {"/spec/schedulingGates": GONE})],
        covers="SchedulingGates",
    ),
    Puzzle(
        "a scheduler that is misspelt",
        [node("a"), pod(schedulerName="default-schduler")],
        [("Pod", "p", {"/spec/schedulerName": "default-scheduler"})],
        covers="schedulerName",
    ),
    Puzzle(
        "a higher class, where nothing else makes room",
        [
            *PRIORITIES,
            node("a", pods="1", labels={"only": "here"}, taints=[taint("t")]),
            pod("old", on="a", priority=10),
            pod(
                tolerations=[{"key": "t", "operator": "Exists"}],
                affinity={
                    "nodeAffinity": {
                        REQ: {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {"key": "metadata.name", "operator": "In", "values": ["a"]}
                                    ]
                                }
                            ]
                        }
                    }
                },
            ),
        ],
        [("Pod", "p", {"/spec/priorityClassName": "high"})],
        evicts=["default/old"],
        covers="DefaultPreemption",
    ),
]

PUZZLES = [*SPREAD, *AFFINITY, *WHOLE]
