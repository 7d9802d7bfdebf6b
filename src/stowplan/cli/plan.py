"""`stowplan plan`: how many more fit, which nodes to buy, which can go."""

from __future__ import annotations

from typing import Any

import click

from stowplan.cli._asking import read_cluster, say_answer
from stowplan.cli._options import option, output_option, source_options
from stowplan.cli._output import working

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
@source_options()
@option("--pod-file FILE", "Pods and workloads that are one mix together.")
@option("--pool-label KEY", "The label that names a node's pool.", "")
@option("--limit N", "Count no further.", 10_000, type=click.IntRange(1, 1_000_000))
@option("--at-least N", "Exit with 1 when fewer fit.", 1, type=click.IntRange(0))
@output_option()
def capacity(pods: tuple[str, ...], output: str, **options: Any) -> None:
    """Say how many more replicas of a pod, a workload or a whole mix fit, and what runs out first.

    Each is placed by the scheduler, beside whatever is there; what waits is placed first, and
    nobody is evicted.  With several names, or `=N`, whole mixes are counted.

    Exit status: 0 when one more fits (or as many as `--at-least` says), 1 when not, 2 when the
    question is wrong.
    """
    names = ("pod_file", "pool_label", "limit", "at_least")
    asked = {name: options.pop(name) for name in names}
    cluster = read_cluster(**options, detail=False)
    with working("placing…") as tell:
        answer = cluster.plan("capacity", pods, **asked, tell=tell)
    say_answer(answer, output)


@plan.command("nodes", epilog=NODES_EXAMPLES)
@source_options()
@option("--types FILE", "Types of nodes, with prices.", required=True)
@output_option()
def nodes(types: str, output: str, **source: Any) -> None:
    """Find the cheapest nodes with which every pending pod has a place.

    The set was tried: the scheduler placed every pod.  Beside it stands what any set would cost at
    least, from an integer programme (HiGHS, in the extra `plan`).

    Exit status: 0 when all pods have a place then, 1 when not, 2 when the question is wrong.
    """
    cluster = read_cluster(**source, detail=False)
    with working("trying…") as tell:
        answer = cluster.plan("nodes", types, tell=tell)
    say_answer(answer, output)


@plan.command("consolidate", epilog=CONSOLIDATE_EXAMPLES)
@source_options()
@option("--types FILE", "Prices of nodes, by their instance type.")
@option("--keep NODE...", "A node that stays; may be repeated.")
@output_option()
def consolidate(types: str | None, keep: tuple[str, ...], output: str, **source: Any) -> None:
    """Find nodes that can go, as an ordered list of drains.

    Each was done on a fork: every evicted pod has a new place, nobody else lost one, and budgets
    are respected.  Beside it stands how few nodes could hold everything at best.

    Exit status: 0 when a node can go, 1 when none can, 2 when the question is wrong.
    """
    cluster = read_cluster(**source, detail=False)
    with working("draining…") as tell:
        answer = cluster.plan("consolidate", types=types, keep=keep, tell=tell)
    say_answer(answer, output)
