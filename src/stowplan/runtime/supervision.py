"""The scheduler watched over: a second thread, a guard on it, a heartbeat, and what signals do.

`runtime.live` and `cli._up_serve` run inside `with supervision:`, on the main thread.  What has to
go on whatever the scheduler does, they put on `upkeep`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Self

from stowplan.core.machine import Machine
from stowplan.runtime.guard import ASK_EVERY_S, BEAT_S, DECISION_TIMEOUT_S, GiveUp, Guard
from stowplan.runtime.heartbeat import Heartbeat
from stowplan.runtime.log import Log
from stowplan.runtime.upkeep import Upkeep, post_to, stop_signals
from stowplan.runtime.whereabouts import Doing, look


def leave(code: int) -> None:
    """At once: whoever does not return from a call cannot be asked to tidy up."""
    sys.stderr.flush()
    os._exit(code)


class Supervision:
    def __init__(
        self,
        *,
        machine: Callable[[], Machine | None],
        on_stop: Callable[[], None],
        log: Log,
        give_up: GiveUp = leave,
        limit_s: float = DECISION_TIMEOUT_S,
        ask_every_s: float = ASK_EVERY_S,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """To be made on the scheduler's loop.  `on_stop` runs on it whenever a signal asks to stop;
        `give_up` runs on the thread of `upkeep`."""
        self.upkeep = Upkeep()
        self.on_beat: list[Callable[[], None]] = []
        """Done every `BEAT_S`, on the other thread."""
        self._loop = asyncio.get_running_loop()
        self._machine = machine
        self._on_stop = on_stop
        self._heartbeat = heartbeat
        self._thread_id = threading.get_ident()
        self.guard = Guard(
            now=time.monotonic,
            ask=partial(post_to, self._loop),
            look=self._look,
            give_up=give_up,
            log=log,
            limit_s=limit_s,
            ask_every_s=ask_every_s,
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(stop_signals(self._asked_to_stop))
        self.upkeep.start()
        self.upkeep.post(self._beat)
        return self

    def __exit__(self, *problem: object) -> None:
        self.upkeep.stop()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._stack.close()

    def _look(self) -> Doing:
        machine = self._machine()
        return Doing(None) if machine is None else look(machine, self._thread_id)

    def _asked_to_stop(self) -> None:
        """In the midst of anything, also of a decision that does not end."""
        self.guard.hurry()
        post_to(self._loop, self._on_stop)

    def _beat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.beat()
        self.guard.beat()
        for action in self.on_beat:
            action()
        self.upkeep.call_later(BEAT_S, self._beat)
