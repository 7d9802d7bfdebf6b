"""A binding whose answer was lost keeps its place on the node until the truth is known."""

from __future__ import annotations

import pytest

from stowplan.cluster.port import Done, ignore_all
from stowplan.core.bind_outcome import settle
from stowplan.errors import ApiError, Conflict, NotFound, Timeout, TooManyRequests, Unavailable
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Bind, Get, Request
from stowplan.objects.pod import Pod
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
    cluster.store.call([request], ignore_all)
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


LOST = Unavailable("the connection was lost")


def settled(bind: Bind, *answers: Pod | ApiError | None) -> ApiError | None:
    """What comes of it when the server says this in turn; every answer must be asked for."""
    steps, left = settle(bind, LOST), list(answers)
    wanted = next(steps)
    while True:
        try:
            wanted = steps.send(None if isinstance(wanted, Sleep) else left.pop(0))
        except StopIteration as stop:
            assert not left
            outcome: ApiError | None = stop.value
            return outcome


def seen(where: str = "", uid: str = "uid-1") -> Pod:
    return pod("web", node=where, metadata={"uid": uid})


BIND = Bind("default", "web", "uid-1", "node-1")


def test_a_pod_that_somebody_else_placed_is_a_failure() -> None:
    assert settled(BIND, seen("node-2")) is LOST


def test_another_pod_of_the_name_is_not_ours_wherever_it_is() -> None:
    assert isinstance(settled(BIND, seen("node-1", uid="uid-2")), NotFound)


def test_a_conflict_means_that_the_first_binding_came_in_between() -> None:
    assert settled(BIND, seen(), Conflict("already assigned"), seen("node-1")) is None


def test_a_busy_server_is_asked_again() -> None:
    assert settled(BIND, TooManyRequests("too many requests"), seen("node-1")) is None
