"""`stowplan bench`: how many pods per second, on this machine, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from stowplan.bench.language import Workload

QUICK_PODS = 2000
"""Measured pods of `--quick`: a second or less of work per workload."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes, instead of the workload's.")
@click.option("--pods", type=click.IntRange(min=1), help="Measured pods, likewise.")
@click.option("--init-pods", type=click.IntRange(min=0), help="Pods that are there before.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Workloads of your own, in the language of scheduler_perf.",
)
@click.option(
    "--cluster",
    type=click.Choice(["embedded", "kubeconfig"]),
    default="embedded",
    show_default=True,
    help="Where to run: in this process, or on your kubeconfig's cluster (take a test cluster).",
)
@click.option("--goals", is_flag=True, help="Everything there is a goal for, the largest included.")
@click.option("--quick", is_flag=True, help=f"At most {QUICK_PODS} measured pods each.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--list", "listing", is_flag=True, help="List the workloads and their parameters.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="RESULT.json",
    help="Show ratios against an earlier result.",
)
@click.option(
    "--fail-under",
    type=float,
    metavar="RATIO",
    help="With --compare: exit with 1 when a rate, as a share of the bare kernel's, fell below.",
)
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE.svg",
    help="Write a flame graph; needs a single workload.",
)
def bench(names: tuple[str, ...], listing: bool, **settings: Any) -> None:
    """Measure pods per second.

    NAME is a case (SchedulingBasic: its main workload is run), a workload
    (SchedulingBasic/500Nodes), or a pattern (SchedulingBasic/*).  Without one, the workloads that
    Stowplan has goals for are run, each in a process of its own.

    Machines differ and are shared.  PODS/CPU-S counts processor time only, and OF KERNEL is its
    share of what a bare NumPy loop does in the same process: compare that.

    \b
    Examples:
      stowplan bench SchedulingBasic
      stowplan bench TopologySpreading --nodes 500 --pods 1000 -o json > before.json
      stowplan bench TopologySpreading --nodes 500 --pods 1000 --compare before.json
      stowplan bench SchedulingPodAffinity --profile flame.svg
      stowplan bench --file my-workloads.yaml 'MyCase/*'
    """
    from stowplan.bench.catalogue import shipped
    from stowplan.bench.language import read_workloads

    file = settings["file"]
    known = read_workloads(file) if file else list(shipped())
    if listing:
        _list(known)
        return
    if settings["fail_under"] is not None and settings["compare"] is None:
        raise click.UsageError("--fail-under needs --compare")
    requests = _requests(names, known, settings)
    if settings["profile"] and len(requests) != 1:
        raise click.UsageError(f"--profile needs a single workload, not {len(requests)}")
    results = _run(requests, settings)
    code = _report(results, settings)
    if code:
        click.get_current_context().exit(code)


def _requests(
    names: tuple[str, ...], known: list[Workload], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """What to run, as plain data."""
    from stowplan.bench.catalogue import PODS, choose, resized
    from stowplan.bench.goals import GOALS
    from stowplan.bench.start import CASE, parse_size
    from stowplan.bench.start import names as starts

    chosen = list(names)
    if settings["goals"]:
        chosen += [goal.workload for goal in GOALS] + starts()[:2]
    elif not chosen and settings["file"]:
        chosen = list(dict.fromkeys(workload.case for workload in known))
    elif not chosen:
        chosen = [goal.workload for goal in GOALS if not goal.large]
    size = {name: settings[name] for name in ("nodes", "pods", "init_pods")}
    requests: list[dict[str, Any]] = []
    for name in chosen:
        if name.partition("/")[0] == CASE:
            parse_size(name)
            requests.append({"workload": name, "pods": settings["pods"]})
            continue
        for workload in choose([name], known):
            asked = dict(size)
            if settings["quick"] and asked["pods"] is None and PODS in workload.params:
                asked["pods"] = min(QUICK_PODS, int(workload.params[PODS]))
            resized(workload, **asked).resolve()
            file = str(settings["file"]) if settings["file"] else None
            requests.append({"workload": workload.full_name, "file": file, **asked})
    return requests


def _run(requests: list[dict[str, Any]], settings: dict[str, Any]) -> list[Any]:
    from stowplan.bench.alone import perform, perform_alone
    from stowplan.bench.progress import Progress
    from stowplan.bench.run import Options
    from stowplan.bench.sampler import Sampler

    if settings["cluster"] == "kubeconfig":
        from stowplan.bench.cluster_run import perform_on_cluster

        return [perform_on_cluster(request) for request in requests]
    if len(requests) > 1:
        return [perform_alone(request) for request in requests]
    progress = Progress(requests[0]["workload"])
    sampler = Sampler(0.001) if settings["profile"] else Sampler()
    try:
        result = perform(requests[0], Options(progress=progress.show, sampler=sampler))
    finally:
        progress.end()
    if settings["profile"]:
        from stowplan.bench.flame import flame_graph

        settings["profile"].write_text(flame_graph(sampler.stacks, result["workload"]))
    return [result]


def _report(results: list[Any], settings: dict[str, Any]) -> int:
    from stowplan.bench import report

    failed = [result for result in results if "error" in result]
    before = report.read_results(settings["compare"]) if settings["compare"] else {}
    if settings["output"] == "json":
        click.echo(report.to_json(results))
    else:
        _print(results)
    if before:
        _print_comparison(report.compare(results, before), err=settings["output"] == "json")
    for result in failed:
        click.echo(f"error: {result['workload']}: {result['error']}", err=True)
    worst = report.worst_ratio(results, before)
    too_slow = worst is not None and worst < (settings["fail_under"] or 0.0)
    if too_slow:
        click.echo(f"error: a rate fell to {worst:.2f} of what it was", err=True)
    return 1 if failed or too_slow else 0


def _print(results: list[Any]) -> None:
    import sys

    from stowplan.bench import report
    from stowplan.cli._output import Column, print_table

    columns = [Column(title, right=number > 0) for number, title in enumerate(report.TITLES)]
    print_table(columns, [report.row(result) for result in results])
    if len(results) != 1 or "error" in results[0]:
        return
    (result,) = results
    click.echo()
    for line in report.details(result):
        click.echo(line)
    times = report.breakdown(result)
    if times:
        click.echo()
        titles = ("PHASE", "US/POD", "PLUGIN", "US/POD")
        print_table([Column(title, right=title == "US/POD") for title in titles], times)
    if sys.stdout.isatty():
        click.echo("\nPods per second over time:")
        picture = result["picture"]
        for line in report.plot(picture["pods_per_s"], picture["interval_s"]):
            click.echo(line)


def _print_comparison(lines: list[list[str]], *, err: bool) -> None:
    from stowplan.bench.report import COMPARED
    from stowplan.cli._output import Column, table_lines

    click.echo(err=err)
    columns = [Column(title, right=number > 0) for number, title in enumerate(COMPARED)]
    for line in table_lines(columns, lines):
        click.echo(line, err=err)


def _list(known: list[Workload]) -> None:
    from stowplan.bench.goals import goal_named
    from stowplan.bench.start import names as starts
    from stowplan.cli._output import Column, print_table

    rows = []
    for workload in known:
        goal = goal_named(workload.full_name)
        params = " ".join(f"{name}={value}" for name, value in workload.params.items())
        labels = ",".join(sorted(workload.labels)) or "-"
        rows.append(
            [workload.full_name, labels, f"{goal.pods_per_s:,.0f}" if goal else "-", params]
        )
    rows += [[name, "-", "-", ""] for name in starts()]
    columns = [Column("WORKLOAD"), Column("LABELS"), Column("GOAL", right=True), Column("PARAMS")]
    print_table(columns, rows)
