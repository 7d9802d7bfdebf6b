"""Puzzles about nodes: taints, cordons, labels, room, ports."""

from __future__ import annotations

from tests.answers.building import GONE, HOST, ZONE, Puzzle, node, pod, taint

REQ = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"/spec/affinity/nodeAffinity/{REQ}/nodeSelectorTerms"


def affinity(*expressions: dict, fields: tuple = ()) -> dict:
    term: dict = {}
    if expressions:
        term["matchExpressions"] = list(expressions)
    if fields:
        term["matchFields"] = list(fields)
    return {"nodeAffinity": {REQ: {"nodeSelectorTerms": [term]}}}


def expr(key: str, operator: str, *values: str) -> dict:
    found = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def tolerating(key: str, value: str = "", effect: str = "NoSchedule") -> dict:
    if value:
        return {"key": key, "operator": "Equal", "value": value, "effect": effect}
    return {"key": key, "operator": "Exists", "effect": effect}


TAINTS = [
    Puzzle(
        "a taint with a value",
        [node("a", taints=[taint("team", "ml")]), pod()],
        [("Pod", "p", {"/spec/tolerations": [tolerating("team", "ml")]})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a taint without a value",
        [node("a", taints=[taint("gpu")]), pod()],
        [("Pod", "p", {"/spec/tolerations": [tolerating("gpu")]})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a taint that also drives pods away",
        [node("a", taints=[taint("repair", "disk", "NoExecute")]), pod()],
        [("Pod", "p", {"/spec/tolerations": [tolerating("repair", "disk", "NoExecute")]})],
        covers="TaintToleration",
    ),
    Puzzle(
        "beside another toleration",
        [
            node("a", taints=[taint("team", "ml")]),
            pod(tolerations=[{"key": "storage", "operator": "Exists"}]),
        ],
        [("Pod", "p", {"/spec/tolerations/-": tolerating("team", "ml")})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration with a misspelt value",
        [
            node("a", taints=[taint("team", "research")]),
            pod(tolerations=[tolerating("team", "reserch")]),
        ],
        [("Pod", "p", {"/spec/tolerations/0/value": "research"})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration with a misspelt key",
        [
            node("a", taints=[taint("dedicated", "db")]),
            pod(tolerations=[tolerating("dedicatd", "db")]),
        ],
        [("Pod", "p", {"/spec/tolerations/0/key": "dedicated"})],
        covers="TaintToleration",
    ),
    Puzzle(
        "a toleration for the wrong effect",
        [
            node("a", taints=[taint("team", "ml", "NoExecute")]),
            pod(tolerations=[tolerating("team", "ml")]),
        ],
        [("Pod", "p", {"/spec/tolerations/0/effect": "NoExecute"})],
        covers="TaintToleration",
    ),
    Puzzle(
        "two taints on the only node",
        [node("a", taints=[taint("team", "ml"), taint("gpu")]), pod()],
        [("Pod", "p", {"/spec/tolerations": [tolerating("team", "ml"), tolerating("gpu")]})],
        covers="TaintToleration",
    ),
    Puzzle(
        "the node with fewer taints",
        [
            node("a", taints=[taint("team", "ml"), taint("gpu")]),
            node("b", taints=[taint("spot")]),
            pod(),
        ],
        [("Pod", "p", {"/spec/tolerations": [tolerating("spot")]})],
        covers="TaintToleration",
    ),
]

CORDONS = [
    Puzzle(
        "the only node is cordoned",
        [node("a", unschedulable=True), pod()],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable",
    ),
    Puzzle(
        "a cordon with its taint",
        [
            node("a", unschedulable=True, taints=[taint("node.kubernetes.io/unschedulable")]),
            pod(),
        ],
        [("Node", "a", {"/spec/unschedulable": GONE, "/spec/taints": GONE})],
        covers="NodeUnschedulable",
    ),
    Puzzle(
        "a cordoned worker beside the control plane",
        [
            node("cp", taints=[taint("node-role.kubernetes.io/control-plane")]),
            node("worker", unschedulable=True),
            pod(),
        ],
        [("Node", "worker", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable",
    ),
    Puzzle(
        "a cordoned node with room beside a full one",
        [node("a", unschedulable=True), node("b"), pod("old", "4", on="b"), pod()],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="NodeUnschedulable",
    ),
]

LABELS = [
    Puzzle(
        "a misspelt value",
        [
            node("a", labels={"disk": "ssd"}),
            node("b", labels={"disk": "hdd"}),
            pod(nodeSelector={"disk": "sdd"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/disk": "ssd"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a misspelt key",
        [node("a", labels={"disktype": "ssd"}), pod(nodeSelector={"disktpye": "ssd"})],
        [("Pod", "p", {"/spec/nodeSelector/disktype": "ssd", "/spec/nodeSelector/disktpye": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a zone that is not there",
        [node("a", zone="eu-west-1a"), pod(nodeSelector={ZONE: "eu-west-1d"})],
        [("Pod", "p", {"/spec/nodeSelector/topology.kubernetes.io~1zone": "eu-west-1a"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a label that no node has",
        [node("a"), pod(nodeSelector={"backup": "yes"})],
        [("Pod", "p", {"/spec/nodeSelector": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "one of two selectors",
        [
            node("a", labels={"disk": "ssd", "gen": "3"}),
            pod(nodeSelector={"disk": "ssd", "backup": "yes"}),
        ],
        [("Pod", "p", {"/spec/nodeSelector/backup": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a misspelt value in an affinity",
        [node("a", labels={"disk": "ssd"}), pod(affinity=affinity(expr("disk", "In", "ssdd")))],
        [("Pod", "p", {f"{TERMS}/0/matchExpressions/0/values/0": "ssd"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a misspelt key in an affinity",
        [
            node("a", labels={"accelerator": "x"}),
            pod(affinity=affinity(expr("acelerator", "Exists"))),
        ],
        [("Pod", "p", {f"{TERMS}/0/matchExpressions/0/key": "accelerator"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a bound that is too high",
        [
            node("a", labels={"cores": "16"}),
            node("b", labels={"cores": "8"}),
            pod(affinity=affinity(expr("cores", "Gt", "20"))),
        ],
        [("Pod", "p", {f"{TERMS}/0/matchExpressions/0/values/0": "15"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a node that is kept away from",
        [node("a", labels={"gen": "1"}), pod(affinity=affinity(expr("gen", "NotIn", "1", "0")))],
        [("Pod", "p", {f"{TERMS}/0/matchExpressions/0/values/0": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a label that must not be there",
        [node("a", labels={"gen": "1"}), pod(affinity=affinity(expr("gen", "DoesNotExist")))],
        [("Pod", "p", {"/spec/affinity": GONE})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "the name of a node, misspelt",
        [
            node("worker-1"),
            node("worker-2", taints=[taint("x")]),
            pod(affinity=affinity(fields=(expr("metadata.name", "In", "workr-1"),))),
        ],
        [("Pod", "p", {f"{TERMS}/0/matchFields/0/values/0": "worker-1"})],
        covers="NodeAffinity",
    ),
    Puzzle(
        "a host name that is gone",
        [node("worker-1"), pod(nodeSelector={HOST: "worker-9"})],
        [("Pod", "p", {"/spec/nodeSelector/kubernetes.io~1hostname": "worker-1"})],
        covers="NodeAffinity",
    ),
]

CPU = "/spec/containers/0/resources/requests/cpu"
MEMORY = "/spec/containers/0/resources/requests/memory"
GPU = "nvidia.com/gpu"


def two_containers(first: str, second: str) -> dict:
    made = pod("p", first)
    made["spec"]["containers"].append(
        {"name": "side", "image": "app", "resources": {"requests": {"cpu": second}}}
    )
    return made


def limited(**limits: str) -> dict:
    made = pod("p")
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


ROOM = [
    Puzzle(
        "a little too much cpu",
        [node("a"), pod("old", "1500m", on="a"), pod(cpu="3")],
        [("Pod", "p", {CPU: "2500m"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "the node with the most room",
        [
            node("a"),
            node("b", "6"),
            pod("old", "2", on="b"),
            pod("other", "1", on="a"),
            pod(cpu="8"),
        ],
        [("Pod", "p", {CPU: "4"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a little too much memory",
        [node("a"), pod("old", on="a", room={"memory": "5Gi"}), pod(room={"memory": "4Gi"})],
        [("Pod", "p", {MEMORY: "3Gi"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "cpu and memory",
        [node("a"), pod(cpu="5", room={"memory": "10Gi"})],
        [("Pod", "p", {CPU: "4", MEMORY: "8Gi"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "more devices than a node has",
        [node("a", room={GPU: "2"}), pod(room={GPU: "3"})],
        [("Pod", "p", {"/spec/containers/0/resources/requests/nvidia.com~1gpu": "2"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a misspelt resource",
        [node("a", room={GPU: "2"}), pod(room={"nvidia.com/gpus": "1"})],
        [
            (
                "Pod",
                "p",
                {
                    "/spec/containers/0/resources/requests/nvidia.com~1gpu": "1",
                    "/spec/containers/0/resources/requests/nvidia.com~1gpus": GONE,
                },
            )
        ],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "a limit that stands for the request",
        [node("a"), limited(cpu="6")],
        [("Pod", "p", {"/spec/containers/0/resources/requests": {"cpu": "4"}})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "the larger of two containers",
        [node("a"), two_containers("4", "1")],
        [("Pod", "p", {CPU: "3"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "two containers that must both give up something",
        [node("a", "2"), two_containers("3", "3")],
        [("Pod", "p", {CPU: "1", CPU.replace("/0/", "/1/"): "1"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "too many pods: another node",
        [node("a", pods="1"), pod("old", on="a"), pod()],
        create=["Node"],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "nothing left: another node",
        [node("a"), pod("old", "4", on="a"), pod()],
        create=["Node"],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "local storage",
        [node("a", room={"ephemeral-storage": "10Gi"}), pod(room={"ephemeral-storage": "12Gi"})],
        [("Pod", "p", {"/spec/containers/0/resources/requests/ephemeral-storage": "10Gi"})],
        covers="NodeResourcesFit",
    ),
    Puzzle(
        "huge pages",
        [
            node("a", room={"hugepages-2Mi": "4Mi"}),
            pod(room={"hugepages-2Mi": "8Mi", "memory": "1Gi"}),
        ],
        [("Pod", "p", {"/spec/containers/0/resources/requests/hugepages-2Mi": "4Mi"})],
        covers="NodeResourcesFit",
    ),
]


def port(number: int, host: int) -> list[dict]:
    return [{"containerPort": number, "hostPort": host, "protocol": "TCP"}]


PORTS = [
    Puzzle(
        "a host port that is taken",
        [node("a"), pod("old", on="a", ports=port(80, 8080)), pod(ports=port(80, 8080))],
        [("Pod", "p", {"/spec/containers/0/ports/0/hostPort": 8081})],
        covers="NodePorts",
    ),
    Puzzle(
        "a host port whose neighbour is taken too",
        [
            node("a"),
            pod("old", on="a", ports=port(80, 8080)),
            pod("older", on="a", ports=port(80, 8081)),
            pod(ports=port(80, 8080)),
        ],
        [("Pod", "p", {"/spec/containers/0/ports/0/hostPort": 8082})],
        covers="NodePorts",
    ),
]

PUZZLES = [*TAINTS, *CORDONS, *LABELS, *ROOM, *PORTS]
