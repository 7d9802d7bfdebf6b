"""What kube-apiserver fills in from other objects, or refuses because of them.

Priority classes become numbers, runtime classes overhead, claims get the default storage class,
and label keys of affinity terms are folded into their selectors.  A spec that was admitted is
remembered: pods made from one template are checked once, and share one spec in memory.  Of a spec
that differs from one before only in what its containers ask for, nothing else is checked again.

Mirrors the admission plugins Priority, RuntimeClass, DefaultTolerationSeconds,
DefaultStorageClass, PodTopologyLabels, PodGroupProtection and PodGroupWorkloadExists, and the pod
strategy's `PrepareForCreate`.  `store` calls it for every create.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from stowplan.apiserver.answers import InvalidObject, Problem, forbidden
from stowplan.apiserver.defaults import PREEMPT_LOWER_PRIORITY, default_containers, default_spec
from stowplan.apiserver.device_rules import admin_problems
from stowplan.apiserver.folding import fold_label_keys, folds_label_keys, label_key_problems
from stowplan.apiserver.pod_validation import amounts_are_right, validate_spec, validate_volumes
from stowplan.apiserver.pod_writes import PENDING
from stowplan.apiserver.validation import subdomain_problem
from stowplan.objects.base import Condition, KubeObject, ObjectMeta
from stowplan.objects.codec import encode, join
from stowplan.objects.devices import ResourceClaim, ResourceClaimTemplate
from stowplan.objects.kinds import (
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    WORKLOAD,
    Kind,
)
from stowplan.objects.pod import Container, Pod, PodSpec, PodStatus, Toleration
from stowplan.objects.pod_groups import (
    GENERIC_WORKLOAD,
    PROTECTION,
    WORKLOAD_AWARE_PREEMPTION,
    GroupWorkload,
    PodGroup,
    PodGroupSpec,
)
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.storage import PersistentVolumeClaim, StorageClass
from stowplan.objects.workloads import PriorityClass, RuntimeClass

DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
SPECS_MAX = 1024
LABELS_MAX = 1024

ADMITTED = frozenset(
    {PersistentVolumeClaim, PodGroup, PriorityClass, ResourceClaim, ResourceClaimTemplate}
)
"""The kinds that `admit_object` may change or refuse."""

_GATED = PodStatus(
    phase="Pending",
    conditions=[
        Condition(
            type="PodScheduled",
            status="False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
        )
    ],
)


class Lookup(Protocol):
    """What admission may ask of the store."""

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None: ...

    def every(self, kind: Kind) -> Iterable[KubeObject]: ...

    def data(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None: ...


class _Admitted(Struct, frozen=True, gc=False):
    source: PodSpec
    """Kept, so that its identity is not given to another spec."""
    spec: PodSpec
    folds: bool


class Admission:
    def __init__(self, lookup: Lookup, gates: frozenset[str]) -> None:
        self._lookup = lookup
        self._gates = gates
        """Feature gates that are on."""
        self._by_identity: dict[int, _Admitted] = {}
        self._by_text: dict[bytes, _Admitted] = {}
        self._by_form: dict[bytes, _Admitted] = {}
        """By all of the spec but its volumes and what its containers ask for."""
        self._labels: dict[tuple[int, str, str, bool], tuple[Any, dict[str, str]]] = {}

    def fork(self, lookup: Lookup) -> Admission:
        """One that remembers the same: what both admit from here on shares it too."""
        other = Admission(lookup, self._gates)
        other._by_identity = self._by_identity.copy()
        other._by_text = self._by_text.copy()
        other._by_form = self._by_form.copy()
        other._labels = self._labels.copy()
        return other

    def forget(self) -> None:
        """A class that specs were resolved with has changed."""
        self._by_identity.clear()
        self._by_text.clear()
        self._by_form.clear()

    def admit_pod(self, kind: Kind, pod: Pod, meta: ObjectMeta) -> Pod:
        """A new pod as it is stored, with this metadata."""
        source = pod.spec
        admitted = self._by_identity.get(id(source))
        if admitted is None or admitted.source is not source:
            admitted = self._recall(source, meta.name)
        spec = admitted.spec
        if admitted.folds:
            if problems := [*label_key_problems(spec, meta.labels or {})]:
                raise InvalidObject(POD, meta.name, problems)
            spec = fold_label_keys(spec, meta.labels or {})
        if spec.node_name:
            node = self._lookup.find(NODE, "", spec.node_name)
            labels = self.topology_labels(meta.labels, node, overwrite=False)
            meta = replace(meta, labels=labels)
        status = _GATED if spec.scheduling_gates else PENDING
        return Pod(api_version="v1", kind="Pod", metadata=meta, spec=spec, status=status)

    def _recall(self, source: PodSpec, name: str) -> _Admitted:
        """An equal spec that was admitted before, or this one now.

        Equal but for its volumes: replicas that have a claim of their own are of one template too,
        and nothing else in a spec depends on them.
        """
        volumes = source.volumes
        text = encode(source if volumes is None else replace(source, volumes=None))
        known = self._by_text.get(text)
        if known is None:
            known = self._admit_size(source, name)
            _keep(self._by_text, text, known)
        spec = known.spec
        if volumes != spec.volumes:
            spec = replace(spec, volumes=volumes)
            if problems := validate_volumes(volumes):
                raise InvalidObject(POD, name, problems)
        if len(self._by_identity) >= SPECS_MAX:
            self._by_identity.clear()
        admitted = self._by_identity[id(source)] = _Admitted(source, spec, known.folds)
        return admitted

    def _admit_size(self, source: PodSpec, name: str) -> _Admitted:
        """The spec as one of the same form was admitted, or now.

        What containers ask for concerns nothing but them, unless the pod as a whole asks too.
        """
        if source.resources is not None:
            return self._admit_spec(source, name)
        form = encode(
            replace(
                source,
                containers=_without_resources(source.containers),
                init_containers=_without_resources(source.init_containers),
                volumes=None,
            )
        )
        known = self._by_form.get(form)
        if known is not None:
            containers = default_containers(source.containers, source.host_network)
            init_containers = default_containers(source.init_containers, source.host_network)
            if amounts_are_right(containers) and amounts_are_right(init_containers):
                spec = replace(known.spec, containers=containers, init_containers=init_containers)
                return _Admitted(source, spec, known.folds)
        admitted = self._admit_spec(source, name)
        _keep(self._by_form, form, admitted)
        return admitted

    def _admit_spec(self, source: PodSpec, name: str) -> _Admitted:
        spec = default_spec(source)
        if spec.scheduling_group is not None and GENERIC_WORKLOAD not in self._gates:
            spec = replace(spec, scheduling_group=None)
        spec = self._with_priority(spec, name)
        spec = self._with_runtime_class(spec, name)
        if problems := validate_spec(spec):
            raise InvalidObject(POD, name, problems)
        return _Admitted(source, spec, folds_label_keys(spec))

    def _with_priority(self, spec: PodSpec, name: str) -> PodSpec:
        chosen = self._priority_class(POD, name, spec.priority_class_name)
        value = chosen.value if chosen is not None else 0
        policy = (chosen.preemption_policy if chosen else None) or PREEMPT_LOWER_PRIORITY
        if spec.priority is not None and spec.priority != value:
            raise forbidden(
                POD,
                name,
                f"the integer value of priority ({spec.priority}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        if spec.preemption_policy is not None and spec.preemption_policy != policy:
            raise forbidden(
                POD,
                name,
                f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be "
                f"provided in pod spec; priority admission controller computed {policy} from the "
                "given PriorityClass name",
            )
        class_name = chosen.name if chosen is not None else spec.priority_class_name
        found = (spec.priority, spec.preemption_policy, spec.priority_class_name)
        if found == (value, policy, class_name):
            return spec
        return replace(
            spec, priority=value, preemption_policy=policy, priority_class_name=class_name
        )

    def _priority_class(self, kind: Kind, name: str, class_name: str) -> PriorityClass | None:
        """The class of this name for a new object, or the default one."""
        if class_name:
            chosen = self._lookup.find(PRIORITY_CLASS, "", class_name)
            if not isinstance(chosen, PriorityClass):
                raise forbidden(kind, name, f"no PriorityClass with name {class_name} was found")
            return chosen
        defaults = [
            thing
            for thing in self._lookup.every(PRIORITY_CLASS)
            if isinstance(thing, PriorityClass) and thing.global_default
        ]
        return min(defaults, key=lambda thing: thing.value, default=None)

    def _with_runtime_class(self, spec: PodSpec, name: str) -> PodSpec:
        if spec.runtime_class_name is None:
            if spec.overhead is not None:
                why = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise forbidden(POD, name, f"pod rejected: {why}")
            return spec
        chosen = self._lookup.find(RUNTIME_CLASS, "", spec.runtime_class_name)
        if not isinstance(chosen, RuntimeClass):
            why = f'pod rejected: RuntimeClass "{spec.runtime_class_name}" not found'
            raise forbidden(POD, name, why)
        return self._with_scheduling(_with_overhead(spec, chosen, name), chosen.name, name)

    def _with_scheduling(self, spec: PodSpec, class_name: str, name: str) -> PodSpec:
        """Add the node selector and the tolerations of the runtime class."""
        scheduling = (self._lookup.data(RUNTIME_CLASS, "", class_name) or {}).get("scheduling")
        if not isinstance(scheduling, dict):
            return spec
        selector = dict(spec.node_selector or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.setdefault(key, value) != value:
                raise forbidden(
                    POD,
                    name,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
        tolerations = list(spec.tolerations or ())
        for item in scheduling.get("tolerations") or ():
            toleration = Toleration(
                key=item.get("key", ""),
                operator=item.get("operator", ""),
                value=item.get("value", ""),
                effect=item.get("effect", ""),
                toleration_seconds=item.get("tolerationSeconds"),
            )
            if toleration not in tolerations:
                tolerations.append(toleration)
        return replace(spec, node_selector=selector or None, tolerations=tolerations or None)

    def topology_labels(
        self, labels: dict[str, str] | None, node: KubeObject | None, *, overwrite: bool
    ) -> dict[str, str] | None:
        """The pod's labels with the zone and region of its node, if they are known.

        Pods of one template on nodes of one zone share the result.
        """
        marks = None if node is None else node.metadata.labels
        if not marks:
            return labels
        zone, region = marks.get(ZONE_LABEL, ""), marks.get(REGION_LABEL, "")
        if not zone and not region:
            return labels
        key = (id(labels), zone, region, overwrite)
        known = self._labels.get(key)
        if known is not None and known[0] is labels:
            return known[1]
        found = {
            name: value for name, value in ((ZONE_LABEL, zone), (REGION_LABEL, region)) if value
        }
        merged = {**(labels or {}), **found} if overwrite else {**found, **(labels or {})}
        if len(self._labels) >= LABELS_MAX:
            self._labels.clear()
        self._labels[key] = (labels, merged)
        return merged

    def admit_object(self, kind: Kind, thing: KubeObject) -> KubeObject:
        """What other objects mean for a new one of any kind but Pod."""
        if isinstance(thing, PersistentVolumeClaim) and thing.spec.storage_class_name is None:
            default = self._default_storage_class()
            if default is not None:
                return replace(thing, spec=replace(thing.spec, storage_class_name=default.name))
        if isinstance(thing, PriorityClass) and thing.global_default:
            for other in self._lookup.every(PRIORITY_CLASS):
                marked = isinstance(other, PriorityClass) and other.global_default
                if marked and other.name != thing.name:
                    raise forbidden(
                        kind,
                        thing.name,
                        f"PriorityClass {other.name} is already marked as default. "
                        "Only one default can exist",
                    )
        if isinstance(thing, PodGroup):
            return self._admit_group(thing)
        if isinstance(thing, ResourceClaim | ResourceClaimTemplate) and _asks_for_admin(thing):
            labels = self._labels_of(thing.namespace)
            if problems := admin_problems(kind.name, join(thing, None), None, labels):
                raise InvalidObject(kind, thing.name, problems)
        return thing

    def _admit_group(self, group: PodGroup) -> PodGroup:
        meta, spec = group.metadata, group.spec
        if PROTECTION not in (meta.finalizers or ()):
            meta = replace(meta, finalizers=[*(meta.finalizers or ()), PROTECTION])
        if WORKLOAD_AWARE_PREEMPTION in self._gates:
            spec = self._with_group_priority(spec, meta.name)
        if (template := spec.template) is not None and (why := self._no_template(meta, *template)):
            raise forbidden(POD_GROUP, meta.name, f"PodGroup rejected: {why}")
        return replace(group, metadata=meta, spec=spec)

    def _with_group_priority(self, spec: PodGroupSpec, name: str) -> PodGroupSpec:
        chosen = self._priority_class(POD_GROUP, name, spec.priority_class_name)
        value = chosen.value if chosen is not None else 0
        if spec.priority is not None and spec.priority != value:
            raise forbidden(
                POD_GROUP,
                name,
                f"priority set in the pod group ({spec.priority}) must match the priority "
                f"computed ({value}) based on the priority class set in the spec",
            )
        class_name = chosen.name if chosen is not None else ""
        return replace(spec, priority=value, priority_class_name=class_name)

    def _no_template(self, meta: ObjectMeta, workload_name: str, name: str) -> str:
        """Why a group cannot be made from this template of a workload, if it cannot.

        What cannot be a name at all is refused as that.
        """
        if not name or subdomain_problem(workload_name):
            return ""
        workload = self._lookup.find(WORKLOAD, meta.namespace, workload_name)
        if not isinstance(workload, GroupWorkload):
            return f'Workload "{workload_name}" not found'
        if workload.metadata.deletion_timestamp is not None:
            return f'Workload "{workload_name}" is being deleted'
        templates = workload.spec.pod_group_templates or ()
        if any(template.name == name for template in templates):
            return ""
        return f'PodGroupTemplate "{name}" not found in Workload "{workload_name}"'

    def refused_status(
        self, kind: Kind, after: dict[str, Any], before: dict[str, Any]
    ) -> list[Problem]:
        """What other objects do not let a write to a status say."""
        if kind is not RESOURCE_CLAIM:
            return []
        labels = self._labels_of(before["metadata"]["namespace"])
        return admin_problems(kind.name, after, before, labels)

    def _labels_of(self, namespace: str) -> dict[str, str] | None:
        found = self._lookup.find(NAMESPACE, "", namespace)
        return None if found is None else found.metadata.labels

    def _default_storage_class(self) -> StorageClass | None:
        """The newest one marked as default; among equals the first by name."""
        marked = [
            thing
            for thing in self._lookup.every(STORAGE_CLASS)
            if isinstance(thing, StorageClass)
            and (thing.metadata.annotations or {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
        ]
        marked.sort(key=lambda thing: thing.name)
        return max(marked, key=lambda thing: thing.metadata.creation_timestamp or "", default=None)


def _asks_for_admin(thing: ResourceClaim | ResourceClaimTemplate) -> bool:
    spec = thing.spec if isinstance(thing, ResourceClaim) else thing.spec.spec
    requests = spec.devices.requests or ()
    return any(it.exactly is not None and it.exactly.admin_access for it in requests)


def _keep(specs: dict[bytes, _Admitted], text: bytes, admitted: _Admitted) -> None:
    if len(specs) >= SPECS_MAX:
        del specs[next(iter(specs))]
    specs[text] = admitted


def _without_resources(containers: list[Container] | None) -> list[Container] | None:
    return containers and [replace(container, resources=None) for container in containers]


def _with_overhead(spec: PodSpec, chosen: RuntimeClass, name: str) -> PodSpec:
    fixed = chosen.overhead.pod_fixed if chosen.overhead is not None else None
    if not spec.overhead:
        return replace(spec, overhead=fixed) if fixed else spec
    try:
        written = {key: parse_quantity(amount) for key, amount in spec.overhead.items()}
    except QuantityError:
        return spec  # It will be refused, with the name of the resource.
    if written != {key: parse_quantity(amount) for key, amount in (fixed or {}).items()}:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden(POD, name, why)
    return spec
