"""A watch as a chunked answer: one JSON object per change, until somebody has enough.

Events come from the store in the middle of somebody else's write, so they only go into a buffer
there; the request's own task encodes and sends them.  The buffer is bounded, and so is the time in
which some of it must be read: a client that does not keep up loses its watch and comes back with a
new list, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from aiohttp import web

from stowplan.apiserver.http.encoding import Encoder, encode
from stowplan.apiserver.http.negotiation import Shape, Wanted
from stowplan.apiserver.http.options import WatchQuery
from stowplan.apiserver.http.resources import Resource
from stowplan.apiserver.http.sending import WRITE_TIMEOUT_S
from stowplan.apiserver.http.status import failure
from stowplan.apiserver.store import Store
from stowplan.apiserver.watches import Seen
from stowplan.cluster.port import Watch
from stowplan.errors import ApiError, Gone

BUFFERED_MAX = 10_000
"""Changes that may wait for a slow client, beside those it began with."""
EVENTS_PER_TURN = 200
LIFETIME_MIN_S = 1800.0
"""A watch without a timeout of its own ends after 30 to 60 minutes, each at another moment."""
INITIAL_END = "k8s.io/initial-events-end"


class WatchStream:
    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        resource: Resource,
        query: WatchQuery,
        wanted: Wanted,
        include_object: str,
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._resource = resource
        self._query = query
        self._wanted = wanted
        self._include_object = include_object
        self._buffer: deque[Seen] = deque()
        self._buffered_max = BUFFERED_MAX
        self._initial_left = 0
        """Events to send before the bookmark that ends the initial ones."""
        self._marks_end = False
        self._initial_version = ""
        self._wake = asyncio.Event()
        self._ended = False
        self._error: ApiError | None = None
        self._watch = Watch()
        self._on_overflow: Callable[[], object] | None = None
        self._sending = False

    def start(self) -> None:
        """Begin to collect events; raises when the watch cannot start, unless by a 410."""
        query = self._query
        version = query.resource_version
        if query.initial_events:
            self._check_reached(version)
            # Only who takes bookmarks can be told where the initial ones end.
            self._marks_end = query.bookmarks
            version = ""
        elif query.bookmarks and version in ("", "0") and not query.only_changes:
            # Upstream reads the old way of asking as the new one.
            self._marks_end = True
        elif query.only_changes and version in ("", "0"):
            version = self._store.resource_version
        self._watch = self._store.follow(
            self._resource.kind,
            query.selection,
            version,
            self._heard,
            self._end,
            bookmarks=query.bookmarks,
        )
        if self._error is not None and not isinstance(self._error, Gone):
            raise self._error
        self._initial_version = self._store.resource_version
        self._initial_left = len(self._buffer)
        self._buffered_max += len(self._buffer)

    def _check_reached(self, version: str) -> None:
        """Let the store refuse versions that it has not reached, in its own words."""
        reached = version.isdecimal() and int(version) <= int(self._store.resource_version)
        if version and not reached:
            probe = self._store.follow(
                self._resource.kind, self._query.selection, version, lambda _: None, self._end
            )
            probe.stop()
            if self._error is not None:
                raise self._error

    def stop(self) -> None:
        self._watch.stop()

    def _heard(self, seen: list[Seen]) -> None:
        self._buffer.extend(seen)
        self._wake.set()
        if self._on_overflow is not None and len(self._buffer) > self._buffered_max:
            self._ended = True
            self._buffer.clear()
            self._watch.stop()
            self._on_overflow()

    def _end(self, error: ApiError | None) -> None:
        self._ended = True
        self._error = error
        self._wake.set()

    async def run(self, response: web.StreamResponse, random: Random) -> bool:
        """Send until the client, the server or the time ends it.

        False when the client does not read: then only cutting the connection ends it.
        """
        task = asyncio.current_task()
        assert task is not None, "a watch runs in a task"
        self._on_overflow = task.cancel
        lifetime_s = self._query.timeout_s or LIFETIME_MIN_S * (1.0 + random.random())
        try:
            async with asyncio.timeout(lifetime_s):
                await self._send_all(response)
        except TimeoutError:
            return not self._sending
        finally:
            self.stop()
        return True

    async def _send_all(self, response: web.StreamResponse) -> None:
        if self._marks_end and not self._initial_left:
            await response.write(self._initial_end())
        while True:
            while self._buffer:
                self._sending = True
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.write(self._take())
                self._sending = False
                await asyncio.sleep(0)
            if self._ended:
                break
            self._wake.clear()
            await self._wake.wait()
        if self._error is not None:
            await response.write(_line("ERROR", encode(failure(self._error))))

    def _take(self) -> bytes:
        """Encode some of the buffer; the rest waits until these are on their way."""
        lines = []
        for _ in range(min(EVENTS_PER_TURN, len(self._buffer))):
            lines.append(self._encode(self._buffer.popleft()))
            if self._initial_left:
                self._initial_left -= 1
                if not self._initial_left and self._marks_end:
                    lines.append(self._initial_end())
        return b"".join(lines)

    def _encode(self, seen: Seen) -> bytes:
        event, rest = seen
        if event.type == "BOOKMARK":
            return _line("BOOKMARK", encode(self._bookmark(event.resource_version)))
        thing = event.object
        item = (thing, rest)
        text = self._encoder.one(self._resource, item, self._wanted, self._include_object)
        return _line(event.type, text)

    def _initial_end(self) -> bytes:
        mark = self._bookmark(self._initial_version)
        mark["metadata"]["annotations"] = {INITIAL_END: "true"}
        return _line("BOOKMARK", encode(mark))

    def _bookmark(self, version: str) -> dict[str, Any]:
        kind, api_version = self._resource.kind.name, self._resource.api_version
        mark: dict[str, Any] = {"metadata": {"resourceVersion": version}}
        if self._wanted.shape is Shape.TABLE:
            kind, api_version = "Table", f"meta.k8s.io/{self._wanted.version}"
            mark |= {"columnDefinitions": [], "rows": []}
        elif self._wanted.shape is Shape.METADATA:
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
        else:
            mark = self._encoder.complete(self._resource, mark)
        return {"kind": kind, "apiVersion": api_version, **mark}


def _line(type_: str, text: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + text + b"}\n"
