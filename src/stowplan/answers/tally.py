"""How often two schedulers agree: counted, as a table, as metrics, as lines of JSON."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stowplan.answers.text import WIDTH, wrapped
from stowplan.runtime.exposition import Family, Kind, Level, Spec, text_of
from stowplan.world.judging import Verdict

EXAMPLES_MAX = 10
"""Differences that are shown at the end, the latest."""

BEST_SHOWN_MAX = 100
"""Equally good nodes that a line of the log names."""


class Outcome(StrEnum):
    SAME = "same"
    """The node that we would have taken."""
    EQUAL = "equal"
    """Another one of those that we call equally good."""
    DIFFERENT = "different"


class Cause(StrEnum):
    """Why two decisions differ."""

    STALE = "stale view"
    """Among our best in a state of the cluster shortly before, or with what came shortly after."""
    SAMPLING = "sampling"
    """It may not have looked at the nodes that are better."""
    PLUGIN = "plugin"
    """It has a plugin, a weight or an extender that we do not have."""


@dataclass(frozen=True, slots=True)
class Reason:
    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class Decided:
    """One pod that the other scheduler placed."""

    time_s: float
    pod: str
    node: str
    """Where it is."""
    outcome: Outcome
    verdict: Verdict
    """What we would have done."""
    reason: Reason | None = None

    def to_dict(self) -> dict[str, Any]:
        best = sorted(self.verdict.best)
        data: dict[str, Any] = {
            "time": self.time_s,
            "pod": self.pod,
            "node": self.node,
            "outcome": str(self.outcome),
            "ours": self.verdict.picked,
            "best": best[:BEST_SHOWN_MAX],
            "bestCount": len(best),
            "feasible": self.verdict.feasible_count,
        }
        if self.verdict.problem:
            data["problem"] = self.verdict.problem
        if self.reason is not None:
            data["reason"] = {"cause": str(self.reason.cause), "text": self.reason.text}
        return data


@dataclass(slots=True)
class Tally:
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    causes: Counter[Cause] = field(default_factory=Counter)
    examples: deque[Decided] = field(default_factory=lambda: deque(maxlen=EXAMPLES_MAX))
    others: int = 0
    """Pods of schedulers that no profile of ours stands for."""

    def add(self, decided: Decided) -> None:
        self.outcomes[decided.outcome] += 1
        if decided.reason is not None:
            self.causes[decided.reason.cause] += 1
            self.examples.append(decided)

    @property
    def count(self) -> int:
        return self.outcomes.total()

    @property
    def agreement(self) -> float:
        """Percent of decisions that are among those we call equally good; 100 without any."""
        if not self.count:
            return 100.0
        return 100.0 * (self.count - self.outcomes[Outcome.DIFFERENT]) / self.count

    def row(self) -> tuple[str, ...]:
        return (
            *(str(self.outcomes[outcome]) for outcome in Outcome),
            f"{self.agreement:.2f}",
            ", ".join(f"{cause} {count}" for cause, count in self.causes.most_common()) or "-",
        )

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """The examples, for people."""
        for decided in self.examples:
            assert decided.reason is not None
            placed = f"{decided.pod} is on {decided.node}: {decided.reason.cause}"
            yield from wrapped(placed, width, "  ")
            yield from wrapped(decided.reason.text, width, "    ")

    def to_dict(self) -> dict[str, Any]:
        return {
            "decisions": self.count,
            **{str(outcome): self.outcomes[outcome] for outcome in Outcome},
            "agreement": round(self.agreement, 4),
            "causes": {str(cause): count for cause, count in self.causes.items()},
            "others": self.others,
        }

    def metrics(self) -> str:
        """As Prometheus reads it."""
        decisions, causes, others, agreement = map(Family, _SPECS)
        for outcome in Outcome:
            decisions.set(outcome, value=self.outcomes[outcome])
        for cause in Cause:
            causes.set(cause, value=self.causes[cause])
        others.set(value=self.others)
        agreement.set(value=self.agreement / 100.0)
        return text_of((decisions, causes, others, agreement))


_SPECS = (
    Spec(
        "stowplan_shadow_decisions_total",
        Kind.COUNTER,
        ("outcome",),
        Level.ALPHA,
        "Pods that the other scheduler placed, by whether we would have.",
    ),
    Spec(
        "stowplan_shadow_differences_total",
        Kind.COUNTER,
        ("cause",),
        Level.ALPHA,
        "Decisions that differ, by why.",
    ),
    Spec(
        "stowplan_shadow_other_schedulers_total",
        Kind.COUNTER,
        (),
        Level.ALPHA,
        "Pods of schedulers that no profile here stands for.",
    ),
    Spec(
        "stowplan_shadow_agreement_ratio",
        Kind.GAUGE,
        (),
        Level.ALPHA,
        "The part of decisions that are among those we call equally good.",
    ),
)
