"""A pod's way from its creation to its node, and every way it can be cut short."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.core.messages import Added
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import PreFlight
from stowplan.objects.api import Bind, Patch
from stowplan.objects.kinds import NODE
from tests.builders import info, node, pod
from tests.core.harness import Cluster, is_a, make_plugin, status_patches


def test_a_pod_is_bound_and_its_owner_told() -> None:
    cluster = Cluster(node("node-1"))

    cluster.add(pod("web", cpu="1"))

    assert cluster.node_of("web") == "node-1"
    [event] = cluster.events("web")
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.note == "Successfully assigned default/web to node-1"
    assert event.reporting_controller == "default-scheduler"
    assert cluster.place("web") == "bound"
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000
    assert not cluster.sent(status_patches())


def test_without_nodes_the_pod_is_tried_again_by_itself() -> None:
    cluster = Cluster()

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "no nodes available to schedule pods"
    assert cluster.condition("web").reason == "Unschedulable"
    assert cluster.notes_of("web") == ["no nodes available to schedule pods"]
    # Nobody rejected it: no event wakes it, its own backoff does.
    assert cluster.place("web") == "backoff"
    cluster.add(node("node-1"))
    assert cluster.place("web") == "backoff"
    cluster.run(2)
    assert cluster.node_of("web") == "node-1"


def test_pods_of_other_schedulers_are_counted_but_not_placed() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("theirs", spec={"schedulerName": "other"}))
    cluster.add(pod("running", node="node-1", cpu="1", spec={"schedulerName": "other"}))

    cluster.add(pod("ours", cpu="1"))

    assert not cluster.node_of("theirs")
    assert cluster.notes.begun == ["ours"]
    assert not cluster.node_of("ours")
    assert "Insufficient cpu" in cluster.condition("ours").message


def test_pods_are_taken_by_priority_then_age() -> None:
    cluster = Cluster()
    cluster.driver.active = False
    cluster.add(node("node-1"), pod("first"))
    cluster.run(1).add(pod("second"), pod("urgent", spec={"priority": 5}))

    cluster.driver.active = True
    cluster.settle()

    assert [name for name, _ in cluster.binds] == ["urgent", "first", "second"]


# -- pods that go or change on the way --------------------------------------------------------


def test_a_pod_that_is_being_deleted_is_skipped() -> None:
    cluster = Cluster(node("node-1"))
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["test/hold"]}

    cluster.add(pod("web", metadata=leaving))

    assert cluster.notes_of("web") == ["skip schedule deleting pod: default/web"]
    [event] = cluster.events("web")
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert not cluster.node_of("web")
    assert not list(cluster.machine.queue.places())


def test_a_pod_deleted_while_it_waits_is_forgotten() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("big", cpu="2"))
    assert cluster.place("big") == "unschedulable"

    cluster.delete("big")

    assert not list(cluster.machine.queue.places())
    assert cluster.machine.pods == {}


def test_a_pod_changed_while_it_waits_is_tried_as_it_is_now() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    cluster = Cluster(node("node-1", taints=[taint]))
    cluster.add(pod("web"))
    assert cluster.place("web") == "unschedulable"

    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    cluster.add(
        pod(
            "web",
            metadata={"uid": cluster.pod("web").metadata.uid},
            spec={"tolerations": tolerations},
        )
    )
    cluster.run(2)

    assert cluster.node_of("web") == "node-1"


def test_a_pod_deleted_while_it_is_being_bound_frees_its_place() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind, "web"))
    cluster.add(pod("web", cpu="1"), pod("next", cpu="1"))
    assert (cluster.place("web"), cluster.place("next")) == ("assumed", "unschedulable")

    cluster.delete("web")

    # Its place is free at once, the binding has yet to fail.
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 0 or cluster.node_of("next")
    cluster.run(2)
    assert cluster.node_of("next") == "node-1"
    cluster.api.release()
    cluster.settle()
    assert cluster.place("next") == "bound"
    assert not list(cluster.machine.queue.places())


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind, "web"))
    cluster.add(pod("web", cpu="1"))
    before = len(cluster.sent(status_patches()))
    cluster.delete("web")
    cluster.add(pod("web", cpu="1", metadata={"uid": "second"}))
    assert cluster.place("web") == "assumed"

    cluster.api.release()
    cluster.settle()

    # The first one's binding failed: nothing is written about the second in its name.
    assert cluster.node_of("web") == "node-1"
    assert cluster.machine.cache.pod("second") is not None
    assert len(cluster.sent(status_patches())) == before
    assert cluster.notes_of("web", "FailedScheduling") == []


def test_a_pod_bound_by_somebody_else_leaves_the_queue() -> None:
    cluster = Cluster(node("node-1", cpu="1"), node("node-2", cpu="1", unschedulable=True))
    cluster.add(pod("big", cpu="2"))

    cluster.store.execute(Bind("default", "big", cluster.pod("big").metadata.uid, "node-2"))
    cluster.settle()

    assert cluster.place("big") == "bound"
    assert cluster.machine.cache.nodes["node-2"].requested["cpu"] == 2000


def test_a_pod_bound_elsewhere_while_we_bind_it_counts_where_it_is() -> None:
    cluster = Cluster(node("node-1"), node("node-2", unschedulable=True))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web", cpu="1"))
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000

    cluster.store.execute(Bind("default", "web", cluster.pod("web").metadata.uid, "node-2"))
    cluster.settle()
    cluster.api.release()
    cluster.run(20)

    assert cluster.place("web") == "bound"
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 0
    assert cluster.machine.cache.nodes["node-2"].requested["cpu"] == 1000
    assert any("was assumed on node-1 but is on node-2" in text for text in cluster.notes.problems)


def test_a_finished_pod_frees_its_place() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("job", cpu="1"), pod("next", cpu="1"))

    cluster.add(
        pod(
            "job",
            node="node-1",
            cpu="1",
            metadata={"uid": cluster.pod("job").metadata.uid},
            status={"phase": "Succeeded"},
        )
    )
    cluster.run(2)

    assert cluster.node_of("next") == "node-1"


# -- beside each other ------------------------------------------------------------------------


def test_binding_one_pod_does_not_hold_up_the_next() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.hold(is_a(Bind, "slow"))

    cluster.add(pod("slow"))
    cluster.add(pod("quick"))

    assert (cluster.place("slow"), cluster.place("quick")) == ("assumed", "bound")
    cluster.api.release()
    cluster.settle()
    assert cluster.place("slow") == "bound"


def test_an_assumed_pod_takes_its_room_before_the_cluster_confirms() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind))

    cluster.add(pod("a", cpu="1"), pod("b", cpu="1"))

    assert [cluster.place("a"), cluster.place("b")] == ["assumed", "unschedulable"]


def test_pre_bind_announces_the_node_and_waits() -> None:
    def pre_flight(self: object, cycle: object, pod: object, node: str) -> PreFlight:
        return PreFlight()

    def pre_bind(self: object, cycle: object, pod: object, node: str):  # type: ignore[no-untyped-def]
        yield Sleep(5)

    slow = make_plugin("Slow", pre_bind_pre_flight=pre_flight, pre_bind=pre_bind)
    cluster = Cluster(node("node-1"), plugins=(slow,))

    cluster.add(pod("web"))

    assert cluster.nominated("web") == "node-1"
    cluster.run(4.9)
    assert cluster.place("web") == "assumed"
    cluster.run(0.2)
    assert cluster.place("web") == "bound"
    # The API server empties it when it binds.
    assert cluster.nominated("web") == ""


def test_pre_bind_that_only_writes_announces_nothing() -> None:
    def pre_flight(self: object, cycle: object, pod: object, node: str) -> PreFlight:
        return PreFlight()

    def pre_bind(self: object, cycle: object, pod: object, node: str):  # type: ignore[no-untyped-def]
        yield Patch(NODE, "", node, {"metadata": {"annotations": {"a": "b"}}}, "merge")

    writing = make_plugin("Writing", pre_bind_pre_flight=pre_flight, pre_bind=pre_bind)
    cluster = Cluster(node("node-1"), plugins=(writing,))
    cluster.api.hold(is_a(Bind))

    cluster.add(pod("web"))

    assert (cluster.place("web"), cluster.nominated("web")) == ("assumed", "")


@pytest.mark.parametrize("ttl_s", [0, 30])
def test_an_assumed_pod_expires_only_if_told_so(ttl_s: int) -> None:
    cluster = Cluster(node("node-1"), assumedPodTTLSeconds=ttl_s)
    # The watch never shows the binding.
    cluster.machine.changes.updated = lambda events: None  # type: ignore[method-assign]
    cluster.add(pod("web", cpu="1"))
    assert cluster.place("web") == "assumed"

    cluster.run(30)
    assert cluster.place("web") == "assumed"
    cluster.run(2)

    if ttl_s:
        # It is tried again, not lost: the API server then says that it is bound already.
        assert cluster.place("web") == "backoff"
        assert "already assigned" in cluster.notes_of("web", "FailedScheduling")[0]
    else:
        assert cluster.place("web") == "assumed"


def test_nothing_is_decided_before_everything_is_known_or_while_another_leads() -> None:
    cluster = Cluster(node("node-1"))
    cluster.driver.active = False

    cluster.add(pod("web"))
    assert cluster.place("web") == "active"
    cluster.driver.active = True
    cluster.settle()

    assert cluster.place("web") == "bound"


def test_after_stop_no_pod_is_taken_but_bindings_end() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("going"))

    cluster.driver.stop()
    cluster.add(pod("late"))
    assert cluster.driver.busy
    cluster.api.release()
    cluster.settle()

    assert not cluster.driver.busy
    assert (cluster.place("going"), cluster.place("late")) == ("bound", "active")


def test_a_pod_that_is_on_its_way_already_is_not_taken_twice() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web"))

    cluster.machine.queue.add(cluster.machine.pods["default/web"])
    cluster.add(pod("other"))

    assert cluster.notes.begun == ["web", "other"]
    assert [name for name, _ in cluster.binds] == ["web", "other"]


def test_a_queued_pod_of_nobodys_profile_is_let_go() -> None:
    cluster = Cluster(node("node-1"))
    cluster.machine.queue.add(info(pod("stray", spec={"schedulerName": "gone"})))

    cluster.add(pod("web"))

    assert cluster.notes.begun == ["web"]
    assert not list(cluster.machine.queue.places())


def test_post_bind_is_told_where_the_pod_went_once_it_is_there() -> None:
    told: list[tuple[str, str, bool]] = []

    def post_bind(self: Any, cycle: Any, pod: Any, node: str) -> None:
        told.append((pod.key, node, bool(cluster.node_of("web"))))

    cluster = Cluster(node("node-1"), plugins=(make_plugin("Telling", post_bind=post_bind),))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web"))
    assert told == []
    cluster.api.release()
    cluster.settle()

    assert told == [("default/web", "node-1", True)]


def test_plugins_share_a_state_from_pre_filter_to_post_bind() -> None:
    """Each attempt has a state of its own, through both of its cycles."""
    seen: list[Any] = []

    def pre_filter(self: Any, cycle: Any, pod: Any) -> None:
        seen.append(cycle.data.get("Noting"))
        cycle.data["Noting"] = pod.key

    noting = make_plugin(
        "Noting",
        pre_filter=pre_filter,
        reserve=lambda self, cycle, pod, node: seen.append(cycle.data["Noting"]),
        unreserve=lambda *_: None,
        permit=lambda self, cycle, pod, node: seen.append(cycle.data["Noting"]),
        post_bind=lambda self, cycle, pod, node: seen.append(cycle.data["Noting"]),
    )
    cluster = Cluster(node("node-1"), plugins=(noting,))

    cluster.add(pod("a"), pod("b"))

    assert seen == [None, *["default/a"] * 3, None, *["default/b"] * 3] or seen == [
        *(None, "default/a", "default/a"),
        *(None, "default/b", "default/b"),
        *("default/a", "default/b"),
    ]


def test_changes_that_nobody_schedules_for_do_not_pile_up() -> None:
    """A replica that follows the cluster and decides nothing takes them in all the same."""
    cluster = Cluster(node("node-1"))
    cluster.driver.active = False
    machine = cluster.machine

    for n in range(6_000):
        machine.handle(Added(pod(f"pod-{n}", node="node-1", metadata={"uid": f"u{n}"})), 0.0)

    assert len(machine.cache.changes) <= 4096
    machine.table.refresh(machine.cache)
    assert machine.table.check(machine.cache) == []


def test_plugins_may_be_named_where_upstream_has_more_of_them() -> None:
    """Nothing of theirs runs there, and nothing goes wrong: such a configuration is a valid one."""

    def naming(plugin: str) -> dict[str, Any]:
        return {"enabled": [{"name": plugin, "weight": 3}]}

    points = {point: naming("DynamicResources") for point in ("score", "reserve", "preBind")}
    cluster = Cluster(
        node("small", cpu="2"),
        node("large", cpu="64"),
        profile={"plugins": {**points, "placementScore": naming("NodeResourcesFit")}},
    )

    cluster.add(pod("web", cpu="1"))

    assert cluster.node_of("web") == "large"
