"""`stowplan tune`: search for weights on a trace, and try the best on what was held back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stowplan.cli._options import option
from stowplan.cli._output import Column, print_table, say
from stowplan.cli.simulate import ENDS, SEEDS, WORKERS, prices_of

EXAMPLES = """\b
Examples:
  stowplan tune openb -o tuned --nodes nodes.yaml --ends service
  stowplan tune openb -o tuned --trials 100 --seeds 3 --sweep sweep.yaml
  stowplan tune openb -o tuned --config sched.yaml --held-back 0.5
"""


@click.command(epilog=EXAMPLES)
@click.argument("trace", metavar="TRACE")
@option("-o --output folder FOLDER", "For the results.", required=True)
@option("--nodes FILE", "Nodes as manifests, instead of the trace's.")
@option("--config FILE", "The KubeSchedulerConfiguration to begin with.")
@option("--sweep FILE", "What to vary; default: all weights.")
@option("--plugin-path plugin_paths PATH...", "A file with your own plugins, or a folder of them.")
@option("--trials", "", 30, type=SEEDS)
@option("--held-back SHARE", "Of the pods, for the validation.", 0.3, type=float)
@option("--seed", "Of the search.", 0, type=int)
@option("--seeds", "Runs of each configuration, with seeds from 1 on.", 1, type=SEEDS)
@option("--ends", "When pods end, as for `simulate`.", "recorded", type=ENDS)
@option("--autoscaler FILE", "Pools of nodes that come when needed.")
@option("--price prices [POOL=]X...", "Per node and hour; makes the cost an end too.")
@option("--workers N", "Processes for the runs of one trial.", 1, type=WORKERS)
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
