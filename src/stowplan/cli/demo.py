"""`stowplan demo`: a busy cluster in one process, scheduled before your eyes."""

from __future__ import annotations

import click

from stowplan.cli._options import option


@click.command()
@option("--nodes", "Nodes, in three zones.", 300)
@option("--pods", "Pods of mixed kinds.", 3000)
@option("--seed", "The same seed, the same story.", 1)
def demo(nodes: int, pods: int, seed: int) -> None:
    """Schedule a few thousand pods of every kind on an embedded cluster.

    Plain pods, spread ones, pods that want to be together or apart, urgent pods that preempt
    others, and some that fit nowhere.  Shows progress, then a summary: how fast, how full, who is
    pending and exactly why, who was preempted by whom.

    \b
    Examples:
      stowplan demo
      stowplan demo --nodes 1000 --pods 10000 --seed 7
    """
    from stowplan.cli._demo_run import run, show

    if nodes < 30 or pods < 100:
        raise click.UsageError("the story needs at least --nodes 30 and --pods 100")
    show(run(nodes, pods, seed, "real"))
