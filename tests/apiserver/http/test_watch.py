"""Watches over HTTP: from a version on, with bookmarks, until somebody has enough."""

from __future__ import annotations

import json

import pytest

from stowplan.apiserver.http import app, watch_stream
from stowplan.objects.kinds import POD
from tests.apiserver.http.serving import PODS, Data, Served, serve, until
from tests.apiserver.things import bind, create_pod, delete, patch


async def test_what_there_is_and_what_comes(server: Served) -> None:
    create_pod(server.store, "a")
    async with server.watch(PODS) as events:
        assert events.response.headers["Transfer-Encoding"] == "chunked"
        assert await events.story(1) == [("ADDED", "a")]
        create_pod(server.store, "b")
        bind(server.store, "a")
        delete(server.store, POD, "b")
        assert await events.story(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_from_a_version_on(server: Served) -> None:
    create_pod(server.store, "a")
    version = server.store.resource_version
    create_pod(server.store, "b")
    async with server.watch(f"{PODS}?resourceVersion={version}") as events:
        assert await events.story(1) == [("ADDED", "b")]


async def test_each_change_is_seen_once_whoever_makes_it(server: Served) -> None:
    listed = (await server.get(PODS)).data
    version = listed["metadata"]["resourceVersion"]
    names = [f"p{number:03}" for number in range(300)]
    async with server.watch(f"{PODS}?resourceVersion={version}") as events:
        for name in names:
            create_pod(server.store, name)
        assert [name for _, name in await events.story(300)] == names


async def test_a_selector_makes_objects_come_and_go(server: Served) -> None:
    create_pod(server.store, "a", labels={"app": "web"})
    version = server.store.resource_version
    path = f"{PODS}?labelSelector=app%3Dweb&resourceVersion={version}"
    async with server.watch(path) as events:
        patch(server.store, POD, "a", {"metadata": {"labels": {"app": "db"}}})
        create_pod(server.store, "b")
        patch(server.store, POD, "a", {"metadata": {"labels": {"app": "web"}}})
        assert await events.story(2) == [("DELETED", "a"), ("ADDED", "a")]


async def test_one_object(server: Served) -> None:
    create_pod(server.store, "a")
    create_pod(server.store, "b")
    version = server.store.resource_version
    path = f"{PODS}?fieldSelector=metadata.name%3Da&resourceVersion={version}"
    async with server.watch(path) as events:
        bind(server.store, "b")
        bind(server.store, "a")
        assert await events.story(1) == [("MODIFIED", "a")]


async def test_bookmarks_for_those_who_ask(server: Served) -> None:
    async with (
        server.watch(f"{PODS}?allowWatchBookmarks=true") as asked,
        server.watch(PODS) as other,
    ):
        create_pod(server.store, "a")
        server.store.send_bookmarks()
        create_pod(server.store, "b")
        begun = await asked.next()
        assert begun["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await asked.story(1)
        mark = await asked.next()
        assert mark == {
            "type": "BOOKMARK",
            "object": {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(int(server.store.resource_version) - 1)},
                "spec": {"containers": None},
                "status": {},
            },
        }
        assert await other.story(2) == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("count", [0, 3, 450])
@pytest.mark.parametrize("bookmarks", ["", "&allowWatchBookmarks=true"])
@pytest.mark.parametrize("version", ["", "&resourceVersion=0", "older"])
@pytest.mark.parametrize("initial", ["", "true", "false"])
async def test_where_a_watch_begins_and_which_bookmarks_it_gets(
    server: Served, initial: str, version: str, bookmarks: str, count: int
) -> None:
    """As kube-apiserver's watch cache: what there is comes first for those who ask for it or name
    no version, and its end is marked for those who take bookmarks."""
    there = [f"p{number:03}" for number in range(count)]
    older = server.store.resource_version
    for name in there:
        create_pod(server.store, name)
    create_pod(server.store, "x")
    begun = server.store.resource_version
    query = f"&resourceVersion={older}" if version == "older" else version
    if initial:
        query += f"&resourceVersionMatch=NotOlderThan&sendInitialEvents={initial}"
    begins_with_all = initial == "true" or (version != "older" and not initial)
    sees_all = begins_with_all or version == "older"
    expected = [("ADDED", name) for name in (*there, "x")] if sees_all else []
    if begins_with_all and bookmarks:
        expected.append(("END", begun))
    async with server.watch(f"{PODS}?{query}{bookmarks}") as events:
        create_pod(server.store, "y")
        marked = server.store.resource_version
        server.store.send_bookmarks()
        create_pod(server.store, "z")
        expected.append(("ADDED", "y"))
        if bookmarks:
            expected.append(("BOOKMARK", marked))
        expected.append(("ADDED", "z"))

        told = [_told(await events.next()) for _ in expected]

    assert told == expected


async def test_the_end_of_what_there_was_is_marked_as_of_then(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that come while it is being sent come after the mark, in version too."""
    monkeypatch.setattr(watch_stream, "EVENTS_PER_TURN", 1)
    for number in range(300):
        create_pod(server.store, f"p{number:03}")
    begun = server.store.resource_version
    async with server.watch(f"{PODS}?allowWatchBookmarks=true") as events:
        create_pod(server.store, "late")
        told = [_told(await events.next()) for _ in range(302)]

    assert told[300:] == [("END", begun), ("ADDED", "late")]


def _told(event: Data) -> tuple[str, str]:
    metadata = event["object"]["metadata"]
    if event["type"] != "BOOKMARK":
        return event["type"], metadata["name"]
    marks_end = metadata.get("annotations") == {"k8s.io/initial-events-end": "true"}
    return "END" if marks_end else "BOOKMARK", metadata["resourceVersion"]


@pytest.mark.parametrize(
    ("shape", "kind"), [("Table", "Table"), ("PartialObjectMetadata", "PartialObjectMetadata")]
)
async def test_bookmarks_have_the_shape_that_was_asked_for(
    server: Served, shape: str, kind: str
) -> None:
    accept = {"Accept": f"application/json;as={shape};v=v1;g=meta.k8s.io"}
    url = f"{server.server.url}{PODS}?watch=true&allowWatchBookmarks=true"
    async with server.session.get(url, headers=accept) as response:
        create_pod(server.store, "a")
        lines = [json.loads(await response.content.readline()) for _ in range(2)]

    assert [line["type"] for line in lines] == ["BOOKMARK", "ADDED"]
    for line in lines:
        assert (line["object"]["kind"], line["object"]["apiVersion"]) == (kind, "meta.k8s.io/v1")
    mark = lines[0]["object"]
    assert int(mark["metadata"]["resourceVersion"]) == int(server.store.resource_version) - 1
    assert mark.get("rows", []) == []


async def test_a_version_that_is_too_old(server: Served) -> None:
    create_pod(server.store, "a")
    version = int(server.store.resource_version) - 1
    server.store.compact()
    async with server.watch(f"{PODS}?resourceVersion={version}") as events:
        assert events.code == 200
        event = await events.next()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version")
        assert await events.ended()


async def test_a_version_from_the_future(server: Served) -> None:
    answer = await server.get(f"{PODS}?watch=1&resourceVersion=999999")

    assert answer.status()[:2] == (504, "Timeout")
    assert answer.data["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize("query", [f"{PODS}?watch=1&", f"{PODS}/a?"])
async def test_a_version_that_is_none(server: Served, query: str) -> None:
    """kube-apiserver takes it for a fault of its own."""
    create_pod(server.store, "a")

    answer = await server.get(f"{query}resourceVersion=abc")

    assert answer.code == 500
    assert answer.data["message"].startswith('resourceVersion: Invalid value: "abc"')


async def test_a_watch_that_begins_with_a_list(server: Served) -> None:
    """As client-go's reflectors ask for it (WatchList)."""
    create_pod(server.store, "a")
    path = f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with server.watch(f"{path}&allowWatchBookmarks=true") as events:
        assert await events.story(1) == [("ADDED", "a")]
        mark = await events.next()
        assert mark["type"] == "BOOKMARK"
        metadata = mark["object"]["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert metadata["resourceVersion"] == server.store.resource_version
        create_pod(server.store, "b")
        assert await events.story(1) == [("ADDED", "b")]


async def test_an_empty_list_ends_at_once(server: Served) -> None:
    path = f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with server.watch(f"{path}&allowWatchBookmarks=true") as events:
        assert (await events.next())["type"] == "BOOKMARK"


async def test_a_watch_as_a_table(server: Served) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    url = f"{server.server.url}{PODS}?watch=true"
    async with server.session.get(url, headers=accept) as response:
        create_pod(server.store, "a")
        line = await response.content.readline()
        assert b'"kind":"Table"' in line
        assert b'"a","0/1","Pending"' in line


async def test_a_watch_ends_when_its_time_is_up(server: Served) -> None:
    async with server.watch(f"{PODS}?timeoutSeconds=1") as events:
        assert await events.ended()


async def test_a_client_that_goes_leaves_nothing(server: Served) -> None:
    hub = server.store._ledger.tables[POD.struct].hub
    async with server.watch(PODS):
        assert len(hub.watchers) == 1
    await until(lambda: not hub.watchers)


async def test_a_client_that_does_not_read_loses_only_its_own_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_stream, "BUFFERED_MAX", 50)
    server = await serve()
    hub = server.store._ledger.tables[POD.struct].hub
    try:
        async with server.socket() as (_, writer), server.watch(PODS) as good:
            writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await until(lambda: len(hub.watchers) == 2)
            note = {"metadata": {"annotations": {"x": "y" * 100_000}}}
            create_pod(server.store, "a")
            await good.next()
            for number in range(2000):
                note["metadata"]["annotations"]["n"] = str(number)
                patch(server.store, POD, "a", note, "merge")
                event = await good.next()
                assert event["object"]["metadata"]["annotations"]["n"] == str(number)
                if len(hub.watchers) == 1:
                    break
            assert len(hub.watchers) == 1, "whoever does not read is cut off"
    finally:
        await server.close()


async def test_too_many_watches(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "WATCHES_MAX", 1)
    async with server.watch(PODS):
        refused = await server.get(f"{PODS}?watch=1")
        assert refused.status()[:2] == (429, "TooManyRequests")
        assert refused.headers["Retry-After"] == "1"
        assert (await server.get(PODS)).code == 200


async def test_a_server_that_stops_ends_its_watches(server: Served) -> None:
    async with server.watch(PODS) as events:
        server.store.end_watches()
        assert await events.ended()
