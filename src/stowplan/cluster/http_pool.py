"""Connections to one server, and who may use them when.

One request at a time on a connection, the connection used last first, and callbacks instead of
tasks and futures: a binding costs a fraction of what it does through a general client.  Requests
that find no free connection wait in line; all of a request's time, waiting included, is bounded.

`cluster.client` has one pool for calls and one for lists and watches.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from stowplan.cluster.http_wire import Answer, WireError

CONNECT_TIMEOUT_S = 10.0
PROXY_ANSWER_BYTES_MAX = 8192

_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A quiet watch must notice within a minute that its server is gone without a word."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    reason: str
    headers: dict[str, str]
    body: bytes


Outcome = Response | Exception
"""The answer, or why there is none: OSError, TimeoutError, WireError."""


class Exchange:
    """A request on its way, and what is to become of the answer."""

    __slots__ = ("_loop_timer", "done", "over", "parts", "request", "stream")

    def __init__(
        self,
        request: bytes,
        done: Callable[[Outcome], None],
        stream: Callable[[Answer, bytes], bool] | None = None,
    ) -> None:
        """`stream` is given the body piece by piece; where it answers False, it is kept."""
        self.request = request
        self.done = done
        self.stream = stream
        self.parts: list[bytes] = []
        self.over = False
        self._loop_timer: asyncio.TimerHandle | None = None

    def start_timer(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop_timer = loop.call_later(seconds, self.fail, TimeoutError())

    def finish(self, outcome: Outcome) -> None:
        if not self.over:
            self.cancel()
            self.done(outcome)

    def fail(self, error: Exception) -> None:
        self.finish(error)

    def cancel(self) -> None:
        """Whatever comes of it, nobody is told."""
        self.over = True
        if self._loop_timer is not None:
            self._loop_timer.cancel()
