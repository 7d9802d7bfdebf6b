"""`stowplan bench`: how many pods per second, on this machine, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.cli._options import EXISTING, WRITABLE, option, output_option
from stowplan.cli._output import complain, say, say_json

if TYPE_CHECKING:
    from stowplan.bench.language import Workload

QUICK_PODS = 2000
"""Measured pods of `--quick`: a second or so of work per workload."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@option("--nodes", "Nodes, instead of the workload's.", type=click.IntRange(min=1))
@option("--pods", "Measured pods, likewise.", type=click.IntRange(min=1))
@option("--init-pods", "Pods that are there before.", type=click.IntRange(min=0))
@option(
    "--file WORKLOADS.yaml",
    "Workloads of your own, in the language of scheduler_perf.",
    type=EXISTING,
)
@option(
    "--cluster",
    "Where to run: in this process, or on your kubeconfig's cluster (take a test cluster).",
    "embedded",
    type=click.Choice(["embedded", "kubeconfig"]),
)
@option("--quick", f"At most {QUICK_PODS} measured pods each.")
@output_option("text", "json")
@option("--list listing", "List the workloads and their parameters.")
@option("--compare RESULT.json", "Show ratios against an earlier result.", type=EXISTING)
@option("--profile FILE.svg", "Write a flame graph; needs a single workload.", type=WRITABLE)
def bench(names: tuple[str, ...], listing: bool, **settings: Any) -> None:
    """Measure pods per second.

    NAME is a case (SchedulingBasic: its main workload is run), a workload
    (SchedulingBasic/500Nodes), or a pattern (SchedulingBasic/*).  Without one, the workloads that
    Stowplan has goals for are run, each in a process of its own, but for the largest.

    Machines differ and are shared.  PODS/CPU-S counts processor time only, and OF KERNEL is its
    share of what a bare NumPy loop does in the same process: compare that.

    \b
    Examples:
      stowplan bench SchedulingBasic
      stowplan bench TopologySpreading --nodes 500 --pods 1000 -o json > before.json
      stowplan bench TopologySpreading --nodes 500 --pods 1000 --compare before.json
      stowplan bench SchedulingPodAffinity --profile flame.svg
      stowplan bench --file my-workloads.yaml 'MyCase/*'
      stowplan bench SchedulingBasic --cluster kubeconfig --nodes 1000 --pods 3000
    """
    from stowplan.bench.catalogue import shipped
    from stowplan.bench.language import read_workloads

    file = settings["file"]
    known = read_workloads(file) if file else list(shipped())
    if listing:
        _list(known, own=file is not None)
        return
    requests = _requests(names, known, settings)
    if settings["profile"] and len(requests) != 1:
        raise click.UsageError(f"--profile needs a single workload, not {len(requests)}")
    before = _before(settings["compare"])
    results = _run(requests, settings)
    _report(results, settings)
    if before is not None:
        _print_comparison(results, before, err=settings["output"] == "json")
    failed = [result for result in results if "error" in result]
    for result in failed:
        complain(f"{result['workload']}: {result['error']}")
    if failed:
        click.get_current_context().exit(1)


# -- what to run ----------------------------------------------------------------------------


def _requests(
    names: tuple[str, ...], known: list[Workload], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """What to run, as plain data; whatever is wrong with it is said before anything runs."""
    from stowplan.bench.catalogue import PODS, choose, resized
    from stowplan.bench.simulating import is_simulation, trace_named
    from stowplan.bench.start import is_start, parse_size

    sizes = {name: settings[name] for name in ("nodes", "pods", "init_pods")}
    requests: list[dict[str, Any]] = []
    for name in names or _all_names(known, settings):
        if is_start(name):
            parse_size(name)
            requests.append({"workload": name, **sizes})
            continue
        if is_simulation(name):
            trace_named(name)
            requests.append({"workload": name})
            continue
        for workload in choose([name], known):
            asked = dict(sizes)
            if settings["quick"] and asked["pods"] is None and PODS in workload.params:
                asked["pods"] = min(QUICK_PODS, int(workload.params[PODS]))
            resized(workload, **asked).resolve()
            file = str(settings["file"]) if settings["file"] else None
            requests.append({"workload": workload.full_name, "file": file, **asked})
    return requests


def _all_names(known: list[Workload], settings: dict[str, Any]) -> list[str]:
    from stowplan.bench.goals import GOALS, LIMITS, SIMULATIONS
    from stowplan.bench.simulating import UNEVEN

    if settings["file"]:
        return list(dict.fromkeys(workload.case for workload in known))
    names = [goal.workload for goal in GOALS if not goal.large]
    if settings["cluster"] == "embedded":
        names += [limit.workload for limit in LIMITS if not limit.large]
        names += [goal.workload for goal in SIMULATIONS if not goal.large]
        names.append(UNEVEN)
    return names


def _run(requests: list[dict[str, Any]], settings: dict[str, Any]) -> list[Any]:
    from stowplan.bench.alone import perform, perform_alone
    from stowplan.bench.progress import Progress
    from stowplan.bench.run import Options
    from stowplan.bench.sampler import Sampler

    on_cluster = settings["cluster"] == "kubeconfig"
    if len(requests) > 1 and not on_cluster:
        return [perform_alone(request) for request in requests]
    if on_cluster:
        from stowplan.bench.cluster_run import perform_on_cluster as perform
    results = []
    for request in requests:
        progress = Progress(request["workload"])
        sampler = Sampler(0.001) if settings["profile"] else Sampler()
        try:
            results.append(perform(request, Options(progress=progress.show, sampler=sampler)))
        finally:
            # An interrupted run has not stopped it, and its signal would end the process.
            sampler.stop()
            progress.end()
        if settings["profile"]:
            _write_profile(settings["profile"], sampler, request["workload"])
    return results


def _write_profile(path: Path, sampler: Any, name: str) -> None:
    from stowplan.bench.flame import flame_graph
    from stowplan.errors import InputError

    try:
        path.write_text(flame_graph(sampler.stacks, name))
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from None


# -- what came of it ------------------------------------------------------------------------


def _report(results: list[Any], settings: dict[str, Any]) -> None:
    import sys

    from stowplan.bench import report
    from stowplan.bench.results import to_json

    if settings["output"] == "json":
        say_json(to_json(results))
        return
    _print(report.TITLES, [report.row(result) for result in results], report.DISPENSABLE)
    starts = [report.start_row(result) for result in results if "first_bind_s" in result]
    if starts:
        say()
        _print(report.START_TITLES, starts)
    say()
    for line in report.LEGEND:
        say(line)
    if len(results) == 1 and "error" not in results[0]:
        _print_details(results[0], plot=sys.stdout.isatty())


def _print_details(result: Any, *, plot: bool) -> None:
    from stowplan.bench import report

    say()
    for line in report.details(result):
        say(line)
    times = report.breakdown(result)
    if times:
        say()
        _print(("PHASE", "US/POD", "PLUGIN", "US/POD"), times)
    if plot:
        say()
        say("Pods per second over time:")
        picture = result["picture"]
        for line in report.plot(picture["pods_per_s"], picture["interval_s"]):
            say(line)


def _before(path: Path | None) -> dict[str, Any] | None:
    from stowplan.bench.results import read_results

    return None if path is None else read_results(path)


def _print_comparison(results: list[Any], before: dict[str, Any], *, err: bool) -> None:
    from stowplan.bench import report

    say(err=err)
    lines = report.compare(results, before)
    if not lines:
        say("The earlier result has none of these workloads.", err=err)
        return
    _print(report.COMPARED, lines, err=err)
    say("Above 1 is better, in every column.", err=err)


def _print(titles: Any, rows: Any, dispensable: Any = (), *, err: bool = False) -> None:
    """Names to the left, numbers to the right; on a terminal without what it has no room for."""
    from stowplan.cli._output import Column, table_lines, terminal_width

    named = ("WORKLOAD", "START", "PHASE", "PLUGIN", "LABELS", "PARAMS")
    columns = [Column(title, right=title not in named) for title in titles]
    lines = list(table_lines(columns, rows))
    width = terminal_width()
    left_out = []
    for title in dispensable:
        if width is None or max(map(len, lines)) <= width:
            break
        at = [column.title for column in columns].index(title)
        left_out.append(columns.pop(at).title)
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        lines = list(table_lines(columns, rows))
    for number, line in enumerate(lines):
        say(line, bold=number == 0, err=err)
    if left_out:
        say(f"No room for {', '.join(left_out)}: take a wider terminal, or -o json.")


def _list(known: list[Workload], *, own: bool) -> None:
    from stowplan.bench.goals import goal_named
    from stowplan.bench.simulating import names as simulations
    from stowplan.bench.start import names as starts

    rows = []
    for workload in known:
        goal = goal_named(workload.full_name)
        params = " ".join(f"{name}={value}" for name, value in workload.params.items())
        labels = ",".join(sorted(workload.labels)) or "-"
        rows.append(
            [workload.full_name, labels, f"{goal.pods_per_s:,.0f}" if goal else "-", params]
        )
    if not own:
        rows += [[name, "-", "-", ""] for name in (*starts(), *simulations())]
    _print(("WORKLOAD", "LABELS", "GOAL", "PARAMS"), rows)
