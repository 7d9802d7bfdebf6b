"""`stowplan snapshot`: all that scheduling reads of a cluster, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stowplan.cli._asking import read_cluster
from stowplan.cli._options import option, source_options
from stowplan.cli._output import count_of, note, working

EXAMPLES = """\b
Examples:
  stowplan snapshot -o cluster.json --kubeconfig ~/.kube/config
  stowplan snapshot -o bug.json --anonymise --context prod
  stowplan snapshot -o bug.json --anonymise -f dump/ --config sched.yaml
  stowplan why -f bug.json
"""


@click.command("snapshot", epilog=EXAMPLES)
@source_options()
@option("-o --output path FILE", "Where to write it, as JSON.", required=True)
@option(
    "--anonymise",
    "Put stand-ins for names, labels, images and annotations; decisions stay the same.",
)
def snapshot(path: str, anonymise: bool, **source: Any) -> None:
    """Save all that scheduling reads: for a bug report, or to ask again later.

    `-f` of every command takes the file.  What containers run, their environment and secrets are
    not in it.  With --anonymise, names of schedulers and the words of --config stay, since
    decisions depend on them.
    """
    from stowplan.world.snapshot import take_snapshot

    cluster = read_cluster(**source, detail=False)
    keep = (Path(source["config"]).read_text(),) if source["config"] else ()
    with working("writing…"):
        made = take_snapshot(cluster, anonymised=anonymise, keep=keep)
        made.write(path)
    for text in made.kept:
        note(f"left as they are: {text}")
    note(f"written: {path}, {count_of(len(made.objects), 'object')}")
