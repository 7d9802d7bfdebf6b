"""Asks extenders over HTTP: POST, JSON, a timeout each, and TLS as the configuration says.

What to ask and what an answer means is `core.extender`'s business.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.cluster.proxy import proxy_for
from stowplan.cluster.tls import client_context
from stowplan.config import ExtenderConfig, ExtenderTLSConfig
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.errors import ConfigError, InputError, StowplanError

if TYPE_CHECKING:
    import aiohttp

CONNECTIONS_MAX = 100
ANSWER_BYTES_MAX = 128 * 2**20
"""One that is not nodeCacheCapable sends back the nodes of a whole cluster."""


class HttpExtenderClient:
    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment` may name proxies."""
        self._environment = environment or {}
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[int, tuple[ExtenderConfig, ssl.SSLContext | bool]] = {}
        """By the identity of the configuration, which is kept so that it stays the same."""
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, call: CallExtender, done: Callable[[ExtenderAnswer], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._call(call, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _call(self, call: CallExtender, done: Callable[[ExtenderAnswer], None]) -> None:
        # Only where there are extenders: it takes a tenth of the time that a scheduler starts in.
        import aiohttp

        try:
            answer = ExtenderAnswer(body=await self._post(call))
        except (aiohttp.ClientError, OSError, StowplanError, ValueError, RecursionError) as error:
            # Whatever came, an answer has to be given: the decision waits for it.
            answer = ExtenderAnswer(error=str(error) or type(error).__name__)
        done(answer)

    async def _post(self, call: CallExtender) -> Any:
        import aiohttp

        config: ExtenderConfig = call.extender.config
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX)
            self._session = aiohttp.ClientSession(connector=connector)
        async with self._session.post(
            call.url,
            data=msgspec.json.encode(call.body),
            headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=config.http_timeout.seconds),
            ssl=self._context(config),
            server_hostname=config.tls_config.server_name or None if config.tls_config else None,
            allow_redirects=False,
            proxy=proxy_for(call.url, self._environment) or None,
        ) as response:
            body = await _read(response)
            if response.status != 200:
                problem = f"failed {call.verb} with extender at URL {call.url}"
                raise InputError(f"{problem}, code {response.status}")
            return msgspec.json.decode(body)

    def _context(self, config: ExtenderConfig) -> ssl.SSLContext | bool:
        known = self._contexts.get(id(config))
        if known is None:
            known = self._contexts[id(config)] = (config, tls_context(config))
        return known[1]


async def _read(response: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise InputError(f"the extender's answer is larger than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def check_extenders(extenders: Iterable[ExtenderConfig]) -> None:
    """Raise ConfigError if one of them could never be asked."""
    for extender in extenders:
        try:
            tls_context(extender)
        except InputError as error:
            problem = f"couldn't build extenders: {error.problem}"
            raise ConfigError(problem, where=error.where, hint=error.hint) from None


def tls_context(config: ExtenderConfig) -> ssl.SSLContext | bool:
    tls = config.tls_config or ExtenderTLSConfig()
    ca = _pem(tls.ca_data, tls.ca_file)
    if tls.insecure and ca:
        problem = "specifying a root certificates file with the insecure flag is not allowed"
        raise InputError(problem, where=f"extender {config.url_prefix}")
    if not config.enable_https:
        return True
    return client_context(
        ca=ca,
        # As upstream: HTTPS without an authority is not verified.
        insecure=tls.insecure or not ca,
        cert=_pem(tls.cert_data, tls.cert_file),
        key=_pem(tls.key_data, tls.key_file),
        where=f"extender {config.url_prefix}",
    )


def _pem(data: bytes, file: str) -> bytes:
    if data or not file:
        return data
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=file) from None
