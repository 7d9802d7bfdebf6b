"""The debugger: what is believed, in words; and how that compares with the cluster."""

from __future__ import annotations

from stowplan.core.debugger import compare, dump
from stowplan.objects.api import Bind
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a


def uid(cluster: Cluster, name: str) -> str:
    return cluster.pod(name).metadata.uid


def listed(cluster: Cluster) -> tuple[list[str], list[str]]:
    """Names of nodes and uids of pods, as a listing of the cluster has them."""
    nodes = [name for name, info in cluster.machine.cache.nodes.items() if info.node is not None]
    return nodes, [pod.metadata.uid for pod in cluster.pods()]


# -- dump -------------------------------------------------------------------------------------


def small_cluster() -> Cluster:
    cluster = Cluster(node("node-1", cpu="1", memory="1Gi"))
    running = pod(
        "running",
        node="node-1",
        cpu="1",
        spec={"priority": 1, "terminationGracePeriodSeconds": 30},
        status={"phase": "Running"},
    )
    cluster.add(running, pod("lost", node="elsewhere"))
    return cluster.add(pod("urgent", cpu="1", spec={"priority": 5}))


def test_a_dump_shows_nodes_ghosts_pods_promises_and_the_queue() -> None:
    cluster = small_cluster()

    text = dump(cluster.machine).text

    lost, running, urgent = (uid(cluster, name) for name in ("lost", "running", "urgent"))
    assert text == "\n".join(
        [
            "Dump of cached NodeInfo",
            "Node name: node-1",
            "Deleted: false",
            "Requested Resources: cpu: 1000, ephemeral-storage: 0, memory: 0",
            "Allocatable Resources: cpu: 1000, memory: 1073741824, pods: 110",
            "Scheduled Pods(number: 1):",
            (
                f"name: running, namespace: default, uid: {running}, phase: Running, "
                "nominated node: "
            ),
            "Nominated Pods(number: 1):",
            (
                f"name: urgent, namespace: default, uid: {urgent}, phase: Pending, "
                "nominated node: node-1"
            ),
            "",
            "Node name: elsewhere",
            "Deleted: true",
            "Requested Resources: cpu: 0, ephemeral-storage: 0, memory: 0",
            "Allocatable Resources: none",
            "Scheduled Pods(number: 1):",
            f"name: lost, namespace: default, uid: {lost}, phase: Pending, nominated node: ",
            "Nominated Pods(number: 0):",
            "",
            "Dump of scheduling queue",
            "activeQ:0; backoffQ:0; unschedulablePods:1",
            (
                f"name: urgent, namespace: default, uid: {urgent}, phase: Pending, "
                "nominated node: node-1"
            ),
        ]
    )


def test_the_node_that_changed_last_comes_first() -> None:
    cluster = Cluster(node("node-1"), node("node-2"), node("node-3"))
    cluster.add(pod(node="node-2"))

    assert [found.name for found in dump(cluster.machine).nodes] == ["node-2", "node-3", "node-1"]


def test_pods_on_their_way_are_named() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web"))

    assert dump(cluster.machine).assumed == [uid(cluster, "web")]


def test_looking_changes_nothing() -> None:
    cluster = small_cluster()
    before = dump(cluster.machine)

    compare(cluster.machine, *listed(cluster))
    dump(cluster.machine)

    assert dump(cluster.machine) == before
    assert cluster.machine.next_wakeup_s() is not None


# -- compare ----------------------------------------------------------------------------------


def test_all_is_well() -> None:
    cluster = small_cluster()
    cluster.add(pod("theirs", spec={"schedulerName": "other"}))

    found = compare(cluster.machine, *listed(cluster))

    assert found.agrees
    assert found.text == ""


def test_what_the_cluster_has_and_we_do_not_is_missed_the_reverse_redundant() -> None:
    cluster = small_cluster()
    nodes, pods = listed(cluster)
    pods.remove(uid(cluster, "running"))
    pods.remove(uid(cluster, "urgent"))

    found = compare(cluster.machine, ["node-9"], [*pods, "uid-of-a-stranger"])

    assert not found.agrees
    assert (found.missed_nodes, found.redundant_nodes) == (["node-9"], nodes)
    assert found.missed_pods == ["uid-of-a-stranger"]
    assert found.redundant_pods == sorted([uid(cluster, "running"), uid(cluster, "urgent")])
    assert found.text.splitlines() == [
        "Cache mismatch: missed nodes ['node-9']; redundant nodes ['node-1']",
        (
            "Cache mismatch: missed pods ['uid-of-a-stranger']; "
            f"redundant pods {found.redundant_pods}"
        ),
    ]


def test_a_pod_in_flight_that_has_no_node_yet_looks_missed() -> None:
    """As upstream has it: it is in no queue and on no node just now."""
    cluster = Cluster(node("node-1"))
    cluster.driver.active = False
    cluster.add(pod("web"))
    cluster.machine.queue.pop()

    found = compare(cluster.machine, *listed(cluster))

    assert found.missed_pods == [uid(cluster, "web")]


def test_sums_that_do_not_add_up_are_found() -> None:
    cluster = small_cluster()
    cluster.machine.cache.nodes["node-1"].requested["cpu"] = 7

    found = compare(cluster.machine, *listed(cluster))

    assert not found.agrees
    assert any("node-1" in problem for problem in found.problems)
    assert found.text
