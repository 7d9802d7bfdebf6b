"""Hears what a machine decides, for comparing it with recordings."""

from __future__ import annotations

from stowplan.core.attempts import AttemptObserver
from stowplan.core.decision import Decision
from stowplan.queue import QueuedPod


class Decisions(AttemptObserver):
    """Writes every decision down."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self.made.append(decision)
