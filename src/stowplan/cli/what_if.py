"""`stowplan what-if`: who would move, wait or be placed, if this changed?"""

from __future__ import annotations

from typing import Any

import click

from stowplan.cli._asking import read_cluster, say_answer, split_files
from stowplan.cli._options import option, output_option, source_options
from stowplan.cli._output import working
from stowplan.errors import InputError

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


@click.command("what-if", epilog=EXAMPLES)
@source_options("Given twice: before and after; alone, without any other change: after.")
@option("--add-nodes N", "More nodes,", type=click.IntRange(0), default=0)
@option("--like NODE", "each like this one.", "")
@option("--node-file FILE", "More nodes, as manifests.")
@option("--apply apply_files FILE...", "Apply these manifests.")
@option(
    "--replace replace_files FILE...",
    "Put these manifests in the place of what is there, even where an API server would refuse it.",
)
@option("--taint NODE:KEY=VALUE:EFFECT...", "Taint a node.")
@option("--label NODE:KEY=VALUE...", "Label a node; `KEY-` takes a label away.")
@option("--cordon NODE...", "Let no more pods onto a node.")
@option("--scale KIND/NAME=N...", "Another number of replicas, as `deploy/web=20`.")
@option(
    "--set POD-OR-WORKLOAD:FIELD=VALUE...",
    "As `deploy/web:requests.cpu=2`; also limits.NAME, nodeSelector.KEY, priorityClassName.",
)
@option("--delete NAME...", "Delete a pod, or KIND/NAME.")
@option("--new-config FILE", "Decide with this configuration afterwards.")
@option("--remove NODE...", "Take a node away, whatever is on it.")
@option("--drain NODE...", "Cordon a node and evict its pods; budgets are respected.")
@output_option()
def what_if(
    output: str,
    node_file: str | None,
    apply_files: tuple[str, ...],
    replace_files: tuple[str, ...],
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
    is_other = bool(applied or replace_files or node_file or new_config or any(changes.values()))
    before, after = _configs(configs, new_config, is_other)
    new_files = [*applied, *replace_files]
    cluster = read_cluster(source, config=before, **rest, detail=False, new_files=new_files)
    with working("asking…") as tell:
        answer = cluster.what_if(
            **changes,
            node_file=node_file,
            apply=applied or None,
            replace=[*replace_files] or None,
            config=after,
            tell=tell,
        )
    say_answer(answer, output)


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
