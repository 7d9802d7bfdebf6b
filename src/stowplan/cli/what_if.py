"""`stowplan what-if`: who would move, wait or be placed, if this changed?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import click

from stowplan.cli._asking import Command, output_option, read_cluster, say_data, source_options
from stowplan.cli._output import say, working

WIDTH_MAX = 80

EXAMPLES = """\b
Examples:
  stowplan what-if -f cluster.json --add-nodes 3 --like node-a
  stowplan what-if -f cluster.json --drain node-b
  stowplan what-if -f cluster.json --scale deploy/web=20 --cordon node-a
  stowplan what-if -f cluster.json --taint node-a:team=ml:NoSchedule
  stowplan what-if -f cluster.json --set deploy/web:requests.cpu=2
  stowplan what-if -f cluster.json --apply new.yaml -o json
"""


def _many(name: str, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, multiple=True, metavar=metavar, help=text)


@click.command("what-if", epilog=EXAMPLES)
@source_options
@click.option("--add-nodes", type=click.IntRange(0), default=0, metavar="N", help="More nodes,")
@click.option("--like", metavar="NODE", default="", help="each like this one.")
@click.option("--node-file", metavar="FILE", help="More nodes, as manifests.")
@click.option("--apply", "apply_file", metavar="FILE", help="Apply these manifests.")
@_many("--taint", "NODE:KEY=VALUE:EFFECT", "Taint a node.")
@_many("--label", "NODE:KEY=VALUE", "Label a node; `KEY-` takes a label away.")
@_many("--cordon", "NODE", "Let no more pods onto a node.")
@_many("--scale", "KIND/NAME=N", "Another number of replicas, as `deploy/web=20`.")
@_many(
    "--set",
    "POD-OR-WORKLOAD:FIELD=VALUE",
    "As `deploy/web:requests.cpu=2`; also limits.NAME, nodeSelector.KEY, priorityClassName.",
)
@_many("--delete", "NAME", "Delete a pod, or KIND/NAME.")
@click.option("--new-config", metavar="FILE", help="Decide with this configuration afterwards.")
@_many("--remove", "NODE", "Take a node away, whatever is on it.")
@_many("--drain", "NODE", "Cordon a node and evict its pods; budgets are respected.")
@output_option
def what_if(
    output: str,
    node_file: str | None,
    apply_file: str | None,
    new_config: str | None,
    **rest: Any,
) -> None:
    """Show before and after: who moves, who is placed now, who becomes pending and why.

    Changes are made in the order they are listed in below, and then everything is decided.
    Nothing but a fork of the cluster is changed.

    Exit status: 0 when nobody becomes pending and every drain succeeds, 1 when not, 2 when the
    question is wrong.
    """
    words = ("add_nodes", "like", "taint", "label", "cordon", "scale", "set", "delete",
             "remove", "drain")  # fmt: skip
    changes = {name: rest.pop(name) for name in words}
    cluster = read_cluster(**rest, detail=False)
    with working("asking…"):
        answer = cluster.what_if(
            **changes, node_file=node_file, apply=apply_file, config=new_config
        )
    if output == "text":
        for line in answer.lines(min(shutil.get_terminal_size().columns, WIDTH_MAX)):
            say(line)
    else:
        say_data(answer.to_dict(), output)
    if not answer:
        click.get_current_context().exit(1)
