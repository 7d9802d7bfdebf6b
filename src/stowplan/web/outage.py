"""Since when nothing is heard of a cluster that is watched, and when it is back.

Who watches tries again and again, and complains only when a try has failed: between two complaints
it is silent, for as long as a connection takes that never comes.  So the cluster is back when
something new is heard, or when nobody has complained for longer than that.
"""

from __future__ import annotations

QUIET_S = 12.0
"""Longer than a connection is waited for (`cluster.http_pool`)."""


class Outage:
    def __init__(self) -> None:
        self.problem = ""
        """The latest complaint; empty while all is well."""
        self.since_s = 0.0
        """0 while all is well."""
        self._complained_s = 0.0
        self._version = 0

    def look(self, problem: str, version: int, now_s: float) -> bool:
        """Whether the cluster was lost, or has come back, since the last look."""
        was_lost = bool(self.problem)
        if problem:
            if not was_lost:
                self.since_s = now_s
            self.problem, self._complained_s = problem, now_s
        elif version != self._version or now_s - self._complained_s > QUIET_S:
            self.problem, self.since_s = "", 0.0
        self._version = version
        return was_lost != bool(self.problem)

    def to_dict(self) -> dict[str, str | float]:
        return {"problem": self.problem, "since": self.since_s}
