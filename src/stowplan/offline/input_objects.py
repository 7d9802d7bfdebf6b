"""The objects a user hands in: decoded, checked, each once.

Whatever cannot be what the user means is refused here with file, object and field, before anything
is decided: text that does not parse (`objects.manifests` finds it), a kind that is misspelled, an
object that comes twice.  Called by `stowplan.offline`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from stowplan.errors import InputError
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import EVENT, KIND_BY_NAME, KINDS, LEASE, Kind
from stowplan.objects.manifests import Manifest, check, decode, describe
from stowplan.objects.pod import Pod, PodTemplate
from stowplan.objects.workloads import Workload

_IGNORED = (EVENT, LEASE)
_READ = {kind.name: kind for kind in KINDS if kind not in _IGNORED}
_CONFIGURATION = "KubeSchedulerConfiguration"
_NEAR = 0.85
"""How alike a misspelled kind must be: a ServiceAccount is no misspelled Service."""


@dataclass(slots=True)
class InputObject:
    """An object of the input, or one that a controller would make of it."""

    where: str
    """The file, or whatever the input is called."""
    data: dict[str, Any]
    obj: KubeObject
    is_new: bool
    """It has not been through an API server, which gives every object its uid."""
    made_by: str = ""
    """The workload whose template it was made of, as `Deployment default/web`."""

    def place(self, field: str) -> str:
        """Where the user has to look."""
        if self.made_by:
            return f"{self.where}: {self.made_by}: spec.template.{field}"
        return f"{self.where}: {describe(self.data)}: {field}"


def decode_all(manifests: Iterable[Manifest]) -> list[InputObject]:
    """Every object that scheduling reads; others are left out, misspelled ones refused."""
    found: dict[tuple[type[KubeObject], str], InputObject] = {}
    uids: dict[str, InputObject] = {}
    for where, data in manifests:
        refuse_misspelled(data, where)
        obj = decode(data, where)
        if obj is None or isinstance(obj, (EVENT.struct, LEASE.struct)):
            continue
        _check_template(obj, where, data)
        entry = InputObject(where, data, with_uid(obj), is_new=not obj.metadata.uid)
        known = found.setdefault((type(obj), obj.key), entry)
        if known is not entry:
            _refuse_second(known, entry)
        elif isinstance(obj, Pod):
            _refuse_copy(uids.setdefault(entry.obj.uid, entry), entry)
    return list(found.values())


def _check_template(obj: KubeObject, where: str, data: dict[str, Any]) -> None:
    """Also of a workload that needs no more pods: what cannot be read is refused wherever it is."""
    if isinstance(obj, Workload) and obj.spec.template is not None:
        place = f"{where}: {describe(data)}"
        check(obj.spec.template, PodTemplate, place, below="spec.template")


def with_uid(obj: KubeObject) -> KubeObject:
    if obj.metadata.uid:
        return obj
    uid = stable_uid(type(obj).__name__, obj.namespace, obj.name)
    return replace(obj, metadata=replace(obj.metadata, uid=uid))


def stable_uid(*parts: str) -> str:
    """A UID that depends on the parts alone."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _refuse_second(first: InputObject, second: InputObject) -> None:
    """Dumps may overlap: the same object is taken once.  Two that differ leave a doubt."""
    if first.data != second.data:
        other = f"the other one is in {first.where}; " if first.where != second.where else ""
        raise InputError(
            "the object comes twice, and the two differ",
            where=f"{second.where}: {describe(second.data)}",
            hint=f"{other}keep one of them",
        )


def _refuse_copy(first: InputObject, second: InputObject) -> None:
    if first is not second:
        raise InputError(
            f"{second.obj.uid!r} is the uid of {describe(first.data)} too",
            where=second.place("metadata.uid"),
            hint="remove the uid of a copy",
        )


def refuse_misspelled(data: dict[str, Any], where: str) -> None:
    """An object of a kind that nobody knows is left out, so a typing error must not make one."""
    api_version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    if (api_version, kind) in KIND_BY_NAME or kind == EVENT.name:
        return
    if kind == _CONFIGURATION:
        hint = "give it as the configuration: `--config FILE`, or `config=` in Python"
        raise InputError("a configuration is no object of a cluster", where=where, hint=hint)
    meant = _meant(api_version, kind)
    if meant is not None:
        raise InputError(
            f"there is no kind {kind!r} in {api_version!r}",
            where=f"{where}: {describe(data)}",
            hint=f"did you mean `kind: {meant.name}` with `apiVersion: {meant.api_version}`?",
        )


@lru_cache(maxsize=1024)
def _meant(api_version: str, kind: str) -> Kind | None:
    """The kind that this must be a misspelling of; None when it may well be meant as it stands."""
    group = api_version.rpartition("/")[0]
    if not _is_built_in(group):
        return None
    names = {name.lower(): name for name in _READ}
    near = get_close_matches(kind.lower(), names, n=1, cutoff=_NEAR)
    meant = _READ[names[near[0]]] if near else None
    if meant is not None and (meant.name, meant.group) == (kind, group):
        # Another version of a kind we know: `decode` has the words for it.
        return None
    return meant


def _is_built_in(group: str) -> bool:
    """Kubernetes' own groups, as opposed to those of custom resources."""
    return "." not in group or group.endswith(".k8s.io")
