"""Who we are, as request headers and a client certificate; tokens are kept fresh.

A service account's token file is rewritten by the kubelet long before it expires, so it is read
again every minute.  An exec plugin is run again when its credential expires, or when the API
server answers 401; however many requests wait for it, it runs once.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stowplan.clock import Clock
from stowplan.cluster.kubeconfig import Connection, ExecCommand, read_file
from stowplan.errors import InputError
from stowplan.objects.times import parse_time

REREAD_S = 60.0
EXEC_TIMEOUT_S = 60.0
EXEC_BYTES_MAX = 2**20
EARLY_S = 10.0
"""How long before its end a credential is no longer used."""


_SENDABLE = re.compile(r"[\x21-\x7e]+")
"""Nothing that would end a header, or begin another."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientCertificate:
    cert: bytes
    key: bytes


class Credentials:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._token = connection.token
        self._valid_until_s = 0.0
        self._renewable = connection.exec_command is not None or bool(connection.token_file)
        self._renewing = asyncio.Lock()
        self._headers = self._make_headers()
        self.certificate: ClientCertificate | None = None
        if connection.client_cert:
            self.certificate = ClientCertificate(connection.client_cert, connection.client_key)

    @property
    def is_stale(self) -> bool:
        """Whether to `renew` before the next request."""
        return self._renewable and self._clock.now() >= self._valid_until_s

    async def renew(self) -> None:
        """Raises InputError if that is not possible."""
        async with self._renewing:
            if self.is_stale:
                await self._renew()
                self._headers = self._make_headers()

    def current(self) -> dict[str, str]:
        """Headers for a request; the same object until they change."""
        return self._headers

    def expire(self, refused: dict[str, str]) -> None:
        """The server refused these headers: unless it was done since, get new ones."""
        if refused == self._headers:
            self._valid_until_s = 0.0

    def _make_headers(self) -> dict[str, str]:
        connection = self._connection
        if self._token:
            if not _SENDABLE.fullmatch(self._token):
                raise InputError(
                    "the token holds characters that cannot be sent",
                    where=connection.token_file or connection.source,
                )
            return {"Authorization": f"Bearer {self._token}"}
        if connection.username:
            pair = f"{connection.username}:{connection.password}".encode()
            return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
        return {}

    async def _renew(self) -> None:
        connection = self._connection
        if connection.exec_command is not None:
            await self._run(connection.exec_command)
            return
        try:
            self._token = _read_token(connection.token_file)
        except InputError:
            # A token that could not be read again may still be good.
            if not self._token:
                raise
        self._valid_until_s = self._clock.now() + REREAD_S

    async def _run(self, command: ExecCommand) -> None:
        spec: dict[str, Any] = {"interactive": False}
        if command.cluster is not None:
            spec["cluster"] = command.cluster
        info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **command.env,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                command.command,
                *command.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(EXEC_TIMEOUT_S):
                output = await _output_of(process)
        except FileNotFoundError:
            raise InputError(
                f"credential plugin {command.command!r} is not installed",
                where=self._connection.source,
                hint=command.install_hint,
            ) from None
        except PermissionError:
            problem = f"credential plugin {command.command!r} may not be run"
            raise InputError(problem, where=self._connection.source) from None
        except TimeoutError:
            process.kill()
            await process.wait()
            problem = f"credential plugin {command.command!r} took longer than {EXEC_TIMEOUT_S:g} s"
            raise InputError(problem, where=self._connection.source) from None
        if output is None:
            problem = f"credential plugin {command.command!r} prints over {EXEC_BYTES_MAX} bytes"
            raise InputError(problem, where=self._connection.source)
        if process.returncode:
            raise InputError(
                f"credential plugin {command.command!r} failed with exit code {process.returncode}",
                where=self._connection.source,
            )
        self._take(command, output)

    def _take(self, command: ExecCommand, output: bytes) -> None:
        try:
            status: dict[str, Any] = msgspec.json.decode(output)["status"]
            expires = status.get("expirationTimestamp")
            valid_until_s = parse_time(expires) - EARLY_S if expires else float("inf")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            # Its output may hold a secret: it is not repeated here.
            raise InputError(
                f"credential plugin {command.command!r} printed no ExecCredential with a status",
                where=self._connection.source,
            ) from None
        self._token = str(status.get("token") or "")
        if status.get("clientCertificateData"):
            self.certificate = ClientCertificate(
                str(status["clientCertificateData"]).encode(),
                str(status.get("clientKeyData") or "").encode(),
            )
        self._valid_until_s = valid_until_s


async def _output_of(process: asyncio.subprocess.Process) -> bytes | None:
    """All that it prints until it ends, or None if that is more than any credential is."""
    assert process.stdout is not None
    pieces: list[bytes] = []
    size = 0
    while piece := await process.stdout.read(EXEC_BYTES_MAX):
        pieces.append(piece)
        size += len(piece)
        if size > EXEC_BYTES_MAX:
            process.kill()
            await process.wait()
            return None
    await process.wait()
    return b"".join(pieces)


def _read_token(path: str) -> str:
    """A short file on a memory file system: reading it blocks for microseconds."""
    try:
        return read_file(Path(path)).decode().strip()
    except UnicodeDecodeError:
        raise InputError("holds no token: it is not text", where=path) from None
