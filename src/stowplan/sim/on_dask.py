"""Runs on a Dask cluster: its workers do what ours would, and the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.errors import InputError
from stowplan.sim.results import Run
from stowplan.sim.workers import Inputs, Numbered, Progress, Task, do_task

SCHEME = "dask://"


def on_dask(
    inputs: Inputs, tasks: Numbered, address: str, progress: Progress
) -> Iterator[tuple[int, Run]]:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError(
            "distributed is not installed",
            where="--scheduler",
            hint="`pip install stowplan[dask]`",
        ) from None
    if not address.startswith(SCHEME) or address == SCHEME:
        raise InputError(
            f"{address!r} is no address of a Dask scheduler",
            where="--scheduler",
            hint="write `dask://HOST:PORT`",
        )
    try:
        client = Client(f"tcp://{address.removeprefix(SCHEME)}", timeout="10s")
    except OSError as error:
        raise InputError(f"cannot be reached: {error}", where=address) from None
    with client:
        shared = client.scatter(inputs, broadcast=True)
        futures: dict[Any, int] = {
            client.submit(_do, shared, task, pure=False): number for number, task in tasks
        }
        for future in as_completed(list(futures)):
            yield futures[future], future.result()


def _do(inputs: Inputs, task: Task) -> Run:
    return do_task(inputs, task)
