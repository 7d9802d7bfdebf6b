"""Watches: from where they start, what they see, and how they end."""

from __future__ import annotations

import logging

import pytest

from stowplan.cluster.port import ListOptions, WatchEvent, WatchHandlers, call_one
from stowplan.errors import ApiError, BadRequest, Gone, Timeout
from stowplan.objects.api import Create
from stowplan.objects.kinds import NAMESPACE, NODE, POD
from tests.apiserver.things import (
    Log,
    bind,
    create,
    create_node,
    create_pod,
    delete,
    get_pod,
    make_pod,
    names,
    new_store,
    patch,
)

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


def phase(text: str) -> dict[str, dict[str, str]]:
    return {"status": {"phase": text}}


def test_a_watch_sees_every_later_change_in_order() -> None:
    store = new_store()
    create_pod(store, "before")
    log = Log(store)

    create_pod(store, "p")
    bind(store)
    delete(store, POD, "p", 0)
    create_node(store)

    assert log.story == [("ADDED", "p"), ("MODIFIED", "p"), ("DELETED", "p")]
    versions = [int(event.resource_version) for event in log.events]
    assert versions == sorted(set(versions))
    assert all(
        event.object.metadata.resource_version == event.resource_version for event in log.events
    )


def test_a_watch_from_an_older_version_replays_what_it_missed() -> None:
    store = new_store()
    version = store.resource_version
    create_pod(store, "p")
    middle = store.resource_version
    bind(store)

    assert Log(store, version=version).story == [("ADDED", "p"), ("MODIFIED", "p")]
    assert Log(store, version=middle).story == [("MODIFIED", "p")]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_from_nowhere_starts_with_what_there_is(version: str) -> None:
    store = new_store()
    create_pod(store, "b")
    create_pod(store, "a")
    bind(store, "a")

    log = Log(store, version=version)
    delete(store, POD, "b")

    assert log.story == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]


def test_a_version_that_was_forgotten_is_gone() -> None:
    store = new_store(history_max=3)
    old = store.resource_version
    create_pod(store, "p0")
    version = store.resource_version
    for n in range(1, 4):
        create_pod(store, f"p{n}")

    log, too_old = Log(store, version=version), Log(store, version=old)

    assert log.story == [("ADDED", "p1"), ("ADDED", "p2"), ("ADDED", "p3")]
    (error,) = too_old.ended
    assert isinstance(error, Gone)
    assert (error.code, error.reason) == (410, "Expired")
    assert error.message == f"too old resource version: {old} ({version})"
    create_pod(store, "p4")
    assert too_old.events == []


def test_the_history_of_one_kind_does_not_push_out_another() -> None:
    store = new_store(history_max=2)
    create_node(store)
    version = store.resource_version
    for n in range(9):
        create_pod(store, f"p{n}")

    log = Log(store, NODE, version=version)

    assert log.ended == []


def test_a_compacted_history_is_gone() -> None:
    store = new_store()
    version = store.resource_version
    create_pod(store, "p")
    latest = store.resource_version
    store.compact()

    assert isinstance(Log(store, version=version).ended[0], Gone)
    assert Log(store, version=latest).ended == []


def test_a_history_that_is_looked_through_reaches_back_to_the_last_time() -> None:
    store = new_store()
    before = store.resource_version
    create_pod(store, "old")
    between = store.resource_version
    store.forget_old()
    create_pod(store, "new")
    assert Log(store, version=before).story == [("ADDED", "old"), ("ADDED", "new")]

    store.forget_old()

    assert isinstance(Log(store, version=before).ended[0], Gone)
    assert Log(store, version=between).story == [("ADDED", "new")]
    store.forget_old()
    assert isinstance(Log(store, version=between).ended[0], Gone)
    assert Log(store, version=store.resource_version).ended == []


def test_a_kind_of_which_nothing_was_forgotten_can_be_watched_from_long_ago() -> None:
    store = new_store()
    before = store.resource_version
    create_pod(store, "p")
    store.forget_old()
    store.forget_old()

    assert Log(store, NODE, version=before).ended == []


@pytest.mark.parametrize(("version", "error"), [("999999", Timeout), ("abc", ApiError)])
def test_a_version_that_never_was_ends_the_watch(version: str, error: type[ApiError]) -> None:
    (ended,) = Log(new_store(), version=version).ended

    assert isinstance(ended, error)


def test_a_selector_that_makes_no_sense_ends_the_watch() -> None:
    (ended,) = Log(new_store(), field_selector="a=b").ended

    assert isinstance(ended, BadRequest)


def test_an_object_that_stops_to_match_is_deleted_for_the_watcher() -> None:
    store = new_store()
    log = Log(store, field_selector=NOT_ENDED)
    create_pod(store, "p")
    patch(store, POD, "p", phase("Running"), subresource="status")
    patch(store, POD, "p", phase("Succeeded"), subresource="status")
    patch(store, POD, "p", {"metadata": {"labels": {"a": "b"}}}, "merge")
    patch(store, POD, "p", phase("Running"), subresource="status")
    patch(store, POD, "p", phase("Failed"), subresource="status")
    delete(store, POD, "p")

    assert [event.type for event in log.events] == [
        "ADDED",
        "MODIFIED",
        "DELETED",
        "ADDED",
        "DELETED",
    ]
    # The watcher is told the last state it knew, with the version at which it went.
    gone = log.events[2]
    assert gone.object.status.phase == "Running"  # type: ignore[attr-defined]
    assert gone.object.metadata.resource_version == gone.resource_version


def test_a_replay_translates_as_a_live_watch_does() -> None:
    store = new_store()
    version = store.resource_version
    live = Log(store, label_selector="a=b")
    create_pod(store, "p", labels={"a": "b"})
    patch(store, POD, "p", {"metadata": {"labels": {"a": "c"}}}, "merge")
    patch(store, POD, "p", {"metadata": {"labels": {"a": "b"}}}, "merge")
    delete(store, POD, "p")

    replayed = Log(store, version=version, label_selector="a=b")

    assert replayed.events == live.events
    assert [kind for kind, _ in live.story] == ["ADDED", "DELETED", "ADDED", "DELETED"]


def test_a_watch_of_one_namespace_sees_no_other() -> None:
    store = new_store(create_namespaces=True)
    log = Log(store, namespace="team")

    create_pod(store, "p")
    create(store, POD, make_pod("q", namespace="team"), "team")

    assert log.story == [("ADDED", "q")]


def test_a_stopped_watch_is_silent() -> None:
    store = new_store()
    log = Log(store)
    log.watch.stop()
    log.watch.stop()

    create_pod(store, "p")

    assert (log.events, log.ended) == ([], [])


def test_the_server_may_close_a_watch() -> None:
    store = new_store()
    log = Log(store)

    store.end_watches()
    create_pod(store, "p")

    assert (log.events, log.ended) == ([], [None])


def test_a_bookmark_tells_how_far_a_quiet_watch_is() -> None:
    store = new_store()
    log = Log(store, NODE)
    create_pod(store, "p")

    store.send_bookmarks()

    (mark,) = log.events
    assert mark.type == "BOOKMARK"
    assert mark.resource_version == mark.object.metadata.resource_version == store.resource_version


def test_a_bookmark_comes_only_on_request() -> None:
    store = new_store()
    seen: list[object] = []
    store.follow(POD, ListOptions(), "", seen.append, seen.append, bookmarks=False)

    store.send_bookmarks()

    assert seen == []


def test_a_watcher_that_fails_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()
    ended: list[ApiError | None] = []

    def fail(events: list[WatchEvent]) -> None:
        raise RuntimeError("boom")

    before = Log(store)
    handlers = WatchHandlers(fail, ended.append)
    store.watch(POD, ListOptions(), store.resource_version, handlers)
    after = Log(store)

    with caplog.at_level(logging.CRITICAL):
        create_pod(store, "p")
        create_pod(store, "q")

    assert names(store, POD) == ["p", "q"]
    assert before.story == after.story == [("ADDED", "p"), ("ADDED", "q")]
    # It missed something, so it is told that its watch is over; once.
    assert [error.message for error in ended if error] == ["the watcher failed: boom"]


def test_a_write_inside_a_handler_is_seen_by_all_in_one_order() -> None:
    store = new_store()
    answered: list[object] = []

    def write_more(events: list[WatchEvent]) -> None:
        for event in events:
            if event.type == "ADDED" and event.object.name != "echo":
                call_one(store, Create(POD, "default", make_pod("echo")), answered.append)

    first = Log(store)
    handlers = WatchHandlers(write_more, answered.append)
    store.watch(POD, ListOptions(), store.resource_version, handlers)
    last = Log(store)

    create_pod(store, "p")

    assert first.story == last.story == [("ADDED", "p"), ("ADDED", "echo")]
    assert len(answered) == 1


def test_a_watch_that_begins_inside_a_handler_sees_nothing_twice() -> None:
    store = new_store()
    version = store.resource_version
    logs: list[Log] = []

    def watch_too(events: list[WatchEvent]) -> None:
        if not logs:
            create_pod(store, "q")
            logs.append(Log(store, version=version))

    handlers = WatchHandlers(watch_too, lambda _: None)
    store.watch(POD, ListOptions(), version, handlers)

    create_pod(store, "p")
    create_pod(store, "r")

    assert logs[0].story == [("ADDED", "p"), ("ADDED", "q"), ("ADDED", "r")]


def test_a_batch_reaches_a_watcher_as_one() -> None:
    store = new_store()
    log = Log(store)
    answered: list[object] = []

    with store.batch():
        for n in range(3):
            call_one(store, Create(POD, "default", make_pod(f"p{n}")), answered.append)
        call_one(store, Create(POD, "default", make_pod("p0")), answered.append)
        assert (log.events, answered) == ([], [])

    assert log.batches == [3]
    assert [type(answer).__name__ for answer in answered] == ["Pod", "Pod", "Pod", "AlreadyExists"]


def test_a_read_inside_a_batch_sees_what_is_committed_by_it() -> None:
    store = new_store()
    log = Log(store)

    with store.batch():
        create_pod(store, "p")
        assert get_pod(store, "p").name == "p"
        assert log.story == [("ADDED", "p")]
        create_pod(store, "q")
        assert Log(store, version="").story == [("ADDED", "p"), ("ADDED", "q")]

    assert log.story == [("ADDED", "p"), ("ADDED", "q")]


def test_a_failure_inside_a_batch_keeps_what_was_written() -> None:
    store = new_store()
    log = Log(store, NAMESPACE)

    def fail_halfway() -> None:
        with store.batch():
            create(store, NAMESPACE, {"metadata": {"name": "team"}})
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        fail_halfway()

    assert log.story == [("ADDED", "team")]


def test_a_rehearsal_leaves_no_trace() -> None:
    store = new_store()
    create_pod(store, "kept")
    log, version = Log(store), store.resource_version

    with store.rehearse():
        create_pod(store, "p")
        bind(store, "kept")
        delete(store, POD, "kept", 0)
        assert get_pod(store, "p").name == "p"

    assert (names(store, POD), store.resource_version) == (["kept"], version)
    assert get_pod(store, "kept").spec.node_name == ""
    assert log.events == []
    create_pod(store, "p")
    assert log.story == [("ADDED", "p")]


def test_a_receiver_of_an_answer_that_fails_harms_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = new_store()
    answered: list[object] = []

    def fail(answer: object) -> None:
        raise RuntimeError("boom")

    with caplog.at_level(logging.CRITICAL), store.batch():
        call_one(store, Create(POD, "default", make_pod("p")), fail)
        call_one(store, Create(POD, "default", make_pod("q")), answered.append)

    assert len(answered) == 1
