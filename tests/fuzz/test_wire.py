"""What comes over the network: answers, lists, watch streams, extenders, writes to the store."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.credentials import Credentials
from stowplan.cluster.decoding import (
    Lines,
    decode_answer,
    decode_event,
    decode_failure,
    decode_page,
)
from stowplan.cluster.http_wire import HttpResponse, WireError
from stowplan.cluster.kubeconfig import Connection, ExecCommand
from stowplan.core.extender import Extender, ExtenderAnswer, ExtenderFailed
from stowplan.errors import ApiError, InputError
from stowplan.objects.api import Create, Patch
from stowplan.objects.kinds import NODE, POD
from tests.builders import node, pod
from tests.fuzz.inputs import BOMBS, broken, json_values, noise, peak_bytes, refused

MEMORY_MAX = 150_000_000

EVENT = json.dumps(
    {
        "type": "ADDED",
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"},
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        },
    }
).encode()
PAGE = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}'
HTTP = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@given(noise | broken(EVENT))
def test_watch_events(line: bytes) -> None:
    with refused(ApiError):
        event = decode_event(line, POD)
        assert event.type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


@pytest.mark.parametrize("status", ["{}", '{"code":410}', '{"message":""}'])
def test_an_error_without_a_word_is_not_told_without_one(status: str) -> None:
    """Found by `guided`."""
    with pytest.raises(ApiError, match="no reason given"):
        decode_event(b'{"type":"ERROR","object":%s}' % status.encode(), POD)


@given(st.lists(noise | broken(EVENT + b"\n"), max_size=8))
def test_watch_streams_however_they_are_cut(pieces: list[bytes]) -> None:
    whole, parts = Lines(), Lines()
    stream = b"".join(pieces)
    with refused(ApiError):
        found = [line for piece in pieces for line in parts.feed(piece)]
        assert found == whole.feed(stream)


@given(noise | broken(PAGE))
def test_answers_and_pages(body: bytes) -> None:
    for read in (decode_answer, decode_page):
        with refused(ApiError):
            read(body, POD)


@given(st.integers(0, 999), st.text(max_size=20), noise, st.text(max_size=10))
def test_failures_are_failures_whatever_their_body(
    code: int, reason: str, body: bytes, retry_after: str
) -> None:
    failure = decode_failure(code, reason, body, retry_after=retry_after)
    assert isinstance(failure, ApiError)
    assert failure.retry_after_s is None or failure.retry_after_s >= 0


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=[*BOMBS])
def test_no_body_takes_much(bomb: bytes) -> None:
    def attempt() -> None:
        for read in (decode_answer, decode_page, decode_event):
            with pytest.raises(ApiError):
                read(bomb, POD)

    assert peak_bytes(attempt) < MEMORY_MAX


@given(st.lists(st.binary(max_size=60) | broken(HTTP), min_size=1, max_size=6))
def test_http_answers(pieces: list[bytes]) -> None:
    answer = HttpResponse()
    body = b""
    with refused(WireError):
        for piece in pieces:
            body += answer.feed(piece)
            if answer.complete:
                break
        answer.end()
    assert len(body) <= sum(map(len, pieces))


@given(json_values)
def test_extenders_may_answer_anything(body: Any) -> None:
    config = SimpleNamespace(
        url_prefix="http://x", node_cache_capable=True, weight=1, managed_resources=None
    )
    extender, answer = Extender(config), ExtenderAnswer(body)
    extender.read_priorities(answer)
    for read in (
        lambda: extender.read_filter(answer, []),
        lambda: extender.read_preemption(answer),
        lambda: extender.read_bind(answer),
    ):
        with refused(ExtenderFailed):
            read()


@given(noise | broken(b'{"status":{"token":"t","expirationTimestamp":"2026-01-01T00:00:00Z"}}'))
def test_credential_plugins_may_print_anything(output: bytes) -> None:
    command = ExecCommand("get-token")
    credentials = Credentials(Connection("https://x", exec_command=command), VirtualClock())
    with refused(InputError):
        credentials._take(command, output)


def _filled_store() -> Store:
    store = Store(VirtualClock(1_000.0), create_namespaces=True)
    store.execute(Create(NODE, "", node("a")))
    store.execute(Create(POD, "default", pod("web")))
    return store


@given(
    st.sampled_from(["merge", "strategic", "json"]),
    st.sampled_from(["", "status", "resize", "nonsense"]),
    json_values,
)
def test_patches_of_any_shape_are_taken_or_refused(sort: str, sub: str, body: Any) -> None:
    store = _filled_store()
    before = store.resource_version
    try:
        store.execute(Patch(POD, "default", "web", body, sort, sub))
    except ApiError:
        assert store.resource_version == before
    assert store.read(POD, "default", "web")[0].name == "web"
