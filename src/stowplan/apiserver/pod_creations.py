"""New pods, many at a time: who tries out a scheduler creates thousands from one template.

What `writes.Writer` does for one request is done here for all, and written at once.  That holds
for pods without owners; where one is special, or must be refused, nothing is written and all of
them are left to `Writer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from msgspec.structs import replace

from stowplan.apiserver.admission import Admission
from stowplan.apiserver.identity import GENERATED_NAME_BASE_MAX, Identity
from stowplan.apiserver.ledger import Ledger, names_in
from stowplan.apiserver.validation import validate_meta
from stowplan.errors import ApiError
from stowplan.objects.api import Create
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod


def create_pods(
    requests: Sequence[Create],
    ledger: Ledger,
    identity: Identity,
    namespaces: Mapping[str, KubeObject],
    admission: Admission,
) -> Sequence[KubeObject] | None:
    """Write them all, or nothing (None) where one of them must be looked at on its own."""
    if ledger.refusal is not None:
        return None
    table, version, now = ledger.tables[Pod], ledger.version, identity.now()
    namespace, names = "", names_in(table, namespaces, "")
    new: dict[tuple[str, str], Pod] = {}
    for request in requests:
        pod = request.body
        if request.kind is not POD or not isinstance(pod, Pod) or _is_special(pod.metadata):
            return None
        if request.namespace != namespace or not namespace:
            namespace = request.namespace
            names = names_in(table, namespaces, namespace)
        if names is None:
            return None
        meta = pod.metadata
        version += 1
        text = f"{version}"
        name = meta.name
        if not name and meta.generate_name:
            name = meta.generate_name[:GENERATED_NAME_BASE_MAX] + identity.suffix(version)
        if name in names or meta.namespace not in ("", namespace):
            return None
        meta = replace(
            meta,
            name=name,
            namespace=namespace,
            uid=identity.uid(text),
            resource_version=text,
            generation=1,
            creation_timestamp=now,
        )
        try:
            if validate_meta(POD, meta):
                return None
            new[namespace, name] = admission.admit_pod(pod.spec, meta)
        except ApiError:
            return None
    if len(new) < len(requests):
        return None
    pods = [*new.values()]
    ledger.write_all(table, "ADDED", zip(repeat(None), pods))
    return pods


def _is_special(meta: ObjectMeta) -> bool:
    return bool(
        meta.owner_references
        or meta.resource_version
        or meta.deletion_timestamp is not None
        or meta.deletion_grace_period_seconds is not None
    )
