"""Who is nominated where, and who needs to know (core.md §2.7)."""

from __future__ import annotations

import pytest

from stowplan.framework.plugin import Nominate
from stowplan.queue.nominator import CHANGES_MAX, Nominator
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import Harness, annotated, nominated_to, pod, relabelled


def nobody(key: str) -> None:
    return None


def names(nominator: Nominator, node: str) -> list[str]:
    return [info.key for info in nominator.pods_for_node(node)]


@pytest.mark.parametrize(
    ("status", "nominate", "node"),
    [
        pytest.param("", None, "", id="not-told-status-empty"),
        pytest.param("a", None, "a", id="not-told-follows-status"),
        pytest.param("a", Nominate("b"), "b", id="told-overrides-status"),
        pytest.param("a", Nominate(""), "", id="told-to-clear"),
    ],
)
def test_add(status: str, nominate: Nominate | None, node: str) -> None:
    nominator = Nominator(nobody)
    info = pod(nominated=status)

    nominator.add(info, nominate)

    assert nominator.node_of.get(info.uid, "") == node
    assert bool(nominator) == bool(node)


def test_a_pod_has_one_nomination() -> None:
    nominator = Nominator(nobody)
    info = pod()
    nominator.add(info, Nominate("a"))

    nominator.add(info, Nominate("b"))

    assert nominator.nodes() == ["b"]
    assert names(nominator, "a") == []


def test_adding_without_being_told_takes_an_unsaid_nomination_back() -> None:
    nominator = Nominator(nobody)
    info = pod()
    nominator.add(info, Nominate("a"))

    nominator.add(info)

    assert not nominator


@pytest.mark.parametrize(
    ("live", "nominated"),
    [
        pytest.param(pod("web-0"), True, id="waiting"),
        pytest.param(None, False, id="gone"),
        pytest.param(pod("web-0", node="node-1"), False, id="has-a-node"),
    ],
)
def test_only_pods_that_wait_are_nominated(live: PodInfo | None, nominated: bool) -> None:
    nominator = Nominator(nobody, live_pod=lambda key: live)

    nominator.add(pod("web-0"), Nominate("a"))

    assert bool(nominator) is nominated


@pytest.mark.parametrize(
    ("old", "new", "node"),
    [
        pytest.param("", "", "memory", id="unsaid-in-both-keeps-what-the-scheduler-knows"),
        pytest.param("", "b", "b", id="said-now"),
        pytest.param("a", "b", "b", id="changed"),
        pytest.param("a", "", "", id="taken-back"),
    ],
)
def test_update(old: str, new: str, node: str) -> None:
    nominator = Nominator(nobody)
    before = pod("web-0", nominated=old)
    nominator.add(before, Nominate("memory"))

    nominator.update(before, nominated_to(before, new))

    assert nominator.node_of.get(before.uid, "") == node


def test_an_update_of_a_pod_never_nominated_follows_its_status() -> None:
    nominator = Nominator(nobody)
    info = pod()
    nominator.update(info, annotated(info))
    assert not nominator

    nominator.update(info, nominated_to(info, "a"))
    assert nominator.nodes() == ["a"]


def test_delete() -> None:
    nominator = Nominator(nobody)
    one, two = pod(), pod()
    nominator.add(one, Nominate("a"))
    nominator.add(two, Nominate("a"))

    nominator.delete(one.uid)
    assert names(nominator, "a") == [two.key]

    nominator.delete(two.uid)
    nominator.delete("unknown")
    assert (nominator.nodes(), len(nominator)) == ([], 0)


def test_nominated_pods_are_those_of_the_queue_wherever_they_wait() -> None:
    h = Harness()
    rejected, failing, active = pod(nominated="a"), pod(nominated="a"), pod(nominated="a")
    h.failed(rejected, "Fit")
    h.failed(failing)
    h.queue.add(active)

    assert h.queue.nominator.pods_for_node("a") == [rejected, failing, active]


def test_a_nominated_pod_in_flight_is_a_name_without_requests() -> None:
    h = Harness()
    info = pod("web-0", nominated="a", priority=9)
    h.queue.add(info)
    h.pop()

    (stub,) = h.queue.nominator.pods_for_node("a")

    assert (stub.key, stub.uid, stub.priority) == (info.key, info.uid, 0)
    assert stub.kind.requests == {}


def test_the_queue_keeps_nominations_up_to_date() -> None:
    h = Harness()
    info = pod()
    queued = h.failed(info, "Fit")
    h.queue.nominator.add(info, Nominate("a"))
    new = relabelled(info, a="1")

    h.queue.update(info, new)
    assert h.queue.nominator.pods_for_node("a") == [new]

    h.queue.delete(queued.info)
    assert not h.queue.nominator


@pytest.mark.parametrize("said", ["", "node-2"])
def test_pods_that_come_together_follow_what_their_status_says(said: str) -> None:
    """Even one that was tried already, on a promise that only the scheduler knew of."""
    info = pod("web")
    h = Harness()
    h.queue.add(info)
    h.pop()
    h.queue.nominator.add(info, Nominate("node-1"))

    h.queue.add_all([pod("db"), nominated_to(info, said)])

    assert h.queue.nominator.node_of == ({info.uid: said} if said else {})


def test_the_version_grows_with_every_change() -> None:
    nominator = Nominator(nobody)
    info = pod()
    seen = [nominator.version]
    for nominate in (Nominate("a"), Nominate("b"), Nominate("")):
        nominator.add(info, nominate)
        seen.append(nominator.version)
    nominator.delete(info.uid)

    assert seen == sorted(set(seen))
    assert nominator.version == seen[-1], "there was nothing to delete"


def test_nothing_changes_when_the_cluster_repeats_what_it_was_told() -> None:
    nominator = Nominator(nobody)
    info = pod()
    nominator.add(info, Nominate("a"))
    version = nominator.version
    said = nominated_to(info, "a")

    nominator.update(info, said)
    assert nominator.version == version

    # As another sort of pod it may take up more of the node.
    nominator.update(said, relabelled(said, a="1"))
    assert nominator.nodes_changed_since(version) == ["a"]


def test_one_pod_may_be_left_out() -> None:
    nominator = Nominator(nobody)
    one, two = pod(), pod()
    nominator.add(one, Nominate("a"))
    nominator.add(two, Nominate("a"))

    assert [info.key for info in nominator.pods_for_node("a", but=one.uid)] == [two.key]


def test_changed_nodes_are_told_since_a_version() -> None:
    nominator = Nominator(nobody)
    one, two = pod(), pod()
    nominator.add(one, Nominate("a"))
    version = nominator.version
    assert nominator.nodes_changed_since(version) == []

    nominator.add(two, Nominate("b"))
    nominator.add(one, Nominate("c"))

    assert set(nominator.nodes_changed_since(version) or ()) == {"a", "b", "c"}
    assert set(nominator.nodes_changed_since(0) or ()) == {"a", "b", "c"}
    assert nominator.nodes_changed_since(nominator.version) == []

    version = nominator.version
    nominator.delete(two.uid)
    assert nominator.nodes_changed_since(version) == ["b"]


def test_who_is_too_far_behind_is_told_so() -> None:
    nominator = Nominator(nobody)
    for n in range(CHANGES_MAX + 1):
        info = pod(f"pod-of-{n}")
        nominator.add(info, Nominate(f"node-{n}"))
        nominator.delete(info.uid)

    assert nominator.nodes_changed_since(0) is None
    assert nominator.nodes_changed_since(nominator.version - 1) == [f"node-{CHANGES_MAX}"]
    assert len(nominator._changes) == CHANGES_MAX


def test_leaving_the_queue_and_coming_back_is_a_change() -> None:
    """What is known of the pod changes: in flight it has no requests."""
    h = Harness()
    info = pod(nominated="a")
    h.queue.add(info)
    version = h.queue.nominator.version

    queued = h.pop()
    assert h.queue.nominator.nodes_changed_since(version) == ["a"]

    version = h.queue.nominator.version
    h.fail(queued, "Fit")
    assert h.queue.nominator.nodes_changed_since(version) == ["a"]


def test_whoever_takes_over_knows_what_changed_when() -> None:
    before, after = Nominator(nobody), Nominator(nobody)
    versions = [before.version]
    for node in "abc":
        before.add(pod(f"to-{node}"), Nominate(node))
        versions.append(before.version)

    after.take_over(before)

    for version in versions:
        assert after.nodes_changed_since(version) == before.nodes_changed_since(version)
    assert (after.nodes(), len(after), after.version) == (["a", "b", "c"], 3, before.version)
    before.add(pod("late"), Nominate("a"))
    assert len(after.pods_for_node("a")) == 1, "they go on apart"
