"""/healthz, /livez and /readyz: named checks, and what the kubelet and people read of them.

A check is a function that says what is wrong, or nothing.  Why a check failed goes to the log:
whoever may ask whether we are well need not learn what we suffer from.

`runtime.server` serves them; /metrics/slis counts them.  Mirrors apiserver's `server/healthz`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stowplan.runtime.exposition import Family, text_of
from stowplan.runtime.log import Log
from stowplan.runtime.metric_choice import MetricChoice
from stowplan.runtime.metric_table import HEALTH_CHECK, HEALTH_CHECKS


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    problem: Callable[[], str]
    """What is wrong; empty while all is well."""


PING = Check("ping", lambda: "")


@dataclass(frozen=True, slots=True)
class HealthReport:
    status: int
    text: str


@dataclass(slots=True)
class Health:
    """The checks of each endpoint, by its name: healthz, livez, readyz."""

    checks: dict[str, tuple[Check, ...]]
    log: Log
    choice: MetricChoice = field(default_factory=MetricChoice)
    """Which metrics about them are shown."""
    _last: Family = field(default_factory=lambda: Family(HEALTH_CHECK))
    _runs: Family = field(default_factory=lambda: Family(HEALTH_CHECKS))

    def answer(self, path: str, *, verbose: bool, exclude: Sequence[str]) -> HealthReport | None:
        """`path` is /ENDPOINT or /ENDPOINT/CHECK; None if there is no such thing."""
        endpoint, _, name = path.removeprefix("/").partition("/")
        checks = self.checks.get(endpoint)
        if checks is None:
            return None
        if name:
            found = next((check for check in checks if check.name == name), None)
            return None if found is None else self._one(endpoint, found)
        return self._all(endpoint, checks, verbose=verbose, exclude=set(exclude))

    def slis(self) -> str:
        return text_of(self.choice.shown([self._last, self._runs]))

    def _one(self, endpoint: str, check: Check) -> HealthReport:
        problem = self._run(endpoint, check)
        if problem:
            return HealthReport(500, f"internal server error: {problem}\n")
        return HealthReport(200, "ok")

    def _all(
        self, endpoint: str, checks: tuple[Check, ...], *, verbose: bool, exclude: set[str]
    ) -> HealthReport:
        lines = []
        failed = []
        for check in checks:
            if check.name in exclude:
                exclude.discard(check.name)
                lines.append(f"[+]{check.name} excluded: ok")
            elif problem := self._run(endpoint, check):
                failed.append(f"{check.name}: {problem}")
                lines.append(f"[-]{check.name} failed: reason withheld")
            else:
                lines.append(f"[+]{check.name} ok")
        if exclude:
            names = ", ".join(f'"{name}"' for name in sorted(exclude))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        text = "\n".join([*lines, ""])
        if failed:
            self.log.info(2, f"{endpoint} check failed", checks="; ".join(failed))
            return HealthReport(500, f"{text}{endpoint} check failed\n")
        return HealthReport(200, f"{text}{endpoint} check passed\n" if verbose else "ok")

    def _run(self, endpoint: str, check: Check) -> str:
        problem = check.problem()
        self._last.set(check.name, endpoint, value=0 if problem else 1)
        self._runs.add(check.name, endpoint, "error" if problem else "success")
        return problem
