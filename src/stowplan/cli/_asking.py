"""What the commands that ask of a cluster have in common: where it comes from, and their options.

Manifests, dumps and standard input, or a copy of a live cluster; the same words for all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stowplan.cli._output import note, say_json, working
from stowplan.errors import InputError

if TYPE_CHECKING:
    from stowplan.objects.manifests import Manifest
    from stowplan.world.cluster import Cluster

Command = TypeVar("Command", bound=Callable[..., Any])

OUTPUTS = ("text", "json", "yaml")


gates_option = click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates of the scheduler, e.g. GenericWorkload=true; may be repeated.  Without it, "
    "files with PodGroups are read with the gates that these need.",
)


def source_options(command: Command, *, two_configs: str = "") -> Command:
    """Where the cluster comes from, and how it decides; `two_configs` says what a second one is."""
    config = "A KubeSchedulerConfiguration."
    for option in reversed(
        (
            click.option(
                "-f",
                "--filename",
                "filenames",
                multiple=True,
                metavar="FILE",
                help="Manifests or dumps, JSON or YAML; a folder; `-` for standard input.  "
                "May be repeated.",
            ),
            click.option(
                "--kubeconfig",
                metavar="FILE",
                help="Ask a live cluster instead; it is only read.",
            ),
            click.option("--context", metavar="NAME", help="Which cluster of the kubeconfig."),
            click.option(
                "--config",
                "configs",
                metavar="FILE",
                multiple=True,
                help=f"{config}  {two_configs}",
            )
            if two_configs
            else click.option("--config", metavar="FILE", help=config),
            click.option(
                "--plugin-path",
                "plugin_paths",
                multiple=True,
                metavar="PATH",
                help="A file with your own plugins, or a folder of them; may be repeated.",
            ),
            gates_option,
            click.option(
                "--seed",
                type=int,
                metavar="N",
                default=0,
                show_default=True,
                help="Decides between equally good nodes.",
            ),
        )
    ):
        command = option(command)
    return command


def output_option(command: Command) -> Command:
    made: Command = click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="text", show_default=True
    )(command)
    return made


def read_cluster(
    filenames: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugin_paths: tuple[str, ...],
    seed: int,
    feature_gates: tuple[str, ...] = (),
    *,
    detail: bool = True,
    new_files: Sequence[str] = (),
) -> Cluster:
    """The cluster that is asked about; what makes answers less than they seem is noted.

    `new_files` will be applied to it: groups in them count as those of the cluster.
    """
    from stowplan.runtime.plugins_path import load_registry
    from stowplan.world.cluster import Cluster
    from stowplan.world.reading import STDIN, read_files
    from stowplan.world.setup import Options, make_setup

    live = kubeconfig is not None or context is not None
    if live and filenames:
        raise InputError("files and a live cluster", hint="give `-f` or `--kubeconfig`, not both")
    registry = load_registry(plugin_paths)
    with working("reading…"):
        manifests = [] if live else read_files(filenames)
        files = [name for name in new_files if name != STDIN]
        new = read_files(files) if files else []
        gates = gates_for([*manifests, *new], feature_gates)
        options: Options = {"seed": seed, "detail": detail, "feature_gates": gates}
        setup = make_setup(config, options, registry=registry)
        if live:
            cluster = Cluster.of_live(setup, kubeconfig or "", context)
        else:
            cluster = Cluster.of_manifests(setup, manifests)
    # It stays till the end: nobody need look for garbage in it.
    gc.freeze()
    for remark in cluster.remarks():
        note(remark.text, hint=remark.hint)
    return cluster


def gates_for(manifests: Sequence[Manifest], flags: tuple[str, ...]) -> Mapping[str, bool]:
    """What `--feature-gates` says; nothing said, what the groups in the input need, with a note."""
    from stowplan.config import parse_feature_gates
    from stowplan.world.implied_gates import implied_gates, remark_on_gates

    if flags:
        return parse_feature_gates(flags).changed
    gates = implied_gates(manifests)
    if gates:
        remark = remark_on_gates(gates)
        note(remark.text, hint=remark.hint)
    return gates


def split_files(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that are the cluster, and those that are new to it.

    New are manifests after a file with nodes: no node in them, and nothing that has been through an
    API server or runs already.
    """
    from stowplan.world.reading import STDIN, read_files

    source: list[str] = []
    new: list[str] = []
    has_nodes = False
    for number, name in enumerate(names):
        if name == STDIN or (number == 0 and len(names) == 1):
            source.append(name)
            has_nodes = True
            continue
        objects = [data for _, data in read_files([name])] if has_nodes or number == 0 else []
        if number and has_nodes and all(map(_is_new, objects)):
            new.append(name)
        else:
            source.append(name)
            has_nodes = has_nodes or any(data.get("kind") == "Node" for data in objects)
    return tuple(source), tuple(new)


def _is_new(data: dict[str, Any]) -> bool:
    metadata, spec = data.get("metadata") or {}, data.get("spec") or {}
    stored = isinstance(metadata, dict) and (metadata.get("uid") or metadata.get("resourceVersion"))
    runs = isinstance(spec, dict) and spec.get("nodeName")
    return data.get("kind") != "Node" and not stored and not runs


def say_data(data: Any, output: str) -> None:
    """As JSON or YAML, for programs."""
    if output == "json":
        import msgspec

        say_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    import yaml

    # JSON is YAML: what is printable in one is in the other.
    say_json(yaml.safe_dump(data, sort_keys=False, allow_unicode=False).rstrip("\n"))
