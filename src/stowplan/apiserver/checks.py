"""What may be asked of a value, by name: the vocabulary of `rules.txt`.

A check gets the place of a value and the value, None where there is none, and yields what is wrong
with it, worded as kube-apiserver words it.  Mirrors the `validation` packages of `pkg/apis`.
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
    STANDARD_FINALIZERS,
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
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_FIELD_PATHS_SHOWN = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_FIELD_PATHS = frozenset({*_FIELD_PATHS_SHOWN, "metadata.labels", "metadata.annotations"})


def needed(where: str, value: Any) -> Iterator[Problem]:
    if value is None or value == "" or value == [] or value == {}:
        yield required(where)


def one_volume(where: str, value: Any) -> Iterator[Problem]:
    if not value:
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        yield required(where, text)


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


def at_least(least: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, int) and value < int(least):
            yield invalid(where, value, f"must be greater than or equal to {least}")

    return check


def more_than(limit: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, int) and value <= int(limit):
            yield invalid(where, value, f"must be greater than {limit}")

    return check


def between(least: str, most: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, int) and not int(least) <= value <= int(most):
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
            if (found := item.get(key)) in seen and found:
                yield duplicate(f"{where}[{n}].{key}", found)
            seen.add(found)

    return check


def alone(choice: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value and choice in value and len(set(value)) > 1:
            yield not_allowed(where, f"may not use {choice} with other access modes")

    return check


def keys_only(*choices: str) -> Check:
    def check(where: str, value: Any) -> Iterator[Problem]:
        if value is not None and set(value) - set(choices):
            yield unsupported(where, value, choices)

    return check


def one_source(message: str) -> Check:
    """Exactly one of the sources that the message lists."""
    described = wire_schema.message(message)
    assert described is not None, message
    sources = tuple(described.by_name)

    def check(where: str, value: Any) -> Iterator[Problem]:
        found = [name for name in sources if (value or {}).get(name) is not None]
        for name in found[1:]:
            yield not_allowed(f"{where}.{name}", "may not specify more than 1 volume type")
        if not found:
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
    fixed = (value or {}).get("podFixed")
    yield from validate_requirements(ResourceRequirements(limits=fixed), where)


def tolerations(where: str, value: Any) -> Iterator[Problem]:
    for n, item in enumerate(value or ()):
        yield from validate_toleration(msgspec.convert(item, Toleration), f"{where}[{n}]")


def no_parents(where: str, value: Any) -> Iterator[Problem]:
    if value and ".." in value.split("/"):
        yield invalid(where, value, "must not contain '..'")


def known_system(where: str, value: Any) -> Iterator[Problem]:
    if value is not None:
        yield from one_of("linux", "windows")(where, value.get("name"))


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


def resize_policies(where: str, value: Any) -> Iterator[Problem]:
    """Upstream names the list, not the item."""
    for item in value or ():
        yield from one_of("cpu", "memory")(where, item.get("resourceName", ""))
        policy = item.get("restartPolicy", "")
        yield from one_of("NotRequired", "RestartContainer")(where, policy)


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


def subdomain_if_given(where: str, value: Any) -> Iterator[Problem]:
    if value is not None and (problem := subdomain_problem(value)):
        yield invalid(where, value, problem)


def group_reference(where: str, value: Any) -> Iterator[Problem]:
    if value is None:
        return
    place, name = f"{where}.podGroupName", value.get("podGroupName")
    if name is None:
        yield invalid(place, None, "must specify one of: `podGroupName`")
    yield from subdomain_if_given(place, name)


def condition_types(where: str, value: Any) -> Iterator[Problem]:
    for n, condition in enumerate(value or ()):
        yield from qualified(f"{where}[{n}].Type", condition.get("type", ""))


def port_name(where: str, value: Any) -> Iterator[Problem]:
    """All that is wrong with it: of letters, digits and single dashes, with a letter among them."""
    if not value:
        return
    if len(value) > 15:
        yield invalid(where, value, "must be no more than 15 characters")
    rules = (
        (
            _PORT_NAME.fullmatch(value),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (re.search("[a-z]", value), "must contain at least one letter (a-z)"),
        ("--" not in value, "must not contain consecutive hyphens"),
        (value.strip("-") == value, "must not begin or end with a hyphen"),
    )
    yield from (invalid(where, value, text) for is_right, text in rules if not is_right)


def cron(where: str, value: Any) -> Iterator[Problem]:
    fields = (value or "@").split()
    if len(fields) != 5 and not fields[0].startswith("@"):
        shown = f"[{' '.join(fields)}]"
        yield invalid(where, value, f"expected exactly 5 fields, found {len(fields)}: {shown}")


def no_empty_key(where: str, value: Any) -> Iterator[Problem]:
    if "" in (value or ()):
        yield invalid(where, "", "field can not be empty.")


def qualified_in_any_case(where: str, value: Any) -> Iterator[Problem]:
    yield from qualified(where, value.lower() if value else None)


def finalizers(where: str, value: Any) -> Iterator[Problem]:
    for item in value or ():
        yield from qualified(where, item)
        if "/" not in item and item not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(where, item, text)


def not_beyond_replicas(*names: str) -> Check:
    """Counts of a status: not negative, and not more than there are."""

    def check(where: str, value: Any) -> Iterator[Problem]:
        for name in names:
            yield from at_least("0")(f"{where}.{name}", (value or {}).get(name))
        for name in names:
            if (found := (value or {}).get(name, 0)) > (value or {}).get("replicas", 0):
                yield invalid(f"{where}.{name}", found, "cannot be greater than status.replicas")

    return check


label = named_by(label_problem)
subdomain = named_by(subdomain_problem)
driver = named_by(lambda name: "" if _CSI_NAME.fullmatch(name) else subdomain_problem("_"))
variable = matches(
    _ENV_NAME,
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='",
)

PLAIN: dict[str, Check] = {
    it.__name__: it
    for it in (
        address, address_or_none, amounts, at_most_all, condition_types, config_keys,
        count_or_percent, cron, finalizers, group_reference, known_system, label_map, mounted,
        named_ports, needed, network, no_empty_key, no_parents, node_terms, not_negative,
        not_negative_amounts, one_volume, port_name, positive, qualified, qualified_in_any_case,
        resize_policies, selector, selects_itself, subdomain_if_given, tolerations, value_from,
    )
} | {"label": label, "subdomain": subdomain, "driver": driver, "variable": variable}  # fmt: skip
MADE: dict[str, Callable[..., Check]] = {
    it.__name__: it
    for it in (
        all_of, alone, at_least, between, in_order, keys_only, more_than, not_beyond_replicas, once,
        one_of, one_source,
    )
}  # fmt: skip
"""Those that take arguments."""
