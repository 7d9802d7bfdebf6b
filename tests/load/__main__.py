"""Hundreds of clients on one `stowplan up`, half of them slow or hostile.

Prints what the honest half got, and ends with 1 if any of it was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.load.honest import Experience
from tests.load.hostile import Tries
from tests.load.running import Result, percentile, problems, run
from tests.load.target import Up

MIB = 2**20


def main() -> int:
    options = _options()
    # What happens to hostile connections is counted; asyncio need not tell of each.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        up = Up(Path(folder), "--nodes", str(options.nodes))
        try:
            result = asyncio.run(
                run(
                    up,
                    clients=options.clients,
                    seconds=options.seconds,
                    seed=options.seed,
                    on_progress=_Progress(options.seconds),
                )
            )
        finally:
            code = up.stop()
        _show(result, code, len(up.log_lines()))
    return 1 if problems(result) or code else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--clients", type=int, default=300, help="half of them hostile")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of what hostile clients do")
    return parser.parse_args()


class _Progress:
    """One line that is written over, or one every ten seconds where that is not possible."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began_s = time.monotonic()
        self._next_s = 0.0

    def __call__(self, experience: Experience, tries: Tries, rss_bytes: int) -> None:
        took_s = time.monotonic() - self._began_s
        live = sys.stderr.isatty()
        if not live and took_s < self._next_s:
            return
        self._next_s = took_s + 10.0
        text = (
            f"{took_s:.0f}/{self._seconds:.0f} s: {experience.bound} pods bound, "
            f"{len(experience.failures)} failures, {tries.total('refused')} refused, "
            f"{tries.total('cut')} cut off, {rss_bytes / MIB:.0f} MiB"
        )
        print(f"\r{text}" if live else text, end="" if live else "\n", file=sys.stderr, flush=True)


def _show(result: Result, code: int, log_line_count: int) -> None:
    experience = result.experience
    first, most = (size / MIB for size in (result.rss_start_bytes, result.rss_max_bytes))
    print(f"\n{result.seconds:.0f} s")
    for name, value in (
        ("pods created", f"{experience.created}, {result.creates_per_s:.0f} per second"),
        ("pods bound", f"{experience.bound}"),
        ("asked to come back (429)", f"{experience.asked_to_wait}"),
        ("create, p50 / p99", _milliseconds(experience.create_s)),
        ("create to bound, p50 / p99", _milliseconds(experience.bound_s)),
        ("memory", f"{first:.0f} MiB at first, {most:.0f} MiB at most"),
        ("exit code, lines logged", f"{code}, {log_line_count}"),
    ):
        print(f"  {name:<28}{value}")
    print("hostile tries")
    for kind, counter in sorted(result.tries.outcomes.items()):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in counter.most_common())
        print(f"  {kind:<28}{counts}")
    for problem in problems(result):
        print(f"failed: {problem}")


def _milliseconds(values: list[float]) -> str:
    p50, p99 = (percentile(values, share) * 1000 for share in (0.5, 0.99))
    return f"{p50:.0f} / {p99:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
