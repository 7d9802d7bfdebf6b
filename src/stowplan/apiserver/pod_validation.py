"""What the API refuses in a pod, at creation and when it changes.

The spec is checked as a whole (`validate_spec`); callers remember good specs, so that a thousand
pods of one template are checked once.  Mirrors the parts of `core/validation/validation.go` that
scheduling depends on, with their texts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stowplan.apiserver.answers import (
    Problem,
    duplicate,
    invalid,
    not_allowed,
    required,
    unsupported,
)
from stowplan.apiserver.defaults import default_spec
from stowplan.apiserver.validation import (
    TAINT_EFFECTS,
    key_problems,
    label_problem,
    subdomain_problem,
    validate_labels,
    validate_resources,
    validate_selector,
    value_problems,
)
from stowplan.objects.base import Resources
from stowplan.objects.codec import convert
from stowplan.objects.names import label_key_problem
from stowplan.objects.node_selector import METADATA_NAME
from stowplan.objects.pod import (
    Affinity,
    Container,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.resources import is_extended, is_hugepages

RESTART_POLICIES = frozenset({"Always", "OnFailure", "Never"})
PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
UNSATISFIABLE_ACTIONS = frozenset({"DoNotSchedule", "ScheduleAnyway"})
NODE_POLICIES = frozenset({"Honor", "Ignore"})
PORT_MAX = 65535
WEIGHT_MAX = 100

_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


def validate_spec(spec: PodSpec) -> list[Problem]:
    return [*_problems(spec)]


def validate_template(template: object) -> list[Problem]:
    """The problems of a workload's pod template, which is kept as JSON data."""
    try:
        pod = convert(template or {}, Pod)
    except msgspec.ValidationError as error:
        return [invalid("spec.template", "", str(error))]
    labels = validate_labels(pod.metadata.labels, "labels")
    problems = [*labels, *validate_spec(default_spec(pod.spec))]
    return [problem._replace(field=f"spec.template.{problem.field}") for problem in problems]


def _problems(spec: PodSpec) -> Iterator[Problem]:
    yield from _containers(spec)
    yield from _volumes(spec.volumes)
    if spec.restart_policy not in RESTART_POLICIES:
        yield unsupported("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    yield from validate_labels(spec.node_selector, "spec.nodeSelector")
    if spec.node_name:
        if problem := subdomain_problem(spec.node_name):
            yield invalid("spec.nodeName", spec.node_name, problem)
        if spec.scheduling_gates:
            yield not_allowed(
                "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
            )
    yield from _gates(spec)
    if spec.affinity is not None:
        yield from _affinity(spec.affinity)
    for n, toleration in enumerate(spec.tolerations or ()):
        yield from validate_toleration(toleration, f"spec.tolerations[{n}]")
    yield from _constraints(spec.topology_spread_constraints or [])
    yield from validate_resources(spec.overhead, "spec.overhead")
    if spec.resources is not None:
        yield from validate_requirements(spec.resources, "spec.resources")


def _containers(spec: PodSpec) -> Iterator[Problem]:
    if not spec.containers:
        yield required("spec.containers")
    names: set[str] = set()
    host_ports: set[str] = set()
    for field, containers in (
        ("spec.containers", spec.containers),
        ("spec.initContainers", spec.init_containers),
    ):
        for n, container in enumerate(containers or ()):
            where = f"{field}[{n}]"
            yield from _container(container, where)
            yield from _host_ports(container, where, host_ports if field[5] == "c" else set())
            if container.name and container.name in names:
                yield duplicate(f"{where}.name", container.name)
            names.add(container.name)


def _host_ports(container: Container, where: str, taken: set[str]) -> Iterator[Problem]:
    """A port of the host can be had once; containers that run after each other may share it."""
    for n, port in enumerate(container.ports or ()):
        if port.host_port:
            text = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if text in taken:
                yield duplicate(f"{where}.ports[{n}].hostPort", text)
            taken.add(text)


def _label(name: str, where: str) -> Iterator[Problem]:
    if not name:
        yield required(where)
    elif problem := label_problem(name):
        yield invalid(where, name, problem)


def _key(key: str, where: str) -> Iterator[Problem]:
    return (invalid(where, key, problem) for problem in key_problems(key))


def _topology_key(key: str, where: str) -> Iterator[Problem]:
    field = f"{where}.topologyKey"
    yield from _key(key, field) if key else (required(field, "can not be empty"),)


def _port_number(number: int, least: int, where: str) -> Iterator[Problem]:
    if not least <= number <= PORT_MAX:
        yield invalid(where, number, f"must be between 1 and {PORT_MAX}, inclusive")


def _container(container: Container, where: str) -> Iterator[Problem]:
    yield from _label(container.name, f"{where}.name")
    if not container.image:
        yield required(f"{where}.image")
    for n, port in enumerate(container.ports or ()):
        field = f"{where}.ports[{n}]"
        yield from _port_number(port.container_port, 1, f"{field}.containerPort")
        yield from _port_number(port.host_port, 0, f"{field}.hostPort")
        if port.protocol not in PROTOCOLS:
            yield unsupported(f"{field}.protocol", port.protocol, PROTOCOLS)
    if container.resources is not None:
        yield from validate_requirements(container.resources, f"{where}.resources")


def amounts_are_right(containers: list[Container] | None) -> bool:
    """Whether these containers ask for nothing that `validate_spec` would refuse."""
    for container in containers or ():
        resources = container.resources
        if resources is None or _asks_plainly(resources):
            continue
        if [*validate_requirements(resources, "")]:
            return False
    return True


def _asks_plainly(resources: ResourceRequirements) -> bool:
    """Whether it says nothing but right amounts of the usual resources, as most of them do."""
    requests = resources.requests or {}
    if resources.limits or not requests.keys() <= _STANDARD_RESOURCES:
        return False
    try:
        return min(map(parse_quantity, requests.values()), default=0) >= 0
    except QuantityError:
        return False


def validate_requirements(resources: ResourceRequirements, where: str) -> Iterator[Problem]:
    limits, requests = resources.limits or {}, resources.requests or {}
    broken = [
        *validate_resources(limits, f"{where}.limits"),
        *validate_resources(requests, f"{where}.requests"),
    ]
    yield from broken
    special = [name for name in {**limits, **requests} if name not in _STANDARD_RESOURCES]
    for name in special:
        if "/" not in name:
            if not is_hugepages(name):
                text = "must be a standard resource type or fully qualified"
                yield invalid(where, name, text)
        elif problem := label_key_problem(name):
            yield invalid(where, name, problem)
    yield from _pages(limits, requests, where) if not broken else ()
    # Requests of cpu and the like may be anything where there is no limit.
    if (limits or special) and not broken:
        yield from _requests_within_limits(limits, requests, where)


def _pages(limits: Resources, requests: Resources, where: str) -> Iterator[Problem]:
    """Huge pages come whole, and only beside cpu or memory."""
    asked = {**limits, **requests}
    pages = [name for name in asked if is_hugepages(name)]
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name in (name for name in pages if name in amounts):
            amount, size = amounts[name], name.removeprefix("hugepages-")
            if parse_quantity(amount) <= 0 or parse_quantity(amount) % parse_quantity(size):
                text = f"{amount} is not positive integer multiple of {name}"
                yield invalid(f"{where}.{field}[{name}]", amount, text)
    if pages and not asked.keys() & {"cpu", "memory"}:
        yield not_allowed(where, "HugePages require cpu or memory")


def _requests_within_limits(
    limits: Resources, requests: Resources, where: str
) -> Iterator[Problem]:
    for name, amount in requests.items():
        whole = is_extended(name) or is_hugepages(name)
        if name in limits:
            request, limit = parse_quantity(amount), parse_quantity(limits[name])
            if whole and request != limit:
                text = f"must be equal to {name} limit of {limits[name]}"
                yield invalid(f"{where}.requests", amount, text)
            elif request > limit:
                text = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{where}.requests", amount, text)
        elif whole:
            yield required(f"{where}.limits", "Limit must be set for non overcommitable resources")
        if is_extended(name) and parse_quantity(amount) % 10**9:
            yield invalid(f"{where}.requests[{name}]", amount, "must be an integer")


def validate_volumes(volumes: list[Volume] | None) -> list[Problem]:
    return [*_volumes(volumes)]


def _volumes(volumes: list[Volume] | None) -> Iterator[Problem]:
    names = set()
    for n, volume in enumerate(volumes or ()):
        where = f"spec.volumes[{n}].name"
        problems = [*_label(volume.name, where)]
        yield from problems
        if volume.name in names and not problems:
            yield duplicate(where, volume.name)
        names.add(volume.name)


def _gates(spec: PodSpec) -> Iterator[Problem]:
    names = set()
    for n, gate in enumerate(spec.scheduling_gates or ()):
        where = f"spec.schedulingGates[{n}]"
        yield from _key(gate.name, where)
        if gate.name in names:
            yield duplicate(where, gate.name)
        names.add(gate.name)


def _affinity(affinity: Affinity) -> Iterator[Problem]:
    node = affinity.node_affinity
    if node is not None:
        where = "spec.affinity.nodeAffinity"
        if node.required is not None:
            field = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            if not node.required.node_selector_terms:
                yield required(field, "must have at least one node selector term")
            for n, term in enumerate(node.required.node_selector_terms or ()):
                yield from validate_node_term(term, f"{field}[{n}]")
        for n, preferred in enumerate(node.preferred or ()):
            field = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{n}]"
            yield from _weight(preferred.weight, field)
            yield from validate_node_term(preferred.preference, f"{field}.preference", strict=False)
    if affinity.pod_affinity is not None:
        yield from _pod_affinity(affinity.pod_affinity, "spec.affinity.podAffinity")
    if affinity.pod_anti_affinity is not None:
        yield from _pod_affinity(affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")


def validate_node_term(
    term: NodeSelectorTerm, where: str, *, strict: bool = True
) -> Iterator[Problem]:
    """`strict`: values have to be such as labels have, which preferred terms need not."""
    for n, expression in enumerate(term.match_expressions or ()):
        field = f"{where}.matchExpressions[{n}]"
        yield from _node_requirement(expression, field)
        for m, value in enumerate(expression.values or ()) if strict else ():
            for problem in value_problems(value):
                yield invalid(f"{field}.values[{m}]", value, problem)
    for n, wanted in enumerate(term.match_fields or ()):
        field = f"{where}.matchFields[{n}]"
        if wanted.operator not in ("In", "NotIn"):
            yield invalid(f"{field}.operator", wanted.operator, "not a valid selector operator")
        elif len(wanted.values or ()) != 1:
            text = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            yield required(f"{field}.values", text)
        if wanted.key != METADATA_NAME:
            yield invalid(f"{field}.key", wanted.key, "not a valid field selector key")
            continue
        for m, value in enumerate(wanted.values or ()):
            if problem := subdomain_problem(value):
                yield invalid(f"{field}.values[{m}]", value, problem)


def _node_requirement(wanted: NodeSelectorRequirement, where: str) -> Iterator[Problem]:
    """Whether `Gt` has a number is not asked here: upstream leaves that to the scheduler."""
    count = len(wanted.values or ())
    if wanted.operator in ("In", "NotIn"):
        if count == 0:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{where}.values", text)
    elif wanted.operator in ("Exists", "DoesNotExist"):
        if count:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield not_allowed(f"{where}.values", text)
    elif wanted.operator in ("Gt", "Lt"):
        if count != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{where}.values", text)
    else:
        yield invalid(f"{where}.operator", wanted.operator, "not a valid selector operator")
    yield from _key(wanted.key, f"{where}.key")


def _weight(weight: int, where: str) -> Iterator[Problem]:
    if not 1 <= weight <= WEIGHT_MAX:
        yield invalid(f"{where}.weight", weight, f"must be in the range 1-{WEIGHT_MAX}")


def _pod_affinity(affinity: PodAffinity, where: str) -> Iterator[Problem]:
    for n, term in enumerate(affinity.required or ()):
        yield from _pod_term(term, f"{where}.requiredDuringSchedulingIgnoredDuringExecution[{n}]")
    for n, preferred in enumerate(affinity.preferred or ()):
        field = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{n}]"
        yield from _weight(preferred.weight, field)
        yield from _pod_term(preferred.pod_affinity_term, f"{field}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, where: str) -> Iterator[Problem]:
    yield from validate_selector(term.label_selector, f"{where}.labelSelector")
    yield from validate_selector(term.namespace_selector, f"{where}.namespaceSelector")
    for namespace in term.namespaces or ():
        if problem := label_problem(namespace):
            yield invalid(f"{where}.namespace", namespace, problem)
    yield from _topology_key(term.topology_key, where)
    yield from _label_keys(term, where)


def _label_keys(term: PodAffinityTerm, where: str) -> Iterator[Problem]:
    both = (
        (f"{where}.matchLabelKeys", term.match_label_keys or ()),
        (f"{where}.mismatchLabelKeys", term.mismatch_label_keys or ()),
    )
    for field, keys in both if term.label_selector is None else ():
        if keys:
            yield not_allowed(field, "must not be specified when labelSelector is not set")
    (field, match), (_, mismatch) = both
    excluded = {*mismatch}
    for n, key in enumerate(match):
        if key in excluded:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{field}[{n}]", key, text)
    for field, keys in both:
        for n, key in enumerate(keys):
            yield from _key(key, f"{field}[{n}]")


def validate_toleration(toleration: Toleration, where: str) -> Iterator[Problem]:
    if toleration.key:
        yield from _key(toleration.key, f"{where}.key")
    elif toleration.operator != "Exists":
        text = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        yield invalid(f"{where}.operator", toleration.operator, text)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{where}.effect", toleration.effect, text)
    if toleration.operator == "Exists":
        if toleration.value:
            text = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{where}.operator", toleration.value, text)
    elif toleration.operator in ("", "Equal"):
        # Upstream names the operator, too.
        for problem in value_problems(toleration.value):
            yield invalid(f"{where}.operator", toleration.value, problem)
    else:
        yield unsupported(f"{where}.operator", toleration.operator, ("Equal", "Exists"))
    if toleration.effect and toleration.effect not in TAINT_EFFECTS:
        yield unsupported(f"{where}.effect", toleration.effect, TAINT_EFFECTS)


def _constraints(constraints: list[TopologySpreadConstraint]) -> Iterator[Problem]:
    seen = set()
    for n, constraint in enumerate(constraints):
        where = f"spec.topologySpreadConstraints[{n}]"
        yield from _constraint(constraint, where)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield duplicate(
                f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"
            )
        seen.add(pair)


def _constraint(constraint: TopologySpreadConstraint, where: str) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid(f"{where}.maxSkew", constraint.max_skew, "must be greater than zero")
    # Any text will do as a key here, as upstream has it.
    if not constraint.topology_key:
        yield required(f"{where}.topologyKey", "can not be empty")
    if constraint.when_unsatisfiable not in UNSATISFIABLE_ACTIONS:
        action = constraint.when_unsatisfiable
        yield unsupported(f"{where}.whenUnsatisfiable", action, UNSATISFIABLE_ACTIONS)
    if constraint.min_domains is not None:
        if constraint.min_domains <= 0:
            yield invalid(
                f"{where}.minDomains", constraint.min_domains, "must be greater than zero"
            )
        if constraint.when_unsatisfiable != "DoNotSchedule":
            text = (
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
                f"{constraint.when_unsatisfiable}"
            )
            yield invalid(f"{where}.minDomains", constraint.min_domains, text)
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None and policy not in NODE_POLICIES:
            yield unsupported(f"{where}.{name}", policy, NODE_POLICIES)
    keys = constraint.match_label_keys or ()
    if keys and constraint.label_selector is None:
        text = "must not be specified when labelSelector is not set"
        yield not_allowed(f"{where}.matchLabelKeys", text)
    for n, key in enumerate(keys):
        yield from _key(key, f"{where}.matchLabelKeys[{n}]")
    yield from validate_selector(constraint.label_selector, f"{where}.labelSelector")
