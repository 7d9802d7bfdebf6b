"""`stowplan simulate`: months of a cluster, on a trace, with one or several configurations."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Self

import click

from stowplan.cli._options import option
from stowplan.cli._output import Column, moves_cursor, note, print_table, say
from stowplan.errors import InputError

COLUMNS_MAX = 4
"""More configurations than this have a line each, not a column."""

SEEDS = click.IntRange(1, 10_000)
WORKERS = click.IntRange(1, 1024)
ENDS = click.Choice(["recorded", "service"])

EXAMPLES = """\b
Examples:
  stowplan simulate openb -o results
  stowplan simulate openb -o results --config a.yaml --config b.yaml --seeds 10
  stowplan simulate openb -o results --config packed=most.yaml --until 30d
  stowplan simulate openb -o results --arrivals shuffle --inflate 1.3 --ends service
  stowplan simulate openb -o results --autoscaler pools.yaml --failures mean=30d,repair=4h
  stowplan simulate openb -o results --sweep sweep.yaml --seeds 5
  stowplan simulate openb -o new --compare results
"""


@click.command(epilog=EXAMPLES)
@click.argument("trace", metavar="TRACE")
@option("-o --output folder FOLDER", "For the results.", required=True)
@option("--nodes FILE", "Nodes as manifests, instead of the trace's.")
@option(
    "--config configs [NAME=]FILE...",
    "A KubeSchedulerConfiguration; may be repeated: others are held against the first.",
)
@option("--sweep FILE", "Vary weights, arguments, thresholds, nodes.")
@option("--plugin-path plugin_paths PATH...", "A file with your own plugins, or a folder of them.")
@option("--seeds", "Runs of each configuration, with seeds from 1 on.", 1, type=SEEDS)
@option("--until TIME", "Stop there, as `30d`; default: the trace's end.")
@option(
    "--arrivals",
    "Pods as they came, or in an order by chance.",
    "recorded",
    type=click.Choice(["recorded", "shuffle"]),
)
@option("--inflate X", "So many times as many pods, drawn from the same.", 1.0, type=float)
@option(
    "--ends",
    "A pod ends when it did, or after its service time once started.",
    "recorded",
    type=ENDS,
)
@option(
    "--evicted",
    "Whether evicted pods arrive again.",
    "return",
    type=click.Choice(["return", "lost"]),
)
@option(
    "--tie-break",
    "Of several equally good nodes any, or the first by name.",
    "random",
    type=click.Choice(["random", "name"]),
)
@option("--autoscaler FILE", "Pools of nodes that come when needed.")
@option("--failures mean=TIME,repair=TIME", "Nodes fail and return.")
@option("--price prices [POOL=]X...", "Per node and hour; may be repeated.")
@option(
    "--events",
    "No Event objects are written in a simulation.",
    "off",
    type=click.Choice(["off"]),
)
@option("--workers N", "Processes; default: one per core.", type=WORKERS)
@option("--scheduler dask://HOST:PORT", "Run on a Dask cluster instead.")
@option("--compare FOLDER", "Show ratios against earlier results.")
def simulate(
    trace: str,
    folder: str,
    configs: tuple[str, ...],
    prices: tuple[str, ...],
    compare: str | None,
    workers: int | None,
    events: str,
    **options: Any,
) -> None:
    """Run TRACE through the whole scheduler, in virtual time, and report what comes of it.

    Runs that FOLDER has already are not done again: after Ctrl-C the same command goes on.

    Exit status: 0 when all runs are done, 130 when it was interrupted, 2 when the input is wrong.
    """
    from stowplan.sim.results import read_result
    from stowplan.sim.simulate import simulate as run

    old = read_result(compare) if compare else None
    shown = _Bar()
    with shown:
        result = run(
            trace,
            config=_named(configs),
            prices=prices_of(prices),
            workers=workers or os.cpu_count() or 1,
            folder=folder,
            progress=shown,
            **{name: value for name, value in options.items() if value is not None},
        )
    result.write(folder)
    _print_figures(result.summary())
    if old is not None:
        _print_ratios(result.summary(), old.summary())
    say(f"report: {Path(folder) / 'report.html'}")
    if shown.was_interrupted:
        note(
            f"interrupted: {len(result.runs)} of {result.wanted} runs are done and kept",
            hint="the same command goes on from there",
        )
        click.get_current_context().exit(130)


def _named(configs: tuple[str, ...]) -> dict[str, Any] | None:
    named: dict[str, Any] = {}
    for text in configs:
        name, found, path = text.partition("=")
        if not found:
            name, path = Path(text).stem, text
        if name in named:
            raise InputError(
                f"two configurations are called {name!r}",
                where="--config",
                hint="name them: `--config a=one/a.yaml --config b=two/a.yaml`",
            )
        named[name] = None if path == "default" else path
    return named or None


def prices_of(prices: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in prices:
        pool, _, number = text.rpartition("=")
        try:
            found[pool] = float(number)
        except ValueError:
            raise InputError(f"{text!r} is no price", where="--price") from None
    return found


def _print_figures(summary: dict[str, Any]) -> None:
    from stowplan.sim.svg import number

    configs = summary["comparison"].get("configs", {})
    if not configs:
        return
    names = dict.fromkeys(name for one in configs.values() for name in one)
    means = {name: [one.get(name, {}).get("mean") for one in configs.values()] for name in names}
    rows = [
        [name, *("" if value is None else number(value) for value in values)]
        for name, values in means.items()
        if any(values)
    ]
    titles = ["", *configs]
    if len(configs) > COLUMNS_MAX:
        titles, *rows = ([*row] for row in zip(titles, *rows, strict=True))
    print_table([Column(title, right=n > 0) for n, title in enumerate(titles)], rows)


def _print_ratios(new: dict[str, Any], old: dict[str, Any]) -> None:
    from stowplan.sim.comparing import ratios
    from stowplan.sim.svg import number

    rows = [
        [config, name, number(before), number(after), "" if ratio is None else f"{ratio:.3f}"]
        for config, name, before, after, ratio in ratios(new, old)
    ]
    titles = ("CONFIG", "MEASURE", "OLD", "NEW", "RATIO")
    print_table([Column(title, right=n > 1) for n, title in enumerate(titles)], rows)


class _Bar:
    """Progress on a terminal: a bar over all pods of all runs, their rate, and the time left."""

    def __init__(self) -> None:
        self.was_interrupted = False
        self._bar: Any = None
        self._task: Any = None
        self._runs = 0
        self._shares: dict[int, float] = {}
        self._pods: dict[int, int] = {}
        self._finished = 0

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and moves_cursor():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, runs: int, finished: int) -> None:
        self._runs, self._finished = runs, finished
        if finished:
            note(f"{finished} of {runs} runs are there already")
        if self._bar is not None:
            self._task = self._bar.add_task("simulating", total=float(runs), rate="")

    def pods(self, run: int, arrived: int, count: int) -> None:
        if self._bar is None:
            return
        share = arrived / count if count else 0.0
        if arrived < count and share - self._shares.get(run, 0.0) < 0.002:
            return
        self._shares[run], self._pods[run] = share, arrived
        self._show()

    def _show(self) -> None:
        elapsed_s = self._bar.tasks[0].elapsed or 0.0
        pods = sum(self._pods.values())
        rate = f"{pods / elapsed_s:,.0f} pods/s" if elapsed_s > 0.5 else ""
        done = self._finished + sum(self._shares.values())
        self._bar.update(self._task, completed=min(done, self._runs), rate=rate)

    def run_done(self, run: int) -> None:
        self._shares[run] = 1.0
        if self._bar is not None:
            self._show()

    def interrupted(self) -> None:
        self.was_interrupted = True
