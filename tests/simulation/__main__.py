"""Run simulations: `python -m tests.simulation --seeds 1000`, or one of them: `... 7 --trace`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.running import Outcome, simulate


def main() -> int:
    options = _options()
    # What is refused is what the weather is there for.
    logging.getLogger("stowplan").setLevel(logging.ERROR)
    seeds = options.seed or range(options.first, options.first + options.seeds)
    if options.trace:
        return max(_show(simulate(seed, echo=print)) for seed in seeds)
    return _run_many(list(seeds), options.workers)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="run these seeds only")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--trace", action="store_true", help="print every step")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _run_many(seeds: list[int], workers: int) -> int:
    started = time.perf_counter()
    failed: list[Outcome] = []
    bind_count, simulated_s = 0, 0.0
    with ProcessPoolExecutor(workers) as pool:
        for number, outcome in enumerate(pool.map(simulate, seeds, chunksize=4), 1):
            bind_count += outcome.bind_count
            simulated_s += outcome.simulated_s
            if outcome.problem:
                failed.append(outcome)
                _show(outcome)
            _progress(number, len(seeds), len(failed), started)
    seconds = time.perf_counter() - started
    print(
        f"{len(seeds)} seeds, {len(failed)} failed; {bind_count} bindings in "
        f"{simulated_s / 3600:.1f} simulated hours; {seconds:.1f} s"
    )
    if failed:
        print("failed:", *(outcome.seed for outcome in failed))
    return 1 if failed else 0


def _progress(done: int, total: int, failed: int, started: float) -> None:
    live = sys.stderr.isatty()
    if not live and done % 100 and done != total:
        return
    rate = done / (time.perf_counter() - started)
    text = f"{done}/{total} seeds, {failed} failed, {rate:.1f}/s"
    print(f"\r{text}" if live else text, end="" if live else "\n", file=sys.stderr, flush=True)


def _show(outcome: Outcome) -> int:
    if outcome.problem:
        print(outcome.text)
    return 1 if outcome.problem else 0


if __name__ == "__main__":
    sys.exit(main())
