"""Extenders: what they are sent, what their answers do, and that a bad one fails only its pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan.core.extender import ExtenderAnswer
from stowplan.objects.api import Bind, Delete
from stowplan.objects.kinds import NODE
from stowplan.objects.pod import Pod
from tests.builders import node, pod
from tests.core.harness import Cluster, FakeExtender, is_a

Answer = Callable[[dict[str, Any]], Any]


def extender(prefix: str = "http://extender/api/", **fields: Any) -> dict[str, Any]:
    return {"urlPrefix": prefix, **fields}


def filtering(**fields: Any) -> dict[str, Any]:
    return extender(filterVerb="filter", **fields)


def cluster_with(
    *configs: dict[str, Any], nodes: int = 2, cpu: str = "4", **verbs: Answer
) -> Cluster:
    return Cluster(
        *[node(f"node-{n}", cpu=cpu) for n in range(1, nodes + 1)],
        extender=lambda clock: FakeExtender(clock, **verbs),
        extenders=list(configs),
    )


def calls(cluster: Cluster) -> list[tuple[str, dict[str, Any]]]:
    assert cluster.extender is not None
    return [(call.url, call.body) for call in cluster.extender.calls]


def verbs(cluster: Cluster) -> list[str]:
    return [url.rpartition("/")[2] for url, _ in calls(cluster)]


def keep(*names: str, **more: Any) -> Answer:
    """Let these nodes through: as names, and as a list of nodes."""
    nodes = {"items": [{"metadata": {"name": name}} for name in names]}
    return lambda body: {"NodeNames": list(names), "Nodes": nodes, **more}


def fail(text: str) -> Answer:
    return lambda body: ExtenderAnswer(error=text)


# -- filter -----------------------------------------------------------------------------------


def test_a_filter_is_sent_the_pod_and_the_nodes_that_passed() -> None:
    cluster = cluster_with(filtering(), filter=keep("node-2"))
    cluster.add(node("small", cpu="1"))

    cluster.add(pod("web", cpu="2"))

    [(url, body)] = calls(cluster)
    assert url == "http://extender/api/filter"
    assert body["Pod"]["metadata"]["name"] == "web"
    assert body["Pod"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert [item["metadata"]["name"] for item in body["Nodes"]["items"]] == ["node-1", "node-2"]
    assert body["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"
    assert body["NodeNames"] is None
    assert cluster.node_of("web") == "node-2"


def test_an_extender_that_knows_the_nodes_is_sent_their_names() -> None:
    cluster = cluster_with(filtering(nodeCacheCapable=True), filter=keep("node-2"))

    cluster.add(pod("web"))

    [(_, body)] = calls(cluster)
    assert (body["Nodes"], body["NodeNames"]) == (None, ["node-1", "node-2"])
    assert cluster.node_of("web") == "node-2"


def test_nodes_it_turns_down_are_counted_and_it_is_the_rejector() -> None:
    failed = {"node-1": "no licence", "node-2": "no licence"}
    cluster = cluster_with(filtering(), filter=keep(FailedNodes=failed))

    cluster.add(pod("web"))

    assert cluster.condition("web").reason == "Unschedulable"
    assert cluster.condition("web").message.startswith("0/2 nodes are available: 2 no licence. ")
    assert cluster.place("web") == "unschedulable"
    assert cluster.rejectors("web") == {"Extender"}
    # Nobody knows what would change its mind, so anything about nodes may.
    assert cluster.extender is not None
    cluster.extender.verbs["filter"] = keep("node-1")
    cluster.patch(NODE, "node-2", {"metadata": {"labels": {"new": "label"}}})
    cluster.run(2)
    assert cluster.node_of("web") == "node-1"


def test_nodes_it_leaves_out_without_a_word_count_against_it_too() -> None:
    cluster = cluster_with(filtering(), filter=keep())

    cluster.add(pod("web"))

    assert cluster.rejectors("web") == {"Extender"}
    assert cluster.condition("web").message.startswith("0/2 nodes are available:")


def test_what_it_calls_unresolvable_preemption_leaves_alone() -> None:
    both = {"node-1": "gone for good"}
    cluster = cluster_with(
        filtering(),
        filter=keep(
            FailedNodes={"node-1": "full", "node-2": "full"}, FailedAndUnresolvableNodes=both
        ),
    )

    cluster.add(pod("web"))

    # node-1 is in both lists: the harder word counts.
    assert cluster.condition("web").message == (
        "0/2 nodes are available: 1 full, 1 gone for good. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_answers_are_read_without_regard_to_case() -> None:
    cluster = cluster_with(
        filtering(nodeCacheCapable=True), filter=lambda body: {"nodenames": ["node-2"]}
    )

    cluster.add(pod("web"))

    assert cluster.node_of("web") == "node-2"


def test_extenders_are_asked_in_turn_those_that_must_answer_first() -> None:
    cluster = cluster_with(
        extender(filterVerb="last", ignorable=True),
        extender(filterVerb="first"),
        extender(filterVerb="second"),
        nodes=3,
        first=keep("node-1", "node-2"),
        second=keep("node-2"),
        last=keep("node-2"),
    )

    cluster.add(pod("web"))

    assert verbs(cluster) == ["first", "second", "last"]
    sent = [[item["metadata"]["name"] for item in b["Nodes"]["items"]] for _, b in calls(cluster)]
    assert sent == [["node-1", "node-2", "node-3"], ["node-1", "node-2"], ["node-2"]]


def test_nobody_is_asked_about_no_nodes() -> None:
    cluster = cluster_with(
        extender(filterVerb="first"), extender(filterVerb="second"), first=keep(), second=keep()
    )

    cluster.add(pod("web"), pod("huge", cpu="64"))

    assert set(verbs(cluster)) == {"first"}
    assert {body["Pod"]["metadata"]["name"] for _, body in calls(cluster)} == {"web"}


def test_an_unknown_name_is_an_error() -> None:
    cluster = cluster_with(filtering(nodeCacheCapable=True), filter=keep("node-1", "elsewhere"))

    cluster.add(pod("web"))

    assert cluster.condition("web").reason == "SchedulerError"
    assert cluster.condition("web").message == (
        'extender "http://extender/api/" claims a filtered node "elsewhere" '
        "which is not found in the input node list"
    )


@pytest.mark.parametrize("answer", [fail("it is asleep"), lambda body: {"Error": "it is asleep"}])
def test_a_failure_fails_the_attempt_by_the_rule_for_errors(answer: Answer) -> None:
    cluster = cluster_with(filtering(), filter=answer)

    cluster.add(pod("web"))

    condition = cluster.condition("web")
    assert (condition.reason, condition.message) == ("SchedulerError", "it is asleep")
    assert cluster.notes_of("web") == ["it is asleep"]
    assert cluster.place("web") == "backoff"
    assert cluster.extender is not None
    cluster.extender.verbs["filter"] = keep("node-1")
    cluster.run(2)
    assert cluster.place("web") == "bound"


@pytest.mark.parametrize("answer", [fail("it is asleep"), lambda body: {"Error": "it is asleep"}])
def test_a_failure_of_an_ignorable_one_is_passed_over(answer: Answer) -> None:
    cluster = cluster_with(filtering(ignorable=True), filter=answer)

    cluster.add(pod("web"))

    assert cluster.place("web") == "bound"


GARBAGE = [None, 5, "x", [], [1], {"Nodes": 5}, {"Nodes": {"items": [1]}}, {"NodeNames": 7}]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
@pytest.mark.parametrize("names", [True, False])
def test_an_answer_that_makes_no_sense_never_stops_the_loop(garbage: Any, names: bool) -> None:
    cluster = cluster_with(filtering(nodeCacheCapable=names), filter=lambda body: garbage)

    cluster.add(pod("web"), pod("other"))

    assert cluster.driver.failure is None
    assert {*cluster.notes.begun} == {"web", "other"}
    assert not cluster.binds
    assert not cluster.machine.is_deciding


def test_only_pods_that_want_what_it_manages_concern_it() -> None:
    managed = [{"name": "example.com/card", "ignoredByScheduler": True}]
    cluster = cluster_with(filtering(managedResources=managed), filter=keep("node-2"))

    cluster.add(pod("plain"))
    assert calls(cluster) == []
    init = [{"name": "i", "resources": {"limits": {"example.com/card": 1}}}]
    cluster.add(pod("by-limit", spec={"initContainers": init}))
    cluster.add(pod("by-request", requests={"example.com/card": "2"}))

    asked = [body["Pod"]["metadata"]["name"] for _, body in calls(cluster)]
    assert asked == ["by-limit", "by-request"]
    # No node offers the resource: the extender alone looks after it.
    assert cluster.node_of("by-request") == "node-2"


def test_the_promised_node_is_asked_about_alone_and_first() -> None:
    cluster = cluster_with(filtering(), filter=keep("node-2"))

    cluster.add(pod("web", status={"nominatedNodeName": "node-2"}))

    [(_, body)] = calls(cluster)
    assert [item["metadata"]["name"] for item in body["Nodes"]["items"]] == ["node-2"]
    assert cluster.node_of("web") == "node-2"


def test_a_promised_node_the_extender_refuses_is_not_taken() -> None:
    cluster = cluster_with(filtering(), filter=keep("node-1", FailedNodes={"node-2": "no"}))

    cluster.add(pod("web", status={"nominatedNodeName": "node-2"}))

    assert len(calls(cluster)) == 2
    assert cluster.node_of("web") == "node-1"


# -- prioritize -------------------------------------------------------------------------------


def scores(**by_node: int) -> Answer:
    entries = [{"Host": name.replace("_", "-"), "Score": n} for name, n in by_node.items()]
    return lambda body: entries


@pytest.mark.parametrize(("weight", "winner"), [(1, "node-1"), (3, "node-2")])
def test_scores_count_ten_times_their_weight(weight: int, winner: str) -> None:
    """The plugins prefer node-1 by 20 points; an extender's 1 is worth 10 times its weight."""
    cluster = Cluster(
        node("node-1", labels={"disk": "ssd"}),
        node("node-2"),
        extender=lambda clock: FakeExtender(clock, prioritize=scores(node_2=1)),
        extenders=[extender(prioritizeVerb="prioritize", weight=weight)],
        profile={
            "plugins": {
                "score": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "NodeAffinity", "weight": 1}],
                }
            }
        },
    )
    # NodeAffinity gives the node it prefers 100, the other what its own weight says: 80.
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    other = {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}
    preferred = [{"weight": 100, "preference": term}, {"weight": 80, "preference": other}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}

    cluster.add(pod("web", spec={"affinity": affinity}))

    assert cluster.node_of("web") == winner
    decision = cluster.machine.decision_of("default/web")
    assert decision is not None
    assert decision.score == (100 if winner == "node-1" else 80 + 10 * weight)


def test_all_that_prioritize_are_asked_at_once_and_failures_are_ignored() -> None:
    cluster = cluster_with(
        extender(prioritizeVerb="good", weight=1, nodeCacheCapable=True),
        extender(prioritizeVerb="broken", weight=1),
        extender(prioritizeVerb="odd", weight=1),
        good=scores(node_2=10),
        broken=fail("it is asleep"),
        odd=lambda body: {"this": "is no list"},
    )
    assert cluster.extender is not None
    cluster.extender.delay_s = 1.0

    cluster.add(pod("web"))
    assert sorted(verbs(cluster)) == ["broken", "good", "odd"]
    assert cluster.extender.calls[0].body["NodeNames"] == ["node-1", "node-2"]
    cluster.run(1)

    assert cluster.node_of("web") == "node-2"


def test_one_node_needs_no_comparing() -> None:
    cluster = cluster_with(
        extender(prioritizeVerb="prioritize", weight=1), nodes=1, prioritize=scores(node_1=1)
    )

    cluster.add(pod("web"))

    assert calls(cluster) == []
    assert cluster.node_of("web") == "node-1"


# -- bind -------------------------------------------------------------------------------------


def binding(cluster_of: list[Cluster]) -> Answer:
    """Binds as a real one does: by itself, at the API server."""

    def bind(body: dict[str, Any]) -> dict[str, Any]:
        store = cluster_of[0].store
        store.execute(Bind(body["PodNamespace"], body["PodName"], body["PodUID"], body["Node"]))
        return {"Error": ""}

    return bind


def test_an_extender_binds_in_place_of_the_plugins() -> None:
    made: list[Cluster] = []
    cluster = cluster_with(extender(bindVerb="bind"), nodes=1, bind=binding(made))
    made.append(cluster)

    cluster.add(pod("web"))

    uid = cluster.pod("web").metadata.uid
    assert calls(cluster) == [
        (
            "http://extender/api/bind",
            {"PodName": "web", "PodNamespace": "default", "PodUID": uid, "Node": "node-1"},
        )
    ]
    assert cluster.binds == []
    assert cluster.place("web") == "bound"
    assert cluster.notes_of("web") == ["Successfully assigned default/web to node-1"]


@pytest.mark.parametrize("answer", [fail("no"), lambda body: {"Error": "no"}])
def test_a_bind_that_fails_is_undone(answer: Answer) -> None:
    cluster = cluster_with(extender(bindVerb="bind"), bind=answer)

    cluster.add(pod("web", cpu="1"))

    assert (cluster.condition("web").reason, cluster.condition("web").message) == (
        "SchedulerError",
        "no",
    )
    assert cluster.machine.cache.pod_count == 0
    assert cluster.place("web") == "backoff"


def test_a_bind_that_an_ignorable_one_fails_is_left_to_the_plugins() -> None:
    cluster = cluster_with(extender(bindVerb="bind", ignorable=True), nodes=1, bind=fail("no"))

    cluster.add(pod("web"))

    assert cluster.binds == [("web", "node-1")]


def test_a_binder_that_is_not_interested_is_not_asked() -> None:
    managed = [{"name": "example.com/card"}]
    cluster = cluster_with(
        extender(bindVerb="bind", managedResources=managed), nodes=1, bind=fail("no")
    )

    cluster.add(pod("web"))

    assert cluster.binds == [("web", "node-1")]


# -- preempt ----------------------------------------------------------------------------------


def running(name: str, on: str, priority: int = 1) -> Pod:
    started = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    spec = {"priority": priority, "terminationGracePeriodSeconds": 30}
    return pod(name, node=on, cpu="1", spec=spec, status=started)


def preempting(answer: Answer, nodes: int = 2, **fields: Any) -> Cluster:
    """A cluster of full nodes, each with one pod `on-N` of priority N."""
    config = extender(preemptVerb="preempt", **fields)
    cluster = cluster_with(config, nodes=nodes, cpu="1", preempt=answer)
    return cluster.add(*[running(f"on-{n}", f"node-{n}", n) for n in range(1, nodes + 1)])


def victims(cluster: Cluster) -> list[str]:
    return [request.name for request in cluster.sent(is_a(Delete))]  # type: ignore[union-attr]


def meta(**by_node: list[str]) -> dict[str, Any]:
    return {
        "NodeNameToMetaVictims": {
            node.replace("_", "-"): {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in by_node.items()
        }
    }


def urgent() -> Pod:
    return pod("urgent", cpu="1", spec={"priority": 100})


def test_preempt_is_sent_the_candidates_and_may_drop_some() -> None:
    cluster = preempting(lambda body: meta(node_2=[cluster.pod("on-2").metadata.uid]))

    cluster.add(urgent())

    [(url, body)] = calls(cluster)
    assert url.endswith("/preempt")
    assert body["Pod"]["metadata"]["name"] == "urgent"
    assert body["NodeNameToMetaVictims"] is None
    told = body["NodeNameToVictims"]
    assert {
        name: ([p["metadata"]["name"] for p in entry["Pods"]], entry["NumPDBViolations"])
        for name, entry in told.items()
    } == {"node-1": (["on-1"], 0), "node-2": (["on-2"], 0)}
    # By itself it would have evicted the less important on-1.
    assert victims(cluster) == ["on-2"]
    assert cluster.nominated("urgent") == "node-2"


def test_one_that_knows_the_nodes_is_sent_uids() -> None:
    cluster = preempting(
        lambda body: {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}, nodeCacheCapable=True
    )

    cluster.add(urgent())

    [(_, body)] = calls(cluster)
    assert body["NodeNameToVictims"] is None
    uid = cluster.pod("on-1").metadata.uid
    assert body["NodeNameToMetaVictims"]["node-1"] == {
        "Pods": [{"UID": uid}],
        "NumPDBViolations": 0,
    }
    assert victims(cluster) == ["on-1"]


def test_it_may_change_the_victims() -> None:
    uids: dict[str, str] = {}
    cluster = cluster_with(
        extender(preemptVerb="preempt"),
        nodes=1,
        cpu="2",
        preempt=lambda body: meta(node_1=[uids["important"]]),
    )
    cluster.add(running("important", "node-1", 5), running("batch", "node-1", 1))
    uids["important"] = cluster.pod("important").metadata.uid

    cluster.add(urgent())

    assert victims(cluster) == ["important"]


def test_dropping_all_leaves_nothing_to_preempt() -> None:
    cluster = preempting(lambda body: meta())

    cluster.add(urgent())

    assert victims(cluster) == []
    assert cluster.condition("urgent").message.endswith("no candidate node for preemption")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (fail("it is asleep"), "it is asleep"),
        (
            lambda body: meta(node_1=["uid-of-nobody"]),
            (
                "extender: http://extender/api/ claims to preempt pod (UID: uid-of-nobody) "
                "on node: node-1, but the pod is not found on that node"
            ),
        ),
        (lambda body: meta(elsewhere=["x"]), 'nodeinfo not found for node name "elsewhere"'),
        (lambda body: meta(node_1=[]), 'expected at least one victim pod on node "node-1"'),
    ],
)
def test_a_preempt_that_fails_ends_preemption(answer: Answer, text: str) -> None:
    cluster = preempting(answer)

    cluster.add(urgent())

    assert victims(cluster) == []
    assert cluster.condition("urgent").message == (
        f"0/2 nodes are available: 2 Insufficient cpu. preemption: {text}"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (fail("it is asleep"), ["on-1"]),
        (lambda body: meta(node_1=[]), []),
    ],
)
def test_what_an_ignorable_one_does_wrong(answer: Answer, expected: list[str]) -> None:
    """A failure is passed over; a node it names no victims for is dropped."""
    cluster = preempting(answer, ignorable=True)

    cluster.add(urgent())

    assert victims(cluster) == expected


# -- slow ones --------------------------------------------------------------------------------


def test_while_it_thinks_the_world_stands_still_but_bindings_go_on() -> None:
    managed = [{"name": "example.com/card", "ignoredByScheduler": True}]
    cluster = cluster_with(filtering(managedResources=managed), nodes=1, filter=keep("node-1"))
    assert cluster.extender is not None
    cluster.extender.delay_s = 30.0
    cluster.api.hold(is_a(Bind, "before"))
    cluster.add(pod("before", cpu="1"))
    cluster.add(pod("slow", cpu="1", requests={"example.com/card": "1"}))
    cluster.add(pod("after", cpu="1"))
    assert cluster.machine.is_deciding

    # A node comes, a pod is bound: one is taken note of later, the other is not held up.
    cluster.add(node("node-9"))
    cluster.api.release()
    cluster.settle()

    assert cluster.machine.table.node_count == 1
    assert cluster.notes_of("before") == ["Successfully assigned default/before to node-1"]
    assert cluster.notes.begun == ["before", "slow"]
    cluster.run(30)
    assert not cluster.machine.is_deciding
    assert cluster.node_of("slow") == "node-1"
    assert cluster.place("after") == "bound"
    assert cluster.machine.cache.nodes["node-9"].node is not None


def test_a_bind_that_fails_meanwhile_is_undone_afterwards() -> None:
    managed = [{"name": "example.com/card", "ignoredByScheduler": True}]
    cluster = cluster_with(filtering(managedResources=managed), nodes=1, filter=keep("node-1"))
    assert cluster.extender is not None
    cluster.extender.delay_s = 30.0
    cluster.api.hold(is_a(Bind, "before"))
    cluster.add(pod("before", cpu="1"))
    cluster.add(pod("slow", cpu="1", requests={"example.com/card": "1"}))

    cluster.delete("before")
    cluster.api.release()
    cluster.settle()
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000
    cluster.run(30)

    assert cluster.place("slow") == "bound"
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000
    assert cluster.machine.cache.pod_count == 1


def test_the_call_carries_the_settings_for_whoever_sends_it() -> None:
    tls = {"insecure": True, "serverName": "ext.example", "caFile": "ca.pem"}
    cluster = cluster_with(
        filtering(httpTimeout="250ms", enableHTTPS=True, tlsConfig=tls),
        extender("http://second", filterVerb="filter"),
        filter=keep("node-1"),
    )

    cluster.add(pod("web"))

    assert cluster.extender is not None
    first, second = (call.extender.config for call in cluster.extender.calls)
    assert (first.http_timeout.seconds, second.http_timeout.seconds) == (0.25, 5.0)
    assert first.enable_https
    assert (first.tls_config.insecure, first.tls_config.server_name) == (True, "ext.example")
    assert first.tls_config.ca_file == "ca.pem"
    assert second.tls_config is None
