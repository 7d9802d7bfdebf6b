"""What the commands that ask of a cluster have in common: where it comes from, how they answer.

Manifests, dumps and standard input, or a copy of a live cluster; the same words for all of them.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from stowplan.cli._output import note, say, say_json, working
from stowplan.errors import InputError

if TYPE_CHECKING:
    from stowplan.objects.manifests import Manifest
    from stowplan.world.cluster import Cluster

WIDTH_MAX = 80


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
    timed: bool = False,
    new_files: Sequence[str] = (),
) -> Cluster:
    """The cluster that is asked about; what makes answers less than they seem is noted.

    `new_files` will be applied to it: groups in them count as those of the cluster.
    """
    from stowplan.runtime.plugins_path import load_registry
    from stowplan.world.cluster import Cluster
    from stowplan.world.garbage import garbage_stays
    from stowplan.world.reading import STDIN, read_files
    from stowplan.world.setup import Options, make_setup

    live = kubeconfig is not None or context is not None
    if live and filenames:
        raise InputError("files and a live cluster", hint="give `-f` or `--kubeconfig`, not both")
    registry = load_registry(plugin_paths)
    with working("reading…"), garbage_stays():
        manifests = [] if live else read_files(filenames)
        files = [name for name in new_files if name != STDIN]
        new = read_files(files) if files else []
        gates = gates_for([*manifests, *new], feature_gates)
        options: Options = {"seed": seed, "detail": detail, "feature_gates": gates}
        options["timed"] = timed
        setup = make_setup(config, options, registry=registry)
        if live:
            cluster = Cluster.of_live(setup, kubeconfig or "", context)
        else:
            cluster = Cluster.of_manifests(setup, manifests)
        # It stays till the end: nobody need look for garbage in it, not even once.
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


def say_answer(answer: Any, output: str) -> None:
    """As text for people, or as data; the command's exit code says whether the answer is yes."""
    if output == "text":
        for line in answer.lines(min(shutil.get_terminal_size().columns, WIDTH_MAX)):
            say(line)
    else:
        say_data(answer.to_dict(), output)
    if not answer:
        click.get_current_context().exit(1)


def say_data(data: Any, output: str) -> None:
    """As JSON or YAML, for programs."""
    if output == "json":
        import msgspec

        say_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    import yaml

    # JSON is YAML: what is printable in one is in the other.
    say_json(yaml.safe_dump(data, sort_keys=False, allow_unicode=False).rstrip("\n"))
