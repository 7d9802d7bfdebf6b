"""One seed, run and told of: what came of it, and how to run it again."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.invariants import Broken
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    weather: str
    digest: str
    problem: str = ""
    """Empty: all went well."""
    tail: tuple[str, ...] = ()
    bind_count: int = 0
    simulated_s: float = 0.0

    @property
    def text(self) -> str:
        """The problem, what came before it, and the command that shows it again."""
        return "\n".join(
            (
                f"seed {self.seed} failed: {self.problem}",
                f"  weather: {self.weather}",
                "  the last steps:",
                *(f"    {line}" for line in self.tail),
                f"  again, step by step: make simulate SEED={self.seed}",
            )
        )


def simulate(seed: int, echo: Callable[[str], None] | None = None) -> Outcome:
    world = World(seed, echo=echo)
    problem = ""
    try:
        world.run()
    except Broken as broken:
        problem = str(broken)
    except Exception:
        problem = traceback.format_exc()
    return Outcome(
        seed,
        world.weather.names,
        world.trace.digest,
        problem,
        tuple(world.trace.tail) if problem else (),
        world.bindings.count,
        world.simulated_s,
    )
