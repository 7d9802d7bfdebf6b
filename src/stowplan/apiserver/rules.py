"""What the API refuses, as tables: a path into an object of a kind, and what must hold there.

Only what no struct holds, or what few kinds have, is here; `validation` and `pod_validation` have
the rules that every create must pass quickly.  A path walks JSON data: `spec.drivers[].name` is the
name of every driver.  `IMMUTABLE` are the paths that an update may not change.  Mirrors the
`validation` packages of `pkg/apis`, in their order and words.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stowplan.apiserver import wire_schema
from stowplan.apiserver.answers import (
    Problem,
    duplicate,
    invalid,
    not_allowed,
    required,
    unsupported,
)
from stowplan.apiserver.pod_validation import (
    validate_node_term,
    validate_requirements,
    validate_toleration,
)
from stowplan.apiserver.validation import (
    key_problems,
    label_problem,
    subdomain_problem,
    validate_labels,
    validate_selector,
)
from stowplan.objects.base import LabelSelector
from stowplan.objects.pod import NodeSelectorTerm, ResourceRequirements, Toleration
from stowplan.objects.quantity import QuantityError, parse_quantity

Data = dict[str, Any]
Check = Callable[[str, Any], Iterator[Problem]]
Rule = tuple[str, Check]

NOT_NEGATIVE = "must be greater than or equal to 0"
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_CSI_NAME = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_INT32_MAX = 2**31 - 1
_FIELD_PATHS_SHOWN = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_FIELD_PATHS = frozenset({*_FIELD_PATHS_SHOWN, "metadata.labels", "metadata.annotations"})


# What may be asked of a value.


def needed(detail: str = "") -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value is None or value == "" or value == [] or value == {}:
            yield required(where, detail)

    return check


def one_of(*choices: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value == "":
            yield required(where)
        elif value is not None and value not in choices:
            yield unsupported(where, value, choices)

    return check


def in_order(*choices: str) -> Check:
    """As `one_of`, where upstream lists the choices in this order and not sorted."""

    def check(where: str, value: Any) -> Iterator[Problem]:
        for problem in one_of(*choices)(where, value):
            listed = ", ".join(f'"{choice}"' for choice in choices)
            head, found, _ = problem.detail.partition("supported values: ")
            yield problem._replace(detail=f"{head}{found}{listed}") if found else problem

    return check


def all_of(*choices: str) -> Check:
    """A list with nothing but these; the list is named, and not the place in it."""

    def check(where: str, value: Any) -> Iterator[Problem]:
        for item in value or ():
            if item not in choices:
                yield unsupported(where, item, choices)

    return check


def named_by(problem_of: Callable[[str], str]) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value and (problem := problem_of(value)):
            yield invalid(where, value, problem)

    return check


def matches(pattern: re.Pattern[str], rule: str) -> Check:
    return named_by(lambda text: "" if pattern.fullmatch(text) else rule)


def at_least(least: int, text: str = NOT_NEGATIVE) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, int) and value < least:
            yield invalid(where, value, text)

    return check


def between(least: int, most: int) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, int) and not least <= value <= most:
            yield invalid(where, value, f"must be between {least} and {most}, inclusive")

    return check


def positive(where: str, value: Any) -> Iterator[Problem]:
    try:
        if value is not None and parse_quantity(value) <= 0:
            yield invalid(where, value, "must be greater than zero")
    except QuantityError as error:
        yield invalid(where, value, str(error))


def not_negative(where: str, value: Any) -> Iterator[Problem]:
    if value is not None and parse_quantity(value) < 0:
        yield invalid(where, value, NOT_NEGATIVE)


def qualified(where: str, value: Any) -> Iterator[Problem]:
    for problem in key_problems(value) if value is not None else ():
        yield invalid(where, value, problem)


def label_map(where: str, value: Any) -> Iterator[Problem]:
    yield from validate_labels(value, where)


def selector(where: str, value: Any) -> Iterator[Problem]:
    if value is not None:
        yield from validate_selector(msgspec.convert(value, LabelSelector), where)


def count_or_percent(where: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        yield invalid(where, value, _PERCENT_RULE)
    elif isinstance(value, int) and value < 0:
        yield invalid(where, value, NOT_NEGATIVE)


def at_most_all(where: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(where, value, "must not be greater than 100%")


def address(where: str, value: Any) -> Iterator[Problem]:
    try:
        ipaddress.ip_address(value or "")
    except ValueError:
        yield invalid(
            where, value or "", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )


def network(where: str, value: Any) -> Iterator[Problem]:
    try:
        ipaddress.ip_network(value or "0.0.0.0/0", strict=False)
        valid = value is None or "/" in value
    except ValueError:
        valid = False
    if not valid:
        place = where.replace("podCIDR", "podCIDRs[0]") if where.endswith("podCIDR") else where
        yield invalid(
            place, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )


def not_negative_amounts(where: str, value: Any) -> Iterator[Problem]:
    for name, amount in (value or {}).items():
        yield from not_negative(f"{where}[{name}]", amount)


def address_or_none(where: str, value: Any) -> Iterator[Problem]:
    if value != "None":
        yield from address(where, value)


def named_ports(where: str, value: Any) -> Iterator[Problem]:
    """A Service has ports unless it is headless; of several, each has a name of its own."""
    ports = value.get("ports") or ()
    if not ports and value.get("type") != "ExternalName" and value.get("clusterIP") != "None":
        yield required(f"{where}.ports")
    names = set()
    for n, port in enumerate(ports):
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{where}.ports[{n}].name")
        elif name in names:
            yield duplicate(f"{where}.ports[{n}].name", name)
        names.add(name)


def selects_itself(where: str, value: Any) -> Iterator[Problem]:
    """A ReplicationController's selector is a map, and must fit its own template."""
    wanted, template = value.get("selector") or {}, value.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not wanted:
        yield required(f"{where}.selector")
    if any(labels.get(key) != text for key, text in wanted.items()):
        text = "`selector` does not match template `labels`"
        yield invalid(f"{where}.template.metadata.labels", labels, text)


def once(key: str) -> Check:
    """A list whose items differ in `key`."""

    def check(where: str, value: Any) -> Iterator[Problem]:
        seen = set()
        for n, item in enumerate(value or ()):
            if (found := item.get(key)) in seen:
                yield duplicate(f"{where}[{n}].{key}", found)
            seen.add(found)

    return check


def alone(choice: str, text: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value and choice in value and len(set(value)) > 1:
            yield not_allowed(where, text)

    return check


def keys_only(*choices: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value is not None and set(value) - set(choices):
            yield unsupported(where, value, choices)

    return check


def one_source(message: str, *, least: int = 1) -> Check:
    """Exactly one of the sources that the message lists."""
    described = wire_schema.message(message)
    assert described is not None, message
    sources = tuple(described.by_name)

    def check(where: str, value: Any) -> Iterator[Problem]:
        found = [name for name in sources if (value or {}).get(name) is not None]
        for name in found[1:]:
            yield not_allowed(f"{where}.{name}", "may not specify more than 1 volume type")
        if len(found) < least:
            yield required(where, "must specify a volume type")

    return check


def config_keys(where: str, value: Any) -> Iterator[Problem]:
    for key in value or ():
        if not _CONFIG_KEY.fullmatch(key):
            yield invalid(f"{where}[{key}]", key, _CONFIG_KEY_RULE)


def node_terms(where: str, value: Any) -> Iterator[Problem]:
    if not value:
        yield required(where, "must have at least one node selector term")
    for n, term in enumerate(value or ()):
        yield from validate_node_term(msgspec.convert(term, NodeSelectorTerm), f"{where}[{n}]")


def amounts(where: str, value: Any) -> Iterator[Problem]:
    """Of a runtime class: checked as the limits of a container are."""
    yield from validate_requirements(ResourceRequirements(limits=value), where)


def tolerations(where: str, value: Any) -> Iterator[Problem]:
    for n, item in enumerate(value or ()):
        yield from validate_toleration(msgspec.convert(item, Toleration), f"{where}[{n}]")


def no_parents(where: str, value: Any) -> Iterator[Problem]:
    if value and ".." in value.split("/"):
        yield invalid(where, value, "must not contain '..'")


def claim_ref(where: str, value: Any) -> Iterator[Problem]:
    if not value.get("exactly") and not value.get("firstAvailable"):
        yield required(where, "exactly one of `exactly` or `firstAvailable` is required")


def known_system(where: str, value: Any) -> Iterator[Problem]:
    if value is not None:
        yield from one_of("linux", "windows")(where, value.get("name"))


def pod_claim(where: str, value: Any) -> Iterator[Problem]:
    names = ("resourceClaimName", "resourceClaimTemplateName")
    if sum(name in value for name in names) != 1:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        shown = {"Name": value.get("name", "")}
        shown |= {f"R{name[1:]}": value.get(name) for name in names}
        yield invalid(where, shown, text)


def value_from(where: str, value: Any) -> Iterator[Problem]:
    source = value.get("valueFrom")
    if source is None:
        return
    if value.get("value"):
        text = "may not be specified when `value` is not empty"
        yield invalid(f"{where}.valueFrom", "", text)
    path = (source.get("fieldRef") or {}).get("fieldPath", "metadata.name")
    if path.partition("[")[0] not in _FIELD_PATHS:
        yield unsupported(f"{where}.valueFrom.fieldRef.fieldPath", path, _FIELD_PATHS_SHOWN)


def mounted(where: str, value: Any) -> Iterator[Problem]:
    """The mounts of all containers name volumes that there are."""
    known = {volume.get("name") for volume in value.get("volumes") or ()}
    for field in ("containers", "initContainers"):
        for n, container in enumerate(value.get(field) or ()):
            for m, mount in enumerate(container.get("volumeMounts") or ()):
                name = mount.get("name", "")
                if name not in known:
                    place = f"{where}.{field}[{n}].volumeMounts[{m}].name"
                    yield Problem(place, "FieldValueNotFound", f'Not found: "{name}"')


# The tables.

_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NOT_WITH_OTHERS = "may not use ReadWriteOncePod with other access modes"
_MODES = ("Block", "Filesystem")

_subdomain, _label = named_by(subdomain_problem), named_by(label_problem)
_driver = matches(
    _CSI_NAME,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
)
_ENV_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)
_POLICIES = ("PreemptLowerPriority", "Never")


def _containers(field: str) -> tuple[Rule, ...]:
    place = f"spec.{field}[]"
    return (
        (f"{place}.env[].name", needed()),
        (f"{place}.env[].name", matches(_ENV_NAME, _ENV_RULE)),
        (f"{place}.env[]", value_from),
        (f"{place}.volumeMounts[].name", needed()),
        (f"{place}.volumeMounts[].mountPath", needed()),
        (f"{place}.imagePullPolicy", one_of("Always", "IfNotPresent", "Never")),
        (f"{place}.securityContext.runAsUser", between(0, _INT32_MAX)),
    )


POD: tuple[Rule, ...] = (
    ("spec.volumes[]", one_source("core.VolumeSource")),
    ("spec.volumes[].persistentVolumeClaim.claimName", needed()),
    ("spec.volumes[].hostPath.path", needed()),
    ("spec.volumes[].hostPath.path", no_parents),
    ("spec.volumes[].configMap.name", needed()),
    ("spec.volumes[].secret.secretName", needed()),
    ("spec.resourceClaims[].name", needed()),
    ("spec.resourceClaims[].name", _label),
    ("spec.resourceClaims[]", pod_claim),
    *_containers("containers"),
    *_containers("initContainers"),
    ("spec", mounted),
    ("spec.dnsPolicy", one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")),
    ("spec.securityContext.runAsUser", between(0, _INT32_MAX)),
    ("spec.securityContext.runAsGroup", between(0, _INT32_MAX)),
    ("spec.securityContext.fsGroup", between(0, _INT32_MAX)),
    ("spec.readinessGates[].conditionType", qualified),
    ("spec.serviceAccountName", _subdomain),
    ("spec.activeDeadlineSeconds", between(1, _INT32_MAX)),
    ("spec.hostname", _label),
    ("spec.subdomain", _label),
    ("spec.hostAliases[].ip", address),
    ("spec.os.name", needed()),
    ("spec.os", known_system),
)

_REPLICATED: tuple[Rule, ...] = (("spec.minReadySeconds", at_least(0)),)
_REVISED: tuple[Rule, ...] = (*_REPLICATED, ("spec.revisionHistoryLimit", at_least(0)))
_CLAIM_TEMPLATE = (
    ("devices.requests[].name", needed()),
    ("devices.requests[].name", _label),
    ("devices.requests[]", claim_ref),
    ("devices.requests[].exactly.deviceClassName", needed()),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "Pod": POD,
    "PersistentVolume": (
        ("spec.accessModes", needed()),
        ("spec.accessModes", all_of(*_ACCESS)),
        ("spec.accessModes", alone("ReadWriteOncePod", _NOT_WITH_OTHERS)),
        ("spec.capacity", needed()),
        ("spec.capacity", keys_only("storage")),
        ("spec.capacity.storage", positive),
        ("spec.persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")),
        ("spec.nodeAffinity.required.nodeSelectorTerms", node_terms),
        ("spec", one_source("core.PersistentVolumeSource")),
        ("spec.hostPath.path", needed()),
        ("spec.hostPath.path", no_parents),
        ("spec.csi.driver", needed()),
        ("spec.csi.volumeHandle", needed()),
        ("spec.storageClassName", _subdomain),
        ("spec.volumeMode", one_of(*_MODES)),
    ),
    "PersistentVolumeClaim": (
        ("spec.accessModes", all_of(*_ACCESS)),
        ("spec.accessModes", alone("ReadWriteOncePod", _NOT_WITH_OTHERS)),
        ("spec.storageClassName", _subdomain),
        ("spec.volumeMode", one_of(*_MODES)),
    ),
    "StorageClass": (
        ("provisioner", needed()),
        ("provisioner", lambda where, value: qualified(where, value.lower() if value else None)),
        ("reclaimPolicy", one_of("Delete", "Retain")),
        ("volumeBindingMode", one_of("Immediate", "WaitForFirstConsumer")),
        ("allowedTopologies[].matchLabelExpressions[].key", qualified),
        ("allowedTopologies[].matchLabelExpressions[].values", needed()),
    ),
    "CSINode": (
        ("spec.drivers[].name", needed()),
        ("spec.drivers[].name", _driver),
        ("spec.drivers[].nodeID", needed()),
        ("spec.drivers[].allocatable.count", at_least(0)),
        ("spec.drivers", once("name")),
        ("spec.drivers[].topologyKeys[]", qualified),
    ),
    "CSIDriver": (("spec.volumeLifecycleModes[]", one_of("Ephemeral", "Persistent")),),
    "CSIStorageCapacity": (
        ("nodeTopology", selector),
        ("storageClassName", needed()),
        ("storageClassName", _subdomain),
        ("capacity", not_negative),
    ),
    "VolumeAttachment": (
        ("spec.attacher", needed()),
        ("spec.attacher", _driver),
        (
            "spec.source.persistentVolumeName",
            needed("must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
        ),
        ("spec.nodeName", needed()),
        ("spec.nodeName", _subdomain),
    ),
    "PodDisruptionBudget": (
        ("spec.minAvailable", count_or_percent),
        ("spec.minAvailable", at_most_all),
        ("spec.maxUnavailable", count_or_percent),
        ("spec.maxUnavailable", at_most_all),
        ("spec.unhealthyPodEvictionPolicy", one_of("AlwaysAllow", "IfHealthyBudget")),
    ),
    "PriorityClass": (("preemptionPolicy", in_order(*_POLICIES)),),
    "RuntimeClass": (
        ("handler", needed()),
        ("handler", _label),
        ("overhead.podFixed", lambda where, value: amounts("overhead", value)),
        ("scheduling.nodeSelector", label_map),
        ("scheduling.tolerations", tolerations),
    ),
    "Lease": (
        ("spec.leaseDurationSeconds", at_least(1, "must be greater than 0")),
        ("spec.leaseTransitions", at_least(0)),
    ),
    "ReplicationController": (*_REPLICATED, ("spec", selects_itself)),
    "Service": (
        ("spec.ports[].port", between(1, 65535)),
        ("spec.selector", label_map),
        ("spec.type", one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
        ("spec.sessionAffinity", one_of("ClientIP", "None")),
        ("spec.clusterIPs[]", address_or_none),
        ("spec", named_ports),
    ),
    "ReplicaSet": _REPLICATED,
    "Deployment": (
        *_REVISED,
        ("spec.progressDeadlineSeconds", at_least(0)),
        ("spec.strategy.type", one_of("Recreate", "RollingUpdate")),
        ("spec.strategy.rollingUpdate.maxUnavailable", count_or_percent),
        ("spec.strategy.rollingUpdate.maxSurge", count_or_percent),
        ("spec.strategy.rollingUpdate.maxUnavailable", at_most_all),
    ),
    "DaemonSet": (
        *_REVISED,
        ("spec.updateStrategy.type", one_of("OnDelete", "RollingUpdate")),
        ("spec.updateStrategy.rollingUpdate.maxUnavailable", count_or_percent),
        ("spec.updateStrategy.rollingUpdate.maxUnavailable", at_most_all),
    ),
    "StatefulSet": (
        ("spec.podManagementPolicy", one_of("OrderedReady", "Parallel")),
        ("spec.updateStrategy.type", one_of("OnDelete", "RollingUpdate")),
        ("spec.minReadySeconds", at_least(0)),
        ("spec.serviceName", _label),
    ),
    "Job": (
        ("spec.parallelism", at_least(0)),
        ("spec.completions", at_least(0)),
        ("spec.backoffLimit", at_least(0)),
        ("spec.ttlSecondsAfterFinished", at_least(0)),
        ("spec.completionMode", one_of("Indexed", "NonIndexed")),
        ("spec.template.spec.restartPolicy", one_of("Never", "OnFailure")),
    ),
    "ConfigMap": (("data", config_keys), ("binaryData", config_keys)),
    "Secret": (("data", config_keys),),
    "ResourceClaim": tuple((f"spec.{path}", check) for path, check in _CLAIM_TEMPLATE),
    "ResourceClaimTemplate": tuple((f"spec.spec.{path}", check) for path, check in _CLAIM_TEMPLATE),
    "Node": (("spec.podCIDR", network), ("spec.podCIDRs[]", network)),
    "ResourceQuota": (("spec.hard", not_negative_amounts),),
    "CronJob": (
        ("spec.schedule", needed()),
        ("spec.concurrencyPolicy", one_of("Allow", "Forbid", "Replace")),
    ),
    "HorizontalPodAutoscaler": (
        ("spec.maxReplicas", at_least(1, "must be greater than 0")),
        ("spec.minReplicas", at_least(1, "must be greater than or equal to 1")),
    ),
}
TEMPLATES = dict.fromkeys(
    ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
    "spec.template.",
)
_ALWAYS_RESTARTED = frozenset(TEMPLATES) - {"Job"}

_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_COUNTED = {
    "ReplicaSet": _COUNTS[1:],
    "ReplicationController": _COUNTS[1:],
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas"),
}

IMMUTABLE: dict[str, tuple[str, ...]] = {
    "StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "RuntimeClass": ("handler",),
    "CSIStorageCapacity": ("nodeTopology", "storageClassName"),
    "VolumeAttachment": ("spec",),
    "Job": ("spec.completions", "spec.completionMode"),
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec",),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "ControllerRevision": ("data",),
    "Secret": ("type",),
}
"""What an update may not change, by kind: "field is immutable"."""


def validate_data(kind: str, data: Data) -> list[Problem]:
    """The problems of an object as JSON data; what its struct is checked for aside."""
    problems = _check_all(RULES.get(kind, ()), data, "")
    prefix = TEMPLATES.get(kind)
    if prefix is not None:
        template = (data.get("spec") or {}).get("template") or {}
        problems += _check_all(POD, template, prefix)
        if kind in _ALWAYS_RESTARTED:
            problems += _check_all(_OF_TEMPLATES, template, prefix)
    return problems


_OF_TEMPLATES: tuple[Rule, ...] = (("spec.restartPolicy", one_of("Always")),)


def _check_all(rules: tuple[Rule, ...], data: Data, prefix: str) -> list[Problem]:
    problems: list[Problem] = []
    for path, check in rules:
        for where, value in _places(data, path):
            problems += check(f"{prefix}{where}", value)
    return problems


STATUS_RULES: dict[str, tuple[Rule, ...]] = {
    "PodDisruptionBudget": tuple(
        (f"status.{name}", at_least(0))
        for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    ),
    **{
        kind: tuple((f"status.{name}", at_least(0)) for name in names)
        for kind, names in {
            "ReplicaSet": _COUNTS,
            "ReplicationController": _COUNTS,
            "Deployment": ("replicas", "updatedReplicas", *_COUNTS[2:]),
            "StatefulSet": ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
        }.items()
    },
}


def validate_status(kind: str, data: Data) -> list[Problem]:
    problems = _check_all(STATUS_RULES.get(kind, ()), data, "")
    if kind in _COUNTED:
        status = data.get("status") or {}
        for name in _COUNTED[kind]:
            if (found := status.get(name, 0)) > status.get("replicas", 0):
                text = "cannot be greater than status.replicas"
                problems.append(invalid(f"status.{name}", found, text))
    return problems


def validate_immutable(kind: str, new: Data, old: Data) -> list[Problem]:
    problems = []
    for path in IMMUTABLE.get(kind, ()):
        ((where, after),) = [*_places(new, path)] or [(path, None)]
        ((_, before),) = [*_places(old, path)] or [(path, None)]
        if after != before:
            problems.append(invalid(where, after, "field is immutable"))
    if kind in _FROZEN:
        before, after = old.get("spec") or {}, new.get("spec") or {}
        problems += _FROZEN[kind](after, before, new)
    return problems


def _claim_update(after: Data, before: Data, new: Data) -> list[Problem]:
    """Of a claim only its size may change, and its volume be set once."""
    allowed = {"volumeName"} if not before.get("volumeName") else set()
    if (new.get("status") or {}).get("phase") == "Bound":
        allowed |= {"resources", "volumeAttributesClassName"}
    if _without(after, allowed) == _without(before, allowed):
        return []
    text = "spec is immutable after creation except resources.requests and "
    return [not_allowed("spec", f"{text}volumeAttributesClassName for bound claims")]


def _volume_update(after: Data, before: Data, new: Data) -> list[Problem]:
    sources = wire_schema.message("core.PersistentVolumeSource")
    assert sources is not None
    problems = []
    if any(after.get(name) != before.get(name) for name in sources.by_name):
        where, text = "spec.persistentvolumesource", "is immutable after creation"
        problems.append(not_allowed(where, f"{where} {text}"))
    if after.get("volumeMode") != before.get("volumeMode"):
        problems.append(invalid("volumeMode", after.get("volumeMode"), "field is immutable"))
    affinity = before.get("nodeAffinity")
    if affinity is not None and after.get("nodeAffinity") != affinity:
        text = "field is immutable, except for updating from beta label to GA"
        problems.append(invalid("nodeAffinity", after.get("nodeAffinity"), text))
    return problems


def _set_update(after: Data, before: Data, new: Data) -> list[Problem]:
    allowed = {*_SET_MUTABLE}
    if _without(after, allowed) == _without(before, allowed):
        return []
    names = "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    text = f"{names}'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    return [not_allowed("spec", f"updates to statefulset spec for fields other than {text}")]


def _service_update(after: Data, before: Data, new: Data) -> list[Problem]:
    was, now = before.get("clusterIPs"), after.get("clusterIPs")
    if not was or "ExternalName" in (after.get("type"), before.get("type")) or was == now:
        return []
    return [invalid("spec.clusterIPs[0]", now, "may not change once set")]


def _without(spec: Data, names: set[str]) -> Data:
    return {key: value for key, value in spec.items() if key not in names and value}


_SET_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FROZEN: dict[str, Callable[[Data, Data, Data], list[Problem]]] = {
    "PersistentVolume": _volume_update,
    "PersistentVolumeClaim": _claim_update,
    "Service": _service_update,
    "StatefulSet": _set_update,
}


def _places(data: Any, path: str) -> list[tuple[str, Any]]:
    """Every place that the path leads to, None where only the last part is missing."""
    found: list[tuple[str, Any]] = [("", data)]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [
            (f"{where}.{name}" if where else name, value.get(name))
            for where, value in found
            if isinstance(value, dict)
        ]
        if part.endswith("[]"):
            found = [
                (f"{where}[{n}]", item)
                for where, items in found
                if isinstance(items, list)
                for n, item in enumerate(items)
            ]
    return found
