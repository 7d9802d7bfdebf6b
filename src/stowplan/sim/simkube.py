"""A trace from SimKube's `.sktrace`: MessagePack with the objects that were applied and deleted.

SimKube records what makes pods (Deployments, Jobs and so on), and how long their pods ran.  Where
it knows the lifetimes of an owner's pods, these are the pods; otherwise an owner has as many
pods as it has replicas, from when it asks for them until it no longer does.  Pods that were
recorded themselves are pods.  There are no nodes in such a file: bring some of your own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stowplan.errors import InputError
from stowplan.objects.kinds import KINDS
from stowplan.sim.audit import is_sound, pod_template_of
from stowplan.sim.building import TraceBuilder
from stowplan.sim.trace import Outcome, Trace

BYTES_MAX = 2 << 30
VERSIONS = (2, 3)
REPLICAS_MAX = 1_000_000
_TEMPLATE_PATHS = {
    "CronJob": ("/spec/jobTemplate/spec/template",),
    "Deployment": ("/spec/template",),
    "Job": ("/spec/template",),
    "ReplicaSet": ("/spec/template",),
    "ReplicationController": ("/spec/template",),
    "StatefulSet": ("/spec/template",),
}
_KNOWN = {kind.name for kind in KINDS}
_PODS_OF_ITS_OWN = {"CronJob", "DaemonSet"}
"""Without recorded lifetimes nobody knows how many pods these had."""


def read_sktrace(path: Path) -> Trace:
    data = _decoded(path)
    events = data.get("events")
    if not isinstance(events, list):
        raise InputError("there are no events", where=str(path), hint="is it a .sktrace?")
    reader = _Reader(_paths(data.get("config")), _lifecycles(data))
    for event in events:
        reader.take(event)
    return reader.trace(path.name.split(".")[0])


class _Owner:
    """Something that makes pods: what they are like, and those that are there."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.pods: list[tuple[int, float]] = []
        """Template and arrival of each."""


class _Reader:
    def __init__(self, paths: dict[str, tuple[str, ...]], lifecycles: dict[str, list[Any]]) -> None:
        self._builder = TraceBuilder()
        self._paths = paths
        self._lifecycles = lifecycles
        self._owners: dict[str, _Owner] = {}
        self._pods: dict[str, tuple[int, float]] = {}
        self._first_s = math.inf

    def take(self, event: Any) -> None:
        dirt = self._builder.dirt
        time_s = event.get("ts") if isinstance(event, dict) else None
        if not isinstance(time_s, int | float) or not math.isfinite(time_s):
            dirt.add("events without a time: left out", str(event)[:80])
            return
        self._first_s = min(self._first_s, time_s)
        for verb, manifests in (
            ("apply", event.get("applied_objs")),
            ("delete", event.get("deleted_objs")),
        ):
            for manifest in manifests if isinstance(manifests, list) else ():
                key = _key(manifest)
                if key is None:
                    dirt.add("objects without kind or name: left out", f"at {time_s}")
                elif verb == "apply":
                    self._apply(key, manifest, float(time_s))
                else:
                    self._delete(key, manifest, float(time_s))

    def trace(self, name: str) -> Trace:
        for owner, pods in ((k, o.pods) for k, o in self._owners.items()):
            for template, arrival_s in pods:
                self._add(owner, template, arrival_s, math.nan)
        for key, (template, arrival_s) in self._pods.items():
            self._finish_pod(key, template, arrival_s, math.nan)
        first_s = self._first_s if math.isfinite(self._first_s) else 0.0
        return self._builder.build(name, zero_s=first_s, start_s=first_s)

    def _apply(self, key: str, manifest: dict[str, Any], time_s: float) -> None:
        kind = str(manifest["kind"])
        if kind in _KNOWN and not is_sound(manifest):
            self._builder.dirt.add("objects with fields of a wrong type: left out", key)
        elif kind == "Pod":
            self._pods.setdefault(key, (self._template(manifest, manifest), time_s))
        elif self._template_paths(manifest):
            self._own(key, manifest, time_s)
        elif kind in _KNOWN:
            self._builder.add_change(time_s, "apply", manifest)
        else:
            self._builder.dirt.add(
                f"objects of a kind that scheduling does not know, {kind}: left out", key
            )

    def _own(self, key: str, manifest: dict[str, Any], time_s: float) -> None:
        is_new = key not in self._owners
        owner = self._owners.setdefault(key, _Owner(manifest))
        owner.manifest = manifest
        if key in self._lifecycles:
            if is_new:
                self._add_recorded(key, owner)
            return
        if manifest["kind"] in _PODS_OF_ITS_OWN:
            self._builder.dirt.add("owners whose pods were not recorded: without pods", key)
            return
        templates = [self._template(found, manifest) for found in self._pod_templates(manifest)]
        wanted = _replicas(manifest)
        while templates and len(owner.pods) < wanted:
            owner.pods.append((templates[0], time_s))
        while len(owner.pods) > wanted:
            template, arrival_s = owner.pods.pop()
            self._add(key, template, arrival_s, time_s)

    def _add_recorded(self, key: str, owner: _Owner) -> None:
        templates = list(self._pod_templates(owner.manifest))
        if not templates:
            self._builder.dirt.add("owners without a pod template: left out", key)
            return
        template = self._template(templates[0], owner.manifest)
        for lifecycle in self._lifecycles[key]:
            start_s, end_s = _times(lifecycle)
            if math.isnan(start_s):
                self._builder.dirt.add("lifecycles without a start: left out", key)
            else:
                self._add(key, template, start_s, end_s)

    def _delete(self, key: str, manifest: dict[str, Any], time_s: float) -> None:
        pod = self._pods.pop(key, None)
        owner = self._owners.pop(key, None)
        if pod is not None:
            self._finish_pod(key, *pod, time_s)
        elif owner is not None:
            for template, arrival_s in owner.pods:
                self._add(key, template, arrival_s, time_s)
        elif manifest["kind"] in _KNOWN - {"Pod", "Node"} and not self._template_paths(manifest):
            self._builder.add_change(time_s, "delete", manifest)

    def _finish_pod(self, key: str, template: int, arrival_s: float, deleted_s: float) -> None:
        recorded = [_times(lifecycle) for lifecycle in self._lifecycles.get(key, ())]
        start_s, end_s = recorded[0] if recorded else (math.nan, math.nan)
        done = not math.isnan(end_s)
        self._builder.add_pod(
            template,
            name=key.rpartition("/")[2],
            arrival_s=arrival_s,
            start_s=math.nan if math.isnan(start_s) else max(start_s, arrival_s),
            end_s=end_s if done else deleted_s,
            outcome=Outcome.SUCCEEDED if done else Outcome.DELETED,
            where=key,
            reuses_names=True,
        )

    def _add(self, owner: str, template: int, arrival_s: float, end_s: float) -> None:
        recorded = owner in self._lifecycles
        self._builder.add_pod(
            template,
            name=f"{owner.rpartition('/')[2]}-1",
            arrival_s=arrival_s,
            end_s=end_s,
            outcome=Outcome.SUCCEEDED if recorded else Outcome.DELETED,
            where=owner,
            reuses_names=True,
        )

    def _template(self, pod: dict[str, Any], owner: dict[str, Any]) -> int:
        """A pod of the owner's namespace, as its template has it."""
        metadata = {**(pod.get("metadata") or {})}
        metadata["namespace"] = (owner.get("metadata") or {}).get("namespace") or "default"
        return self._builder.pod_template(pod_template_of({**pod, "metadata": metadata}))

    def _template_paths(self, manifest: dict[str, Any]) -> tuple[str, ...]:
        kind = str(manifest["kind"])
        gvk = f"{manifest.get('apiVersion')}.{kind}"
        if kind == "Pod":
            return ()
        return self._paths.get(gvk) or _TEMPLATE_PATHS.get(kind) or ()

    def _pod_templates(self, manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for path in self._template_paths(manifest):
            found: Any = manifest
            for step in path.strip("/").split("/"):
                found = found.get(step) if isinstance(found, dict) else None
            if isinstance(found, dict) and is_sound({**found, "kind": "Pod"}):
                yield found


def _decoded(path: Path) -> dict[str, Any]:
    if path.stat().st_size > BYTES_MAX:
        raise InputError(f"more than {BYTES_MAX:,} bytes", where=str(path))
    try:
        data = msgspec.msgpack.decode(path.read_bytes(), strict=False)
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(f"no MessagePack of SimKube: {error}", where=str(path)) from None
    version = data.get("version") if isinstance(data, dict) else None
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise InputError(
            f"version {version!r} of SimKube's format; known are {known}", where=str(path)
        )
    assert isinstance(data, dict)
    return data


def _paths(config: Any) -> dict[str, tuple[str, ...]]:
    """Where the tracer's configuration says that pod templates are, by `group/version.Kind`."""
    tracked = config.get("trackedObjects") if isinstance(config, dict) else None
    found: dict[str, tuple[str, ...]] = {}
    for gvk, settings in tracked.items() if isinstance(tracked, dict) else ():
        if not isinstance(settings, dict):
            continue
        one, many = settings.get("podSpecTemplatePath"), settings.get("podSpecTemplatePaths")
        paths = [one] if one else many if isinstance(many, list) else []
        found[str(gvk)] = tuple(str(path) for path in paths)
    return found


def _lifecycles(data: dict[str, Any]) -> dict[str, list[Any]]:
    """`Kind:namespace/name` -> what is known of each pod, in the order of the file.

    Version 2 keys by owner and hash of the pod, version 3 by owner and when it was changed.
    """
    found: dict[str, list[Any]] = {}
    recorded = data.get("pod_lifecycles")
    for key, by_hash in recorded.items() if isinstance(recorded, dict) else ():
        gvk, name = key if isinstance(key, tuple | list) and len(key) == 2 else ("", key)
        found.setdefault(_owner_key(str(gvk), str(name)), []).extend(_flat(by_hash))
    index = data.get("index")
    for gvk, owners in index.items() if isinstance(index, dict) else ():
        for name, by_time in owners.items() if isinstance(owners, dict) else ():
            if isinstance(by_time, dict) and any(_flat(by_time)):
                found.setdefault(_owner_key(str(gvk), str(name)), []).extend(_flat(by_time))
    return found


def _flat(lists: Any) -> list[Any]:
    groups = lists.values() if isinstance(lists, dict) else ()
    return [item for group in groups if isinstance(group, list) for item in group]


def _owner_key(gvk: str, name: str) -> str:
    return f"{gvk.rpartition('.')[2]}:{name}"


def _key(manifest: Any) -> str | None:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("metadata"), dict):
        return None
    name, kind = manifest["metadata"].get("name"), manifest.get("kind")
    if not name or not kind or not isinstance(manifest.get("spec") or {}, dict):
        return None
    return f"{kind}:{manifest['metadata'].get('namespace') or 'default'}/{name}"


def _replicas(manifest: dict[str, Any]) -> int:
    spec = manifest.get("spec") or {}
    count = spec.get("parallelism" if manifest["kind"] == "Job" else "replicas", 1)
    return min(count, REPLICAS_MAX) if isinstance(count, int) and count >= 0 else 1


def _times(lifecycle: Any) -> tuple[float, float]:
    """Start and end; nan: unknown."""
    if isinstance(lifecycle, dict):
        inner = lifecycle.get("lifecycle", lifecycle)
        if isinstance(inner, dict):
            if "start_ts" in inner:
                return _number(inner.get("start_ts")), _number(inner.get("end_ts"))
            if isinstance(inner.get("Finished"), list) and len(inner["Finished"]) == 2:
                start, end = inner["Finished"]
                return _number(start), _number(end)
            return _number(inner.get("Running")), math.nan
    return math.nan, math.nan


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
