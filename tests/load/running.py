"""A run: honest and hostile clients together for a while, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from tests.load import honest, hostile
from tests.load.honest import Bindings, Experience
from tests.load.hostile import KINDS, Mean, Tries
from tests.load.target import Up

SAMPLE_S = 0.5
RSS_BYTES_MAX = 768 * 2**20
"""For some hundred clients: half a mebibyte for each TLS connection, and what hostile ones stall
with, which is bounded for all of them together."""


@dataclass(frozen=True, slots=True)
class Result:
    seconds: float
    experience: Experience
    tries: Tries
    rss_start_bytes: int
    rss_max_bytes: int

    @property
    def creates_per_s(self) -> float:
        return self.experience.created / self.seconds


def problems(result: Result) -> list[str]:
    """Whatever honest clients must not be made to suffer, and hostile ones must not get."""
    experience = result.experience
    found = experience.failures[:10]
    if not experience.created == experience.bound == experience.deleted > 0:
        found.append(
            f"of {experience.created} pods created {experience.bound} were bound "
            f"and {experience.deleted} deleted"
        )
    if result.rss_max_bytes > RSS_BYTES_MAX:
        found.append(f"{result.rss_max_bytes / 2**20:.0f} MiB of memory")
    if result.tries.total("endured"):
        found.append("hostile clients may hold on for as long as they like")
    return found


def percentile(values: list[float], share: float) -> float:
    """
    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([], 0.99)
    (2.0, 0.0)
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def run(
    up: Up,
    *,
    clients: int,
    seconds: float,
    seed: int = 0,
    on_progress: Callable[[Experience, Tries, int], None] = lambda *_: None,
) -> Result:
    """Half of `clients` are hostile, as many of each kind as the number allows."""
    experience, tries = Experience(), Tries()
    rss_start_bytes = rss_max_bytes = up.rss_bytes()
    bindings = Bindings(up.target, experience)
    began_s = time.monotonic()
    watching = asyncio.create_task(bindings.follow())
    kinds = islice(cycle(KINDS), clients // 2)
    attacking = [
        asyncio.create_task(hostile.live(kind, Mean(up.target, Random(f"{seed}-{n}")), tries))
        for n, kind in enumerate(kinds)
    ]
    working = [
        asyncio.create_task(honest.live(n, up.target, bindings, experience, began_s + seconds))
        for n in range(clients - clients // 2)
    ]
    left = set(working)
    while left:
        _, left = await asyncio.wait(left, timeout=SAMPLE_S)
        rss_bytes = up.rss_bytes()
        rss_max_bytes = max(rss_max_bytes, rss_bytes)
        on_progress(experience, tries, rss_bytes)
    took_s = time.monotonic() - began_s
    await _end({watching, *attacking})
    return Result(took_s, experience, tries, rss_start_bytes, rss_max_bytes)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    left = tasks
    while left:
        # Once is not always enough: a connection that is made at this very moment goes on.
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=SAMPLE_S)
