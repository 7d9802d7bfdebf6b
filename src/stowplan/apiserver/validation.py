"""What the API refuses: names, labels, and the fields of every kind but the pod.

Each function returns the problems it finds, in the order of the fields, worded as kube-apiserver
words them; none means the object is good.  Only rules that scheduling depends on are here, and
those that keep nonsense out of the store.  `pod_validation` has the rules of pods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stowplan.apiserver.answers import (
    Problem,
    duplicate,
    invalid,
    not_allowed,
    required,
    unsupported,
)
from stowplan.objects.base import (
    KubeObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Resources,
)
from stowplan.objects.kinds import NAMESPACE, Kind
from stowplan.objects.labels import SelectorError, compile_selector
from stowplan.objects.names import label_key_problem, label_value_problem
from stowplan.objects.node import Node, Taint
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.objects.workloads import (
    DaemonSet,
    Deployment,
    Job,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
    WorkloadSpec,
)

NAME_LENGTH_MAX = 253
LABEL_LENGTH_MAX = 63
USER_PRIORITY_MAX = 1_000_000_000
SYSTEM_PRIORITY_PREFIX = "system-"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_label = re.compile(_LABEL).fullmatch
# The same as `_SUBDOMAIN_RULE` says, so that a good name is read once from left to right.
_PART = "[a-z0-9][-a-z0-9]*+(?<!-)"
_is_subdomain = re.compile(rf"{_PART}(?:\.{_PART})*+").fullmatch
_is_short_subdomain = re.compile(rf"(?=.{{1,63}}\Z){_PART}(?:\.{_PART})*+").fullmatch

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '{_LABEL}(\.{_LABEL})*')"
)

TAINT_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
WORKLOADS: frozenset[type[KubeObject]] = frozenset(
    {ReplicaSet, StatefulSet, Deployment, DaemonSet, Job}
)


def label_problem(name: str) -> str:
    if len(name) > LABEL_LENGTH_MAX:
        return f"must be no more than {LABEL_LENGTH_MAX} bytes"
    return "" if _is_label(name) else _LABEL_RULE


def subdomain_problem(name: str) -> str:
    if len(name) > NAME_LENGTH_MAX:
        return f"must be no more than {NAME_LENGTH_MAX} bytes"
    return "" if _is_subdomain(name) else _SUBDOMAIN_RULE


def validate_meta(kind: Kind, meta: ObjectMeta) -> list[Problem]:
    """Name and labels; cheap for the good case, which is nearly all of them."""
    problems: list[Problem] = []
    if kind is NAMESPACE or not _is_short_subdomain(meta.name):
        problems += _name(kind, meta.name)
    if meta.labels:
        problems += _labels(meta.labels, "metadata.labels")
    if meta.owner_references:
        problems += _owners(meta.owner_references)
    return problems


def _name(kind: Kind, name: str) -> list[Problem]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    problem = label_problem(name) if kind is NAMESPACE else subdomain_problem(name)
    return [invalid("metadata.name", name, problem)] if problem else []


def _owners(owners: list[OwnerReference]) -> list[Problem]:
    problems = []
    for n, owner in enumerate(owners):
        where = f"metadata.ownerReferences[{n}]"
        for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                problems.append(invalid(f"{where}.{name}", value, "must not be empty"))
    return problems


def _labels(labels: Mapping[str, str], field: str) -> list[Problem]:
    problems = []
    for key, value in labels.items():
        if problem := label_key_problem(key):
            problems.append(invalid(field, key, problem))
        if problem := label_value_problem(value):
            problems.append(invalid(field, value, problem))
    return problems


def validate_labels(labels: Mapping[str, str] | None, field: str) -> list[Problem]:
    return _labels(labels, field) if labels else []


def validate_resources(resources: Resources | None, field: str) -> Iterator[Problem]:
    """Every amount is a quantity, and not negative."""
    for name, amount in (resources or {}).items():
        try:
            if parse_quantity(amount) < 0:
                yield invalid(f"{field}[{name}]", amount, "must be greater than or equal to 0")
        except QuantityError as error:
            yield invalid(f"{field}[{name}]", amount, str(error))


def validate_selector(selector: LabelSelector | None, field: str) -> Iterator[Problem]:
    if selector is None:
        return
    try:
        compile_selector(selector)
    except SelectorError as error:
        yield invalid(field, str(selector.match_expressions or selector.match_labels), str(error))


def validate_object(kind: Kind, thing: KubeObject) -> list[Problem]:
    """The problems of an object of any kind but Pod, its metadata aside."""
    validate = _VALIDATORS.get(kind.struct)
    return [] if validate is None else list(validate(thing))


def validate_object_update(kind: Kind, new: KubeObject, old: KubeObject) -> list[Problem]:
    """What may not change, in any kind but Pod."""
    problems = []
    if isinstance(new, PriorityClass) and isinstance(old, PriorityClass):
        if new.value != old.value:
            problems.append(not_allowed("value", "may not be changed in an update."))
        if new.preemption_policy != old.preemption_policy:
            problems.append(
                invalid("preemptionPolicy", new.preemption_policy, "field is immutable")
            )
    if kind.struct in WORKLOADS:
        before, after = getattr(old, "spec", None), getattr(new, "spec", None)
        if before is not None and after is not None and before.selector != after.selector:
            problems.append(invalid("spec.selector", str(after.selector), "field is immutable"))
    return problems


def validate_finalizers(new: ObjectMeta, old: ObjectMeta) -> list[Problem]:
    """An object that is being deleted gets no new finalizers."""
    if old.deletion_timestamp is None:
        return []
    added = [item for item in new.finalizers or () if item not in (old.finalizers or ())]
    if not added:
        return []
    listed = ", ".join(f'"{item}"' for item in added)
    return [
        not_allowed(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new "
            f"finalizers []string{{{listed}}}",
        )
    ]


def _node(node: Node) -> Iterator[Problem]:
    yield from validate_taints(node.spec.taints or (), "spec.taints")
    yield from validate_resources(node.status.capacity, "status.capacity")
    yield from validate_resources(node.status.allocatable, "status.allocatable")


def validate_taints(taints: list[Taint] | tuple[()], field: str) -> Iterator[Problem]:
    seen = set()
    for n, taint in enumerate(taints):
        where = f"{field}[{n}]"
        if problem := label_key_problem(taint.key):
            yield invalid(f"{where}.key", taint.key, problem)
        if problem := label_value_problem(taint.value):
            yield invalid(f"{where}.value", taint.value, problem)
        if taint.effect not in TAINT_EFFECTS:
            yield unsupported(f"{where}.effect", taint.effect, TAINT_EFFECTS)
        if (taint.key, taint.effect) in seen:
            yield duplicate(where, f"{taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))


def _claim(claim: PersistentVolumeClaim) -> Iterator[Problem]:
    spec = claim.spec
    if not spec.access_modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    requests = spec.resources.requests if spec.resources is not None else None
    if not requests or "storage" not in requests:
        yield required("spec.resources[storage]")
    yield from validate_resources(requests, "spec.resources.requests")
    yield from validate_selector(spec.selector, "spec.selector")


def _budget(budget: PodDisruptionBudget) -> Iterator[Problem]:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")
    yield from validate_selector(spec.selector, "spec.selector")


def _priority_class(thing: PriorityClass) -> Iterator[Problem]:
    if thing.name.startswith(SYSTEM_PRIORITY_PREFIX):
        if thing.name not in ("system-node-critical", "system-cluster-critical"):
            yield not_allowed(
                "metadata.name",
                f"priority class names with '{SYSTEM_PRIORITY_PREFIX}' prefix are reserved for "
                "system use only",
            )
    elif thing.value > USER_PRIORITY_MAX:
        yield not_allowed(
            "value", f"maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        )


def _workload(thing: Any) -> Iterator[Problem]:
    spec: WorkloadSpec = thing.spec
    if spec.replicas is not None and spec.replicas < 0:
        yield invalid("spec.replicas", spec.replicas, "must be greater than or equal to 0")
    if spec.selector is None:
        if not isinstance(thing, Job):
            yield required("spec.selector")
        return
    yield from validate_selector(spec.selector, "spec.selector")
    labels = template_labels(spec.template)
    try:
        matched = compile_selector(spec.selector).matches(labels)
    except SelectorError:
        return
    if not matched:
        yield invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )


def template_labels(template: Any) -> dict[str, str]:
    """The labels of a pod template; none where they are malformed."""
    metadata = template.get("metadata") if isinstance(template, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}


def _volume(volume: PersistentVolume) -> Iterator[Problem]:
    yield from validate_resources(volume.spec.capacity, "spec.capacity")


_VALIDATORS: dict[type[KubeObject], Callable[[Any], Iterator[Problem]]] = {
    Node: _node,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    **dict.fromkeys(WORKLOADS, _workload),
}
VALIDATED = frozenset(_VALIDATORS)
"""The kinds, besides Pod, that `validate_object` has a rule for."""
