"""All that scheduling reads, as one file: for a bug report, or to ask again later.

The structs hold what scheduling reads and nothing else, so no environment of a container, no
command and no secret gets in; what manifests carry along is left out.  Made by `Cluster`'s
commands; `-f` of each of them reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.errors import InputError
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import convert
from stowplan.objects.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    JOB,
    KIND_BY_STRUCT,
    KINDS,
    LEASE,
    PERSISTENT_VOLUME,
    RESOURCE_CLAIM_TEMPLATE,
    Kind,
)
from stowplan.objects.pod import PodTemplate
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.world.anonymise import anonymise

if TYPE_CHECKING:
    from stowplan.world.cluster import Cluster

Data = dict[str, Any]

_NOT_SAVED = (EVENT, LEASE)
_MAKERS = (DEPLOYMENT, DAEMON_SET, JOB, RESOURCE_CLAIM_TEMPLATE)
"""Scheduling reads what they have made, not them; without names they would make it again."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Snapshot:
    objects: list[Data]
    kept: tuple[str, ...] = ()
    """What was left as it is although names were to go, and why."""

    def write(self, path: str | os.PathLike[str]) -> None:
        data = {"apiVersion": "v1", "kind": "List", "items": self.objects}
        raw = msgspec.json.format(msgspec.json.encode(data), indent=1)
        try:
            Path(path).write_bytes(raw + b"\n")
        except OSError as error:
            raise InputError(error.strerror or str(error), where=os.fspath(path)) from None


def take_snapshot(
    cluster: Cluster, *, anonymised: bool = False, keep: tuple[str, ...] = ()
) -> Snapshot:
    """`keep`: texts whose words stay, such as those of the configuration that is asked about."""
    objects = [data for kind in _kinds(anonymised) for data in _of_kind(cluster, kind)]
    if not anonymised:
        return Snapshot(objects)
    made = anonymise(objects, keep)
    return Snapshot(made.objects, made.kept)


def _kinds(anonymised: bool) -> Iterator[Kind]:
    for kind in KINDS:
        if kind not in _NOT_SAVED and not (anonymised and kind in _MAKERS):
            yield kind


def _of_kind(cluster: Cluster, kind: Kind) -> Iterator[Data]:
    for thing in cluster.objects(kind.name):
        data = plain(thing)
        if kind is PERSISTENT_VOLUME:
            _add_sources(data, cluster.get(kind.name, thing.key))
        yield data


def plain(thing: KubeObject) -> Data:
    """An object as plain data: what scheduling reads of it."""
    kind = KIND_BY_STRUCT[type(thing)]
    data: Data = {"apiVersion": kind.api_version, "kind": kind.name}
    data |= {key: it for key, it in msgspec.to_builtins(thing).items() if key not in data}
    annotations = data.setdefault("metadata", {}).get("annotations") or {}
    annotations.pop(_APPLIED, None)
    _prune(data.get("spec") or {})
    return data


def _add_sources(data: Data, whole: Data) -> None:
    """Without a source a volume is none; all that counts of one is that it is there."""
    spec = data.setdefault("spec", {})
    for name, value in (whole.get("spec") or {}).items():
        if name not in spec and isinstance(value, dict):
            spec[name] = {"path": value["path"]} if "path" in value else {}


def _prune(spec: Data) -> None:
    """Of templates, what scheduling reads of the things that are made of them."""
    template = spec.get("template")
    if isinstance(template, dict):
        spec["template"] = msgspec.to_builtins(convert(template, PodTemplate))
        annotations = spec["template"].get("metadata", {}).get("annotations") or {}
        annotations.pop(_APPLIED, None)
        spec = spec["template"].get("spec") or {}
    for volume in spec.get("volumes") or ():
        ephemeral = volume.get("ephemeral") or {}
        if isinstance(ephemeral.get("volumeClaimTemplate"), dict):
            made = convert(ephemeral["volumeClaimTemplate"], PersistentVolumeClaim)
            ephemeral["volumeClaimTemplate"] = msgspec.to_builtins(made)
