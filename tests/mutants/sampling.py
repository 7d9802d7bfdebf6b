"""Which mutants a seed draws, and which are known to change nothing.

Rooms get mutants by the root of their size: a large room more than a small one, but no room none.
Within a room a line is drawn first and then one of its mutants, so that a line full of constants
does not count for more than a condition.
"""

from __future__ import annotations

import random
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants.mutations import Mutant, mutants_of
from tests.small_limits import SMALL

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "stowplan"
ROOMS = ("queue", "state", "core", "plugins", "cluster", "apiserver")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that no test can tell from the program, found again by its text."""

    module: str
    line: str
    """The first line of the code, without indentation."""
    before: str
    """Or "*": whatever on that line."""
    after: str
    """Or "*": whatever it becomes."""
    why: str

    def matches(self, mutant: Mutant) -> bool:
        return (
            self.module == module_name(mutant.path)
            and self.before in ("*", mutant.before)
            and self.after in ("*", mutant.after)
            and self.line == _lines(mutant.path)[mutant.line - 1].strip()
        )


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def module_name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def known_equivalents() -> list[Equivalent]:
    entries = tomllib.loads(EQUIVALENT.read_text())["mutants"]
    return [Equivalent(**entry) for entry in entries]


def sample(seed: int, count: int, rooms: tuple[str, ...], module: str = "") -> list[Mutant]:
    """`count` mutants of the rooms, or of the modules whose name contains `module`."""
    rng = random.Random(seed)
    equivalents = known_equivalents()
    by_room = {room: _lines_of(room, module, equivalents) for room in rooms}
    weights = {room: sum(map(len, lines.values())) ** 0.5 for room, lines in by_room.items()}
    drawn: list[Mutant] = []
    for place, (room, lines) in enumerate(by_room.items()):
        rest = sum(list(weights.values())[place:])
        share = round((count - len(drawn)) * weights[room] / rest) if rest else 0
        drawn += _draw(rng, lines, share)
    return drawn


def _draw(
    rng: random.Random, lines: dict[tuple[Path, int], list[Mutant]], count: int
) -> list[Mutant]:
    """A line each; lines come again, with another mutant, only when there are too few."""
    left = {line: rng.sample(mutants, len(mutants)) for line, mutants in lines.items()}
    drawn: list[Mutant] = []
    while left and len(drawn) < count:
        for line in rng.sample(list(left), min(len(left), count - len(drawn))):
            mutant = left[line].pop()
            if mutant.compiles():
                drawn.append(mutant)
            if not left[line]:
                del left[line]
    return drawn


def _lines_of(
    room: str, module: str, equivalents: list[Equivalent]
) -> dict[tuple[Path, int], list[Mutant]]:
    lines: dict[tuple[Path, int], list[Mutant]] = defaultdict(list)
    for path in sorted((PACKAGE / room).rglob("*.py")):
        if module not in module_name(path):
            continue
        for mutant in mutants_of(path):
            if not _is_small_limit(mutant) and not any(e.matches(mutant) for e in equivalents):
                lines[path, mutant.line].append(mutant)
    return lines


def _is_small_limit(mutant: Mutant) -> bool:
    """Tests set these limits themselves, to show that no answer depends on them.

    So neither what the limit is matters, nor whether something is thrown away a little earlier;
    that it never is, does.
    """
    module = module_name(mutant.path).removesuffix(".py").removesuffix("/__init__")
    limits = SMALL.get(module.replace("/", "."), {})
    name, _, value = _lines(mutant.path)[mutant.line - 1].partition(" = ")
    if value and name in limits:
        return True
    words = mutant.before.split()
    return mutant.after != "False" and len(words) == 3 and words[2] in limits
