"""Bodies of requests that come as JSON data: what they must say, and what they may not decide.

Also where the rests of pods of one template, which arrive one by one, become one in memory;
`admission` does the same for their specs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.apiserver import answers, wire_schema
from stowplan.apiserver.conforming import Conformed, Malformed, conform
from stowplan.apiserver.updates import WITHOUT_STATUS
from stowplan.apiserver.validation import template_labels
from stowplan.apiserver.watches import UntypedFields
from stowplan.errors import BadRequest
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    LEASE,
    NODE,
    POD_DISRUPTION_BUDGET,
    RUNTIME_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)

SHARED_MAX = 1024

_NO_KIND = Kind("", "", "", "", False, KubeObject)

_SYSTEM_METADATA = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
    "managedFields",
)  # fmt: skip

# A PUT of these must say which version it changes.
_CONDITIONAL = frozenset(
    kind.name
    for kind in (
        LEASE,
        POD_DISRUPTION_BUDGET,
        RUNTIME_CLASS,
        VOLUME_ATTACHMENT,
        CSI_DRIVER,
        CSI_NODE,
        CSI_STORAGE_CAPACITY,
    )
)


def check_body(kind: Kind, body: Any) -> None:
    """Raise 400 unless the body is an object of this kind."""
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be an object, not {type(body).__name__}")
    if not isinstance(body.get("metadata", {}), dict):
        raise answers.not_handled(kind, "metadata must be an object")
    for field, wanted in (("apiVersion", kind.api_version), ("kind", kind.name)):
        found = body.get(field, wanted)
        if found != wanted:
            raise BadRequest(
                f"the object provided is unrecognized: {field} is {found!r}, not {wanted!r}"
            )


def conformed(
    kind: Kind, body: dict[str, Any], *, is_patch: bool = False, api_version: str = ""
) -> dict[str, Any]:
    """A body, or what a patch made of an object, with nothing but what the kind has.

    `api_version`: the version that it is in, if that is not the one that is stored.
    """
    if isinstance(body, Conformed):
        return body
    message = wire_schema.message_of(api_version or kind.api_version, kind.name)
    assert message is not None, f"{kind} is stored and not described"
    try:
        return conform(body, message)
    except Malformed as error:
        if not is_patch:
            raise answers.not_handled(kind, str(error)) from None
        problem = answers.invalid("patch", "{…}", str(error))
        raise answers.InvalidObject(_NO_KIND, "", [problem]) from None


def check_new(wanted: str) -> None:
    """Raise unless this version is none: an object that is to be created has none yet."""
    if wanted.isdecimal() and int(wanted):
        raise answers.internal("resourceVersion should not be set on objects to be created")


def clean_body(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    """A new object without what only the server decides."""
    metadata = {
        key: value for key, value in body.get("metadata", {}).items() if key not in _SYSTEM_METADATA
    }
    data = {**body, "apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    # A node may be created with its status: kubelets do.
    if kind is not NODE and kind.name not in WITHOUT_STATUS:
        data.pop("status", None)
    return data


def changed_identity(body: dict[str, Any], current: dict[str, Any]) -> list[answers.Problem]:
    """What a write would change of an object's metadata that nobody may change."""
    after, before = body.get("metadata", {}), current.get("metadata", {})
    return [
        answers.invalid(f"metadata.{key}", after[key], "field is immutable")
        for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        # What is marked as deleted stays so, whatever a patch says.
        if after.get(key) and after[key] != before.get(key) and (key == "uid" or key not in before)
    ]


def check_identity(
    kind: Kind, meta: ObjectMeta, body: dict[str, Any], *, is_patch: bool = False
) -> None:
    """Raise unless a write is about this object, and about this version of it if it says so."""
    metadata = body.get("metadata", {})
    if is_patch and not metadata.get("name"):
        raise BadRequest(
            f"the name of the object ({meta.name} based on URL) was undeterminable: name must be "
            "provided"
        )
    name = metadata.get("name", meta.name)
    if name != meta.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({meta.name})"
        )
    namespace = metadata.get("namespace") or meta.namespace
    if namespace != meta.namespace and kind.namespaced:
        raise BadRequest(
            f"the namespace of the object ({namespace}) does not match the namespace on the "
            f"request ({meta.namespace})"
        )
    uid = metadata.get("uid")
    if uid and uid != meta.uid and not is_patch:
        raise answers.wrong_uid(kind, meta.namespace, meta.name, uid, meta.uid)
    version = metadata.get("resourceVersion")
    if version and not version.isdecimal():
        raise answers.internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version and int(version) and version != meta.resource_version:
        raise answers.modified(kind, meta.name)
    if not int(version or 0) and kind.name in _CONDITIONAL:
        problem = answers.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        # Upstream names the resource here, where it otherwise names the kind.
        called = Kind(kind.group, kind.version, kind.plural, kind.plural, True, kind.struct)
        raise answers.InvalidObject(called, meta.name, [problem])


def with_job_selector(data: dict[str, Any], uid: str) -> dict[str, Any]:
    """A Job selects its pods by its own uid, unless the user wrote a selector by hand."""
    spec = data.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector"):
        return data
    template = spec.get("template")
    if not isinstance(template, dict):
        return data
    metadata = template.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = data["metadata"].get("name", "")
    labels = {
        **template_labels(template),
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
    }
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    template = {**template, "metadata": {**metadata, "labels": labels}}
    return {**data, "spec": {**spec, "selector": selector, "template": template}}


class SharedRests:
    """One object in memory for all rests that are equal, as far as they are remembered."""

    def __init__(self) -> None:
        self._rests: dict[bytes, UntypedFields] = {}

    def fork(self) -> SharedRests:
        other = SharedRests()
        other._rests = self._rests.copy()
        return other

    def of(self, rest: UntypedFields) -> UntypedFields:
        if rest is None:
            return None
        found = self._rests.setdefault(msgspec.json.encode(rest), rest)
        if len(self._rests) > SHARED_MAX:
            # The oldest only: all at once would leave holes in memory that are slow to fill.
            del self._rests[next(iter(self._rests))]
        return found
