"""`stowplan tune`: search for weights on a trace, and try the best on what was held back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stowplan.cli._output import Column, print_table, say
from stowplan.cli.simulate import prices_of

EXAMPLES = """\b
Examples:
  stowplan tune openb -o tuned --nodes nodes.yaml --ends service
  stowplan tune openb -o tuned --trials 100 --seeds 3 --sweep sweep.yaml
  stowplan tune openb -o tuned --config sched.yaml --held-back 0.5
"""


@click.command(epilog=EXAMPLES)
@click.argument("trace", metavar="TRACE")
@click.option("-o", "--output", "folder", required=True, metavar="FOLDER", help="For the results.")
@click.option("--nodes", metavar="FILE", help="Nodes as manifests, instead of the trace's.")
@click.option("--config", metavar="FILE", help="The KubeSchedulerConfiguration to begin with.")
@click.option("--sweep", metavar="FILE", help="What to vary; default: all weights.")
@click.option("--plugin-path", "plugin_paths", multiple=True, metavar="PATH",
              help="A file with your own plugins, or a folder of them.")  # fmt: skip
@click.option("--trials", type=click.IntRange(1, 10_000), default=30, show_default=True)
@click.option("--held-back", type=float, default=0.3, metavar="SHARE", show_default=True,
              help="Of the pods, for the validation.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the search.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="Runs of each configuration, with seeds from 1 on.")  # fmt: skip
@click.option("--ends", type=click.Choice(["recorded", "service"]), default="recorded",
              show_default=True, help="When pods end, as for `simulate`.")  # fmt: skip
@click.option("--autoscaler", metavar="FILE", help="Pools of nodes that come when needed.")
@click.option("--price", "prices", multiple=True, metavar="[POOL=]X",
              help="Per node and hour; makes the cost an end too.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 1024), default=1, metavar="N",
              help="Processes for the runs of one trial.")  # fmt: skip
def tune(trace: str, folder: str, prices: tuple[str, ...], **options: Any) -> None:
    """Search for weights that use the cluster well, let pods wait little, and cost little.

    Exit status: 0 when it is done, 2 when the input is wrong.
    """
    from stowplan.sim.svg import number
    from stowplan.sim.tune import tune as search

    given = {name: value for name, value in options.items() if value is not None}
    tuning = search(trace, prices=prices_of(prices), **given)
    tuning.write(folder)
    names = list(tuning.trials[0].ends)
    rows = [
        [
            "chosen" if at == tuning.chosen else "",
            *(number(tuning.trials[at].ends[name]) for name in names),
            ",".join(f"{key}={value}" for key, value in tuning.trials[at].values.items()) or "-",
        ]
        for at in tuning.front
    ]
    titles = ["", *names, "varied"]
    print_table([Column(t, right=0 < n <= len(names)) for n, t in enumerate(titles)], rows)
    say(f"configuration: {Path(folder) / 'chosen.yaml'}")
    say(f"on what was held back: {Path(folder) / 'validation' / 'report.html'}")
