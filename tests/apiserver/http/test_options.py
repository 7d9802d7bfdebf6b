"""The query of a request, read as kube-apiserver reads it: every option, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.answers import InvalidObject
from stowplan.apiserver.http.options import (
    DeleteQuery,
    ListQuery,
    WatchQuery,
    WriteQuery,
    delete_query,
    is_true,
    list_query,
    number,
    watch_query,
    write_query,
)
from stowplan.cluster.port import ListOptions
from stowplan.errors import BadRequest

Query = dict[str, str]
SELECTED = {"fieldSelector": "spec.nodeName=a", "labelSelector": "app=web"}
FROM_7 = {"resourceVersion": "7"}
NOT_OLDER, EXACT = {"resourceVersionMatch": "NotOlderThan"}, {"resourceVersionMatch": "Exact"}


def fields(refused: pytest.ExceptionInfo[InvalidObject]) -> list[str]:
    return [problem.field for problem in refused.value.causes]


@pytest.mark.parametrize(
    ("text", "found"),
    [("true", True), ("1", True), ("", True), ("yes", True), ("false", False), ("False", False),
     ("0", False), (None, False)],
)  # fmt: skip
def test_everything_is_true_but_what_says_it_is_not(text: str | None, found: bool) -> None:
    assert is_true({} if text is None else {"watch": text}, "watch") is found


def test_numbers() -> None:
    assert [number({"n": text}, "n") for text in ("", "0", "12", "-3")] == [None, 0, 12, -3]
    assert number({}, "n") is None
    with pytest.raises(BadRequest, match="invalid syntax"):
        number({"n": "x"}, "n")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ListQuery(ListOptions("ns"))),
        (SELECTED, ListQuery(ListOptions("ns", "spec.nodeName=a", "app=web"))),
        ({"limit": "5", "continue": "t"}, ListQuery(ListOptions("ns"), limit=5, token="t")),
        (FROM_7, ListQuery(ListOptions("ns"), resource_version="7")),
        (
            FROM_7 | EXACT,
            ListQuery(ListOptions("ns"), resource_version="7", match="Exact"),
        ),
        (
            {"resourceVersion": "0"} | NOT_OLDER,
            ListQuery(ListOptions("ns"), resource_version="0", match="NotOlderThan"),
        ),
        (
            {"resourceVersion": "0", "continue": "t"},
            ListQuery(ListOptions("ns"), resource_version="0", token="t"),
        ),
    ],
)
def test_lists(query: Query, found: ListQuery) -> None:
    assert list_query(query, "ns") == found


MATCH = "resourceVersionMatch"


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        (EXACT, [MATCH]),
        ({"resourceVersion": "0"} | EXACT, [MATCH]),
        (FROM_7 | {MATCH: "Sometimes"}, [MATCH]),
        ({"continue": "t"} | NOT_OLDER, [MATCH, MATCH]),
        ({"sendInitialEvents": "false"}, ["sendInitialEvents"]),
        (EXACT | {"sendInitialEvents": ""}, [MATCH, "sendInitialEvents"]),
    ],
)
def test_lists_that_are_refused(query: Query, refused: list[str]) -> None:
    with pytest.raises(InvalidObject) as found:
        list_query(query, "ns")
    assert fields(found) == refused


@pytest.mark.parametrize(
    "query",
    [
        FROM_7 | {"continue": "t"},
        {"limit": "x"},
        {"timeoutSeconds": "x"},
        {"labelSelector": "a b"},
        {"fieldSelector": "a"},
    ],
)
def test_lists_that_make_no_sense(query: Query) -> None:
    with pytest.raises(BadRequest):
        list_query(query, "ns")


def watch(
    options: ListOptions, version: str = "", seconds: float | None = None, **rest: bool
) -> WatchQuery:
    plain: dict[str, Any] = {"bookmarks": False, "initial_events": False, **rest}
    return WatchQuery(options, version, seconds, **plain)


INITIAL = NOT_OLDER | {"sendInitialEvents": "true"}


@pytest.mark.parametrize(
    ("query", "name", "found"),
    [
        ({}, "", watch(ListOptions("ns"))),
        (FROM_7 | {"timeoutSeconds": "9"}, "", watch(ListOptions("ns"), "7", 9.0)),
        ({"timeoutSeconds": "0"}, "", watch(ListOptions("ns"))),
        ({"allowWatchBookmarks": "1"}, "", watch(ListOptions("ns"), bookmarks=True)),
        (INITIAL, "", watch(ListOptions("ns"), initial_events=True)),
        (
            NOT_OLDER | {"sendInitialEvents": "false"},
            "",
            watch(ListOptions("ns"), only_changes=True),
        ),
        ({}, "a", watch(ListOptions("ns", "metadata.name=a"))),
        (
            SELECTED,
            "a",
            watch(ListOptions("ns", "spec.nodeName=a,metadata.name=a", "app=web")),
        ),
    ],
)
def test_watches(query: Query, name: str, found: WatchQuery) -> None:
    assert watch_query(query, "ns", name) == found


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (
            {"sendInitialEvents": "true"},
            ["Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"],
        ),
        (
            NOT_OLDER,
            [f"Forbidden: {MATCH} is forbidden for watch unless sendInitialEvents is provided"],
        ),
        (
            EXACT | {"sendInitialEvents": "true"},
            [
                f"Forbidden: sendInitialEvents requires setting {MATCH} to NotOlderThan",
                'Unsupported value: "Exact": supported values: "NotOlderThan"',
            ],
        ),
        (
            INITIAL | {"continue": "t"},
            ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
        ),
    ],
)
def test_watches_that_are_refused(query: Query, texts: list[str]) -> None:
    with pytest.raises(InvalidObject) as found:
        watch_query(query, "ns")
    assert [(it.field, it.detail) for it in found.value.causes] == [(MATCH, it) for it in texts]


PLAIN = WriteQuery(dry_run=False, level="Warn", manager="", force=False)


@pytest.mark.parametrize(
    ("query", "options", "applies", "found"),
    [
        ({}, "CreateOptions", False, PLAIN),
        ({"dryRun": "All"}, "CreateOptions", False, WriteQuery(True, "Warn", "", False)),
        ({"fieldValidation": "Strict"}, "UpdateOptions", False,
         WriteQuery(False, "Strict", "", False)),
        ({"fieldManager": "m" * 128}, "CreateOptions", False,
         WriteQuery(False, "Warn", "m" * 128, False)),
        ({"force": "true"}, "CreateOptions", False, PLAIN),
        ({"fieldManager": "me", "force": "true"}, "PatchOptions", True,
         WriteQuery(False, "Warn", "me", True)),
        ({"fieldManager": "me", "force": "false"}, "PatchOptions", True,
         WriteQuery(False, "Warn", "me", False)),
        ({}, "PatchOptions", False, PLAIN),
    ],
)  # fmt: skip
def test_writes(query: Query, options: str, applies: bool, found: WriteQuery) -> None:
    assert write_query(query, options, applies=applies) == found


@pytest.mark.parametrize(
    ("query", "applies", "refused"),
    [
        ({}, True, ["fieldManager"]),
        ({"force": "false"}, False, ["force"]),
        ({"fieldManager": "ü" * 65}, False, ["fieldManager"]),
        ({"dryRun": "Some"}, False, ["dryRun"]),
        ({"fieldValidation": "strict"}, False, ["fieldValidation"]),
        ({"fieldValidation": "x", "dryRun": ""}, True, ["fieldManager", "dryRun",
                                                        "fieldValidation"]),
    ],
)  # fmt: skip
def test_writes_that_are_refused(query: Query, applies: bool, refused: list[str]) -> None:
    with pytest.raises(InvalidObject) as found:
        write_query(query, "PatchOptions", applies=applies)
    assert fields(found) == refused


@pytest.mark.parametrize(
    ("query", "body", "found"),
    [
        ({}, None, DeleteQuery()),
        ({}, {}, DeleteQuery()),
        ({"gracePeriodSeconds": "0"}, None, DeleteQuery(grace_period_s=0)),
        ({"gracePeriodSeconds": "5"}, {}, DeleteQuery()),
        ({}, {"gracePeriodSeconds": 5}, DeleteQuery(grace_period_s=5)),
        ({"dryRun": "All"}, None, DeleteQuery(dry_run=True)),
        ({}, {"dryRun": ["All"]}, DeleteQuery(dry_run=True)),
        ({}, {"dryRun": []}, DeleteQuery()),
        ({"propagationPolicy": "Orphan"}, None, DeleteQuery(propagation="Orphan")),
        ({}, {"propagationPolicy": "Foreground"}, DeleteQuery(propagation="Foreground")),
        ({"orphanDependents": "true"}, None, DeleteQuery(propagation="Orphan")),
        ({"orphanDependents": "false"}, None, DeleteQuery()),
        ({}, {"orphanDependents": True}, DeleteQuery(propagation="Orphan")),
        (
            {},
            {"preconditions": {"uid": "u", "resourceVersion": "7"}},
            DeleteQuery(uid="u", resource_version="7"),
        ),
        ({}, {"preconditions": None}, DeleteQuery()),
    ],
)
def test_deletions(query: Query, body: Any, found: DeleteQuery) -> None:
    assert delete_query(query, body) == found


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"propagationPolicy": "nil"}, ["propagationPolicy"]),
        ({"propagationPolicy": "Orphan", "orphanDependents": False}, ["propagationPolicy"]),
        ({"dryRun": ["All", "Some"]}, ["dryRun"]),
        (
            {"propagationPolicy": "x", "orphanDependents": True, "dryRun": [""]},
            ["propagationPolicy", "propagationPolicy", "dryRun"],
        ),
    ],
)
def test_deletions_that_are_refused(body: dict[str, Any], refused: list[str]) -> None:
    with pytest.raises(InvalidObject) as found:
        delete_query({}, body)
    assert fields(found) == refused
