"""`simulate`: a trace through one or several schedulers, with several seeds.

Runs are independent, so they go to as many processes as wanted (`workers`); each is put on the disk
when it is done, and a run that is there already is not done again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml
from stowplan.sim.results import Result, Run, finished, read_run, run_folder
from stowplan.sim.settings import (
    Autoscaler,
    Failures,
    Settings,
    autoscaler_of,
    parse_failures,
    read_autoscaler,
)
from stowplan.sim.spans import parse_span
from stowplan.sim.sweep import Variant, grid
from stowplan.sim.trace import Trace
from stowplan.sim.workers import Inputs, Progress, Task, carry_out, no_progress
from stowplan.world.cluster import Cluster
from stowplan.world.engine import Engine
from stowplan.world.reading import Objects, read_objects
from stowplan.world.setup import make_setup

SEEDS_MAX = 10_000
CONFIGS_MAX = 10_000

Configs = Mapping[str, Any] | str | os.PathLike[str] | None
"""One configuration (a path or data), or several by name."""


def simulate(
    trace: Trace | str | os.PathLike[str],
    *,
    nodes: Objects | None = None,
    config: Configs = None,
    plugins: Iterable[type] = (),
    plugin_paths: Iterable[str] = (),
    seeds: int | Sequence[int] = 1,
    until: str | float | None = None,
    arrivals: str = "recorded",
    inflate: float = 1.0,
    ends: str = "recorded",
    evicted: str = "return",
    autoscaler: Mapping[str, Any] | str | None = None,
    failures: str | None = None,
    prices: Mapping[str, float] | None = None,
    samples: int = 240,
    tie_break: str = "random",
    strict: bool = False,
    workers: int = 1,
    folder: str | os.PathLike[str] | None = None,
    scheduler: str = "",
    sweep: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    progress: Progress = no_progress,
) -> Result:
    """Run a trace through the whole scheduler under virtual time, and measure what comes of it.

    `config` is a KubeSchedulerConfiguration or several by name; each runs with every seed.  `sweep`
    varies each in several ways at once.  `nodes` takes the place of the trace's nodes.  `strict`
    ends a run with the first error of a plugin.  `folder` keeps every run as it is done, and
    finished runs found there are not done again.  `workers` above 1 uses processes: a script that
    asks for them needs `if __name__ == "__main__":`.
    docs/simulation.md says what all of it means.
    """
    common = Settings(
        plugin_paths=tuple(plugin_paths),
        until_s=math.inf if until is None else parse_span(until, "until"),
        arrivals=arrivals,  # type: ignore[arg-type]
        inflate=inflate,
        ends=ends,  # type: ignore[arg-type]
        evicted=evicted,  # type: ignore[arg-type]
        autoscaler=_autoscaler(autoscaler),
        failures=_failures(failures),
        prices=dict(prices or {}),
        samples=samples,
        tie_break=tie_break,  # type: ignore[arg-type]
        strict=strict,
    )
    inputs = inputs_of(trace, nodes, plugins)
    variants = _variants(inputs, common, _configs(config), sweep)
    tasks = _tasks(inputs, common, variants, _seeds(seeds))
    return run_tasks(
        inputs, tasks, folder=folder, workers=workers, scheduler=scheduler, progress=progress
    )


def inputs_of(
    trace: Trace | str | os.PathLike[str], nodes: Objects | None, plugins: Iterable[type]
) -> Inputs:
    """Read, where they are files."""
    return Inputs(_trace(trace), _nodes(nodes), tuple(plugins))


def run_tasks(
    inputs: Inputs,
    tasks: Sequence[Task],
    *,
    folder: str | os.PathLike[str] | None,
    workers: int,
    scheduler: str = "",
    progress: Progress = no_progress,
) -> Result:
    """All runs, those found finished in the folder included; fewer when interrupted."""
    home = None if folder is None else Path(folder)
    done: dict[int, Run] = {}
    if home is not None:
        for number, task in enumerate(tasks):
            if finished(home, task.settings.config_name, task.settings.seed, task.fingerprint):
                done[number] = read_run(run_folder(home, *_place(task)))
        _refuse_others(home, tasks)
    left = [(number, task) for number, task in enumerate(tasks) if number not in done]
    progress.begin(len(tasks), len(done))
    done |= carry_out(
        inputs, left, workers=workers, home=home, scheduler=scheduler, progress=progress
    )
    return Result(tuple(done[number] for number in sorted(done)), len(tasks))


def _place(task: Task) -> tuple[str, int]:
    return task.settings.config_name, task.settings.seed


def _refuse_others(home: Path, tasks: Sequence[Task]) -> None:
    """Results of something else in the same folder would be mixed up with ours."""
    wanted = {run_folder(home, *_place(task)): task for task in tasks}
    for path in sorted(home.glob("runs/*/seed-*/summary.json")):
        task = wanted.get(path.parent)
        if task is None or not finished(home, *_place(task), task.fingerprint):
            raise InputError(
                "has results of another simulation",
                where=str(home),
                hint="take another folder, or delete this one",
            )


def _tasks(
    inputs: Inputs, common: Settings, variants: Mapping[str, Variant], seeds: Sequence[int]
) -> list[Task]:
    digest = inputs.digest()
    tasks = []
    for name, variant in variants.items():
        for seed in seeds:
            settings = replace(
                common,
                config_name=name,
                config=variant.config,
                seed=seed,
                node_count=variant.node_count,
            )
            tasks.append(Task(settings, settings.fingerprint(digest)))
    return tasks


def _trace(trace: Trace | str | os.PathLike[str]) -> Trace:
    if isinstance(trace, Trace):
        return trace
    from stowplan.sim.files import read_trace

    return read_trace(os.fspath(trace))


def _nodes(nodes: Objects | None) -> tuple[dict[str, Any], ...] | None:
    if nodes is None:
        return None
    found = tuple(data for _, data in read_objects(nodes) if data.get("kind") == "Node")
    if not found:
        raise InputError("there is no Node among these objects", where="nodes")
    return found


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    wanted = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not wanted or len(wanted) > SEEDS_MAX or len(set(wanted)) < len(wanted):
        raise InputError(f"seeds is {seeds!r}", hint="a number from 1 on, or different seeds")
    for seed in wanted:
        if not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise InputError(f"{seed!r} is no seed", hint="a whole number from 0 on")
    return wanted


def _configs(config: Configs) -> dict[str, Any]:
    """By name; a file is read now, so that all runs have the same."""
    if config is None:
        named: dict[str, Any] = {"default": None}
    elif isinstance(config, Mapping) and "kind" not in config:
        named = {str(name): config_data(one) for name, one in config.items()}
    else:
        data = config_data(config)
        named = {"config" if isinstance(config, Mapping) else Path(config).stem: data}
    if not named or len(named) > CONFIGS_MAX:
        raise InputError("there is no configuration", where="config")
    return named


def config_data(config: Any) -> Any:
    """As data, checked."""
    if isinstance(config, str | os.PathLike):
        path = os.fspath(config)
        try:
            documents = read_yaml(Path(path).read_bytes(), path)
        except OSError as error:
            raise InputError(error.strerror or str(error), where=path) from None
        if len(documents) != 1:
            raise InputError("is no single document", where=path)
        config = documents[0]
    return config


def trial_cluster(config: Any, inputs: Inputs, plugin_paths: Iterable[str]) -> Cluster:
    """An empty cluster with this configuration, to see that it can be and what it is like."""
    registry = inputs.registry(tuple(plugin_paths))
    setup = make_setup(config, {"plugins": inputs.plugins}, registry=registry, lean=True)
    return Cluster.of_engine(Engine.new(setup))


def _variants(
    inputs: Inputs,
    common: Settings,
    configs: Mapping[str, Any],
    sweep: Mapping[str, Any] | str | os.PathLike[str] | None,
) -> dict[str, Variant]:
    """What is to be run, by name; says what is wrong before anything is."""

    def check(config: Any) -> None:
        trial_cluster(config, inputs, common.plugin_paths).close()

    if sweep is not None:
        return grid(sweep, configs, check)
    for config in configs.values():
        check(config)
    return {name: Variant(config) for name, config in configs.items()}


def _autoscaler(given: Mapping[str, Any] | str | None) -> Autoscaler | None:
    if given is None:
        return None
    return read_autoscaler(given) if isinstance(given, str) else autoscaler_of(given, "autoscaler")


def _failures(given: str | None) -> Failures | None:
    return None if given is None else parse_failures(given)
