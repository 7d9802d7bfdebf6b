"""Half an hour of churn on one `stowplan up`, and whether its memory stays flat.

Pods of several sorts, jobs and nodes come and go at a steady rate.  In the first half everything
that is kept fills up; in the second the memory may not grow any more.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp

from tests.load.churn import BOUND_MAX_S, LIVES, Cluster, Wrong
from tests.load.honest import Client, Experience
from tests.load.target import Up

MIB = 2**20
SAMPLE_S = 2.0
GROWTH_MAX = 0.05
"""Of the memory, in the second half.  Something bounded may still be filling up; one pod that is
forgotten in each life would be four times as much."""
CONNECTIONS = 32
LIVING_MAX = 300
EVENTS = 50_000
"""As many as the server keeps."""

Sample = tuple[float, int]
"""When, and how many bytes."""


@dataclass(slots=True)
class Result:
    lives: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @property
    def settled(self) -> list[Sample]:
        """The second half."""
        end_s = self.samples[-1][0]
        return [sample for sample in self.samples if sample[0] >= end_s / 2]

    @property
    def growth(self) -> float:
        """In the second half, as a share of the memory, by the line that fits best."""
        settled = self.settled
        mean = sum(size for _, size in settled) / len(settled)
        return slope(settled) * (settled[-1][0] - settled[0][0]) / mean

    @property
    def flat(self) -> bool:
        return self.growth <= GROWTH_MAX


def slope(samples: list[Sample]) -> float:
    """Bytes per second, by least squares.

    >>> slope([(0.0, 100), (1.0, 102), (2.0, 104)])
    2.0
    """
    mean_s = sum(at_s for at_s, _ in samples) / len(samples)
    mean = sum(size for _, size in samples) / len(samples)
    spread = sum((at_s - mean_s) ** 2 for at_s, _ in samples)
    return sum((at_s - mean_s) * (size - mean) for at_s, size in samples) / spread


async def soak(
    up: Up,
    *,
    seconds: float,
    lives_per_s: float,
    event_count: int = EVENTS,
    seed: int = 0,
    on_sample: Callable[[Result], None] = lambda _: None,
) -> Result:
    result, random = Result(), Random(seed)
    client = Client(up.target, Experience(), CONNECTIONS, timeout_s=BOUND_MAX_S)
    cluster = Cluster(client, random)
    kinds, weights = list(LIVES), list(LIVES.values())
    living: set[asyncio.Task[None]] = set()
    next_sample_s, serial = 0.0, 0
    try:
        await cluster.prepare(event_count)
        began_s = time.monotonic()
        while (now_s := time.monotonic() - began_s) < seconds:
            while serial < now_s * lives_per_s:
                serial += 1
                if len(living) >= LIVING_MAX:
                    # A machine that cannot keep up is not what is tested here.
                    continue
                life = random.choices(kinds, weights)[0]
                task = asyncio.create_task(_live(life, cluster, f"soak-{serial}", result))
                living.add(task)
                task.add_done_callback(living.discard)
            if now_s >= next_sample_s:
                next_sample_s += SAMPLE_S
                result.samples.append((now_s, up.rss_bytes()))
                on_sample(result)
            await asyncio.sleep(0.05)
        await asyncio.gather(*living)
    finally:
        await client.close()
    return result


async def _live(life: Callable[..., object], cluster: Cluster, name: str, result: Result) -> None:
    try:
        await life(cluster, name)  # type: ignore[misc]
        result.lives[life.__name__] += 1
    except (Wrong, aiohttp.ClientError, OSError) as error:
        result.failures.append(f"{life.__name__}: {error!r}")


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        up = Up(Path(folder), "--nodes", str(options.nodes))
        try:
            result = asyncio.run(
                soak(
                    up,
                    seconds=options.minutes * 60.0,
                    lives_per_s=options.rate,
                    seed=options.seed,
                    on_sample=_Progress(options.minutes),
                )
            )
        finally:
            code = up.stop()
    _show(result)
    print(f"  {'exit code of the server':<28}{code}")
    return 0 if result.flat and not result.failures and not code else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=20.0, help="lives that begin each second")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class _Progress:
    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._next_s = 0.0

    def __call__(self, result: Result) -> None:
        at_s, size = result.samples[-1]
        live = sys.stderr.isatty()
        if not live and at_s < self._next_s:
            return
        self._next_s = at_s + 60.0
        last = f" (the last: {result.failures[-1]})" if result.failures else ""
        text = (
            f"{at_s / 60:.1f}/{self._minutes:g} min: {result.lives.total()} lives, "
            f"{len(result.failures)} failures{last}, {size / MIB:.0f} MiB"
        )
        print(f"\r{text}" if live else text, end="" if live else "\n", file=sys.stderr, flush=True)


def _show(result: Result) -> None:
    settled = [size / MIB for _, size in result.settled]
    verdict = "flat" if result.flat else "NOT flat"
    counts = ", ".join(f"{count} {name}" for name, count in result.lives.most_common())
    print()
    for name, value in (
        ("lives", counts),
        ("failures", str(len(result.failures))),
        ("memory at first", f"{result.samples[0][1] / MIB:.0f} MiB"),
        ("memory in the second half", f"{min(settled):.0f} to {max(settled):.0f} MiB"),
        ("growth there", f"{result.growth:+.1%} of it: {verdict}"),
    ):
        print(f"  {name:<30}{value}")
    for failure in result.failures[:10]:
        print(f"failed: {failure}")


if __name__ == "__main__":
    sys.exit(main())
