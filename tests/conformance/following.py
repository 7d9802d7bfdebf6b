"""Hears what a machine decides, for comparing it with recordings."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.attempts import Bound
from stowplan.core.decision import Decision
from stowplan.framework.status import Status
from stowplan.queue import QueuedPod


class Decisions:
    """Hears of every attempt, and writes its decision down."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def begin(self, queued: QueuedPod, now_s: float) -> None: ...

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self.made.append(decision)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None: ...

    def failed(
        self, queued: QueuedPod, decision: Decision, status: Status, now_s: float, seconds: float
    ) -> None: ...

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None: ...

    def problem(self, text: str) -> None: ...
