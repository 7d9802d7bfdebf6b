"""A case: a function that acts on a stage, and texts that must be seen in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.devices.stage import Data, Stage

Play = Callable[[Stage], None]


@dataclass(frozen=True)
class Case:
    name: str
    play: Play
    texts: tuple[str, ...]
    is_a_race: bool = False
    """What is told on the way depends on who is quicker; only what is left in the end counts."""

    theirs: str = ""
    """What kube-scheduler shows instead, where we differ on purpose (docs/differences.md)."""

    def problems(self, theirs: Data, ours: Data) -> list[str]:
        """How what was seen at the two differs, and what should be seen and is not."""
        texts = _missing(self.texts, ours)
        if self.theirs:
            return texts + _missing((self.theirs,), theirs)
        # Both might be wrong in the same way.
        return differences(theirs, ours) or texts

    def ending(self, found: Data) -> Data:
        """What of it is to be compared."""
        if not self.is_a_race:
            return found
        for it in found["claims"].values():
            ((it["status"] or {}).get("reservedFor") or []).sort(key=lambda who: who["name"])
        return {kind: found[kind] for kind in ("pods", "claims")}


def _missing(texts: tuple[str, ...], found: Data) -> list[str]:
    whole = json.dumps(found)
    return [f"not seen: {it}" for it in texts if it not in whole]


def differences(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Each as a line: where, what kube-scheduler left, what we left."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            line
            for key in sorted(theirs.keys() | ours.keys())
            for line in differences(theirs.get(key), ours.get(key), f"{path}.{key}")
        ]
    if theirs == ours:
        return []
    return [f"{path}:\n    theirs {json.dumps(theirs)}\n    ours   {json.dumps(ours)}"]


CASES: list[Case] = []


def case(*texts: str, is_a_race: bool = False, theirs: str = "") -> Callable[[Play], Play]:
    """Register a case."""

    def register(play: Play) -> Play:
        CASES.append(Case(play.__name__, play, texts, is_a_race, theirs))
        return play

    return register
