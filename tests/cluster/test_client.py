"""The client against a server that misbehaves: what it asks, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.cluster.client import CALLS_MAX, THROTTLED_TRIES, KubernetesClient
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import ListOptions, ListResult, WatchEvent, WatchHandlers, call_one
from stowplan.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Update
from stowplan.objects.base import ObjectMeta
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, LEASE, NODE, PERSISTENT_VOLUME, POD, RESOURCE_CLAIM
from stowplan.objects.pod import Pod
from tests.cluster.loopback import (
    LAST_CHUNK,
    STREAM,
    Loopback,
    Timers,
    answer_to,
    answers,
    chunk,
    client_of,
    event,
    loopback,
    pod,
    says,
    silence,
    talk,
)

BIND = Bind("default", "web-1", "uid-1", "node-a")


def binds(count: int) -> list[Bind]:
    """Of different pods: writes to one wait for each other."""
    return [Bind("default", f"web-{n}", f"uid-{n}", "node-a") for n in range(count)]


# -- what is sent -----------------------------------------------------------------------------


async def test_a_binding_is_posted_with_the_uid_as_precondition() -> None:
    async with talk(
        answers({"kind": "Status", "status": "Success"}, 201),
        token="secret",
        user_agent="stowplan/1",
    ) as (server, client):
        assert await answer_to(client, BIND) is None

    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/default/pods/web-1/binding")
    assert seen.data["metadata"] == {"name": "web-1", "namespace": "default", "uid": "uid-1"}
    assert seen.data["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
    assert seen.headers["Authorization"] == "Bearer secret"
    assert seen.headers["User-Agent"] == "stowplan/1"
    assert seen.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("request_", "method", "target", "content_type", "body"),
    [
        pytest.param(
            Patch(POD, "ns", "a", {"status": {}}, "strategic", "status"),
            "PATCH",
            "/api/v1/namespaces/ns/pods/a/status",
            "application/strategic-merge-patch+json",
            {"status": {}},
            id="status",
        ),
        pytest.param(
            Patch(PERSISTENT_VOLUME, "", "pv", {"spec": {}}, "merge"),
            "PATCH",
            "/api/v1/persistentvolumes/pv",
            "application/merge-patch+json",
            {"spec": {}},
            id="volume",
        ),
        pytest.param(
            Delete(POD, "ns", "a", uid="u", grace_period_seconds=0),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
            },
            id="victim",
        ),
        pytest.param(
            Create(EVENT, "ns", Event(metadata=ObjectMeta(name="e"))),
            "POST",
            "/apis/events.k8s.io/v1/namespaces/ns/events",
            "application/json",
            {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}},
            id="event",
        ),
        pytest.param(
            Update(LEASE, "kube-system", "odd name", {"spec": {}}),
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/odd%20name",
            "application/json",
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}},
            id="lease-with-an-odd-name",
        ),
    ],
)
async def test_requests(
    request_: Any, method: str, target: str, content_type: str, body: Any
) -> None:
    async with talk(answers({})) as (server, client):
        await answer_to(client, request_)

    (seen,) = server.seen
    assert (seen.method, seen.target) == (method, target)
    assert seen.headers["Content-Type"] == content_type
    assert seen.data == body


async def test_a_server_behind_a_path() -> None:
    server_at = loopback(answers(pod("a", 1)))
    async with server_at as server, client_of(f"{server.url}/clusters/one") as client:
        await answer_to(client, Get(POD, "default", "a"))

    assert server.seen[0].path == "/clusters/one/api/v1/namespaces/default/pods/a"


# -- what comes back --------------------------------------------------------------------------


async def test_an_object_comes_back_typed() -> None:
    thing = pod("a", 7, spec={"nodeName": "n1", "whatever": 1, "containers": None})
    async with talk(answers(thing)) as (_, client):
        found = await answer_to(client, Get(POD, "default", "a"))

    assert isinstance(found, Pod)
    assert (found.metadata.resource_version, found.spec.node_name) == ("7", "n1")


async def test_a_bare_status_is_no_object() -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": "u"}}
    async with talk(answers(status)) as (_, client):
        assert await answer_to(client, Delete(POD, "default", "a")) is None


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Timeout),
    ],
)
async def test_failures_have_the_class_of_their_status(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    status = {"kind": "Status", "reason": reason, "message": "why not", "code": code}
    async with talk(answers(status, code)) as (_, client):
        error = await answer_to(client, BIND)

    assert type(error) is expected
    assert (error.code, error.reason, error.message) == (code, reason, "why not")


async def test_a_failure_that_is_no_status_says_what_it_can() -> None:
    async with talk(answers(b"<html>proxy broken\xff", 502)) as (_, client):
        error = await answer_to(client, BIND)

    assert (error.code, error.message) == (502, "<html>proxy broken\ufffd")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answers(b"\x00\xff garbage"), id="garbage-body"),
        pytest.param(answers({"metadata": 5}), id="another-shape"),
        pytest.param(answers(b"[" * 100_000), id="nested-too-deep"),
        pytest.param(says(b"\x16\x03\x01\x02\x00", close=True), id="garbage-bytes"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", close=True), id="cut"),
        pytest.param(says(close=True), id="closed-without-a-word"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_an_outage(step: Any) -> None:
    async with talk(step, answers(pod("a", 1))) as (_, client):
        error = await answer_to(client, Get(POD, "default", "a"))
        assert isinstance(error, Unavailable)

        # And the next one is none the worse for it.
        assert isinstance(await answer_to(client, Get(POD, "default", "a")), Pod)


async def test_nobody_listens() -> None:
    async with loopback() as server:
        pass
    async with client_of(server) as client:
        errors = await asyncio.gather(*(answer_to(client, BIND) for _ in range(3)))

    for error in errors:
        assert isinstance(error, Unavailable)
        assert error.message.startswith(f"{server.url} cannot be reached: ")


# -- time -------------------------------------------------------------------------------------


async def test_a_call_that_is_not_answered_in_time_is_given_up() -> None:
    timers = Timers()
    async with talk(silence, answers({}, 201), timers=timers, call_timeout_s=30.0) as (
        server,
        client,
    ):
        asked = asyncio.create_task(answer_to(client, BIND))
        await server.has_seen(1)
        timers.clock.advance(29.0)
        assert not asked.done()
        timers.clock.advance(1.0)
        assert isinstance(await asked, Unavailable)

        # Its connection might still answer the old question: it is not used again.
        assert await answer_to(client, BIND) is None
    assert [seen.connection for seen in server.seen] == [1, 2]


@pytest.mark.parametrize("code", [429, 503])
async def test_the_server_says_when_to_come_back(code: int) -> None:
    timers = Timers()
    async with talk(answers({}, code, Retry_After="7"), answers({}, 201), timers=timers) as (
        server,
        client,
    ):
        asked = asyncio.create_task(answer_to(client, BIND))
        await server.has_seen(1)
        await timers.has_started(7.0)
        timers.clock.advance(6.9)
        assert len(server.seen) == 1
        timers.clock.advance(0.1)
        assert await asked is None
    assert len(server.seen) == 2


async def test_a_server_that_never_has_time_is_an_error_in_the_end() -> None:
    timers = Timers()
    async with talk(answers({}, 429, Retry_After="1"), timers=timers) as (server, client):
        asked = asyncio.create_task(answer_to(client, BIND))
        for tries in range(1, THROTTLED_TRIES):
            await timers.has_started(1.0, tries)
            timers.clock.advance(1.0)
        assert isinstance(await asked, TooManyRequests)
    assert len(server.seen) == THROTTLED_TRIES


async def test_a_retry_time_on_any_other_failure_is_not_waited_for() -> None:
    async with talk(answers({}, 409, Retry_After="7")) as (_, client):
        assert isinstance(await answer_to(client, BIND), Conflict)


async def test_burst_and_qps_hold_calls_back() -> None:
    timers = Timers()
    held: list[float] = []
    async with loopback(answers({}, 201)) as server:
        settings = {"qps": 2.0, "burst": 3, "on_sent": lambda *told: held.append(told[3])}
        async with client_of(server, timers, **settings) as client:
            asked = [asyncio.create_task(answer_to(client, bind)) for bind in binds(5)]
            await asyncio.gather(*asked[:3])
            assert len(server.seen) == 3
            timers.clock.advance(0.5)
            await asked[3]
            assert len(server.seen) == 4
            timers.clock.advance(0.5)
            await asked[4]
    assert held == [0.0, 0.0, 0.0, 0.5, 1.0]


# -- connections ------------------------------------------------------------------------------


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with talk(answers({}, 201)) as (server, client):
        for _ in range(5):
            await answer_to(client, BIND)

    assert server.connections == 1


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    closing = answers({}, 201, Connection="close")
    async with talk(closing, closing) as (server, client):
        assert await answer_to(client, BIND) is None
        assert await answer_to(client, BIND) is None

    assert server.connections == 2


async def test_there_are_so_many_connections_and_no_more() -> None:
    count = 3 * CALLS_MAX
    async with talk(silence) as (server, client):
        heard: list[Any] = []
        for bind in binds(count):
            call_one(client, bind, heard.append)
        await server.has_seen(CALLS_MAX)
        assert (server.connections, heard) == (CALLS_MAX, [])


async def test_an_aborted_client_sends_nothing_and_tells_nobody() -> None:
    """The lease is lost: what waits for a connection must not reach the cluster any more."""
    script = [*[silence] * CALLS_MAX, answers({}, 201)]
    async with talk(*script) as (server, client), client_of(server) as somebody_else:
        heard: list[Any] = []
        for bind in binds(CALLS_MAX + 1):
            call_one(client, bind, heard.append)
        await server.has_seen(CALLS_MAX)
        client.abort()
        call_one(client, BIND, heard.append)
        server.cut()
        # By the time this one is answered, the others would have been sent.
        for _ in range(3):
            await answer_to(somebody_else, BIND)
    assert (len(server.seen), heard) == (CALLS_MAX + 3, [])


async def test_a_call_that_waits_for_the_rate_limit_is_not_sent_once_aborted() -> None:
    timers = Timers()
    limited = talk(answers({}, 201), timers=timers, qps=1.0, burst=1)
    async with limited as (server, client), client_of(server) as somebody_else:
        await answer_to(client, BIND)
        heard: list[Any] = []
        call_one(client, BIND, heard.append)
        client.abort()
        timers.clock.advance(10.0)
        for _ in range(3):
            await answer_to(somebody_else, BIND)
    assert (len(server.seen), heard) == (4, [])


async def test_a_call_that_waited_too_long_is_not_sent_if_it_may_not_be_any_more() -> None:
    """The lease ran out while calls waited for a connection: only those under way are sent."""
    allowed = True
    go_on = asyncio.Event()

    async def later(seen: Any, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await answers({}, 201)(seen, writer)

    async with talk(later, may_call=lambda: allowed) as (server, client):
        asked = [asyncio.create_task(answer_to(client, it)) for it in binds(CALLS_MAX + 5)]
        await server.has_seen(CALLS_MAX)
        allowed = False
        go_on.set()
        found = await asyncio.gather(*asked)

        assert found[:CALLS_MAX] == [None] * CALLS_MAX
        assert [type(error) for error in found[CALLS_MAX:]] == [Unavailable] * 5
        assert isinstance(await answer_to(client, BIND), Unavailable)
        # Looking is always allowed.
        client.list(POD, ListOptions(), lambda result: None)
        await server.has_seen(CALLS_MAX + 1)
    assert [seen.method for seen in server.seen[CALLS_MAX:]] == ["GET"]


async def test_calls_that_time_out_leave_room_for_others() -> None:
    timers = Timers()
    async with talk(*[silence] * CALLS_MAX, answers({}, 201), timers=timers) as (server, client):
        heard: list[Any] = []
        for bind in binds(CALLS_MAX):
            call_one(client, bind, heard.append)
        await server.has_seen(CALLS_MAX)
        timers.clock.advance(30.0)
        assert [type(error) for error in heard] == [Unavailable] * CALLS_MAX

        assert await answer_to(client, BIND) is None


# -- lists ------------------------------------------------------------------------------------


async def listed(
    client: KubernetesClient, options: ListOptions | None = None
) -> ListResult | ApiError:
    done: asyncio.Future[ListResult | ApiError] = asyncio.get_running_loop().create_future()
    client.list(POD, options or ListOptions(), done.set_result)
    return await done


def page(*items: Any, **metadata: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "9", **metadata}, "items": list(items)}


def as_go_writes_it(page: dict[str, Any]) -> bytes:
    """The kind first, and no blanks."""
    typed = {"kind": "PodList", "apiVersion": "v1", **page}
    return json.dumps(typed, separators=(",", ":")).encode()


@pytest.mark.parametrize("written", [lambda page: page, as_go_writes_it])
async def test_a_list_comes_in_pages(written: Callable[[Any], Any]) -> None:
    first, last = page(pod("a", 3), **{"continue": "token"}), page(pod("b", 4), pod("c", 5))
    async with talk(answers(written(first)), answers(written(last))) as (server, client):
        result = await listed(client, ListOptions(field_selector="status.phase!=Failed"))

    assert isinstance(result, ListResult)
    assert [thing.metadata.name for thing in result.items] == ["a", "b", "c"]
    assert result.resource_version == "9"
    asked = {"limit": "500", "fieldSelector": "status.phase!=Failed"}
    assert [seen.query for seen in server.seen] == [asked, {**asked, "continue": "token"}]


async def test_the_next_page_is_asked_for_before_this_one_is_read() -> None:
    """So one that cannot be read has a successor, which comes too late."""
    broken = as_go_writes_it(page({"spec": 7}, **{"continue": "token"}))
    results: list[ListResult | ApiError] = []
    async with talk(answers(broken), answers(page(pod("b", 4)))) as (server, client):
        client.list(POD, ListOptions(), results.append)
        await server.has_seen(2)
        one = await listed(client)

    assert isinstance(one, ListResult)
    assert len(results) == 1
    assert isinstance(results[0], Unavailable)


async def test_a_list_may_hold_nulls_as_go_writes_them() -> None:
    odd = pod("a", 3, spec={"nodeName": None, "tolerations": None}, status=None)
    data = {"metadata": {"resourceVersion": "9"}, "items": [odd]}
    empty = {"metadata": {"resourceVersion": "9"}, "items": None}
    async with talk(answers(data), answers(empty)) as (_, client):
        one, none = await listed(client), await listed(client)

    assert isinstance(one, ListResult)
    assert isinstance(none, ListResult)
    assert [thing.metadata.name for thing in one.items] == ["a"]
    assert none.items == []


async def test_a_list_of_which_a_page_fails_is_no_list() -> None:
    first = page(pod("a", 3), **{"continue": "old"})
    gone = {"kind": "Status", "reason": "Expired", "message": "too old", "code": 410}
    async with talk(answers(first), answers(gone, 410)) as (_, client):
        assert isinstance(await listed(client), Gone)


# -- watches ----------------------------------------------------------------------------------


@dataclass
class Watched:
    events: list[WatchEvent] = field(default_factory=list)
    ends: list[ApiError | None] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def handlers(self) -> WatchHandlers:
        return WatchHandlers(self._on_events, self._on_end)

    def _on_events(self, events: list[WatchEvent]) -> None:
        self.events += events
        self.changed.set()

    def _on_end(self, error: ApiError | None) -> None:
        self.ends.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(e.type, e.object.metadata.name, e.resource_version) for e in self.events]


async def watched(server: Loopback, version: str = "5") -> Watched:
    heard = Watched()
    async with client_of(server) as client:
        client.watch(POD, ListOptions(), version, heard.handlers())
        await heard.until(lambda: heard.ends)
    return heard


async def test_a_watch_tells_what_happens_until_the_server_ends_it() -> None:
    lines = event("ADDED", **pod("a", 6)) + event("MODIFIED", **pod("a", 7))
    mark = event("BOOKMARK", kind="Pod", metadata={"resourceVersion": "9"}, spec={"containers": 1})
    last = event("DELETED", **pod("a", 11))
    # Cut within a line, and within a word.
    pieces = [chunk(lines[:30]), chunk(lines[30:]), chunk(mark), chunk(last), LAST_CHUNK]
    async with loopback(says(STREAM, *pieces)) as server:
        heard = await watched(server)

    assert heard.told == [
        ("ADDED", "a", "6"),
        ("MODIFIED", "a", "7"),
        ("BOOKMARK", "", "9"),
        ("DELETED", "a", "11"),
    ]
    assert heard.ends == [None]
    query = server.seen[0].query
    assert 300 <= int(query.pop("timeoutSeconds")) < 600
    assert query == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5"}


async def test_a_watch_cut_off_in_the_middle_of_a_line_tells_only_what_was_complete() -> None:
    whole, half = event("ADDED", **pod("a", 6)), event("ADDED", **pod("b", 7))[:40]
    async with loopback(says(STREAM, chunk(whole), chunk(half), close=True)) as server:
        heard = await watched(server)

    assert heard.told == [("ADDED", "a", "6")]
    assert [type(end) for end in heard.ends] == [Unavailable]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(
            answers({"kind": "Status", "reason": "Expired", "code": 410}, 410), Gone, id="410"
        ),
        pytest.param(
            says(
                STREAM,
                chunk(event("ERROR", kind="Status", status="Failure", reason="Expired", code=410)),
            ),
            Gone,
            id="410-as-an-event",
        ),
        pytest.param(answers({}, 500), ApiError, id="500"),
        pytest.param(says(STREAM, chunk(b"garbage\xff\n")), Unavailable, id="garbage"),
        pytest.param(says(STREAM, chunk(b'{"type":"ADDED"}\n')), Unavailable, id="no-object"),
        pytest.param(says(b"\xff\xff\xff\xff\r\n\r\n"), Unavailable, id="no-http"),
        pytest.param(says(close=True), Unavailable, id="nothing"),
    ],
)
async def test_a_watch_that_fails_says_why_and_once(step: Any, expected: type[ApiError]) -> None:
    async with loopback(step) as server:
        heard = await watched(server)

    assert (heard.events, [type(end) for end in heard.ends]) == ([], [expected])


async def test_an_error_on_a_kind_whose_status_is_no_struct() -> None:
    """A namespace decodes from nearly anything, so the type of the event has to be looked at."""
    gone = event("ERROR", kind="Status", message="old", reason="Expired", code=410)
    heard = Watched()
    async with talk(says(STREAM, chunk(gone))) as (_, client):
        client.watch(NODE, ListOptions(), "5", heard.handlers())
        await heard.until(lambda: heard.ends)

    assert [type(end) for end in heard.ends] == [Gone]


async def test_a_stopped_watch_is_silent() -> None:
    heard = Watched()
    async with talk(says(STREAM, chunk(event("ADDED", **pod("a", 6))))) as (server, client):
        watch = client.watch(POD, ListOptions(), "5", heard.handlers())
        await heard.until(lambda: heard.events)
        watch.stop()
        server.cut()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert heard.ends == []


async def test_a_server_that_forgets_to_end_a_watch_is_left() -> None:
    timers, heard = Timers(), Watched()
    async with talk(says(STREAM), timers=timers) as (server, client):
        client.watch(POD, ListOptions(), "5", heard.handlers())
        await server.has_seen(1)
        asked_s = int(server.seen[0].query["timeoutSeconds"])
        timers.clock.advance(asked_s)
        assert heard.ends == []
        timers.clock.advance(30.0)
    assert [type(end) for end in heard.ends] == [Unavailable]


async def test_through_cuts_and_errors_nothing_is_missed_and_nothing_told_twice() -> None:
    """The informer on this client: list, a cut, an error, a version too old, a list again."""
    a, b, c = pod("a", 5), pod("b", 7), pod("c", 8)
    steps = [
        answers({"metadata": {"resourceVersion": "5"}, "items": [a]}),
        says(STREAM, chunk(event("ADDED", **b)), chunk(event("ADDED", **c)[:50]), close=True),
        answers(b"boom", 500),
        # The server resends what it is not sure we have.
        says(STREAM, chunk(event("ADDED", **b) + event("ADDED", **c)), LAST_CHUNK),
        answers({"kind": "Status", "reason": "Expired", "code": 410}, 410),
        # Meanwhile a is gone and b has changed.
        answers({"metadata": {"resourceVersion": "12"}, "items": [pod("b", 11), c]}),
        says(STREAM, chunk(event("DELETED", **pod("b", 13)))),
    ]
    told: list[tuple[str, str]] = []
    changed = asyncio.Event()

    def tell(changes: list[Change]) -> None:
        for change in changes:
            match change:
                case Added(thing):
                    told.append(("add", thing.name))
                case Updated(_, thing):
                    told.append(("update", thing.name))
                case Deleted(thing):
                    told.append(("delete", thing.name))
        changed.set()

    timers = Timers()
    async with talk(*steps, timers=timers) as (server, client):
        informer = Informer(
            client,
            POD,
            tell,
            clock=timers.clock,
            call_later=timers.clock.at,
            random=Random(0),
        )
        informer.start()
        while ("delete", "b") not in told:
            await asyncio.sleep(0)
            # Waits between two tries end at once; nothing else is due within half a minute.
            if timers.clock.next_s is not None and timers.clock.next_s - timers.clock.now_s < 30:
                timers.clock.advance(timers.clock.next_s - timers.clock.now_s)
        informer.stop()

    assert told == [
        ("add", "a"),
        ("add", "b"),
        ("add", "c"),
        ("delete", "a"),
        ("update", "b"),
        ("delete", "b"),
    ]
    versions = [seen.query.get("resourceVersion") for seen in server.seen]
    assert versions == [None, "5", "7", "7", "8", None, "12"]


async def test_data_of_no_kind() -> None:
    async with talk(answers({"major": "1"}), answers({}, 403)) as (server, client):
        assert await client.ask("GET", "/version") == {"major": "1"}
        with pytest.raises(Forbidden):
            await client.ask("POST", "/x", {"a": 1})

    assert json.loads(server.seen[1].body) == {"a": 1}


async def test_health_is_plain_text() -> None:
    async with talk(answers(b"ok"), answers(b"etcd failed", 500)) as (_, client):
        assert await client.text("/readyz") == "ok"
        with pytest.raises(ApiError, match="etcd failed"):
            await client.text("/readyz")


# -- order ------------------------------------------------------------------------------------


async def test_writes_to_one_object_arrive_in_the_order_in_which_they_were_sent() -> None:
    """A pod must not be told why it failed after it was bound: connections overtake each other."""
    told = Patch(POD, "default", BIND.name, {"status": {"reason": "failed"}}, "merge", "status")
    async with talk(answers({}, 200), answers({}, 201)) as (server, client):
        answered: list[str] = []
        done = asyncio.Event()

        def note(word: str) -> None:
            answered.append(word)
            if len(answered) == 2:
                done.set()

        call_one(client, told, lambda _: note("told"))
        call_one(client, BIND, lambda _: note("bound"))
        await done.wait()
        assert [it.method for it in server.seen] == ["PATCH", "POST"]
    assert answered == ["told", "bound"]


async def test_what_is_appended_to_an_object_leaves_the_rest_as_it_is_stored() -> None:
    """An API server without protobuf is sent the JSON it has, with more in its lists."""
    stored = {"metadata": {"name": "c", "finalizers": ["a"]}, "spec": {"z": {"b": None, "a": 1}}}
    body = {"metadata": {"resourceVersion": "7", "finalizers": ["mine"]}}
    patch = Patch(RESOURCE_CLAIM, "default", "c", body, "append")
    async with talk(answers(stored, 200), answers({}, 200)) as (server, client):
        await answer_to(client, patch)
        read, put = server.seen
    assert (read.method, put.method) == ("GET", "PUT")
    assert msgspec.json.decode(put.body) == {
        "metadata": {"name": "c", "finalizers": ["a", "mine"], "resourceVersion": "7"},
        "spec": {"z": {"b": None, "a": 1}},
    }
    assert list(msgspec.json.decode(put.body)["spec"]["z"]) == ["b", "a"]
