"""`stowplan compare`: the same cluster under two configurations or seeds."""

from __future__ import annotations

from typing import Any

import click

from stowplan.cli._asking import read_cluster, say_answer
from stowplan.cli._options import option, output_option, source_options
from stowplan.cli._output import working
from stowplan.errors import InputError

EXAMPLES = """\b
Examples:
  stowplan compare -f cluster.json --config now.yaml --config new.yaml
  stowplan compare -f cluster.json --config new.yaml --anew --seeds 5
  stowplan compare -f cluster.json --seed 1 --new-seed 2
  stowplan compare -f cluster.json --config new.yaml --fail-if 'pending > base'
"""


@click.command("compare", epilog=EXAMPLES)
@source_options("Given once: beside the default one; twice: the base, and the other one.")
@option("--new-seed N", "Another seed for the other one.", type=int)
@option(
    "--seeds N",
    "Run so many seeds, from --seed on, and give intervals.",
    default=1,
    type=click.IntRange(1, 100),
)
@option("--anew", "Decide pods that run again, as if they were new.")
@option(
    "--fail-if CONDITION...",
    "Exit with 1 when it holds for the other one, as `pending > base`; may be repeated.",
)
@output_option()
def compare(
    configs: tuple[str, ...],
    new_seed: int | None,
    seeds: int,
    anew: bool,
    fail_if: tuple[str, ...],
    output: str,
    seed: int,
    **source: Any,
) -> None:
    """Decide everything twice, and show what is different and which plugin tipped it.

    Measures: placed, pending, preemptions, nodes, fill.cpu, fill.memory, fragmentation.cpu,
    fragmentation.memory, imbalance, spread.nodes, spread.zones.  A condition is a measure, one of
    > >= < <= == !=, and a value of numbers, `base`, + - * / and parentheses.

    Exit status: 0; 1 when a condition of `--fail-if` holds; 2 when the question is wrong.
    """
    if len(configs) > 2:
        raise InputError(f"{len(configs)} configurations", hint="two are compared")
    if not configs and new_seed is None:
        hint = "give `--config` for another configuration, or `--new-seed` for another seed"
        raise InputError("compare with what?", hint=hint)
    base = configs[0] if len(configs) == 2 else None
    cluster = read_cluster(**source, seed=seed, config=base)
    other = configs[-1] if configs else None
    with working("comparing…") as tell:
        answer = cluster.compare(
            other,
            seed=seed,
            new_seed=new_seed,
            seeds=seeds,
            anew=anew,
            fail_if=fail_if,
            tell=tell,
        )
    say_answer(answer, output)
