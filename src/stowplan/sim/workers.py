"""Runs on all cores: each in a process of its own, or one after the other here.

A run depends on its settings alone, so where it is done makes no difference.  With a Dask cluster
(`dask://HOST:PORT`, extra `stowplan[dask]`) its workers do them instead of ours.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stowplan.core.profiles import Registry
from stowplan.errors import InputError
from stowplan.runtime.plugins_path import load_registry
from stowplan.sim.measures import measure
from stowplan.sim.results import Run, write_run
from stowplan.sim.run import run_one
from stowplan.sim.settings import Settings
from stowplan.sim.trace import Trace
from stowplan.sim.transform import resize, resize_nodes
from stowplan.world.garbage import garbage_stays
from stowplan.world.setup import make_setup

LOOK_EVERY_S = 0.2
WORKERS_MAX = 1024


class Progress(Protocol):
    def begin(self, runs: int, finished: int) -> None: ...

    def pods(self, run: int, arrived: int, count: int) -> None: ...

    def run_done(self, run: int) -> None: ...

    def interrupted(self) -> None: ...


class _NoProgress:
    def begin(self, runs: int, finished: int) -> None: ...

    def pods(self, run: int, arrived: int, count: int) -> None: ...

    def run_done(self, run: int) -> None: ...

    def interrupted(self) -> None:
        raise KeyboardInterrupt


no_progress: Progress = _NoProgress()


@dataclass(frozen=True, slots=True)
class Task:
    settings: Settings
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all runs share."""

    trace: Trace
    nodes: tuple[dict[str, Any], ...] | None = None
    plugins: tuple[type, ...] = ()

    def registry(self, paths: Sequence[str]) -> Registry:
        return load_registry(list(paths))

    def resized(self, node_count: int | None) -> tuple[Trace, tuple[dict[str, Any], ...] | None]:
        """Trace and nodes, with as many nodes as are wanted."""
        if node_count is None:
            return self.trace, self.nodes
        if self.nodes is None:
            return resize(self.trace, node_count), None
        return self.trace, resize_nodes(self.nodes, node_count)

    def digest(self) -> str:
        """Equal for equal inputs."""
        trace, found = self.trace, hashlib.sha256()
        plain = (
            trace.pod_templates, trace.pod_names, trace.node_templates, trace.node_names,
            trace.changes, self.nodes, [plugin.__qualname__ for plugin in self.plugins],
        )  # fmt: skip
        found.update(repr(plain).encode())
        for column in (
            trace.pod_template, trace.pod_arrival_s, trace.pod_run_s, trace.pod_end_s,
            trace.node_template, trace.node_joins_s, trace.node_leaves_s,
        ):  # fmt: skip
            found.update(column.tobytes())
        return found.hexdigest()


def do_task(inputs: Inputs, task: Task, told: Any = None) -> Run:
    settings = task.settings
    started_s = time.process_time()
    setup = make_setup(
        settings.config,
        {
            "seed": settings.seed,
            "plugins": inputs.plugins,
            "detail": False,
            "tie_break": settings.tie_break,
            "strict": settings.strict,
        },
        registry=inputs.registry(settings.plugin_paths),
        lean=True,
    )
    trace, nodes = inputs.resized(settings.node_count)
    with garbage_stays():
        workload, record = run_one(trace, nodes, settings, setup, told)
    ran_s = time.process_time() - started_s
    measures = measure(trace, workload, record)
    timing = {
        "processor_seconds": round(ran_s, 3),
        "decisions_per_second": round(record.decisions / max(ran_s, 1e-9), 1),
        "measuring_seconds": round(time.process_time() - started_s - ran_s, 3),
    }
    return Run(settings.config_name, settings.seed, task.fingerprint, measures, timing)


Numbered = Sequence[tuple[int, Task]]
Done = Iterator[tuple[int, Run]]


def carry_out(
    inputs: Inputs,
    tasks: Numbered,
    *,
    workers: int,
    home: Path | None,
    scheduler: str,
    progress: Progress,
) -> Done:
    """Runs as they are done, each on the disk by then; who is interrupted has had the others."""
    if not isinstance(workers, int) or not 1 <= workers <= WORKERS_MAX:
        raise InputError(f"workers is {workers!r}", hint=f"a number from 1 to {WORKERS_MAX}")
    if scheduler:
        from stowplan.sim.on_dask import on_dask

        found = on_dask(inputs, tasks, scheduler, progress)
    elif workers == 1 or len(tasks) <= 1:
        found = _here(inputs, tasks, progress)
    else:
        found = _in_processes(inputs, tasks, min(workers, len(tasks)), progress)
    try:
        for number, run in found:
            if home is not None:
                write_run(run, home)
            progress.run_done(number)
            yield number, run
    except KeyboardInterrupt:
        progress.interrupted()


def _here(inputs: Inputs, tasks: Numbered, progress: Progress) -> Done:
    for number, task in tasks:
        yield number, do_task(inputs, task, _teller(progress, number))


def _teller(progress: Progress, number: int) -> Any:
    def told(arrived: int, count: int) -> None:
        progress.pods(number, arrived, count)

    return told


_inputs: Inputs | None = None
_counts: Any = None
"""Of this worker process."""


def _begin(inputs: Inputs, counts: Any) -> None:
    global _inputs, _counts
    _inputs, _counts = inputs, counts


def _do(number: int, place: int, task: Task) -> tuple[int, Run]:
    assert _inputs is not None, "the worker was begun with its inputs"
    last_s = 0.0

    def told(arrived: int, count: int) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= LOOK_EVERY_S:
            last_s = now_s
            _counts[2 * place], _counts[2 * place + 1] = arrived, count

    return number, do_task(_inputs, task, told)


def _in_processes(inputs: Inputs, tasks: Numbered, workers: int, progress: Progress) -> Done:
    if any("<locals>" in plugin.__qualname__ for plugin in inputs.plugins):
        raise InputError(
            "plugins that are not importable cannot be sent to other processes",
            where="workers",
            hint="put them into a file and use plugin_paths, or workers=1",
        )
    context = multiprocessing.get_context("spawn")
    counts = context.Array("l", 2 * len(tasks), lock=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(inputs, counts)
    )
    waiting: set[Future[tuple[int, Run]]] = set()
    try:
        for place, (number, task) in enumerate(tasks):
            waiting.add(pool.submit(_do, number, place, task))
        while waiting:
            done, waiting = wait(waiting, LOOK_EVERY_S, FIRST_COMPLETED)
            for place, (number, _) in enumerate(tasks):
                progress.pods(number, counts[2 * place], counts[2 * place + 1])
            for future in sorted(done, key=lambda one: one.result()[0]):
                yield future.result()
    finally:
        for process in (getattr(pool, "_processes", None) or {}).values():
            if waiting:
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
