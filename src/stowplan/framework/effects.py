"""What a plugin's generator may yield besides API requests: questions and pauses.

The core carries these out and sends the outcome back into the generator, so a plugin can be
written top to bottom although the machine never waits.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stowplan.state.pod_info import PodInfo


class Sleep(Struct, frozen=True):
    """Go on after this time; the generator is sent None."""

    seconds: float


class AskPreemptionExtenders(Struct, frozen=True):
    """Let extenders drop candidates or change their victims.

    The generator is sent the candidates that are left, or a Status that ends preemption.
    """

    pod: PodInfo
    candidates: list[Any]
