"""How many bytes are held for clients: bodies on their way in, answers on their way out.

Small ones do not count, so ordinary requests never notice.  Of large ones there is room for some
hundred mebibytes.  When that is full, whoever has held on to theirs for longest is cut off, and if
nobody has had it for long, the newcomer is asked to come back.  A client that stalls can so cost
memory for a few seconds, and only until somebody else needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from stowplan.clock import Clock
from stowplan.errors import TooManyRequests

HELD_BYTES_MAX = 256 * 2**20
FREE_BYTES = 64 * 1024
"""Of each body and answer; so much is held for everybody, without being counted."""
GRACE_S = 5.0
"""For so long nobody is cut off for the sake of others."""


class Peer(Protocol):
    """Whom to cut off: the part of an asyncio transport that is needed here."""

    def abort(self) -> None: ...


class Hold:
    """One body or answer."""

    __slots__ = ("_held", "bytes", "peer", "since_s")

    def __init__(self, held: HeldBytes, peer: Peer | None, since_s: float) -> None:
        self._held = held
        self.peer = peer
        self.since_s = since_s
        self.bytes = 0

    def grow(self, size: int) -> None:
        """`size` bytes more; raises TooManyRequests if there is no room for them."""
        self.bytes += size
        if self.bytes > FREE_BYTES:
            self._held.count(self, min(size, self.bytes - FREE_BYTES))


class HeldBytes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holds: dict[Hold, int] = {}
        """What each counts for; the oldest first."""
        self._bytes = 0

    @contextmanager
    def hold(self, peer: Peer | None) -> Iterator[Hold]:
        made = Hold(self, peer, self._clock.now())
        try:
            yield made
        finally:
            self._forget(made)

    def count(self, hold: Hold, size: int) -> None:
        if self._bytes + size > HELD_BYTES_MAX:
            self._make_room(hold, size)
        self._bytes += size
        self._holds[hold] = self._holds.get(hold, 0) + size

    def _make_room(self, newcomer: Hold, size: int) -> None:
        latest_s = self._clock.now() - GRACE_S
        for hold in [*self._holds]:
            if self._bytes + size <= HELD_BYTES_MAX:
                return
            if hold is not newcomer and hold.since_s <= latest_s:
                self._forget(hold)
                if hold.peer is not None:
                    hold.peer.abort()
        if self._bytes + size > HELD_BYTES_MAX:
            raise TooManyRequests(
                "too much is being sent and received, please try again later", retry_after_s=1
            )

    def _forget(self, hold: Hold) -> None:
        self._bytes -= self._holds.pop(hold, 0)
