"""`stowplan plan`: how many more fit, which nodes to buy, which can go."""

from __future__ import annotations

import shutil
from typing import Any

import click

from stowplan.cli._asking import output_option, read_cluster, say_data, source_options
from stowplan.cli._output import say, working

WIDTH_MAX = 80

EXAMPLES = """\b
Examples:
  stowplan plan capacity deploy/web -f cluster.json
  stowplan plan nodes -f cluster.json --types prices.yaml
  stowplan plan consolidate -f cluster.json
"""

CAPACITY_EXAMPLES = """\b
Examples:
  stowplan plan capacity deploy/web -f cluster.json
  stowplan plan capacity deploy/web=3 deploy/db=1 -f cluster.json
  stowplan plan capacity --pod-file new.yaml -f cluster.json --pool-label team
  stowplan plan capacity deploy/web -f cluster.json --at-least 50
"""

NODES_EXAMPLES = """\b
Examples:
  stowplan plan nodes -f cluster.json --types prices.yaml
  stowplan plan nodes --kubeconfig ~/.kube/config --types prices.yaml -o json
"""

CONSOLIDATE_EXAMPLES = """\b
Examples:
  stowplan plan consolidate -f cluster.json
  stowplan plan consolidate -f cluster.json --types prices.yaml --keep node-a
"""


@click.group("plan", epilog=EXAMPLES)
def plan() -> None:
    """Count how many more pods fit, find nodes to buy, or nodes that can go.

    Whatever is said was done by the scheduler, on a fork of the cluster.
    """


@plan.command("capacity", epilog=CAPACITY_EXAMPLES)
@click.argument("pods", nargs=-1, metavar="[POD|KIND/NAME][=N]...")
@source_options
@click.option("--pod-file", metavar="FILE", help="Pods and workloads that are one mix together.")
@click.option("--pool-label", metavar="KEY", default="", help="The label that names a node's pool.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Count no further.",
)
@click.option(
    "--at-least",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="Exit with 1 when fewer fit.",
)
@output_option
def capacity(
    pods: tuple[str, ...],
    pod_file: str | None,
    pool_label: str,
    limit: int,
    at_least: int,
    output: str,
    **source: Any,
) -> None:
    """Say how many more replicas of a pod, a workload or a whole mix fit, and what runs out first.

    Each is placed by the scheduler, beside whatever is there; what waits is placed first, and
    nobody is evicted.  With several names, or `=N`, whole mixes are counted.

    Exit status: 0 when one more fits (or as many as `--at-least` says), 1 when not, 2 when the
    question is wrong.
    """
    cluster = read_cluster(**source, detail=False)
    with working("placing…"):
        answer = cluster.plan(
            "capacity",
            pods,
            pod_file=pod_file,
            pool_label=pool_label,
            limit=limit,
            at_least=at_least,
        )
    _show(answer, output)


@plan.command("nodes", epilog=NODES_EXAMPLES)
@source_options
@click.option("--types", metavar="FILE", required=True, help="Types of nodes, with prices.")
@output_option
def nodes(types: str, output: str, **source: Any) -> None:
    """Find the cheapest nodes with which every pending pod has a place.

    The set was tried: the scheduler placed every pod.  Beside it stands what any set would cost at
    least, from an integer programme (HiGHS, in the extra `plan`).

    Exit status: 0 when all pods have a place then, 1 when not, 2 when the question is wrong.
    """
    cluster = read_cluster(**source, detail=False)
    with working("trying…"):
        answer = cluster.plan("nodes", types)
    _show(answer, output)


@plan.command("consolidate", epilog=CONSOLIDATE_EXAMPLES)
@source_options
@click.option("--types", metavar="FILE", help="Prices of nodes, by their instance type.")
@click.option("--keep", multiple=True, metavar="NODE", help="A node that stays; may be repeated.")
@output_option
def consolidate(types: str | None, keep: tuple[str, ...], output: str, **source: Any) -> None:
    """Find nodes that can go, as an ordered list of drains.

    Each was done on a fork: every evicted pod has a new place, nobody else lost one, and budgets
    are respected.  Beside it stands how few nodes could hold everything at best.

    Exit status: 0 when a node can go, 1 when none can, 2 when the question is wrong.
    """
    cluster = read_cluster(**source, detail=False)
    with working("draining…") as tell:
        answer = cluster.plan("consolidate", types=types, keep=keep, tell=tell)
    _show(answer, output)


def _show(answer: Any, output: str) -> None:
    if output == "text":
        for line in answer.lines(min(shutil.get_terminal_size().columns, WIDTH_MAX)):
            say(line)
    else:
        say_data(answer.to_dict(), output)
    if not answer:
        click.get_current_context().exit(1)
