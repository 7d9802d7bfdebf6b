"""Another scheduler's decisions, judged at the moment they were made."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

import stowplan as sp
from stowplan.answers.shadow import LAG_S, Shadow, make_shadow
from stowplan.answers.tally import Cause, Outcome
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from tests.builders import node, pod

CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Live:
    """A cluster whose pods are placed by hand, with versions as an API server gives them."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        self.decided: list[Any] = []
        self.shadow, self.lacking = make_shadow(config, on_decided=self.decided.append, **options)
        self._versions = count(100)

    def versioned(self, thing: Any) -> Any:
        version = str(next(self._versions))
        return replace(thing, metadata=replace(thing.metadata, resource_version=version))

    def begin(self, *things: Any) -> None:
        self.shadow.take([Added(self.versioned(it)) for it in things], 0.0)
        self.shadow.synced()

    def add(self, thing: Any, now_s: float = 1.0) -> Any:
        made = self.versioned(thing)
        self.shadow.take([Added(made)], now_s)
        return made

    def binding(self, made: Pod, target: str) -> Change:
        spec = replace(made.spec, node_name=target)
        return Updated(made, self.versioned(replace(made, spec=spec)))

    def bind(self, made: Pod, target: str, now_s: float = 1.0) -> Pod:
        change = self.binding(made, target)
        assert isinstance(change, Updated)
        assert isinstance(change.new, Pod)
        self.shadow.take([change], now_s)
        return change.new

    def outcomes(self) -> list[Outcome]:
        self.shadow.finish()
        return [it.outcome for it in self.decided]


def _nodes(*cpus: int) -> list[Node]:
    return [node(f"n{number}", cpu=cpu, memory="64Gi") for number, cpu in enumerate(cpus)]


def test_the_same_an_equal_and_a_different_node() -> None:
    live = Live()
    live.begin(*_nodes(8, 8, 2))
    one = live.add(pod("one", cpu=1))
    live.bind(one, "n0")
    two = live.add(pod("two", cpu=1))
    live.bind(two, "n1")
    three = live.add(pod("three", cpu=1))
    live.bind(three, "n2")

    found = live.outcomes()
    assert found[0] in (Outcome.SAME, Outcome.EQUAL)
    assert found[1:] == [Outcome.SAME, Outcome.DIFFERENT]
    [different] = live.shadow.tally.examples
    assert different.reason is not None
    assert different.reason.cause is Cause.PLUGIN
    assert "NodeResourcesFit" in different.reason.text
    assert live.shadow.tally.agreement == pytest.approx(200 / 3)


def test_a_node_that_we_turn_down_is_named_with_the_plugin() -> None:
    live = Live()
    live.begin(*_nodes(8, 1))
    live.bind(live.add(pod("big", cpu=4)), "n1")
    assert live.outcomes() == [Outcome.DIFFERENT]
    assert "our NodeResourcesFit turns it down: Insufficient cpu" in live.decided[0].reason.text


def test_feature_gates_are_those_of_the_other_scheduler() -> None:
    """Without NodeDeclaredFeatures, which is beta, nobody asks what a node's kubelet knows."""
    found = []
    for gates in ({}, {"AllBeta": False}):
        live = Live(feature_gates=gates)
        live.begin(*_nodes(1))
        rootless = pod("rootless", spec={"hostNetwork": True, "hostUsers": False})
        live.bind(live.add(rootless), "n0")
        found += live.outcomes()

    assert found == [Outcome.DIFFERENT, Outcome.SAME]


def test_a_change_it_had_not_heard_of_is_a_stale_view() -> None:
    """It decided while a pod was on n0, which went before the binding was seen."""
    live = Live()
    leaving = pod("leaving", cpu=11, node="n0")
    live.begin(*_nodes(12, 8), leaving)
    new = live.add(pod("new", cpu=1))
    live.shadow.take([Deleted(live.versioned(leaving))], 1.0)
    live.bind(new, "n1")
    assert live.outcomes() == [Outcome.DIFFERENT]
    reason = live.decided[0].reason
    assert (reason.cause, reason.text) == (
        Cause.STALE,
        "among the best before pod default/leaving went",
    )


def test_bindings_that_overtake_each_other_are_put_in_the_queues_order() -> None:
    """`first` was decided first and took n1; its binding came last."""
    live = Live()
    live.begin(*_nodes(10, 11))
    first, second = live.add(pod("first", cpu=4)), live.add(pod("second", cpu=4))
    live.bind(second, "n0")
    live.bind(first, "n1")
    assert live.outcomes() == [Outcome.SAME, Outcome.SAME]
    assert [it.pod for it in live.decided] == ["default/first", "default/second"]


def test_kinds_that_come_apart_are_sorted_by_version() -> None:
    """The node joined before the binding, but its watch tells later."""
    live = Live()
    live.begin(*_nodes(2))
    made = live.add(pod("p", cpu=1))
    joined = live.versioned(node("new", cpu=64, memory="64Gi"))
    live.bind(made, "new", 1.0)
    live.shadow.take([Added(joined)], 1.0 + LAG_S / 2)
    assert live.outcomes() == [Outcome.SAME]


def test_a_written_claim_is_the_moment_of_the_decision() -> None:
    """A nomination without a failure is written before the binding: then it has decided."""
    live = Live()
    live.begin(*_nodes(8, 4))
    made = live.add(pod("p", cpu=1))
    status = replace(made.status, nominated_node_name="n1")
    nominated = live.versioned(replace(made, status=status))
    live.shadow.take([Updated(made, nominated)], 1.0)
    live.bind(nominated, "n1")
    assert live.outcomes() == [Outcome.DIFFERENT], "not: its own nomination makes n1 the best"


def test_pods_of_others_and_those_that_come_with_a_node_are_left_alone() -> None:
    live = Live()
    live.begin(*_nodes(8))
    live.add(pod("static", node="n0"))
    live.bind(live.add(pod("theirs", spec={"schedulerName": "another"})), "n0")
    assert live.outcomes() == []
    assert live.shadow.tally.others == 1


def test_what_the_configuration_has_and_we_lack_is_a_reason() -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "TheirPlugin"}]}}}
    live = Live({**CONFIG, "profiles": [{"schedulerName": "default-scheduler", **profile}]})
    assert live.lacking == ("TheirPlugin",)
    live.begin(*_nodes(8, 1))
    live.bind(live.add(pod("p", cpu=1)), "n1")
    assert live.outcomes() == [Outcome.DIFFERENT]
    assert "not here: TheirPlugin" in live.decided[0].reason.text


def test_sampling_explains_what_it_can() -> None:
    live = Live()
    live.begin(*_nodes(*([8] * 100), *([16] * 100)))
    live.bind(live.add(pod("p", cpu=1)), "n3")
    assert live.outcomes() == [Outcome.DIFFERENT]
    assert live.decided[0].reason.cause is Cause.SAMPLING


def test_metrics_are_what_prometheus_reads() -> None:
    live = Live()
    live.begin(*_nodes(8, 1))
    live.bind(live.add(pod("p", cpu=1)), "n0")
    live.shadow.finish()
    found = {
        sample.name + str(sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(live.shadow.tally.metrics())
        for sample in family.samples
    }
    assert found["stowplan_shadow_decisions_total['same']"] == 1
    assert found["stowplan_shadow_agreement_ratio[]"] == 1


@given(st.lists(st.sampled_from(["100m", "500m", "1", "2"]), min_size=1, max_size=12), st.data())
def test_our_own_decisions_always_agree(cpus: list[str], data: st.DataObject) -> None:
    """Whatever the embedded scheduler does is among the best, in its own order."""
    cluster = sp.Cluster(seed=data.draw(st.integers(0, 9)))
    cluster.add_nodes(4, cpu="8", memory="16Gi")
    live = Live()
    live.begin(*cluster.nodes())
    for number, cpu in enumerate(cpus):
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "default"},
                "spec": {
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                    ]
                },
            }
        )
        made = live.add(cluster.pod(f"default/p{number}"))
        cluster.run()
        placed = cluster.pod(f"default/p{number}")
        if placed.spec.node_name:
            live.bind(made, placed.spec.node_name)
    assert Outcome.DIFFERENT not in live.outcomes()


def test_it_is_a_follower() -> None:
    from stowplan.world.following import Follower

    shadow, _ = make_shadow()
    follower: Follower = shadow
    assert isinstance(follower, Shadow)
