"""`stowplan shadow`: beside a cluster's own scheduler, would ours decide the same?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from stowplan.cli._asking import WIDTH_MAX, say_data
from stowplan.cli._options import (
    gates_option,
    live_options,
    option,
    output_option,
    plugins_option,
    seed_option,
)
from stowplan.cli._output import Column, note, say, table_lines, terminal_width
from stowplan.cli._run_flags import GoDuration

if TYPE_CHECKING:
    from stowplan.answers.tally import Tally
    from stowplan.config import Duration

EXAMPLES = """\b
Examples:
  stowplan shadow --kubeconfig ~/.kube/config
  stowplan shadow --context prod --config sched.yaml --log decisions.jsonl
  stowplan shadow --for 10m --fail-under 99 -o json
  stowplan shadow --metrics-port 9095
"""

COLUMNS = (
    Column("TIME"),
    Column("SAME", right=True),
    Column("EQUAL", right=True),
    Column("DIFFERENT", right=True),
    Column("AGREE %", right=True),
    Column("WHY DIFFERENT"),
)
WIDTHS = (8, 6, 6, 9, 7, 13)
EVERY_S = 10.0


@click.command("shadow", epilog=EXAMPLES)
@live_options
@option("--config FILE", "The KubeSchedulerConfiguration that it has.")
@plugins_option
@gates_option
@seed_option("Decides between equally good nodes.")
@option(
    "--for duration TIME", "How long, such as 10m; without it, until Ctrl-C.", type=GoDuration()
)
@option("--log log_file FILE", "Append every decision, a line of JSON.")
@option(
    "--metrics-port PORT",
    "Serve metrics on 127.0.0.1, as Prometheus reads them.",
    type=click.IntRange(1, 65535),
)
@option(
    "--fail-under PERCENT",
    "Exit with 1 if fewer decisions agree.",
    type=click.FloatRange(0.0, 100.0),
)
@output_option()
def shadow(
    kubeconfig: str,
    context: str,
    config: str | None,
    plugin_paths: tuple[str, ...],
    feature_gates: tuple[str, ...],
    seed: int,
    duration: Duration | None,
    log_file: str | None,
    metrics_port: int | None,
    fail_under: float | None,
    output: str,
) -> None:
    """Follow a cluster and say where its pods would go if Stowplan decided.

    Every pod is decided on at the moment its scheduler does it, in the state that it saw, and
    nothing is written.  A decision is the same, one of those that are equally good, or different:
    then it says why.  Ctrl-C ends it with the table.

    Exit status: 0, or 1 when fewer decisions agree than `--fail-under` says.
    """
    from stowplan.answers.following import shadow as follow
    from stowplan.config import parse_feature_gates

    tally = follow(
        kubeconfig,
        context,
        config=config,
        plugin_path=plugin_paths,
        feature_gates=parse_feature_gates(feature_gates).changed,
        seed=seed,
        seconds=None if duration is None else duration.seconds,
        log=log_file,
        metrics_port=metrics_port,
        report=_Rows() if output == "text" else None,
        tell=note,
    )
    if output == "text":
        _say_end(tally)
    else:
        say_data(tally.to_dict(), output)
    if fail_under is not None and tally.agreement < fail_under:
        note(f"{tally.agreement:.2f} % agree, fewer than {fail_under:g} %")
        click.get_current_context().exit(1)


class _Rows:
    """Adds a row to the table every few seconds in which something was decided."""

    def __init__(self) -> None:
        self._shown = 0
        self._next_s = 0.0

    def __call__(self, tally: Tally, now_s: float) -> None:
        if now_s < self._next_s or tally.count == self._shown:
            return
        if not self._shown:
            say(_line([column.title for column in COLUMNS]), bold=True)
        self._shown, self._next_s = tally.count, now_s + EVERY_S
        say(_line([time.strftime("%H:%M:%S", time.localtime(now_s)), *tally.row()]))


def _line(cells: list[str]) -> str:
    return "  ".join(
        cell.rjust(width) if column.right else cell.ljust(width)
        for column, cell, width in zip(COLUMNS, cells, WIDTHS, strict=True)
    ).rstrip()


def _say_end(tally: Tally) -> None:
    for line in table_lines(COLUMNS[1:], [tally.row()], terminal_width()):
        say(line)
    if tally.others:
        note(f"{tally.others} pods of other schedulers were left alone")
    if tally.examples:
        say()
        say("Differences, the latest last:", bold=True)
        for line in tally.lines(terminal_width() or WIDTH_MAX):
            say(line)
