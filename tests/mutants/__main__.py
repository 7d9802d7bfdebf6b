"""Do the tests notice small bugs?  `python -m tests.mutants --seed 1 --count 200`.

Draws mutants from a seed (`sampling.py`), runs the tests that pass through each (`running.py`), and
prints the score and who survived.  Exit code 1 below the goal.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing import get_context

from tests.mutants.coverage_map import KEPT, CoverageMap, load_map
from tests.mutants.mutations import Mutant
from tests.mutants.processes import preload
from tests.mutants.running import Bench, Outcome
from tests.mutants.sampling import ROOMS, module_name, sample

GOAL = 0.9
ENVIRONMENT = {
    # Equal seeds give equal runs, sets included.
    "PYTHONHASHSEED": "0",
    # Start-up is most of what a mutant costs: nothing is compiled twice.
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(KEPT / "pycache"),
}

_bench: Bench
"""Of this worker."""


def main() -> int:
    options = _options()
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        command = [sys.executable, "-m", "tests.mutants", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ENVIRONMENT})
    preload()
    mutants = sample(options.seed, options.count, tuple(options.rooms.split(",")), options.module)
    coverage = load_map(
        lambda text: print(text, file=sys.stderr, flush=True), workers=options.workers
    )
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for outcome in _run_all(mutants, coverage, options.workers, options.seconds):
        outcomes.append(outcome)
        if options.verbose or not outcome.caught:
            word = "caught" if outcome.caught else "SURVIVED"
            print(f"{len(outcomes)}/{len(mutants)} {word} {_shown(outcome)}", flush=True)
    return _report(outcomes, options.seed, time.perf_counter() - started)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--count", type=int, default=200, help="how many")
    parser.add_argument("--rooms", default=",".join(ROOMS), help="from which rooms")
    parser.add_argument("--module", default="", help="only modules whose path contains this")
    parser.add_argument("--workers", type=int, default=1, help="how many at a time")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the processor, for a mutant"
    )
    parser.add_argument("--verbose", action="store_true", help="show those that are caught, too")
    return parser.parse_args()


def _run_all(
    mutants: list[Mutant], coverage: CoverageMap, workers: int, seconds_max: float
) -> Iterator[Outcome]:
    # Forked, so that workers have the imports and the map at once.
    context = get_context("fork")
    with context.Pool(workers, _take_bench, (coverage, seconds_max)) as pool:
        yield from pool.imap_unordered(_run, mutants)


def _take_bench(coverage: CoverageMap, seconds_max: float) -> None:
    global _bench
    _bench = Bench(coverage, seconds_max)


def _run(mutant: Mutant) -> Outcome:
    return _bench.run(mutant)


def _shown(outcome: Outcome) -> str:
    mutant = outcome.mutant
    before, after = " ".join(mutant.before.split()), mutant.after or "(nothing)"
    place = f"src/stowplan/{module_name(mutant.path)}:{mutant.line}"
    return f"{place}: {before} -> {after}  [{outcome.how}]"


def _report(outcomes: list[Outcome], seed: int, seconds: float) -> int:
    survivors = [outcome for outcome in outcomes if not outcome.caught]
    print(f"\n{len(survivors)} survived:" if survivors else "\nnone survived")
    for outcome in sorted(survivors, key=lambda o: (o.mutant.path, o.mutant.line)):
        print(f"  {_shown(outcome)}")
    by_room: dict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        by_room[module_name(outcome.mutant.path).partition("/")[0]].append(outcome.caught)
    print()
    for room, caught in by_room.items():
        print(f"  {room:<10} {sum(caught):>4} of {len(caught):>4}  {sum(caught) / len(caught):.0%}")
    score = 1 - len(survivors) / max(1, len(outcomes))
    print(
        f"seed {seed}: {score:.1%} of {len(outcomes)} caught, in {seconds:.0f} s; goal {GOAL:.0%}"
    )
    return 0 if score >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
