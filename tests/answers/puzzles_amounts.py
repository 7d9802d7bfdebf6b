"""Puzzles of other shapes: requests, ports, spreading, names of nodes, and pairs of them."""

from __future__ import annotations

from tests.answers.building import GONE, HOST, ZONE, Puzzle, node, pod, taint
from tests.answers.puzzles_groups import gang, member
from tests.answers.puzzles_nodes import CPU, tolerating
from tests.answers.puzzles_pods import PREF, REQ, away, spread, web
from tests.answers.puzzles_shapes import expression, node_affinity, port

PUZZLES = [
    Puzzle(
        "two cordoned nodes, one of them full",
        [
            node("a", unschedulable=True),
            node("b", unschedulable=True),
            pod("full", "4", on="a"),
            pod(cpu="2"),
        ],
        [("Node", "b", {"/spec/unschedulable": GONE})],
        covers="NodeResourcesFit NodeUnschedulable",
    ),
    Puzzle(
        "a thousandth of a cpu is not given away",
        [node("a", cpu="3900m", memory="7Gi"), pod("d", "123m", on="a"), pod(cpu="4")],
        [("Pod", "p", {CPU: "3777m"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a byte of memory is not given away",
        [
            node("a", memory="8127348Ki"),
            pod("d", on="a", room={"memory": "300M"}),
            pod(room={"memory": "9Gi"}),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/memory": "8022404352"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a container beside a sidecar",
        [
            node("a"),
            {
                **pod(),
                "spec": {
                    "containers": [
                        {"name": "m", "image": "i", "resources": {"requests": {"cpu": "2"}}}
                    ],
                    "initContainers": [
                        {
                            "name": "s",
                            "image": "i",
                            "restartPolicy": "Always",
                            "resources": {"requests": {"cpu": "3"}},
                        }
                    ],
                },
            },
        ],
        [("Pod", "p", {CPU: "1"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "an init container and a container ask for too much",
        [
            node("a"),
            {
                **pod(),
                "spec": {
                    "containers": [
                        {"name": "m", "image": "i", "resources": {"requests": {"cpu": "5"}}}
                    ],
                    "initContainers": [
                        {"name": "s", "image": "i", "resources": {"requests": {"cpu": "6"}}}
                    ],
                },
            },
        ],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "4",
                    "/spec/initContainers/0/resources/requests/cpu": "4",
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "what is left beside the overhead",
        [
            node("a"),
            pod(cpu="4", overhead={"cpu": "250m"}, runtimeClassName="kata"),
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "kata"},
                "handler": "kata",
                "overhead": {"podFixed": {"cpu": "250m"}},
            },
        ],
        [("Pod", "p", {CPU: "3750m"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a resource that no node has",
        [node("a"), pod(room={"example.com/fpga": "1"})],
        [("Pod", "p", {"/spec/containers/0/resources/requests/example.com~1fpga": GONE})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a limit that is the request goes with it",
        [
            node("a", room={"nvidia.com/gpu": "2"}),
            {
                **pod(),
                "spec": {
                    "containers": [
                        {
                            "name": "m",
                            "image": "i",
                            "resources": {
                                "requests": {"nvidia.com/gpu": "4"},
                                "limits": {"nvidia.com/gpu": "4"},
                            },
                        }
                    ]
                },
            },
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/resources/requests/nvidia.com~1gpu": "2",
                    "/spec/containers/0/resources/limits/nvidia.com~1gpu": "2",
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "huge pages of a size that no node has",
        [
            node("a", room={"hugepages-1Gi": "4Gi"}),
            {
                **pod(),
                "spec": {
                    "containers": [
                        {
                            "name": "m",
                            "image": "i",
                            "resources": {
                                "requests": {"hugepages-2Mi": "64Mi", "memory": "1Gi"},
                                "limits": {"hugepages-2Mi": "64Mi", "memory": "1Gi"},
                            },
                        }
                    ]
                },
            },
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/resources/requests/hugepages-2Mi": GONE,
                    "/spec/containers/0/resources/limits/hugepages-2Mi": GONE,
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "every node has all the pods it may have",
        [node("a", pods="1"), node("b", pods="1"), pod("x", on="a"), pod("y", on="b"), pod()],
        [],
        create=["Node"],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "one node has all its pods, the other too little cpu",
        [node("a", pods="1"), node("b", cpu="1"), pod("x", "100m", on="a"), pod(cpu="2")],
        [("Pod", "p", {CPU: "1"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "the pod as a whole and its containers",
        [
            node("a"),
            {
                **pod(),
                "spec": {
                    "resources": {"requests": {"cpu": "6"}},
                    "containers": [
                        {"name": "m", "image": "i", "resources": {"requests": {"cpu": "2"}}},
                        {"name": "n", "image": "i", "resources": {"requests": {"cpu": "3"}}},
                    ],
                },
            },
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/resources/requests/cpu": "4",
                    CPU: "1600m",
                    "/spec/containers/1/resources/requests/cpu": "2400m",
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "one of three containers gives up what is too much",
        [
            node("a"),
            {
                **pod(),
                "spec": {
                    "containers": [
                        {"name": c, "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
                        for c in "xyz"
                    ]
                },
            },
        ],
        [("Pod", "p", {CPU: "1"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "too much cpu for one, too much memory for the other",
        [
            node("a", cpu="8", memory="1Gi"),
            node("b", cpu="2", memory="8Gi"),
            pod(cpu="3", room={"memory": "2Gi"}),
        ],
        [("Pod", "p", {CPU: "2"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a host port that is taken on one address",
        [
            node("a"),
            pod("o", on="a", ports=port(80, 8080, hostIP="127.0.0.1")),
            pod(ports=port(80, 8080)),
        ],
        [("Pod", "p", {"/spec/containers/0/ports/0/hostPort": 8081})],
        covers="NodePorts",
    ),
    Puzzle(
        "two host ports that are taken",
        [
            node("a"),
            pod("o", on="a", ports=[*port(80, 8080), *port(81, 8081)]),
            pod(ports=[*port(80, 8080), *port(81, 8081)]),
        ],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/ports/0/hostPort": 8082,
                    "/spec/containers/0/ports/1/hostPort": 8083,
                },
            )
        ],
        covers="NodePorts",
    ),
    Puzzle(
        "the last host port there is",
        [node("a"), pod("o", on="a", ports=port(80, 65535)), pod(ports=port(80, 65535))],
        [("Pod", "p", {"/spec/containers/0/ports/0/hostPort": 65534})],
        covers="NodePorts",
    ),
    Puzzle(
        "a host port of a sidecar",
        [
            node("a"),
            pod("o", on="a", ports=port(80, 9000)),
            {
                **pod(),
                "spec": {
                    "containers": [{"name": "m", "image": "i"}],
                    "initContainers": [
                        {
                            "name": "s",
                            "image": "i",
                            "restartPolicy": "Always",
                            "ports": port(80, 9000),
                        }
                    ],
                },
            },
        ],
        [("Pod", "p", {"/spec/initContainers/0/ports/0/hostPort": 9001})],
        covers="NodePorts",
    ),
    Puzzle(
        "more domains than there are zones",
        [node("a", zone="za"), web("w1", "a"), web(topologySpreadConstraints=spread(minDomains=2))],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/minDomains": 1})],
        covers="PodTopologySpread",
    ),
    Puzzle(
        "a spread whose empty zone is tainted",
        [
            node("a", zone="za"),
            node("b", zone="zb", taints=[taint("t")]),
            web("w1", "a"),
            web("w2", "a"),
            web(topologySpreadConstraints=spread()),
        ],
        [
            (
                "Pod",
                "p",
                {"/spec/tolerations": [tolerating("t", effect="NoSchedule")]},
            )
        ],
        covers="PodTopologySpread TaintToleration",
    ),
    Puzzle(
        "a gate and too much cpu",
        [node("a"), pod(cpu="5", schedulingGates=[{"name": "x"}])],
        [
            (
                "Pod",
                "p",
                {CPU: "4", "/spec/schedulingGates": GONE},
            )
        ],
        covers="NodeResourcesFit SchedulingGates",
    ),
    Puzzle(
        "a misspelt node",
        [node("worker-1"), pod(nodeName="worker-l")],
        [("Pod", "p", {"/spec/nodeName": "worker-1"})],
        covers="NodeName",
    ),
    Puzzle(
        "a node that is gone",
        [node("worker-1"), pod(nodeName="gone")],
        [("Pod", "p", {"/spec/nodeName": GONE})],
        covers="NodeName",
    ),
    Puzzle(
        "a host port and too much cpu",
        [node("a"), pod("o", on="a", ports=port(80, 8080)), pod(cpu="5", ports=port(80, 8080))],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "3",
                    "/spec/containers/0/ports/0/hostPort": 8081,
                },
            )
        ],
        covers="NodePorts NodeResourcesFit",
    ),
    Puzzle(
        "the less important of two pods goes",
        [
            node("a", pods="2", labels={"only": "1"}, taints=[taint("x")]),
            pod("m", "1", on="a", priority=5),
            pod("n", "1", on="a", priority=1),
            pod(
                tolerations=[{"key": "x", "operator": "Exists"}],
                priority=0,
                affinity=node_affinity(fields=[expression("metadata.name", "In", "a")]),
            ),
        ],
        [],
        delete=["n"],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a more important pod that waits too",
        [node("a"), pod("q", "3", priority=100), pod(cpu="3")],
        [("Pod", "p", {CPU: "1"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "one more of a revision than is allowed",
        [
            node("a", zone="za"),
            node("b", zone="zb", cpu="1"),
            pod("f", "1", on="b"),
            pod("w1", on="a", labels={"app": "web", "hash": "1"}),
            pod(
                labels={"app": "web", "hash": "1"},
                topologySpreadConstraints=spread(matchLabelKeys=["hash"]),
            ),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/0/maxSkew": 2})],
        covers="NodeResourcesFit PodTopologySpread",
    ),
    Puzzle(
        "one of two spread constraints",
        [
            node("a", zone="za"),
            node("b", zone="zb", cpu="1"),
            pod("f", "1", on="b"),
            web("w1", "a"),
            web(topologySpreadConstraints=[*spread(ZONE, 5), *spread(HOST, 1)]),
        ],
        [("Pod", "p", {"/spec/topologySpreadConstraints/1/maxSkew": 2})],
        covers="NodeResourcesFit PodTopologySpread",
    ),
    Puzzle(
        "an anti-affinity and more cpu than any node has",
        [
            node("a", zone="za"),
            node("b", zone="za"),
            web("w1", "a"),
            web(affinity=away(key=ZONE), cpu="5"),
        ],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "4",
                    f"/spec/affinity/podAntiAffinity/{PREF}": [
                        {
                            "weight": 100,
                            "podAffinityTerm": {
                                "labelSelector": {"matchLabels": {"app": "web"}},
                                "topologyKey": "topology.kubernetes.io/zone",
                            },
                        }
                    ],
                    f"/spec/affinity/podAntiAffinity/{REQ}": GONE,
                },
            )
        ],
        covers="InterPodAffinity NodeResourcesFit",
    ),
    Puzzle(
        "a taint, a misspelt label and too much cpu",
        [
            node("a", labels={"disk": "ssd"}, taints=[taint("x")]),
            pod(cpu="5", nodeSelector={"disk": "sdd"}),
        ],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "4",
                    "/spec/nodeSelector/disk": "ssd",
                    "/spec/tolerations": [tolerating("x", effect="NoSchedule")],
                },
            )
        ],
        covers="NodeAffinity NodeResourcesFit TaintToleration",
    ),
    Puzzle(
        "what kubelets do not know, and a taint",
        [node("a", taints=[taint("x")]), pod(hostNetwork=True, hostUsers=False)],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/tolerations": [tolerating("x", effect="NoSchedule")],
                    "/spec/hostUsers": GONE,
                },
            )
        ],
        covers="NodeDeclaredFeatures TaintToleration",
    ),
    Puzzle(
        "a node under pressure beside a small one",
        [
            node("a", taints=[taint("node.kubernetes.io/memory-pressure")]),
            node("b", cpu="500m"),
            pod(),
        ],
        [("Pod", "p", {CPU: "500m"})],
        covers="NodeResourcesFit TaintToleration",
    ),
    Puzzle(
        "a misspelt resource and too much cpu",
        [
            node("a", room={"example.com/gpu": "2"}),
            pod(room={"example.com/gpus": "1"}),
            pod("f", "3500m", on="a"),
        ],
        [
            (
                "Pod",
                "p",
                {
                    CPU: "500m",
                    "/spec/containers/0/resources/requests/example.com~1gpu": "1",
                    "/spec/containers/0/resources/requests/example.com~1gpus": GONE,
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "two of a gang with one host port",
        [
            node("a"),
            gang(2),
            member("p", ports=[{"containerPort": 80, "hostPort": 80}]),
            member("q", ports=[{"containerPort": 80, "hostPort": 80}]),
        ],
        [],
        create=["Node"],
        covers="GangScheduling",
    ),
]
