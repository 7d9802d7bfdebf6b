"""`stowplan why`: why has this pod no node, and what would help?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.cli._asking import read_cluster, say_answer
from stowplan.cli._options import option, output_option, source_options
from stowplan.cli._output import note, working

if TYPE_CHECKING:
    from stowplan.answers import Why

EXAMPLES = """\b
Examples:
  stowplan why web-1 -f cluster.json
  stowplan why default/web-1 -f cluster.yaml -o json
  stowplan why web-1 -f cluster.yaml --write-fix fix/
  stowplan why web-1 -f cluster.yaml --node node-7
  stowplan why -f cluster.json
  stowplan why default/web-1 --kubeconfig ~/.kube/config
"""


@click.command("why", epilog=EXAMPLES)
@click.argument("pod", required=False, default="")
@source_options()
@option("--node NAME", "Of a pod with a node: why not this one?")
@option("--fixes N", "How many ways out to look for.", 5, type=click.IntRange(0, 20))
@option("--write-fix folder DIR", "Write the manifests of the best fix into this folder.")
@output_option()
def why(
    pod: str, node: str | None, fixes: int, folder: str | None, output: str, **source: Any
) -> None:
    """Say why a pod has no node, with names and amounts, and what would help.

    Every fix was tried on a fork of the cluster: with it the pod has a node.  The first is the one
    that changes least.  Without a pod: all pending pods, grouped by cause.

    Exit status: 0 when the pod has a node (without a pod: all have one), 1 when not, 2 when the
    question is wrong.
    """
    cluster = read_cluster(**source)
    with working("asking…") as tell:
        answer = cluster.why(pod, fixes=fixes, node=node or "", tell=tell)
    if folder is not None:
        _write(answer, Path(folder))
    say_answer(answer, output)


def _write(answer: Why, folder: Path) -> None:
    """What the best fix changes and creates, a file each; what it deletes is said."""
    import yaml

    from stowplan.errors import InputError

    fixes = getattr(answer, "fixes", [])
    if not fixes:
        raise InputError("there is no fix to write", where=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    fix = fixes[0]
    for data in (*fix.manifests, *fix.create):
        name = f"{data['kind'].lower()}-{data['metadata']['name']}.yaml".replace("/", "-")
        path = folder / name
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        note(f"written: {path}")
    for gone in fix.delete:
        note(f"delete by hand: {gone['kind']} {gone.get('namespace', '')}/{gone['name']}")
