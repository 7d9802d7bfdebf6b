"""`stowplan up`: a whole cluster in one process, with the Kubernetes API in front of it."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path

import click

LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="Where the API listens; 0 takes any free port.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=0, max=100_000),
    metavar="N",
    help="Simulated nodes: node-1 to node-N.  [default: 3 in a new cluster; none with --bare]",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0, max=128),
    default=0,
    metavar="N",
    help="Simulated GPUs on each of these nodes, to be claimed; a driver publishes them.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the cluster in this folder; the next start goes on from there.",
)
@click.option(
    "--salvage",
    is_flag=True,
    help="If the data is damaged, set it aside and go on with what is intact.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="CONFIG",
    help="KubeSchedulerConfiguration for the scheduler.",
)
@click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates of the scheduler and the API, e.g. GenericWorkload=true; may be repeated.",
)
@click.option(
    "--nodes-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Nodes to simulate, as manifests: their sizes, labels and taints, and how many GPUs they "
    "have (annotation stowplan/gpus); the rest is filled in.",
)
@click.option(
    "--plugin-path",
    "plugin_paths",
    multiple=True,
    metavar="PATH",
    help="A file or folder with plugins of your own for the scheduler; may be repeated.",
)
@click.option("--no-scheduler", is_flag=True, help="Another process schedules.")
@click.option("--bare", is_flag=True, help="The API alone: no scheduler, controllers or kubelet.")
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a kubeconfig that points to this cluster.",
)
@click.option(
    "--bind",
    default=LOOPBACK,
    metavar="ADDR",
    show_default=True,
    help="The address to listen on; others than loopback need --token-file.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Let in only who knows a token of this file, and serve HTTPS; one token per line.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page, /ui/, in your browser.")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Show every change of pods, nodes and workloads as it happens.",
)
def up(
    port: int,
    nodes: int | None,
    gpus: int,
    data: Path | None,
    salvage: bool,
    config: Path | None,
    feature_gates: tuple[str, ...],
    nodes_file: Path | None,
    plugin_paths: tuple[str, ...],
    no_scheduler: bool,
    bare: bool,
    write_kubeconfig: Path | None,
    bind: str,
    token_file: Path | None,
    opens: bool,
    verbose: int,
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
    for flag, given in (("--config", config is not None), ("--plugin-path", bool(plugin_paths))):
        if given and (no_scheduler or bare):
            without = "--bare" if bare else "--no-scheduler"
            raise click.UsageError(f"{flag} is for the scheduler, which {without} leaves out")
    if gpus and bare:
        raise click.UsageError("--gpus needs somebody who publishes them, whom --bare leaves out")
    if salvage and data is None:
        raise click.UsageError("--salvage is for data that is kept: it needs --data")
    if token_file is None and not _is_loopback(bind):
        raise click.UsageError(f"--bind {bind} lets others in: it needs --token-file")
    from stowplan.apiserver.http.auth import read_tokens
    from stowplan.cli._up_serve import Settings, serve
    from stowplan.config import parse_feature_gates

    settings = Settings(
        config=config,
        gates=parse_feature_gates(feature_gates),
        schedules=not (no_scheduler or bare),
        workers=not bare,
        host=bind,
        port=port,
        nodes=nodes,
        gpus=gpus,
        nodes_file=nodes_file,
        plugin_paths=plugin_paths,
        verbose=bool(verbose),
        data=data,
        salvage=salvage,
        kubeconfig=write_kubeconfig,
        opens=opens,
        users_by_token={} if token_file is None else read_tokens(token_file),
    )
    asyncio.run(serve(settings))


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
