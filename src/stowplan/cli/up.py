"""`stowplan up`: a whole cluster in one process, with the Kubernetes API in front of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from stowplan.cli._options import FILE, PATH, PORT, option
from stowplan.objects.names import is_loopback

LOOPBACK = "127.0.0.1"


@click.command()
@option("--port", "Where the API listens; 0 takes any free port.", 8001, type=PORT)
@option(
    "--nodes N",
    "Simulated nodes: node-1 to node-N.  [default: 3 in a new cluster; none with --bare]",
    type=click.IntRange(min=0, max=100_000),
)
@option(
    "--gpus N",
    "Simulated GPUs on each of these nodes, to be claimed; a driver publishes them.",
    default=0,
    type=click.IntRange(min=0, max=128),
)
@option(
    "--data DIR", "Keep the cluster in this folder; the next start goes on from there.", type=PATH
)
@option("--salvage", "If the data is damaged, set it aside and go on with what is intact.")
@option("--config CONFIG", "KubeSchedulerConfiguration for the scheduler.", type=PATH)
@option(
    "--feature-gates",
    "Feature gates of the scheduler and the API, e.g. GenericWorkload=true; may be repeated.",
    multiple=True,
    metavar="NAME=BOOL,...",
    type=str,
)
@option(
    "--nodes-file FILE",
    "Nodes to simulate, as manifests: their sizes, labels and taints, and how many GPUs they "
    "have (annotation stowplan/gpus); the rest is filled in.",
    type=FILE,
)
@option(
    "--plugin-path plugin_paths PATH...",
    "A file or folder with plugins of your own for the scheduler; may be repeated.",
)
@option("--no-scheduler", "Another process schedules.")
@option("--bare", "The API alone: no scheduler, controllers or kubelet.")
@option(
    "--write-kubeconfig FILE",
    "Write a kubeconfig that points to this cluster.",
    type=FILE,
)
@option(
    "--bind host ADDR",
    "The address to listen on; others than loopback need --token-file.",
    LOOPBACK,
)
@option(
    "--token-file FILE",
    "Let in only who knows a token of this file, and serve HTTPS; one token per line.",
    type=FILE,
)
@option(
    "--server-name server_names NAME...",
    "Another name or address under which browsers and clients reach it; may be repeated.",
)
@option("--open opens", "Open the page, /ui/, in your browser.")
@option("-v --verbose", "Show every change of pods, nodes and workloads as it happens.", count=True)
def up(
    feature_gates: tuple[str, ...],
    no_scheduler: bool,
    bare: bool,
    token_file: Path | None,
    **settings: Any,
) -> None:
    """Start a cluster in this process, and serve the Kubernetes API for kubectl.

    Nodes are simulated: bound pods become Running, the pods of a Job finish after a second, and
    deleted pods go.  Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs make their pods.
    Without --data all of it is gone when the process ends.  The page at /ui/ shows the cluster,
    its queue and every decision.

    \b
    Examples:
      stowplan up
      kubectl --server http://127.0.0.1:8001 get nodes
    \b
      stowplan up --nodes 100 --data ./cluster --write-kubeconfig ./kubeconfig
      stowplan up --nodes 8 --gpus 8
      stowplan up --nodes 50 --open
      stowplan up --feature-gates GenericWorkload=true,GangScheduling=true
      stowplan up --no-scheduler      and in another terminal: stowplan run
      openssl rand -hex 32 > tokens && stowplan up --bind 0.0.0.0 --token-file tokens
    """
    for flag, name in (("--config", "config"), ("--plugin-path", "plugin_paths")):
        if settings[name] and (no_scheduler or bare):
            without = "--bare" if bare else "--no-scheduler"
            raise click.UsageError(f"{flag} is for the scheduler, which {without} leaves out")
    if settings["gpus"] and bare:
        raise click.UsageError("--gpus needs somebody who publishes them, whom --bare leaves out")
    if settings["salvage"] and settings["data"] is None:
        raise click.UsageError("--salvage is for data that is kept: it needs --data")
    if token_file is None and not is_loopback(settings["host"]):
        raise click.UsageError(f"--bind {settings['host']} lets others in: it needs --token-file")
    from stowplan.apiserver.http.auth import read_tokens
    from stowplan.cli._up_serve import Settings, serve
    from stowplan.config import parse_feature_gates

    made = Settings(
        gates=parse_feature_gates(feature_gates),
        schedules=not (no_scheduler or bare),
        workers=not bare,
        users_by_token={} if token_file is None else read_tokens(token_file),
        **settings,
    )
    asyncio.run(serve(made))
