"""A world to take along: as manifests, and as the command line that asks the same.

`stowplan what-if` makes its changes in an order of its own, so options can say all of it only where
no two changes are about one thing; else the objects as they are at the end go into a file, which
takes their place (`--replace`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Protocol

import yaml

from stowplan.errors import InputError
from stowplan.world.cluster import Cluster

_SERVED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_IN_NO_FILE = ("--delete", "--remove", "--drain")
"""What no manifest says: who is gone."""


class Change(Protocol):
    """`stowplan.web.worlds.Made`."""

    @property
    def options(self) -> tuple[str, ...]: ...

    @property
    def touched(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def removed(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def reweighs(self) -> bool: ...


def exported(
    name: str, cluster: Cluster, changes: Sequence[Change], asked: Sequence[str]
) -> dict[str, Any]:
    """`cluster` is as the changes have left it; `asked` are the options that name its origin."""
    touched = dict.fromkeys(each for change in changes for each in change.touched)
    found = [as_manifest(cluster.get(*each)) for each in touched if is_there(cluster, *each)]
    manifests = yaml.safe_dump_all(found, sort_keys=False, allow_unicode=False)
    options, files = _as_options(changes), {}
    if options is None:
        files[f"{name}.yaml"] = manifests
        gone = [word for change in changes for word in _told_of_gone(change)]
        options = [*(("--replace", f"{name}.yaml") if found else ()), *gone]
    if any(change.reweighs for change in changes):
        files[f"{name}-config.yaml"] = cluster.configuration()
        options += ["--new-config", f"{name}-config.yaml"]
    return {
        "manifests": manifests,
        "delete": [f"{kind} {key}" for change in changes for kind, key in change.removed],
        "command": " ".join(map(quote, ("stowplan", "what-if", *asked, *options))),
        "files": files,
    }


def _as_options(changes: Sequence[Change]) -> list[str] | None:
    """None where options alone cannot say it."""
    subjects = []
    for change in changes:
        if change.options:
            # As in `--taint NODE:KEY=VALUE:EFFECT` and `--scale KIND/NAME=N`; new nodes of two
            # sorts cannot be named at one time.
            adds = change.options[0] == "--add-nodes"
            subjects.append("" if adds else change.options[-1].partition(":")[0].partition("=")[0])
        elif not change.reweighs:
            return None
    if len(set(subjects)) < len(subjects):
        return None
    return [word for change in changes for word in change.options]


def _told_of_gone(change: Change) -> tuple[str, ...]:
    if change.options:
        return change.options if change.options[0] in _IN_NO_FILE else ()
    words = (("--delete", f"{kind}/{key}") for kind, key in change.removed)
    return tuple(word for pair in words for word in pair)


def is_there(cluster: Cluster, kind: str, key: str) -> bool:
    try:
        cluster.get(kind, key)
    except InputError:
        return False
    return True


def as_manifest(data: Mapping[str, Any]) -> dict[str, Any]:
    """A served object as a manifest to apply."""
    metadata = {name: value for name, value in data["metadata"].items() if name not in _SERVED}
    rest = {name: value for name, value in data.items() if name not in ("metadata", "status")}
    if data["kind"] == "Node":
        # A simulated node has no kubelet that would say what it has.
        rest["status"] = {
            name: data["status"][name]
            for name in ("capacity", "allocatable")
            if name in data.get("status", {})
        }
    head = {name: rest.pop(name) for name in ("apiVersion", "kind")}
    return {**head, "metadata": metadata, **rest}
