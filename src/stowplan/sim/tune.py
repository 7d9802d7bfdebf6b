"""`tune`: search for weights and arguments that serve several ends, with Optuna.

Each trial is a configuration (`sweep` says what may be varied) run on the first part of the trace.
Nothing beats the ones on the Pareto front at all ends at once; the one nearest to the best of each
is chosen, and run beside the given configuration on the part of the trace that was held back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import dist
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from stowplan.errors import InputError
from stowplan.sim.report import pareto_html
from stowplan.sim.results import Result, Run
from stowplan.sim.simulate import config_data, inputs_of, simulate, trial_cluster
from stowplan.sim.svg import alone, scatter
from stowplan.sim.sweep import EMPTY, Axis, Variant, axes_of, check_values, labels, read_sweep
from stowplan.sim.trace import Trace
from stowplan.sim.transform import cut
from stowplan.sim.workers import Inputs

TRIALS_MAX = 10_000
WEIGHTS = (0, 1, 2, 5, 10)
"""What is tried of every plugin that scores, unless a file says what to try."""

UTILISATION, WAIT, COST = "allocated, %", "wait, p99, s", "cost"


@dataclass(frozen=True, slots=True)
class Trial:
    values: Mapping[str, Any]
    """What was varied: what it was set to; empty for the configuration as it was given."""
    config: Any
    ends: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tuning:
    trials: tuple[Trial, ...]
    front: tuple[int, ...]
    """Trials that no other is better than at all ends."""
    chosen: int
    validation: Result
    """The given configuration and the chosen one, on what was held back."""

    def write(self, folder: str | os.PathLike[str]) -> None:
        """`chosen.yaml`, `pareto.json`, `pareto.svg`, and the validation as a folder of results."""
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        trials = [{"values": dict(one.values), "ends": dict(one.ends)} for one in self.trials]
        data = {"trials": trials, "front": list(self.front), "chosen": self.chosen}
        (home / "pareto.json").write_text(json.dumps(data, indent=1) + "\n")
        config = self.trials[self.chosen].config
        (home / "chosen.yaml").write_text(yaml.safe_dump(config or EMPTY, sort_keys=False))
        points = [(one.ends[WAIT], one.ends[UTILISATION]) for one in self.trials]
        picture = scatter(points, self.front, self.chosen, across=WAIT, up=UTILISATION)
        (home / "pareto.svg").write_text(alone(picture))
        values = self.trials[self.chosen].values
        told = ", ".join(f"{name}={value}" for name, value in values.items()) or "as it was given"
        self.validation.write(home / "validation", pareto_html(picture, told))


def tune(
    trace: Trace | str | os.PathLike[str],
    *,
    config: Any = None,
    sweep: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    trials: int = 30,
    held_back: float = 0.3,
    seed: int = 0,
    **options: Any,
) -> Tuning:
    """Search, from one configuration (data, or a path) on.

    `options` are those of `simulate`, for every run.
    """
    if not 1 <= trials <= TRIALS_MAX:
        raise InputError(f"trials is {trials!r}", hint=f"a number from 1 to {TRIALS_MAX}")
    inputs = inputs_of(trace, None, options.get("plugins", ()))
    learning, kept = _divided(inputs.trace, held_back)
    base = config_data(config)
    axes = _axes(base, sweep, inputs, tuple(options.get("plugin_paths", ())))
    found: list[Trial] = []

    def run(numbers: Sequence[int] | None) -> Trial:
        variant, values = Variant(base), {}
        if numbers is not None:
            chosen = [axis.values[n] for axis, n in zip(axes, numbers, strict=True)]
            values = dict(zip(labels(axes), chosen, strict=True))
            for axis, value in zip(axes, chosen, strict=True):
                variant = axis.put(variant, value)
        result = simulate(learning, config={"trial": variant.config}, **options)
        found.append(Trial(values, variant.config, _ends(result.runs)))
        return found[-1]

    _search(run, axes, trials, seed)
    front = _front(found)
    best = _nearest(found, front)
    both = {"given": base, "chosen": found[best].config}
    return Tuning(tuple(found), front, best, simulate(kept, config=both, **options))


def _divided(trace: Trace, held_back: float) -> tuple[Trace, Trace]:
    if not 0 < held_back < 1:
        raise InputError(f"held_back is {held_back!r}", hint="a share of the pods, as 0.3")
    arrival_s = trace.pod_arrival_s
    at_s = float(arrival_s[int(len(arrival_s) * (1 - held_back))]) if len(arrival_s) else 0.0
    if at_s <= 0:
        raise InputError("cannot be divided: all pods arrive at once", where=trace.name)
    return cut(trace, to_s=at_s), cut(trace, from_s=at_s)


def _axes(
    base: Any,
    sweep: Mapping[str, Any] | str | os.PathLike[str] | None,
    inputs: Inputs,
    plugin_paths: Iterable[str],
) -> list[Axis]:
    if sweep is None:
        with trial_cluster(base, inputs, plugin_paths) as cluster:
            scoring = {name for weights in cluster.weights().values() for name in weights}
        return axes_of({"weights": {name: [*WEIGHTS] for name in sorted(scoring)}}, "weights", None)
    axes, where = read_sweep(sweep, None)
    if any(axis.kind == "nodes" for axis in axes):
        raise InputError("a configuration says nothing of nodes", where=f"{where}: nodes",
                         hint="`stowplan simulate --sweep` varies them")  # fmt: skip

    def check(config: Any) -> None:
        trial_cluster(config, inputs, plugin_paths).close()

    check_values(axes, Variant(base), where, check)
    return axes


def _search(run: Any, axes: Sequence[Axis], trials: int, seed: int) -> None:
    try:
        import optuna
    except ImportError:
        raise InputError(
            "optuna is not installed", where="tune", hint="`pip install stowplan[tune]`"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    given = run(None).ends
    directions = ["maximize" if name == UTILISATION else "minimize" for name in given]
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(directions=directions, sampler=sampler)
    for _ in range(trials):
        trial = study.ask()
        numbers = [
            trial.suggest_int(name, 0, len(axis.values) - 1)
            for name, axis in zip(labels(axes), axes, strict=True)
        ]
        study.tell(trial, list(run(numbers).ends.values()))


def _ends(runs: Sequence[Run]) -> dict[str, float]:
    """Means over the seeds."""
    summaries = [run.summary for run in runs]
    shares = [
        np.mean([one["allocated_percent"] for one in summary["resources"].values()] or [0.0])
        for summary in summaries
    ]
    ends = {
        UTILISATION: float(np.mean(shares)),
        WAIT: float(np.mean([summary["wait"].get("p99", 0.0) for summary in summaries])),
    }
    if all("cost" in summary for summary in summaries):
        ends[COST] = float(np.mean([summary["cost"] for summary in summaries]))
    return {name: round(value, 6) for name, value in ends.items()}


def _costs(trial: Trial) -> tuple[float, ...]:
    """All to be small."""
    return tuple(-value if name == UTILISATION else value for name, value in trial.ends.items())


def _front(trials: Sequence[Trial]) -> tuple[int, ...]:
    costs = [_costs(trial) for trial in trials]
    return tuple(
        number
        for number, mine in enumerate(costs)
        if not any(
            other != mine and all(a <= b for a, b in zip(other, mine, strict=True))
            for other in costs
        )
    )


def _nearest(trials: Sequence[Trial], front: Sequence[int]) -> int:
    """The one of the front nearest to the best of each end, all ends counting alike."""
    costs = np.array([_costs(trials[number]) for number in front])
    low, reach = costs.min(axis=0), np.maximum(np.ptp(costs, axis=0), 1e-12)
    shares = ((costs - low) / reach).tolist()
    return front[min(range(len(front)), key=lambda n: dist(shares[n], [0.0] * len(low)))]
