"""Asking for decisions without a cluster: objects as plain data in, decisions out.

Three steps make a cluster of manifests and dumps, a module each: `input_objects` decodes and
checks, `controllers` adds the pods that workloads still lack, `admission` fills in what an API
server would.  Then `core.dry_run` decides.  `stowplan dry-run` and `stowplan.dry_run` are this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any, get_args

import msgspec

from stowplan.config import load_config
from stowplan.core.algorithm import TieBreak
from stowplan.core.decision import Decision
from stowplan.core.dry_run import DryRun
from stowplan.core.profiles import Registry
from stowplan.errors import InputError
from stowplan.objects.base import KubeObject
from stowplan.objects.manifests import Manifest, flatten
from stowplan.offline.admission import admit
from stowplan.offline.controllers import with_missing
from stowplan.offline.input_objects import decode_all
from stowplan.plugins import IN_TREE

__all__ = ["Config", "Objects", "TieBreak", "build_cluster", "dry_run", "prepare"]

Objects = Iterable[Mapping[str, Any]] | Mapping[str, Any]
Config = Mapping[str, Any] | str | os.PathLike[str] | None

_OBJECTS_HINT = "give Kubernetes objects as dicts: a `List`, or any number of them"


def dry_run(
    objects: Objects,
    config: Config = None,
    tie_break: TieBreak = "random",
    seed: int | None = None,
    *,
    detail: bool = True,
) -> list[Decision]:
    """Decide all pending pods of a cluster, in queue order, and say why.

    `objects` are Kubernetes objects as dicts, or a `List` of them: pods with `spec.nodeName` run,
    the others are pending, and workloads are expanded to the pods they lack.  `config` is a
    KubeSchedulerConfiguration, as a dict or a file's path; without one it is the default profile.
    Extenders are not called, and pods for a scheduler that the configuration does not have are
    left out.  A pod that preempts has two decisions: whom it evicts, and where it goes then.

    `seed` makes the choice among equally good nodes repeatable; with `tie_break="name"` it is the
    one that comes first by name.  Without `detail` a decision does not hold every node's scores
    and reasons, which saves time and memory on large clusters.

    Whatever cannot be read raises `stowplan.errors.InputError` or `ConfigError`.
    """
    run = prepare(_manifests(objects), config, tie_break=tie_break, seed=seed, detail=detail)
    return list(run.decide())


def prepare(
    manifests: Iterable[Manifest],
    config: Config = None,
    *,
    tie_break: TieBreak = "random",
    seed: int | None = None,
    detail: bool = True,
    registry: Registry = IN_TREE,
) -> DryRun:
    """A dry run that is ready to decide: everything is read, and nothing decided."""
    if tie_break not in get_args(TieBreak):
        choices = " or ".join(repr(choice) for choice in get_args(TieBreak))
        raise InputError(f"tie_break is {tie_break!r}", hint=f"it may be {choices}")
    loaded = load_config(config)
    return DryRun(
        build_cluster(manifests),
        config=loaded,
        tie_break=tie_break,
        random=Random(seed),
        detail=detail,
        registry=registry,
    )


def build_cluster(manifests: Iterable[Manifest]) -> list[KubeObject]:
    """The objects of a cluster in which all this has been applied."""
    return admit(with_missing(decode_all(manifests)))


def _manifests(objects: Any) -> Iterator[Manifest]:
    if isinstance(objects, Mapping):
        yield from flatten(_plain(objects, "objects"), "objects")
        return
    if isinstance(objects, str | bytes) or not isinstance(objects, Iterable):
        problem = f"found {type(objects).__name__!r}"
        raise InputError(problem, where="objects", hint=_OBJECTS_HINT)
    for index, data in enumerate(objects):
        where = f"objects[{index}]"
        yield from flatten(_plain(data, where), where)


def _plain(data: Any, where: str) -> Any:
    """As JSON data: YAML libraries read times as `datetime`, for instance."""
    try:
        return msgspec.to_builtins(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"not readable as JSON: {error}", where=where) from None
