"""Dry runs: the last word on each pod in queue order, and preemption carried through."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan import Cluster, Decision, dry_run
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_STRUCT
from tests.builders import node, pod


def data_of(obj: KubeObject) -> dict[str, Any]:
    """As `kubectl get -o json` prints it."""
    kind = KIND_BY_STRUCT[type(obj)]
    return {**msgspec.to_builtins(obj), "apiVersion": kind.api_version, "kind": kind.name}


def decide(*objects: KubeObject, **settings: Any) -> list[Decision]:
    return dry_run(map(data_of, objects), tie_break="name", **settings)


def created(time: str) -> dict[str, Any]:
    return {"creationTimestamp": f"2026-01-01T00:00:{time}Z"}


def test_queue_order_is_priority_then_age_then_the_order_given() -> None:
    decisions = decide(
        node("n"),
        pod("new-b"),
        pod("new-a"),
        pod("young", metadata=created("30")),
        pod("old", metadata=created("10")),
        pod("urgent", spec={"priority": 5}),
    )

    assert [d.pod.removeprefix("default/") for d in decisions] == [
        "urgent", "old", "young", "new-b", "new-a",
    ]  # fmt: skip


def test_each_pod_finds_those_before_it_in_place() -> None:
    decisions = decide(node("a", cpu=2), node("b", cpu=2), *(pod(f"p{n}", cpu=2) for n in range(3)))

    assert [decision.node for decision in decisions] == ["a", "b", ""]
    assert decisions[2].message == ("0/2 nodes are available: 2 Insufficient cpu.")


def test_finished_and_ending_pods_are_not_decided() -> None:
    ending = pod("ending", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})

    decisions = decide(
        node("n", cpu=1),
        pod("done", node="n", cpu=1, status={"phase": "Succeeded"}),
        pod("failed", cpu=1, status={"phase": "Failed"}),
        ending,
        pod("p", cpu=1),
    )

    assert [(decision.pod, decision.node) for decision in decisions] == [("default/p", "n")]


def test_a_gated_pod_waits() -> None:
    gated = pod("p", spec={"schedulingGates": [{"name": "quota"}]})

    (decision,) = decide(node("n"), gated)

    assert decision.gated
    assert decision.to_dict() == {
        "pod": "default/p",
        "feasible": [],
        "rejected": {},
        "unschedulablePlugins": ["SchedulingGates"],
        "message": "waiting for scheduling gates: [quota]",
    }


def test_pods_of_other_schedulers_are_set_aside() -> None:
    foreign = node("n"), pod("p", spec={"schedulerName": "volcano"})

    assert decide(*foreign) == []
    (remark,) = Cluster.from_dump(map(data_of, foreign)).remarks()
    assert remark.text == "no profile is for scheduler 'volcano', so not decided: default/p"


def test_without_nodes_the_message_says_so() -> None:
    (decision,) = decide(pod("p"))

    assert decision.to_dict()["message"] == "no nodes available to schedule pods"


def test_a_preemptor_is_tried_again_when_its_victims_are_gone() -> None:
    decisions = decide(
        node("a", cpu=2),
        node("b", cpu=2, unschedulable=True),
        pod("victim", node="a", cpu=2),
        pod("urgent", cpu=2, spec={"priority": 10}),
        pod("later", cpu=1),
    )

    first, second, third = decisions
    assert (first.nominated_node, first.victims) == ("a", ("default/victim",))
    assert first.node == ""
    assert (second.pod, second.node) == ("default/urgent", "a")
    assert third.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    )


def test_the_second_decision_has_its_scores_too() -> None:
    others = (node("a"), node("b", unschedulable=True), pod("daemon", node="a", cpu="500m"))
    urgent = pod("urgent", cpu=2, memory="4Gi", spec={"priority": 10})

    second = decide(*others, pod("victim", node="a", cpu=3), urgent)[1]
    alone = decide(*others, urgent)[0]

    assert second.score == alone.score
    assert second.to_dict() == {**alone.to_dict(), "rejected": {}, "unschedulablePlugins": []}


def test_scores_are_the_same_with_and_without_detail() -> None:
    objects = (
        node("a"),
        node("b", cpu=2),
        pod(node="a", cpu="300m"),
        pod("p", cpu="700m"),
        pod("big", cpu=2, memory="3Gi", spec={"priority": 1}),
    )

    full = decide(*objects)
    brief = decide(*objects, detail=False)

    assert [(d.node, d.score) for d in brief] == [(d.node, d.score) for d in full]
    assert not any(decision.has_detail for decision in brief)


def test_a_pod_that_was_promised_a_node_goes_there() -> None:
    promised = pod("p", cpu=1, status={"nominatedNodeName": "b"})

    (decision,) = decide(node("a"), node("b"), promised)

    assert decision.node == "b"
    assert decision.to_dict()["feasible"] == ["b"]


def test_room_that_was_promised_is_not_given_away() -> None:
    """Live, the promise was made while its victim was ending; the dump shows it in the status."""
    promised = pod("p", cpu=2, status={"nominatedNodeName": "a"}, metadata=created("50"))
    first = pod("first", cpu=2, metadata=created("10"))

    decisions = decide(node("a", cpu=2), first, promised)

    assert [(d.pod, d.node) for d in decisions] == [("default/first", ""), ("default/p", "a")]


def test_a_more_important_pod_takes_the_promise_away() -> None:
    promised = pod("p", cpu=2, status={"nominatedNodeName": "a"})
    urgent = pod("urgent", cpu=2, spec={"priority": 10})

    decisions = decide(node("a", cpu=2), pod("victim", node="a", cpu=2), promised, urgent)

    assert [(d.pod, d.node) for d in decisions] == [
        ("default/urgent", ""),
        ("default/urgent", "a"),
        ("default/p", ""),
    ]


def test_every_profile_decides_on_its_own_pods() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "packer",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated"}},
                    }
                ],
            },
        ],
    }
    objects = (node("empty"), node("used"), pod(node="used", cpu=2, memory="16Gi"))
    request = {"cpu": 1, "memory": "8Gi"}

    (spread,) = decide(*objects, pod("p", **request), config=config)
    (packed,) = decide(
        *objects, pod("p", **request, spec={"schedulerName": "packer"}), config=config
    )

    assert (spread.node, packed.node) == ("empty", "used")
