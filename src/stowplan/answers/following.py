"""`shadow`: beside a cluster's own scheduler, until the time is over or a signal comes.

`stowplan.shadow` and `stowplan shadow` are this; what is decided and counted is in `shadow`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stowplan.answers.shadow import Shadow, make_shadow
from stowplan.answers.tally import Decided, Tally
from stowplan.answers.words import Tell, tell_nobody
from stowplan.objects.changes import Change
from stowplan.runtime.metrics_port import serve_metrics
from stowplan.runtime.plugins_path import load_registry
from stowplan.world.following import Following, Source
from stowplan.world.setup import Config

Path = str | os.PathLike[str]
Report = Callable[[Tally, float], None]
"""Shown how it stands, and what time it is, again and again."""


def shadow(
    kubeconfig: str = "",
    context: str = "",
    *,
    config: Config = None,
    plugin_path: Sequence[str] = (),
    feature_gates: Mapping[str, bool] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    log: Path | None = None,
    metrics_port: int | None = None,
    on_decided: Callable[[Decided], None] | None = None,
    report: Report | None = None,
    tell: Tell = tell_nobody,
) -> Tally:
    """Follow a live cluster and decide every pod when its own scheduler does; nothing is written.

    It ends after so many `seconds`, or without them on Ctrl-C.  `config` is the configuration of
    the scheduler that is followed, and `feature_gates` are its gates; `log` is a file to which
    every decision is appended as a line of JSON.  `tell` hears what is not here, which rights are
    missing, and when it has begun.
    """
    with _noted(log, on_decided) as note:
        registry = load_registry(tuple(plugin_path))
        made, lacking = make_shadow(
            config, feature_gates=feature_gates, seed=seed, registry=registry, on_decided=note
        )
        for name in lacking:
            tell(f"not here: {name}; decisions may differ because of it")
        following = Following(
            Source(kubeconfig, context),
            made if report is None else _Reported(made, report),
            seconds=seconds,
            on_missing=tell,
            on_start=lambda: tell("following; Ctrl-C ends it"),
        )
        asyncio.run(_with_metrics(following, made, metrics_port))
        made.finish()
    return made.tally


async def _with_metrics(following: Following, made: Shadow, port: int | None) -> None:
    if port is None:
        await following.follow()
        return
    async with await serve_metrics(port, made.tally.metrics):
        await following.follow()


class _Reported:
    """A shadow whose tally somebody looks at."""

    def __init__(self, made: Shadow, report: Report) -> None:
        self._made = made
        self._report = report

    def take(self, changes: Sequence[Change], now_s: float) -> None:
        self._made.take(changes, now_s)

    def synced(self) -> None:
        self._made.synced()

    def tick(self, now_s: float) -> None:
        self._made.tick(now_s)
        self._report(self._made.tally, now_s)


@contextmanager
def _noted(
    log: Path | None, on_decided: Callable[[Decided], None] | None
) -> Iterator[Callable[[Decided], None] | None]:
    if log is None:
        yield on_decided
        return
    with open(log, "a", encoding="utf-8") as file:

        def write(decided: Decided) -> None:
            line: dict[str, Any] = decided.to_dict()
            file.write(json.dumps(line) + "\n")
            file.flush()
            if on_decided is not None:
                on_decided(decided)

        yield write
