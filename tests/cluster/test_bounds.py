"""However much a peer sends, only so much of it is taken in, and the rest is said to be too much.

The limits are made small here; that they are large enough for a real cluster is for the other
tests to show.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from stowplan.clock import VirtualClock
from stowplan.cluster import credentials, decoding, http_pool, kubeconfig
from stowplan.cluster.credentials import Credentials
from stowplan.cluster.kubeconfig import Connection, ExecCommand, from_files
from stowplan.cluster.port import ListOptions, WatchHandlers
from stowplan.errors import ApiError, InputError, Unavailable
from stowplan.objects.api import Get
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from tests.cluster.loopback import STREAM, answers, chunk, says, talk
from tests.cluster.test_client import answer_to, pod

LIMIT = 100_000


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answers(b" " * (LIMIT + 1)), id="by-length"),
        pytest.param(says(STREAM, *[chunk(b" " * 1000)] * 1000), id="in-chunks"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 1000] * 1000), id="without-end"),
        pytest.param(answers(b" " * (LIMIT + 1), 500), id="a-failure"),
    ],
)
async def test_answers_of_the_api_server(step: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "ANSWER_BYTES_MAX", LIMIT)
    async with talk(step, answers(pod("a", 1))) as (_, client):
        error = await answer_to(client, Get(POD, "default", "a"))
        assert isinstance(error, Unavailable)
        assert f"an answer of over {LIMIT} bytes" in error.message
        # On another connection, all is well.
        assert isinstance(await answer_to(client, Get(POD, "default", "a")), Pod)


async def test_an_answer_as_large_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "ANSWER_BYTES_MAX", LIMIT)
    whole = b'{"metadata":{"name":"a"}}'
    async with talk(answers(whole + b" " * (LIMIT - len(whole)))) as (_, client):
        assert isinstance(await answer_to(client, Get(POD, "default", "a")), Pod)


async def test_a_line_of_a_watch_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LINE_BYTES_MAX", LIMIT)
    ends: list[ApiError | None] = []
    async with talk(says(STREAM, *[chunk(b"x" * 1000)] * 1000)) as (_, client):
        ended = asyncio.Event()
        handlers = WatchHandlers(lambda _: None, lambda error: (ends.append(error), ended.set()))
        client.watch(POD, ListOptions(), "1", handlers)
        await ended.wait()
    assert [error.message for error in ends if error] == [f"a watch event of over {LIMIT} bytes"]


def printing(code: str) -> Credentials:
    command = ExecCommand(sys.executable, ("-c", code))
    return Credentials(
        Connection("https://x", exec_command=command, source="kubeconfig"), VirtualClock()
    )


async def test_output_of_a_credential_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, and what it printed is not shown."""
    monkeypatch.setattr(credentials, "EXEC_BYTES_MAX", LIMIT)
    with pytest.raises(InputError, match=f"prints over {LIMIT} bytes") as caught:
        await printing("while True: print('secret' * 1000)").renew()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["certificate-authority", "client-key", ""])
def test_files_of_a_kubeconfig(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "FILE_BYTES_MAX", LIMIT)
    large = tmp_path / "large"
    large.write_text("#" * (LIMIT + 1))
    config = tmp_path / "config"
    config.write_text(
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: x, {key or 'other'}: large}}}}]\n"
        f"users: [{{name: u, user: {{{key or 'other'}: large}}}}]\n"
    )
    with pytest.raises(InputError, match=f"is larger than {LIMIT} bytes") as caught:
        from_files([str(config if key else large)])
    assert caught.value.where == str(large)


async def test_a_token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "FILE_BYTES_MAX", LIMIT)
    path = tmp_path / "token"
    found = Credentials(Connection("https://x", token_file=str(path)), VirtualClock())
    for content, problem in ((b"t" * (LIMIT + 1), "is larger than"), (b"\xff\xfe", "is not text")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=problem):
            await found.renew()
    path.write_text("token\n")
    await found.renew()
    assert found.current() == {"Authorization": "Bearer token"}


@pytest.mark.timeout(30)
def test_a_watch_event_costs_what_its_bytes_cost_however_many_pieces_it_comes_in() -> None:
    """Joined anew for each piece, these would be some hundred gigabytes to copy."""
    lines, piece = decoding.Lines(), b"x" * 100
    count = decoding.LINE_BYTES_MAX // len(piece)

    assert not any(lines.feed(piece) for _ in range(count))
    (line,) = lines.feed(b"\nrest")

    assert len(line) == count * len(piece)
    assert lines.feed(b"\n") == [b"rest"]
