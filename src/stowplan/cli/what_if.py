"""`stowplan what-if`: who would move, wait or be placed, if this changed?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from stowplan.cli._asking import (
    Command,
    output_option,
    read_cluster,
    say_data,
    source_options,
    split_files,
)
from stowplan.cli._output import say, working
from stowplan.errors import InputError

WIDTH_MAX = 80

EXAMPLES = """\b
Examples:
  stowplan what-if -f cluster.json --add-nodes 3 --like node-a
  stowplan what-if -f cluster.json --drain node-b
  stowplan what-if -f cluster.json --scale deploy/web=20 --cordon node-a
  stowplan what-if -f cluster.json --taint node-a:team=ml:NoSchedule
  stowplan what-if -f cluster.json --set deploy/web:requests.cpu=2
  stowplan what-if -f cluster.json -f new.yaml -o json
  stowplan what-if -f cluster.json --config new-scheduler.yaml
"""


def _many(name: str, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, multiple=True, metavar=metavar, help=text)


@click.command("what-if", epilog=EXAMPLES)
@partial(
    source_options,
    two_configs="Given twice: before and after; alone, without any other change: after.",
)
@click.option("--add-nodes", type=click.IntRange(0), default=0, metavar="N", help="More nodes,")
@click.option("--like", metavar="NODE", default="", help="each like this one.")
@click.option("--node-file", metavar="FILE", help="More nodes, as manifests.")
@click.option(
    "--apply", "apply_files", multiple=True, metavar="FILE", help="Apply these manifests."
)
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
    apply_files: tuple[str, ...],
    new_config: str | None,
    configs: tuple[str, ...],
    filenames: tuple[str, ...],
    **rest: Any,
) -> None:
    """Show before and after: who moves, who is placed now, who becomes pending and why.

    Changes are made in the order they are listed in below, and then everything is decided.
    Nothing but a fork of the cluster is changed.  Manifests given with `-f` beside a live cluster,
    or after a file with nodes, are applied, as those of `--apply` are.

    Exit status: 0 when nobody becomes pending and every drain succeeds, 1 when not, 2 when the
    question is wrong.
    """
    words = ("add_nodes", "like", "taint", "label", "cordon", "scale", "set", "delete",
             "remove", "drain")  # fmt: skip
    changes = {name: rest.pop(name) for name in words}
    is_live = rest["kubeconfig"] is not None or rest["context"] is not None
    source, given = ((), filenames) if is_live else split_files(filenames)
    applied = [*given, *apply_files]
    is_other = bool(applied or node_file or new_config or any(changes.values()))
    before, after = _configs(configs, new_config, is_other)
    cluster = read_cluster(source, config=before, **rest, detail=False, new_files=applied)
    with working("asking…"):
        answer = cluster.what_if(
            **changes, node_file=node_file, apply=applied or None, config=after
        )
    if output == "text":
        for line in answer.lines(min(shutil.get_terminal_size().columns, WIDTH_MAX)):
            say(line)
    else:
        say_data(answer.to_dict(), output)
    if not answer:
        click.get_current_context().exit(1)


def _configs(
    configs: tuple[str, ...], new_config: str | None, is_other: bool
) -> tuple[str | None, str | None]:
    """Before and after.  One alone is the change where nothing else is, or else holds for both."""
    if len(configs) > 2 or (len(configs) == 2 and new_config):
        raise InputError("more than two configurations", hint="one is for before, one for after")
    if len(configs) == 2:
        return configs[0], configs[1]
    if configs and not is_other:
        return None, configs[0]
    return (configs[0] if configs else None), new_config
