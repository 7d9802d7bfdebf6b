"""Writes to one object, one after the other: those sent later must not arrive first.

Calls go out on many connections, so nothing else keeps them in order.  A pod that failed and is
tried again at once would else be told why the first attempt failed after the second has bound it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")

Heard = Callable[[Outcome], None]
Send = Callable[[Heard[Outcome]], None]


class Turns(Generic[Outcome]):
    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[tuple[Send[Outcome], Heard[Outcome]]]] = {}
        """What is being written, and what comes after that."""

    def take(self, about: Hashable | None, send: Send[Outcome], heard: Heard[Outcome]) -> None:
        """Send it at once, or when what was sent about the same has been answered.

        With None there is nothing to wait for.
        """
        if about is None:
            send(heard)
        elif about in self._waiting:
            self._waiting[about].append((send, heard))
        else:
            self._waiting[about] = deque()
            send(partial(self._answered, about, heard))

    def _answered(self, about: Hashable, heard: Heard[Outcome], outcome: Outcome) -> None:
        waiting = self._waiting[about]
        if waiting:
            send, next_heard = waiting.popleft()
            send(partial(self._answered, about, next_heard))
        else:
            del self._waiting[about]
        heard(outcome)
