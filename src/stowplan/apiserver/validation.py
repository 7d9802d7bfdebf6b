"""What the API refuses: names, labels, and the fields of every kind but the pod.

Each function returns the problems it finds, in the order of the fields, worded as kube-apiserver
words them; none means the object is good.  Only rules that scheduling depends on are here, and
those that keep nonsense out of the store.  `pod_validation` has the rules of pods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import to_builtins

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
from stowplan.objects.kinds import Kind
from stowplan.objects.labels import SelectorError, compile_selector
from stowplan.objects.names import label_key_problem, label_value_problem
from stowplan.objects.node import Node, Taint
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.resources import is_extended
from stowplan.objects.storage import PersistentVolumeClaim
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

ANNOTATIONS_SIZE_MAX = 256 * 1024
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

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_is_name = re.compile(_NAME).fullmatch
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '({_NAME})?')"
)
_TOO_LONG = f"must be no more than {LABEL_LENGTH_MAX} bytes"

TAINT_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_BOTH_WAYS = frozenset({"orphan", "foregroundDeletion"})
STANDARD_FINALIZERS = frozenset({"kubernetes", *_BOTH_WAYS})
WORKLOADS: frozenset[type[KubeObject]] = frozenset(
    {ReplicaSet, StatefulSet, Deployment, DaemonSet, Job}
)


def label_problem(name: str) -> str:
    if len(name) > LABEL_LENGTH_MAX:
        return f"must be no more than {LABEL_LENGTH_MAX} characters"
    return "" if _is_label(name) else _LABEL_RULE


def subdomain_problem(name: str) -> str:
    if len(name) > NAME_LENGTH_MAX:
        return f"must be no more than {NAME_LENGTH_MAX} characters"
    return "" if _is_subdomain(name) else _SUBDOMAIN_RULE


def key_problems(key: str) -> list[str]:
    """What is wrong with a qualified name: `name`, or `prefix/name`."""
    if not label_key_problem(key):
        return []
    problems = []
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        text = f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
        return [f"{text}(e.g. 'example.com/MyName')"]
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash and (problem := subdomain_problem(prefix)):
        problems.append(f"prefix part {problem}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH_MAX:
        problems.append(f"name part {_TOO_LONG}")
    if not _is_name(name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def value_problems(value: str) -> list[str]:
    if not label_value_problem(value):
        return []
    problems = [_TOO_LONG] if len(value) > LABEL_LENGTH_MAX else []
    return [*problems, *([] if _is_name(value) else [_VALUE_RULE])]


def validate_meta(kind: Kind, meta: ObjectMeta) -> list[Problem]:
    """Name and labels; cheap for the good case, which is nearly all of them."""
    problems: list[Problem] = []
    if kind.name in _NAME_RULES or not _is_short_subdomain(meta.name):
        problems += _name(kind, meta.name)
    if meta.generate_name:
        # What is added to it may follow a dash.
        base = f"{meta.generate_name[:-1]}a" if meta.generate_name[-1] == "-" else ""
        if problem := _NAME_RULES.get(kind.name, subdomain_problem)(base or meta.generate_name):
            field = "metadata.generateName"
            problems.insert(0, invalid(field, meta.generate_name, problem))
    if meta.labels:
        problems += _labels(meta.labels, "metadata.labels")
    if meta.generation < 0:
        text = "must be greater than or equal to 0"
        problems.append(invalid("metadata.generation", meta.generation, text))
    if meta.annotations:
        problems += _annotations(meta.annotations)
    if meta.owner_references:
        problems += _owners(meta.owner_references)
    if meta.finalizers:
        problems += _finalizers(kind, meta.finalizers)
    return problems


def _annotations(annotations: Mapping[str, str]) -> Iterator[Problem]:
    field = "metadata.annotations"
    for key in annotations:
        for problem in key_problems(key.lower()):
            yield invalid(field, key, problem)
    if sum(len(key) + len(text) for key, text in annotations.items()) > ANNOTATIONS_SIZE_MAX:
        text = f"Too long: may not be more than {ANNOTATIONS_SIZE_MAX} bytes"
        yield Problem(field, "FieldValueTooLong", text)


def _finalizers(kind: Kind, finalizers: list[str]) -> Iterator[Problem]:
    field = "metadata.finalizers"
    for item in finalizers:
        for problem in key_problems(item):
            yield invalid(field, item, problem)
    if {*finalizers} >= _BOTH_WAYS:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid(field, finalizers, text)
    for n, item in enumerate(finalizers):
        if "/" not in item and item not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{field}[{n}]", item, text)


def _name(kind: Kind, name: str) -> list[Problem]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    problem = _NAME_RULES.get(kind.name, subdomain_problem)(name)
    return [invalid("metadata.name", name, problem)] if problem else []


def path_segment_problem(name: str) -> str:
    """What keeps a name from being a part of a path; roles may be called anything else."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    found = [char for char in "/%" if char in name]
    return f"may not contain '{found[0]}'" if found else ""


def _service_problem(name: str) -> str:
    return "must not contain dots" if "." in name else label_problem(name)


_NAME_RULES: dict[str, Callable[[str], str]] = {
    "Namespace": label_problem,
    "Service": _service_problem,
    "StatefulSet": label_problem,
    **dict.fromkeys(
        ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"), path_segment_problem
    ),
}
"""What objects of a kind may be called; of others, DNS subdomains."""


def _owners(owners: list[OwnerReference]) -> Iterator[Problem]:
    field, first = "metadata.ownerReferences", ""
    for owner in owners:
        if not owner.api_version.rpartition("/")[2]:
            text = "version must not be empty"
            yield invalid(f"{field}.apiVersion", owner.api_version, text)
        for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                yield invalid(f"{field}.{name}", value, "must not be empty")
        if (owner.api_version, owner.kind) == ("v1", "Event"):
            text = "/v1, Kind=Event is disallowed from being an owner"
            yield invalid(field, to_builtins(owner), text)
        if owner.controller:
            mine = f"{owner.kind}/{owner.name}"
            if first:
                text = 'Only one reference can have Controller set to true. Found "true" in '
                text += f"references for {first} and {mine}"
                yield invalid(field, to_builtins(owners), text)
            first = first or mine


def _labels(labels: Mapping[str, str], field: str) -> list[Problem]:
    problems = []
    for key, value in labels.items():
        problems += [invalid(field, key, problem) for problem in key_problems(key)]
        problems += [invalid(field, value, problem) for problem in value_problems(value)]
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
    yield from validate_labels(selector.match_labels, f"{field}.matchLabels")
    for n, wanted in enumerate(selector.match_expressions or ()):
        where = f"{field}.matchExpressions[{n}]"
        if wanted.operator in ("In", "NotIn"):
            if not wanted.values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{where}.values", text)
        elif wanted.operator in ("Exists", "DoesNotExist"):
            if wanted.values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield not_allowed(f"{where}.values", text)
        else:
            yield invalid(f"{where}.operator", wanted.operator, "not a valid selector operator")
        for problem in key_problems(wanted.key):
            yield invalid(f"{where}.key", wanted.key, problem)
        for m, value in enumerate(wanted.values or ()):
            for problem in value_problems(value):
                yield invalid(f"{where}.values[{m}]", value, problem)


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
            shown = to_builtins(after.selector)
            problems.append(invalid("spec.selector", shown, "field is immutable"))
    return problems


def validate_status_of(kind: Kind, new: KubeObject) -> list[Problem]:
    """What a write to the status may not say, of the kinds whose structs are checked for it."""
    return [*_node(new)] if isinstance(new, Node) else []


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
    # Upstream names the place so.
    yield from validate_taints(node.spec.taints or (), "metadata.taints")
    yield from _amounts(node.status.capacity, "status.capacity")
    yield from _amounts(node.status.allocatable, "status.allocatable")


def _amounts(resources: Resources | None, field: str) -> Iterator[Problem]:
    """Amounts of a node, which are whole where there is nothing to divide."""
    for name, amount in (resources or {}).items():
        nanos = parse_quantity(amount)
        if nanos < 0:
            yield invalid(f"{field}.{name}", amount, "must be greater than or equal to 0")
        if nanos % 10**9 and (name == "pods" or is_extended(name)):
            yield invalid(f"{field}.{name}", amount, "must be an integer")


def validate_taints(taints: list[Taint] | tuple[()], field: str) -> Iterator[Problem]:
    seen = set()
    for n, taint in enumerate(taints):
        where = f"{field}[{n}]"
        for problem in key_problems(taint.key):
            yield invalid(f"{where}.key", taint.key, problem)
        if problems := value_problems(taint.value):
            yield invalid(f"{where}.value", taint.value, ";".join(problems))
        if not taint.effect:
            yield required(f"{where}.effect")
        elif taint.effect not in TAINT_EFFECTS:
            yield unsupported(f"{where}.effect", taint.effect, TAINT_EFFECTS)
        if (taint.key, taint.effect) in seen:
            shown = {"Key": taint.key, "Value": taint.value, "Effect": taint.effect}
            problem_ = duplicate(where, {**shown, "TimeAdded": None})
            text = f"{problem_.detail}: taints must be unique by key and effect pair"
            yield problem_._replace(detail=text)
        seen.add((taint.key, taint.effect))


def _claim(claim: PersistentVolumeClaim) -> Iterator[Problem]:
    spec = claim.spec
    if not spec.access_modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    requests = spec.resources.requests if spec.resources is not None else None
    if not requests or "storage" not in requests:
        yield required("spec.resources[storage]")
    else:
        nanos = parse_quantity(requests["storage"])
        if nanos <= 0:
            where = "spec.resources[storage]"
            yield invalid(where, requests["storage"], "must be greater than zero")
    yield from validate_selector(spec.selector, "spec.selector")


def _budget(budget: PodDisruptionBudget) -> Iterator[Problem]:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        shown = to_builtins(spec)
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        value = {f"{name[0].upper()}{name[1:]}": shown.get(name) for name in names}
        yield invalid("spec", value, "minAvailable and maxUnavailable cannot be both set")
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
    if not spec.selector.match_labels and not spec.selector.match_expressions:
        called = "deployment" if isinstance(thing, ReplicaSet) else type(thing).__name__.lower()
        text = f"empty selector is invalid for {called}"
        yield invalid("spec.selector", {}, text)
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


_VALIDATORS: dict[type[KubeObject], Callable[[Any], Iterator[Problem]]] = {
    Node: _node,
    PersistentVolumeClaim: _claim,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    **dict.fromkeys(WORKLOADS, _workload),
}
VALIDATED = frozenset(_VALIDATORS)
"""The kinds, besides Pod, that `validate_object` has a rule for."""
