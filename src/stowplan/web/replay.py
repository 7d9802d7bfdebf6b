"""A simulation's results, to be played: runs, each node at each moment, and the series.

There is no cluster behind them and so no queue, no decision and no fork: `Replay.views` says so,
and `ReplayPaths` is the whole API.  Moments are seconds of virtual time; who asks for one is told
the last sample at or before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan._version import __version__
from stowplan.errors import InputError, NotFound
from stowplan.sim.measures import Columns
from stowplan.sim.results import Result, Run
from stowplan.web.asking import Ask, page_of
from stowplan.web.paths import NAME, Handler, Paths

POINTS_MAX = 1000
"""Of a line on the page: more cannot be told apart."""
AWAY = 255
"""The heat of a node that was not there."""
AWAY_FLAG = 8
"""Its flag on the map."""
MOMENT_MAX = 10**12


class Replay:
    kind = "simulation"
    views: tuple[str, ...] = ("map", "time")
    live = False
    problem = ""

    def __init__(self, result: Result, name: str) -> None:
        self.name = name
        self.result = result
        done, wanted = len(result.runs), result.wanted
        self.note = f"{done} of {wanted} runs of a simulation, in virtual time; nothing runs here."

    @property
    def version(self) -> int:
        return 0

    async def start(self) -> None:
        """It is all there."""

    async def close(self) -> None:
        """Nothing is held."""

    def run(self, text: str) -> Run:
        runs = self.result.runs
        if not text.isdecimal() or int(text) >= len(runs):
            raise NotFound(f"there is no run {text!r}; they are numbered from 0 to {len(runs) - 1}")
        return runs[int(text)]


class ReplayPaths(Paths):
    def __init__(self, source: Replay) -> None:
        self._source = source
        run = f"runs/{NAME}"
        views = {
            run: run_view,
            f"{run}/map": map_view,
            f"{run}/nodes": node_table,
            f"{run}/nodes/{NAME}": node_view,
        }
        super().__init__(
            {
                "": {"GET": self._about},
                "map": {"GET": self._no_map},
                "runs": {"GET": self._runs},
                "remarks": {"GET": self._remarks},
                **{path: {"GET": self._view(view)} for path, view in views.items()},
            }
        )

    def _view(self, view: Callable[[Run, Ask], Any]) -> Handler:
        async def answer(ask: Ask) -> Any:
            return view(self._source.run(ask.parts[0]), ask)

        return answer

    async def _about(self, ask: Ask) -> Any:
        source = self._source
        return {
            "name": source.name,
            "kind": source.kind,
            "views": source.views,
            "live": source.live,
            "note": source.note,
            "problem": source.problem,
            "since": 0,
            "version": source.version,
            "stowplan": __version__,
            "runs": len(source.result.runs),
            "configs": source.result.configs,
            "worlds": [],
        }

    async def _no_map(self, ask: Ask) -> Any:
        """A page asks for the map before it knows what is shown; these are maps of the runs."""
        return {}

    async def _runs(self, ask: Ask) -> Any:
        return page_of([_head(run, n) for n, run in enumerate(self._source.result.runs)], ask)

    async def _remarks(self, ask: Ask) -> Any:
        return {"remarks": []}


def _head(run: Run, number: int) -> dict[str, Any]:
    times = run.heat.times_s
    return {
        "run": number,
        "config": run.config,
        "seed": run.seed,
        "nodes": len(run.heat.node_names),
        "samples": len(times),
        "begin": float(times[0]) if len(times) else 0.0,
        "end": float(times[-1]) if len(times) else 0.0,
        "resources": list(run.heat.percent),
    }


def run_view(run: Run, ask: Ask) -> dict[str, Any]:
    """Its figures, and its series as lines of charts."""
    step = max(1, -(-len(run.series["time_s"]) // POINTS_MAX))
    series = {name: column[::step] for name, column in run.series.items()}
    return {
        **_head(run, int(ask.parts[0])),
        "figures": dict(_figures(run.summary)),
        "time": _plain(series["time_s"]),
        "charts": {name: lines for name, lines in _charts(series) if lines},
    }


def _charts(series: Columns) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "pods", _some(series, "pods.running", "pods.pending")
    causes = [name for name in series if name.startswith("pending.")]
    yield "causes", {name.removeprefix("pending."): _plain(series[name]) for name in causes}
    whole = {n.removesuffix(".allocatable"): n for n in series if n.endswith(".allocatable")}
    yield (
        "fill",
        {
            resource: _plain(_share(series[f"{resource}.requested"], series[name]))
            for resource, name in whole.items()
        },
    )
    parts = [name for name in series if name.endswith(".fragmentation")]
    yield "fragmentation", {n.removesuffix(".fragmentation"): _plain(series[n]) for n in parts}
    yield "nodes", _some(series, "nodes", "nodes.in_use")
    yield "cost", _some(series, "cost.per_hour")


def _some(series: Columns, *names: str) -> dict[str, Any]:
    return {name: _plain(series[name]) for name in names if name in series}


def _share(part: Any, whole: Any) -> Any:
    return np.divide(part, whole, out=np.zeros(len(part)), where=np.asarray(whole) > 0)


def _plain(column: Any) -> list[float | None]:
    return [None if not math.isfinite(value) else value for value in column.tolist()]


def _figures(summary: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in summary.items():
        path = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _figures(value, f"{path}.")
        elif isinstance(value, int | float) and math.isfinite(value):
            yield path, value


def map_view(run: Run, ask: Ask) -> dict[str, Any]:
    """Every node as a position in arrays, as of a cluster; `used` is in percent."""
    resource, percent = _heat(run, ask)
    row = _sample(run, ask)
    cells: NDArray[np.uint8] = percent[row]
    there = cells != AWAY
    return {
        "resource": resource,
        "at": float(run.heat.times_s[row]),
        "names": run.heat.node_names,
        "groups": [""],
        "group": [0] * len(cells),
        "whole": [100] * len(cells),
        "used": np.where(there, cells, 0).tolist(),
        "pods": [0] * len(cells),
        "flags": np.where(there, 0, AWAY_FLAG).tolist(),
        "there": int(there.sum()),
        "mean": float(cells[there].mean()) if there.any() else 0.0,
    }


def node_table(run: Run, ask: Ask) -> dict[str, Any]:
    """The same as a table, in pages; a node that is away has no percentages."""
    row, query = _sample(run, ask), ask.text("q").strip().lower()
    heat = run.heat
    rows: list[dict[str, Any]] = [
        {"name": name, **{one: _cell(cells[row, n]) for one, cells in heat.percent.items()}}
        for n, name in enumerate(heat.node_names)
        if query in name.lower()
    ]
    sort = ask.text("sort", "name")
    if rows and sort not in rows[0]:
        raise InputError(f"nodes are not sorted by {sort!r}")
    rows.sort(key=lambda one: _order(one[sort]), reverse=ask.descending)
    return page_of(rows, ask)


def node_view(run: Run, ask: Ask) -> dict[str, Any]:
    """How full one node was over the whole run."""
    heat, name = run.heat, ask.parts[1]
    if name not in heat.node_names:
        raise NotFound(f"there is no node {name!r} in this run")
    place = heat.node_names.index(name)
    step = max(1, -(-len(heat.times_s) // POINTS_MAX))
    return {
        "name": name,
        "time": _plain(heat.times_s[::step]),
        "fill": {
            resource: [_cell(value) for value in cells[::step, place]]
            for resource, cells in heat.percent.items()
        },
    }


def _order(value: Any) -> Any:
    return -1 if value is None else value


def _cell(value: Any) -> int | None:
    return None if value == AWAY else int(value)


def _heat(run: Run, ask: Ask) -> tuple[str, NDArray[np.uint8]]:
    names = list(run.heat.percent)
    if not names or not len(run.heat.times_s):
        raise InputError("this run has no picture", hint="no pod asked for anything in it")
    resource = ask.text("resource", names[0])
    if resource not in run.heat.percent:
        raise InputError(f"nobody asks for {resource!r}", hint=f"there are: {', '.join(names)}")
    return resource, run.heat.percent[resource]


def _sample(run: Run, ask: Ask) -> int:
    """The row of the last sample at or before `at`."""
    text = ask.text("at", "0")
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not 0 <= at <= MOMENT_MAX:
        raise InputError(f"at is {text!r}", hint="a number of seconds from 0 on")
    times = run.heat.times_s
    if not len(times):
        raise InputError("this run has no samples")
    # Half a millisecond more: moments come back from the page as decimals.
    return max(0, int(np.searchsorted(times, at + 5e-4, side="right")) - 1)
