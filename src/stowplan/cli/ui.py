"""`stowplan ui`: the page that shows a cluster, its queue and every decision."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from stowplan.cli._options import PORT, option, source_options

LOOPBACK = "127.0.0.1"

EXAMPLES = """\b
Examples:
  stowplan ui --demo
  stowplan ui -f cluster.json
  stowplan ui -f cluster.yaml --port 0 --open
  kubectl get nodes,pods -A -o json | stowplan ui -f -
  stowplan ui --kubeconfig ~/.kube/config
  stowplan ui results
"""


@click.command(epilog=EXAMPLES)
@click.argument("result", metavar="[RESULT]", required=False)
@source_options()
@option("--port", "Where the page listens; 0 takes any free port.", 8002, type=PORT)
@option(
    "--bind ADDR",
    "The address to listen on; others than loopback serve HTTPS and ask for a key.",
    LOOPBACK,
)
@option(
    "--server-name server_names NAME...",
    "Another name or address under which browsers reach the page; may be repeated.",
)
@option("--demo", "The cluster of `stowplan demo`.")
@option("--open opens", "Open it in your browser.")
def ui(port: int, bind: str, server_names: tuple[str, ...], opens: bool, **source: Any) -> None:
    """Show a cluster in the browser: the map, the queue, every decision, and what if.

    With -f a dump or manifests; what is pending there is decided here.  With --kubeconfig a live
    cluster, which is watched and never written to: beside what its own scheduler decides stands
    what Stowplan would, as a second opinion.  Nothing but forks is ever changed.

    RESULT, a folder that `stowplan simulate -o` wrote, is played: every node at every moment, the
    series, two runs side by side.
    """
    from stowplan.cli._ui_serve import serve, source_of

    shown = source_of(**source)
    asyncio.run(serve(shown, bind, port, more_names=server_names, opens=opens))
