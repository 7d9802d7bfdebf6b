"""Tokens stay fresh: files are read again, plugins are run again, and only when needed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stowplan.clock import VirtualClock
from stowplan.cluster.credentials import Credentials
from stowplan.cluster.kubeconfig import Connection, ExecCommand
from stowplan.errors import InputError
from stowplan.objects.api import Get
from stowplan.objects.kinds import POD
from stowplan.objects.times import format_time
from tests.cluster.loopback import answer_to, answers, pod, talk

START_S = 1_700_000_000.0

PRINTS = """
import json, os, pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = json.loads(sys.argv[2])
status["token"] = f"token-{len(runs.read_text())}"
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def python(code: str, *args: str, **fields: Any) -> Connection:
    """A plugin that is a few lines of Python."""
    command = ExecCommand(sys.executable, ("-c", code, *args), **fields)
    return Connection(server="https://x", exec_command=command, source="kubeconfig")


def counted(runs: Path, **status: Any) -> Connection:
    return python(PRINTS, str(runs), json.dumps(status))


async def headers(credentials: Credentials) -> dict[str, str]:
    """As the client does it before a request."""
    if credentials.is_stale:
        await credentials.renew()
    return credentials.current()


async def test_a_token_of_the_file_is_sent_as_it_is() -> None:
    credentials = Credentials(Connection(server="x", token="abc"), VirtualClock())

    assert await headers(credentials) == {"Authorization": "Bearer abc"}
    assert credentials.current() is credentials.current()


async def test_a_user_and_a_password() -> None:
    connection = Connection(server="x", username="me", password="pässword")

    assert await headers(Credentials(connection, VirtualClock())) == {
        "Authorization": "Basic bWU6cMOkc3N3b3Jk"
    }


async def test_nobody() -> None:
    assert await headers(Credentials(Connection(server="x"), VirtualClock())) == {}


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("first\n")
    credentials = Credentials(Connection(server="x", token_file=str(file)), clock)
    assert await headers(credentials) == {"Authorization": "Bearer first"}
    file.write_text("second\n")

    clock.advance(59.0)
    assert await headers(credentials) == {"Authorization": "Bearer first"}
    clock.advance(1.0)
    assert await headers(credentials) == {"Authorization": "Bearer second"}


async def test_a_token_file_that_cannot_be_read_for_a_while(tmp_path: Path) -> None:
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("first")
    credentials = Credentials(Connection(server="x", token_file=str(file)), clock)
    await headers(credentials)
    file.unlink()
    clock.advance(3600.0)

    assert await headers(credentials) == {"Authorization": "Bearer first"}


async def test_a_token_file_that_was_never_there(tmp_path: Path) -> None:
    connection = Connection(server="x", token_file=str(tmp_path / "token"))

    with pytest.raises(InputError, match="cannot be read"):
        await headers(Credentials(connection, VirtualClock()))


async def test_a_plugin_runs_again_when_its_credential_expires(tmp_path: Path) -> None:
    clock, runs = VirtualClock(now_s=START_S), tmp_path / "runs"
    expires = format_time(START_S + 600.0)
    credentials = Credentials(counted(runs, expirationTimestamp=expires), clock)

    assert await headers(credentials) == {"Authorization": "Bearer token-1"}
    clock.advance(589.0)
    assert await headers(credentials) == {"Authorization": "Bearer token-1"}
    # Ten seconds early, so that it does not expire on its way.
    clock.advance(1.0)
    assert await headers(credentials) == {"Authorization": "Bearer token-2"}


async def test_a_plugin_that_names_no_end_runs_once(tmp_path: Path) -> None:
    clock, runs = VirtualClock(now_s=START_S), tmp_path / "runs"
    credentials = Credentials(counted(runs), clock)
    await headers(credentials)
    clock.advance(1e9)

    assert await headers(credentials) == {"Authorization": "Bearer token-1"}


async def test_however_many_wait_the_plugin_runs_once(tmp_path: Path) -> None:
    credentials = Credentials(counted(tmp_path / "runs"), VirtualClock(now_s=START_S))

    found = await asyncio.gather(*(headers(credentials) for _ in range(20)))

    assert {each["Authorization"] for each in found} == {"Bearer token-1"}


async def test_a_refused_token_is_replaced_once(tmp_path: Path) -> None:
    credentials = Credentials(counted(tmp_path / "runs"), VirtualClock(now_s=START_S))
    refused = await headers(credentials)

    credentials.expire(refused)
    assert await headers(credentials) == {"Authorization": "Bearer token-2"}
    # Another request with the old one comes back late.
    credentials.expire(refused)
    assert await headers(credentials) == {"Authorization": "Bearer token-2"}


async def test_a_plugin_may_give_a_certificate() -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    code = f"import json; print(json.dumps({{'status': {status!r}}}))"
    credentials = Credentials(python(code), VirtualClock())

    assert await headers(credentials) == {}
    assert credentials.certificate is not None
    assert (credentials.certificate.cert, credentials.certificate.key) == (b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("connection", "problem"),
    [
        (python("raise SystemExit(3)"), "failed with exit code 3"),
        (python("print('secret nonsense')"), "printed no ExecCredential"),
        (python("print('{}')"), "printed no ExecCredential"),
        (python('print(\'{"status": {"expirationTimestamp": "soon"}}\')'), "no ExecCredential"),
        (
            Connection(
                server="x", exec_command=ExecCommand("no-such-login", install_hint="get it")
            ),
            "'no-such-login' is not installed",
        ),
    ],
)
async def test_a_plugin_that_fails(connection: Connection, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        await headers(Credentials(connection, VirtualClock()))

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["a b", "a\nX-Other: b", "a\r\n\r\nGET /", "euro\u20ac", "\x7f"])
async def test_a_token_that_cannot_be_sent(token: str, tmp_path: Path) -> None:
    """Above all nothing that would end its header, and begin another."""
    path = tmp_path / "token"
    path.write_text(token)
    connections = (
        Connection(server="x", token=token, source="kubeconfig"),
        Connection(server="x", token_file=str(path)),
        python(f"import json; print(json.dumps({{'status': {{'token': {token!r}}}}}))"),
    )
    for connection in connections:
        with pytest.raises(InputError, match="holds characters that cannot be sent") as caught:
            await headers(Credentials(connection, VirtualClock()))
        assert token not in str(caught.value)
        assert caught.value.where


async def test_the_client_asks_for_a_new_token_when_the_server_refuses_the_old(
    tmp_path: Path,
) -> None:
    refusing = answers({"kind": "Status", "reason": "Unauthorized", "code": 401}, 401)
    plugin = counted(tmp_path / "runs").exec_command
    async with talk(refusing, answers(pod("a", 1)), exec_command=plugin) as (server, client):
        for _ in range(2):
            await answer_to(client, Get(POD, "default", "a"))

    sent = [seen.headers["Authorization"] for seen in server.seen]
    assert sent == ["Bearer token-1", "Bearer token-2"]
