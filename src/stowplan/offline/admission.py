"""What an API server would have filled in, had the objects been through one.

Manifests leave out what is defaulted and resolved when they are applied, and scheduling depends
on it: requests that follow from limits, the priority of a PriorityClass, the overhead of a
RuntimeClass, the default StorageClass.  Objects of a dump have all that, and stay as they are.
Unlike admission this refuses little: a manifest may state a priority, for instance.  Called by
`stowplan.offline`; the defaults themselves are the embedded API server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from stowplan.apiserver.defaults import default_object, default_spec
from stowplan.apiserver.folding import fold_label_keys, folds_label_keys
from stowplan.errors import InputError
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.manifests import check
from stowplan.objects.pod import Pod, PodSpec
from stowplan.objects.storage import PersistentVolumeClaim, StorageClass
from stowplan.objects.workloads import Namespace, PriorityClass, RuntimeClass
from stowplan.offline.input_objects import InputObject

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Every cluster has these, whether a dump shows them or not."""


def admit(entries: list[InputObject]) -> list[KubeObject]:
    """The objects as an API server would store them, and a Namespace for every pod."""
    admission = _Admission(entries)
    objects = [admission.admit(entry) for entry in entries]
    return [*objects, *_missing_namespaces(objects)]


class _Admission:
    def __init__(self, entries: list[InputObject]) -> None:
        self._priorities = {
            name: PriorityClass(metadata=ObjectMeta(name=name), value=value)
            for name, value in _SYSTEM_CLASSES.items()
        }
        self._runtimes: dict[str, tuple[RuntimeClass, RuntimeScheduling]] = {}
        storage = []
        for entry in entries:
            match entry.obj:
                case PriorityClass() as found:
                    self._priorities[found.name] = found
                case RuntimeClass() as found:
                    self._runtimes[found.name] = found, _scheduling_of(entry)
                case StorageClass() as found if _is_default(found):
                    storage.append(found)
        storage.sort(key=lambda one: one.name)
        self._storage = max(
            storage, key=lambda one: one.metadata.creation_timestamp or "", default=None
        )
        """The newest that is marked as default; among equals the first by name."""

    def admit(self, entry: InputObject) -> KubeObject:
        obj = default_object(entry.obj, creating=False)
        if isinstance(obj, Pod):
            return self._pod(entry, obj)
        if isinstance(obj, PersistentVolumeClaim) and entry.is_new:
            return self._claim(obj)
        return obj

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        if claim.spec.storage_class_name is not None or self._storage is None:
            return claim
        spec = replace(claim.spec, storage_class_name=self._storage.name)
        return replace(claim, spec=spec)

    def _pod(self, entry: InputObject, pod: Pod) -> Pod:
        spec = pod.spec
        # An API server gives every pod a scheduler: who has none has not been through one, even
        # if somebody has given it a uid.
        is_new = entry.is_new or not spec.scheduler_name
        if is_new:
            spec = default_spec(spec)
            spec = self._with_runtime_class(entry, spec)
            if folds_label_keys(spec):
                spec = fold_label_keys(spec, pod.metadata.labels or {})
        if spec.priority is None and (is_new or spec.priority_class_name):
            spec = self._with_priority(entry, spec)
        return pod if spec is pod.spec else replace(pod, spec=spec)

    def _with_priority(self, entry: InputObject, spec: PodSpec) -> PodSpec:
        chosen: PriorityClass | None
        if spec.priority_class_name:
            chosen = self._priorities.get(spec.priority_class_name)
            if chosen is None:
                place = entry.place("spec.priorityClassName")
                raise _absent("PriorityClass", spec.priority_class_name, self._priorities, place)
        else:
            defaults = [one for one in self._priorities.values() if one.global_default]
            chosen = min(defaults, key=lambda one: one.value, default=None)
        if chosen is None:
            return replace(spec, priority=0)
        policy = spec.preemption_policy or chosen.preemption_policy
        return replace(
            spec,
            priority=chosen.value,
            priority_class_name=chosen.name,
            preemption_policy=policy,
        )

    def _with_runtime_class(self, entry: InputObject, spec: PodSpec) -> PodSpec:
        """Its overhead, unless the pod states one, and where it may run."""
        name = spec.runtime_class_name
        if not name:
            return spec
        if name not in self._runtimes:
            place = entry.place("spec.runtimeClassName")
            raise _absent("RuntimeClass", name, self._runtimes, place)
        runtime, scheduling = self._runtimes[name]
        overhead = runtime.overhead.pod_fixed if runtime.overhead is not None else None
        selector = {**(scheduling.node_selector or {}), **(spec.node_selector or {})}
        tolerations = list(spec.tolerations or ())
        tolerations += [one for one in scheduling.tolerations or () if one not in tolerations]
        return replace(
            spec,
            overhead=spec.overhead or overhead,
            node_selector=selector or None,
            tolerations=tolerations or None,
        )


RuntimeScheduling = PodSpec
"""`scheduling` of a RuntimeClass has a node selector and tolerations, as a pod's spec has."""


def _scheduling_of(entry: InputObject) -> RuntimeScheduling:
    scheduling: Any = entry.data.get("scheduling") or {}
    place = entry.place("scheduling").removesuffix(": scheduling")
    return check(scheduling, RuntimeScheduling, place, below="scheduling")


def _is_default(storage: StorageClass) -> bool:
    return (storage.metadata.annotations or {}).get(DEFAULT_CLASS) == "true"


def _absent(kind: str, name: str, known: dict[str, Any], place: str) -> InputError:
    near = get_close_matches(name, known, n=1)
    plural = f"{kind.lower()}es"
    hint = f"did you mean {near[0]!r}?" if near else f"add it, as `kubectl get {plural} -o yaml`"
    return InputError(f"there is no {kind} {name!r} in the input", where=place, hint=hint)


def _missing_namespaces(objects: list[KubeObject]) -> Iterator[Namespace]:
    """A pod's namespace exists, and has its name for a label, whether a dump shows it or not."""
    known = {obj.name for obj in objects if isinstance(obj, Namespace)}
    wanted = dict.fromkeys(obj.namespace for obj in objects if isinstance(obj, Pod))
    for name in wanted:
        if name not in known:
            yield default_object(Namespace(metadata=ObjectMeta(name=name)), creating=False)
