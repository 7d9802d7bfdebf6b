"""A binding whose answer was lost keeps its place on the node until the truth is known."""

from __future__ import annotations

import pytest

from stowplan.cluster.port import Done
from stowplan.errors import Timeout, Unavailable
from stowplan.objects.api import Bind, Get, Request
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a


def lose_answers(cluster: Cluster, times: int) -> None:
    """The store carries bindings out, and the scheduler does not hear of it."""
    call, left = cluster.api.call, times

    def losing(request: Request, done: Done) -> None:
        nonlocal left
        if not isinstance(request, Bind) or not left:
            call(request, done)
            return
        left -= 1
        call(request, lambda _: None)
        done(Unavailable("the connection was lost"))

    cluster.api.call = losing  # type: ignore[method-assign]


def test_a_binding_that_arrived_without_an_answer_is_a_binding() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    lose_answers(cluster, times=1)
    cluster.add(pod("web", cpu="1"))
    cluster.run(5)
    assert cluster.node_of("web") == "node-1"
    assert [name for name, _ in cluster.binds] == ["web"]
    assert [event.reason for event in cluster.events("web")] == ["Scheduled"]


def test_its_place_is_not_given_away_in_the_meantime() -> None:
    """No watch tells the scheduler either: as when all connections broke at once."""
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind, "web"))
    cluster.add(pod("web", cpu="1"))
    [(request, done)] = cluster.api.held
    cluster.api.held.clear()
    done(Timeout("no answer in time"))
    cluster.add(pod("other", cpu="1"))
    cluster.run(1)
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000
    assert cluster.node_of("other") == ""

    # It was only late.
    cluster.api.release()
    cluster.store.call(request, lambda _: None)
    cluster.run(30)
    assert cluster.node_of("web") == "node-1"
    assert cluster.node_of("other") == ""


def test_a_binding_that_never_arrived_is_sent_again() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.fail(is_a(Bind), Unavailable("connection refused"), times=1)
    cluster.add(pod("web"))
    cluster.run(1)
    assert cluster.node_of("web") == "node-1"
    assert [event.reason for event in cluster.events("web")] == ["Scheduled"]


def test_while_the_server_is_away_the_pod_waits_with_its_place() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.fail(is_a(Bind), Unavailable("connection refused"))
    cluster.api.fail(is_a(Get), Unavailable("connection refused"))
    cluster.add(pod("web", cpu="1"))
    cluster.run(300)
    assert cluster.events("web") == []
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000
    cluster.api.mend()
    cluster.run(10)
    assert cluster.node_of("web") == "node-1"


@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_that_is_gone_gives_its_place_back(gone: bool) -> None:
    """Or one of that name which is another."""
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.fail(is_a(Bind, "web"), Unavailable("connection refused"), times=1)
    cluster.add(pod("web", cpu="1"))
    cluster.delete("web")
    if not gone:
        cluster.add(pod("web", cpu="1"))
    cluster.run(5)
    if gone:
        assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 0
    else:
        assert cluster.node_of("web") == "node-1"


def test_a_server_that_fails_every_binding_makes_a_failure_of_it() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.fail(is_a(Bind), Unavailable("etcd is full"))
    cluster.add(pod("web"))
    cluster.run(2)
    assert cluster.condition("web").reason == "SchedulerError"
    assert "etcd is full" in cluster.condition("web").message
