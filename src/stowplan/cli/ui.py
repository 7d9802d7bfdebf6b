"""`stowplan ui`: the page that shows a cluster, its queue and every decision."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from stowplan.cli._asking import source_options

LOOPBACK = "127.0.0.1"

EXAMPLES = """\b
Examples:
  stowplan ui --demo
  stowplan ui -f cluster.json
  stowplan ui -f cluster.yaml --port 0 --open
  kubectl get nodes,pods -A -o json | stowplan ui -f -
  stowplan ui --kubeconfig ~/.kube/config --every 30
  stowplan ui results
"""


@click.command(epilog=EXAMPLES)
@click.argument("result", metavar="[RESULT]", required=False)
@source_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8002,
    show_default=True,
    help="Where the page listens; 0 takes any free port.",
)
@click.option(
    "--bind",
    default=LOOPBACK,
    metavar="ADDR",
    show_default=True,
    help="The address to listen on; others than loopback serve HTTPS and ask for a key.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often a live cluster is read anew.",
)
@click.option("--demo", is_flag=True, help="The cluster of `stowplan demo`.")
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
def ui(port: int, bind: str, opens: bool, **source: Any) -> None:
    """Show a cluster in the browser: the map, the queue, every decision, and what if.

    With -f a dump or manifests; what is pending there is decided here.  With --kubeconfig a live
    cluster, which is only read: its pods are listed at intervals, and what waits there is decided
    on a copy, as a second opinion.  Nothing but forks is ever changed.

    RESULT, a folder that `stowplan simulate -o` wrote, is played: every node at every moment, the
    series, two runs side by side.
    """
    from stowplan.cli._ui_serve import serve, source_of

    asyncio.run(serve(source_of(**source), bind, port, opens=opens))
