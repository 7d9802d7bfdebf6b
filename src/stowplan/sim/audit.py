"""A trace from an audit log of Kubernetes: what was asked of an API server, line by line.

The log has to hold the objects (levels Request or RequestResponse, for pods, pods/binding,
pods/status, nodes); events without one are counted.  A pod comes with its create or, where that
is older than the log, with the first event that shows it; its binding starts it, its phase or its
delete ends it.  Nodes likewise; what is changed of them afterwards, and other objects that
scheduling reads, are changes of the trace.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stowplan.errors import InputError
from stowplan.objects.kinds import KINDS
from stowplan.objects.manifests import check
from stowplan.objects.times import TimeError, parse_time
from stowplan.sim.building import TraceBuilder, nameless
from stowplan.sim.trace import Outcome, Trace
from stowplan.world.nodes import node_like

LINE_BYTES_MAX = 16 << 20
_API_VERSION = "audit.k8s.io/v1"
_WRITES = {"create", "update", "patch"}
_ENDS = {"Succeeded": Outcome.SUCCEEDED, "Failed": Outcome.FAILED}
_READ_BY_SCHEDULING = {
    "csidrivers": "CSIDriver",
    "csinodes": "CSINode",
    "deviceclasses": "DeviceClass",
    "namespaces": "Namespace",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "priorityclasses": "PriorityClass",
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "resourceslices": "ResourceSlice",
    "runtimeclasses": "RuntimeClass",
    "services": "Service",
    "storageclasses": "StorageClass",
}
"""Kinds that become changes.  Not those that make pods: their pods are in the log themselves."""


_STRUCTS = {kind.name: kind.struct for kind in KINDS}


class ObjectRef(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_version: str = ""
    api_group: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an audit event that say anything about scheduling."""

    api_version: str = ""
    stage: str = ""
    verb: str = ""
    object_ref: ObjectRef | None = None
    response_status: dict[str, Any] | None = None
    request_object: Any = None
    response_object: Any = None
    stage_timestamp: str = ""


@dataclass(slots=True)
class _Seen:
    """A pod or node that is there, as far as the log has told."""

    manifest: dict[str, Any]
    came_s: float
    where: str
    start_s: float = math.nan
    end_s: float = math.nan
    outcome: Outcome = Outcome.DELETED
    node: str = ""


def read_audit_log(path: Path) -> Trace:
    reader = _Reader()
    for where, line in _lines(path):
        reader.take(line, where)
    if not reader.events:
        raise InputError(
            f"no event of {_API_VERSION}",
            where=str(path),
            hint="an audit log has one JSON object per line, as kube-apiserver writes it",
        )
    return reader.trace(path.name.split(".")[0])


class _Reader:
    def __init__(self) -> None:
        self.events = 0
        self._builder = TraceBuilder()
        self._decoder = msgspec.json.Decoder(Event)
        self._pods: dict[tuple[str, str], _Seen] = {}
        self._nodes: dict[str, _Seen] = {}
        self._first_s = math.inf
        self._node_numbers: dict[str, int] = {}

    def take(self, line: bytes, where: str) -> None:
        dirt = self._builder.dirt
        try:
            event = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            dirt.add("lines that are no JSON of an audit event: left out", where)
            return
        if event.api_version != _API_VERSION:
            dirt.add(f"lines that are no {_API_VERSION}: left out", where)
            return
        self.events += 1
        ref = event.object_ref
        code = (event.response_status or {}).get("code", 200)
        if event.stage != "ResponseComplete" or ref is None or not _is_success(code):
            return
        try:
            time_s = parse_time(event.stage_timestamp)
        except TimeError:
            dirt.add("events without a time: left out", where)
            return
        self._first_s = min(self._first_s, time_s)
        if ref.resource == "pods":
            self._pod(event, ref, time_s, where)
        elif ref.resource == "nodes":
            self._node(event, ref, time_s, where)
        elif ref.resource in _READ_BY_SCHEDULING and not ref.subresource:
            self._other(event, ref, time_s)

    def trace(self, name: str) -> Trace:
        for node in list(self._nodes):
            self._close_node(node, math.inf)
        for key in list(self._pods):
            self._close_pod(key)
        first_s = self._first_s if math.isfinite(self._first_s) else 0.0
        return self._builder.build(name, zero_s=first_s, start_s=first_s)

    # -- pods -------------------------------------------------------------------------------

    def _pod(self, event: Event, ref: ObjectRef, time_s: float, where: str) -> None:
        if event.verb == "deletecollection":
            for item in _items(event.response_object):
                self._end_pod((_namespace(item), _name(item)), time_s)
            return
        key = (
            ref.namespace,
            ref.name or _name(event.response_object) or _name(event.request_object),
        )
        if event.verb == "create" and ref.subresource in ("binding", "eviction"):
            self._bound_or_evicted(event, ref, key, time_s, where)
        elif event.verb == "create" and not ref.subresource:
            self._create_pod(event, key, time_s, where)
        elif event.verb in _WRITES or event.verb == "delete":
            self._update_pod(event, key, time_s, where)

    def _create_pod(self, event: Event, key: tuple[str, str], time_s: float, where: str) -> None:
        manifest = _whole(event.response_object, "Pod") or _whole(event.request_object, "Pod")
        if manifest is None or not key[1]:
            self._builder.dirt.add(
                "pods whose create has no object (level Metadata): left out", where
            )
            return
        self._close_pod(key)
        self._pods[key] = seen = _Seen(manifest, time_s, where)
        seen.node = self._numbered(_node_of(manifest))

    def _bound_or_evicted(
        self, event: Event, ref: ObjectRef, key: tuple[str, str], time_s: float, where: str
    ) -> None:
        seen = self._pods.get(key)
        if seen is None:
            self._builder.dirt.add(
                f"{ref.subresource}s of pods that the log does not show: left out", where
            )
        elif ref.subresource == "eviction":
            self._end_pod(key, time_s)
        else:
            seen.node = self._numbered(_target(event.request_object))
            seen.start_s = time_s

    def _update_pod(self, event: Event, key: tuple[str, str], time_s: float, where: str) -> None:
        manifest = _whole(event.response_object, "Pod")
        seen = self._pods.get(key)
        if seen is None and manifest is not None:
            # It is older than the log.
            seen = self._pods[key] = _Seen(manifest, _created_s(manifest, time_s), where)
            seen.node = self._numbered(_node_of(manifest))
        if seen is None:
            self._builder.dirt.add("events of pods that the log does not show: left out", where)
            return
        if manifest is not None:
            seen.node = seen.node or self._numbered(_node_of(manifest))
            phase = (manifest.get("status") or {}).get("phase")
            if phase in _ENDS and math.isnan(seen.end_s):
                seen.end_s, seen.outcome = time_s, _ENDS[phase]
        if event.verb == "delete":
            self._end_pod(key, time_s)

    def _end_pod(self, key: tuple[str, str], time_s: float) -> None:
        """A graceful delete comes twice: the pod is gone with the last one."""
        seen = self._pods.get(key)
        if seen is not None and (math.isnan(seen.end_s) or seen.outcome == Outcome.DELETED):
            seen.end_s = time_s

    def _close_pod(self, key: tuple[str, str]) -> None:
        seen = self._pods.pop(key, None)
        if seen is None:
            return
        self._builder.add_pod(
            self._builder.pod_template(pod_template_of(seen.manifest)),
            name=key[1],
            arrival_s=seen.came_s,
            start_s=seen.start_s,
            end_s=seen.end_s,
            outcome=seen.outcome,
            node=seen.node,
            where=seen.where,
            reuses_names=True,
        )

    # -- nodes and others -------------------------------------------------------------------

    def _node(self, event: Event, ref: ObjectRef, time_s: float, where: str) -> None:
        name = ref.name or _name(event.response_object) or _name(event.request_object)
        seen = self._nodes.get(name)
        if event.verb == "delete":
            if seen is None:
                self._builder.dirt.add(
                    "deletes of nodes that the log does not show: left out", where
                )
            self._close_node(name, time_s)
            return
        manifest = _whole(event.response_object, "Node") or _whole(event.request_object, "Node")
        if event.verb not in _WRITES:
            return
        if manifest is None or not name:
            self._builder.dirt.add("events of nodes without the object: left out", where)
        elif seen is None:
            came_s = time_s if event.verb == "create" else -math.inf
            self._nodes[name] = _Seen(manifest, came_s, where)
        elif _told(manifest) != _told(seen.manifest):
            had_none = not (seen.manifest.get("status") or {}).get("allocatable")
            seen.manifest = manifest
            # A kubelet tells the amounts in its first status: nothing has changed then.
            if not had_none:
                change = {
                    **_node_manifest(manifest),
                    **_identity("v1", "Node", self._numbered(name)),
                }
                self._builder.add_change(time_s, "apply", _with_metadata(change, manifest))

    def _close_node(self, name: str, time_s: float) -> None:
        seen = self._nodes.pop(name, None)
        if seen is None:
            return
        self._builder.add_node(
            self._builder.node_template(_node_manifest(seen.manifest)),
            name=self._numbered(name),
            joins_s=seen.came_s,
            leaves_s=time_s,
            where=seen.where,
        )
        if math.isfinite(time_s):
            self._node_numbers[name] = self._node_numbers.get(name, 1) + 1

    def _numbered(self, name: str) -> str:
        """A node that comes back under its name is another one."""
        number = self._node_numbers.get(name, 1)
        return name if number == 1 else f"{name}-{number}"

    def _other(self, event: Event, ref: ObjectRef, time_s: float) -> None:
        kind = _READ_BY_SCHEDULING[ref.resource]
        group = f"{ref.api_group}/" if ref.api_group else ""
        manifest = _whole(event.response_object, kind) or _whole(event.request_object, kind)
        if event.verb == "delete":
            identity = _identity(f"{group}{ref.api_version}", kind, ref.name, ref.namespace)
            self._builder.add_change(time_s, "delete", identity)
        elif event.verb in _WRITES and manifest is not None:
            metadata = {**(manifest.get("metadata") or {})}
            for written in ("managedFields", "uid", "resourceVersion", "creationTimestamp"):
                metadata.pop(written, None)
            self._builder.add_change(time_s, "apply", {**manifest, "metadata": metadata})


def pod_template_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """What replicas share: no name, place or status, and no token mounted under a drawn name."""
    spec = {
        k: v for k, v in (manifest.get("spec") or {}).items() if k not in ("nodeName", "hostname")
    }
    tokens = {
        volume.get("name")
        for volume in spec.get("volumes") or ()
        if isinstance(volume, dict) and str(volume.get("name", "")).startswith("kube-api-access-")
    }
    if tokens:
        spec["volumes"] = [v for v in spec["volumes"] if v.get("name") not in tokens]
        for part in ("containers", "initContainers"):
            if spec.get(part):
                spec[part] = [_without_mounts(container, tokens) for container in spec[part]]
    made = nameless(
        {"apiVersion": "v1", "kind": "Pod", "metadata": manifest.get("metadata"), "spec": spec}
    )
    made["metadata"].pop("ownerReferences", None)
    return made


def _without_mounts(container: dict[str, Any], volumes: set[Any]) -> dict[str, Any]:
    mounts = [m for m in container.get("volumeMounts") or () if m.get("name") not in volumes]
    return {**container, "volumeMounts": mounts}


def _node_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    made = {"apiVersion": "v1", "kind": "Node", **node_like(manifest)}
    named = {**made, "metadata": {**made["metadata"], "name": _name(manifest)}}
    return nameless(named)


def _with_metadata(change: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The node as it is from now on, cordoned or with taints as the case may be."""
    metadata = {**(manifest.get("metadata") or {}), "name": change["metadata"]["name"]}
    kept = {k: metadata[k] for k in ("name", "labels", "annotations") if metadata.get(k)}
    spec = manifest.get("spec") or {}
    return {
        **change,
        "metadata": kept,
        "spec": {k: spec[k] for k in ("taints", "unschedulable") if spec.get(k)},
    }


def _told(manifest: dict[str, Any]) -> tuple[Any, ...]:
    """What of a node scheduling reads; heartbeats change none of it."""
    metadata, spec, status = (manifest.get(part) or {} for part in ("metadata", "spec", "status"))
    return (
        metadata.get("labels"),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
    )


def _identity(api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _is_success(code: Any) -> bool:
    return isinstance(code, int) and 200 <= code < 300


def _whole(data: Any, kind: str) -> dict[str, Any] | None:
    """The object, where the event has it; a patch, a Status or nonsense is none."""
    return data if isinstance(data, dict) and data.get("kind") == kind and is_sound(data) else None


def is_sound(manifest: dict[str, Any]) -> bool:
    """Whether its fields have the types that the API gives them."""
    struct = _STRUCTS.get(str(manifest.get("kind")))
    try:
        return struct is not None and check(manifest, struct, "") is not None
    except InputError:
        return False


def _items(data: Any) -> list[Any]:
    items = data.get("items") if isinstance(data, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _metadata(data: Any) -> dict[str, Any]:
    metadata = data.get("metadata") if isinstance(data, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _name(data: Any) -> str:
    return str(_metadata(data).get("name") or "")


def _namespace(data: Any) -> str:
    return str(_metadata(data).get("namespace") or "default")


def _target(binding: Any) -> str:
    target = binding.get("target") if isinstance(binding, dict) else None
    return str(target.get("name") or "") if isinstance(target, dict) else ""


def _node_of(manifest: dict[str, Any]) -> str:
    return str((manifest.get("spec") or {}).get("nodeName") or "")


def _created_s(manifest: dict[str, Any], time_s: float) -> float:
    try:
        return min(parse_time(str(_metadata(manifest).get("creationTimestamp"))), time_s)
    except TimeError:
        return time_s


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if zipped else raw
        number = 0
        try:
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    raise InputError(
                        f"a line of more than {LINE_BYTES_MAX:,} bytes", where=f"{path}:{number}"
                    )
                if line.strip():
                    yield f"{path.name}:{number}", line
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"cannot be unpacked: {error}", where=f"{path}:{number + 1}") from None
