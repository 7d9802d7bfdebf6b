"""What must hold of a field of claims, classes and slices, worded as kube-apiserver words it.

`device_rules` says where each of these is asked.  A check gets the place, the value there (None
where there is none) and the scope: what else of the object it may look at.  Mirrors
`pkg/apis/resource/validation`.
"""

from __future__ import annotations

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from stowplan.apiserver.answers import (
    Problem,
    duplicate,
    invalid,
    not_allowed,
    required,
    too_long,
    too_many,
    unsupported,
)
from stowplan.apiserver.checks import matches, node_terms
from stowplan.apiserver.validation import (
    key_problems,
    label_problem,
    subdomain_problem,
    value_problems,
)
from stowplan.apiserver.wire_schema import internal_form
from stowplan.cel import LENGTH_MAX, CompileError, compile_expression
from stowplan.objects.names import label_key_problem
from stowplan.objects.resources import is_extended

Data = dict[str, Any]
DeviceKey = tuple[str, str, str, str]


class Scope(NamedTuple):
    """What a check may look at beyond its own place."""

    requests: Mapping[str, Collection[str]] = {}
    """The names of the claim's requests, with those of their alternatives."""
    allocated: Collection[DeviceKey] = ()
    taints: Mapping[str, Any] = {}
    """Of the devices as they were before, by name: what was accepted is not looked at again."""
    per_device: bool = False
    """Whether each device says for which nodes it is."""


Check = Callable[[str, Any, Scope], Iterator[Problem]]

OPAQUE_MAX = 10 * 1024
_ATTRIBUTE_LENGTH_MAX = 64
_ATTRIBUTES_MAX = 32
_DOMAIN_MAX, _ID_MAX, _POOL_MAX = 63, 32, 253
_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_REQUEST_NAME = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_UNKNOWN_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_NUMBER, _TAG = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_TAG}(\.{_TAG})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    "used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


# Names.


def label(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    text = value or ""
    if problem := "must not contain dots" if "." in text else label_problem(text):
        yield invalid(where, text, problem)


def label_if_any(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from label(where, value, scope) if value else (required(where),)


def driver(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)
        return
    if len(value.encode()) > _DOMAIN_MAX:
        yield too_long(where, _DOMAIN_MAX)
    if problem := subdomain_problem(value.lower()):
        yield invalid(where, value, problem)


def pool(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)
        return
    if len(value.encode()) > _POOL_MAX:
        yield too_long(where, _POOL_MAX)
    for part in value.split("/"):
        if problem := subdomain_problem(part):
            yield invalid(where, part, problem)


def class_name(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)
    elif problem := subdomain_problem(value):
        yield invalid(where, value, problem)


def qualified_name(where: str, value: str) -> Iterator[Problem]:
    """`[domain/]identifier`; upstream lets pass what has more than one slash."""
    parts = value.split("/")
    if len(parts) == 2:
        domain, _ = parts
        if domain:
            yield from driver(where, domain, Scope())
        else:
            yield invalid(where, "", "the domain must not be empty")
    if len(parts) <= 2:
        name = parts[-1]
        if len(parts) == 2 and not name:
            yield invalid(where, "", "the name must not be empty")
            return
        if len(name.encode()) > _ID_MAX:
            yield too_long(where, _ID_MAX)
        if not _UNKNOWN_ID.fullmatch(name):
            yield invalid(where, name, _ID_RULE)


def full_name(where: str, value: str) -> Iterator[Problem]:
    yield from qualified_name(where, value)
    if "/" not in value:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(where, value, text)


def request_reference(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    """The name of a request, or of a request and one of its alternatives."""
    parts = (value or "").split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from label(where, part, scope)
    known = len(parts) <= 2 and parts[0] in scope.requests
    if not known or (len(parts) == 2 and parts[1] not in scope.requests[parts[0]]):
        yield invalid(where, value or "", _REQUEST_NAME)


def label_key(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    for problem in key_problems(value or ""):
        yield invalid(where, value or "", problem)


def label_key_or_none(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value:
        yield from label_key(where, value, scope)


def label_value(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    for problem in value_problems(value or ""):
        yield invalid(where, value, problem)


def extended_name(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value is not None and not is_extended(value):
        yield invalid(where, value, "must be a valid extended resource name")


# Plain values.


def given(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)


def one_of(*choices: str) -> Check:
    """One of these, and not none of them; listed in this order."""

    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if not value:
            yield required(where)
        else:
            yield from one_of_or_none(*choices)(where, value, scope)

    return check


def one_of_or_none(*choices: str) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if value and value not in choices:
            yield unsupported(where, value, choices)

    return check


def short(most: int) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if value and len(value.encode()) > most:
            yield too_long(where, most)

    return check


def at_least(least: int, words: str) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if (value or 0) < least:
            yield invalid(where, value or 0, f"must be greater than {words}")

    return check


def share(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value is None:
        return
    try:
        uuid.UUID(value)
        usual = value == value.lower() and len(value) == 36
    except ValueError:
        text = f"invalid UUID length: {len(value)}" if len(value) != 36 else "invalid UUID format"
        yield invalid(where, value, f"error validating uid: {text}")
        return
    if not usual:
        form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        yield invalid(where, value, f"uid must be in RFC 4122 normalized form, {form}")


def json_object(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value is None:
        yield required(where)
    elif len(json.dumps(value, separators=(",", ":")).encode()) > OPAQUE_MAX:
        yield too_long(where, OPAQUE_MAX)
    elif not isinstance(value, dict):
        yield invalid(where, "<value omitted>", "must be a valid JSON object")


def json_object_or_none(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value is not None:
        yield from json_object(where, value, scope)


def address(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    try:
        found = ipaddress.ip_interface(value or "")
    except ValueError:
        found = None
    if found is None or "/" not in value:
        yield invalid(where, value or "", _ADDRESS)
    elif value != found.with_prefixlen:
        yield invalid(where, value, f'must be in canonical form ("{found.with_prefixlen}")')


def condition(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from label_key(f"{where}.type", value.get("type"), scope)
    if value.get("status") not in ("True", "False", "Unknown"):
        states = ("False", "True", "Unknown")
        yield unsupported(f"{where}.status", value.get("status") or "", states)
    if (value.get("observedGeneration") or 0) < 0:
        text = "must be greater than or equal to zero"
        yield invalid(f"{where}.observedGeneration", value["observedGeneration"], text)
    yield from given(f"{where}.lastTransitionTime", value.get("lastTransitionTime"), scope)
    yield from given(f"{where}.reason", value.get("reason"), scope)
    yield from matches(_REASON, _REASON_RULE)(f"{where}.reason", value.get("reason"))
    yield from short(1024)(f"{where}.reason", value.get("reason"), scope)
    yield from short(32 * 1024)(f"{where}.message", value.get("message"), scope)


def at_most(count: int) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if len(value or ()) > count:
            yield too_many(where, len(value), count)

    return check


def conditions(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    seen = set()
    for n, item in enumerate(value or ()):
        if (type_ := item.get("type")) in seen:
            yield duplicate(f"{where}[{n}].type", type_)
        seen.add(type_)
        yield from condition(f"{where}[{n}]", item, scope)


# Expressions.


def expression(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    text = value or ""
    if len(text.encode(errors="surrogatepass")) > LENGTH_MAX:
        yield too_long(where, LENGTH_MAX)
        return
    try:
        found = compile_expression(text)
    except CompileError as error:
        yield invalid(where, text, error.details)
        return
    if found.too_complex:
        yield not_allowed(where, "too complex, exceeds cost limit")


# Requests.


def amount_asked(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    mode, count = value.get("allocationMode", ""), value.get("count") or 0
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            yield invalid(f"{where}.count", count, text)
    elif mode != "ExactCount":
        yield unsupported(f"{where}.allocationMode", mode, ("All", "ExactCount"))
    elif count <= 0:
        yield invalid(f"{where}.count", count, "must be greater than zero")


def toleration_value(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    operator, text = value.get("operator", ""), value.get("value", "")
    if operator == "Exists" and text:
        yield invalid(f"{where}.value", text, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from label_value(f"{where}.value", text, scope)
    yield from one_of("Equal", "Exists")(f"{where}.operator", operator, scope)


def attribute_of_constraint(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    for name in ("matchAttribute", "distinctAttribute"):
        if value.get(name) is not None:
            yield from full_name(f"{where}.{name}", value[name])
            return
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, '
    yield required(where, f"{text}but multiple fields are set")


# Devices.


def node_name(where: str, value: Any) -> Iterator[Problem]:
    if problem := subdomain_problem(value):
        yield invalid(where, value, problem)


_CHOICES = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
_DEVICE_CHOICES = (
    "`nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)


def nodes_of_slice(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    """Which nodes the devices of a slice are for: said in exactly one way."""
    empty = "must be either unset or set to a non-empty string"
    yield from _ways(where, value, empty)
    selector = value.get("nodeSelector")
    terms = (selector or {}).get("nodeSelectorTerms") or []
    if selector is not None and len(terms) != 1:
        place = f"{where}.nodeSelector.nodeSelectorTerms"
        shown = [internal_form("core.NodeSelectorTerm", term) for term in terms] or None
        yield invalid(place, shown, "must have exactly one node selector term")
    ways = _ways_given(value, ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"))
    if not ways:
        yield required(where, f"exactly one of {_CHOICES} is required")
    elif len(ways) > 1:
        text = f"exactly one of {_CHOICES} is required, but multiple fields are set"
        yield invalid(where, f"{{{', '.join(ways)}}}", text)


def nodes_of_device(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    names = ("nodeName", "nodeSelector", "allNodes")
    if not scope.per_device:
        if any(value.get(name) is not None for name in names):
            text = "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            text += "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            yield invalid(where, None, text)
        return
    yield from _ways(where, value, "must not be empty")
    ways = _ways_given(value, names)
    if not ways:
        yield required(where, f"exactly one of {_DEVICE_CHOICES}")
    elif len(ways) > 1:
        yield invalid(where, f"{{{', '.join(ways)}}}", f"exactly one of {_DEVICE_CHOICES}")


def _ways(where: str, value: Data, empty: str) -> Iterator[Problem]:
    name = value.get("nodeName")
    if name == "":
        yield invalid(f"{where}.nodeName", "", empty)
    elif name is not None:
        yield from node_name(f"{where}.nodeName", name)
    if (selector := value.get("nodeSelector")) is not None:
        place = f"{where}.nodeSelector.nodeSelectorTerms"
        yield from node_terms(place, selector.get("nodeSelectorTerms"))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if value.get(flag) is False:
            yield invalid(f"{where}.{flag}", False, "must be either unset or set to true")


def _ways_given(value: Data, names: tuple[str, ...]) -> list[str]:
    return [f"`{name}`" for name in names if value.get(name) not in (None, "", False)]


def counters_or_devices(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value.get("sharedCounters") is not None and value.get("devices") is not None:
        yield invalid(where, "", "only one of `sharedCounters` or `devices` is allowed")


def attribute_count(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    count = len(value.get("attributes") or ()) + len(value.get("capacity") or ())
    if count > _ATTRIBUTES_MAX:
        text = "the total number of attributes and capacities must not exceed"
        yield invalid(where, count, f"{text} {_ATTRIBUTES_MAX}")


def attribute(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from short(_ATTRIBUTE_LENGTH_MAX)(f"{where}.string", value.get("string"), scope)
    version = value.get("version")
    if version is not None:
        if not _VERSION.fullmatch(version):
            text = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid(f"{where}.version", version, text)
        yield from short(_ATTRIBUTE_LENGTH_MAX)(f"{where}.version", version, scope)
    found = [name for name in ("bool", "int", "string", "version") if value.get(name) is not None]
    if len(found) != 1:
        shown = internal_form("resource.DeviceAttribute", value) if found else ""
        yield invalid(where, shown, "exactly one value must be specified")


def device_taints(most: int, each: Check) -> Check:
    """Checked again only where they have changed."""

    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        taints, name = value.get("taints") or (), value.get("name")
        place = f"{where}.taints"
        if name in scope.taints and scope.taints[name] == value.get("taints"):
            return
        if len(taints) > most:
            yield too_many(place, len(taints), most)
            return
        for n, taint in enumerate(taints):
            yield from each(f"{place}[{n}]", taint, scope)

    return check


def binding_conditions(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    names = ("bindingConditions", "bindingFailureConditions")
    ready, failed = (value.get(name) or [] for name in names)
    for name, found in zip(names, (ready, failed), strict=True):
        if len(found) > 4:
            yield too_many(f"{where}.{name}", len(found), 4)
        else:
            for n, item in enumerate(found):
                if label_key_problem(item):
                    yield from label_key(f"{where}.{name}[{n}]", item, scope)
    for n, item in enumerate(ready):
        if item in ready[:n]:
            yield duplicate(f"{where}.bindingConditions[{n}]", item)
    for n, item in enumerate(failed):
        place = f"{where}.bindingFailureConditions[{n}]"
        if item in failed[:n]:
            yield duplicate(place, item)
        if item in ready:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(place, item, text)
    if failed and not ready:
        text = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(f"{where}.bindingConditions", value.get("bindingConditions"), text)
    if ready and not failed:
        text = "bindingFailureConditions are required to use bindingConditions"
        place = f"{where}.bindingFailureConditions"
        yield invalid(place, value.get("bindingFailureConditions"), text)


# Allocated devices.


KEY_NAMES = ("Driver", "Pool", "Device", "ShareID")


def device_key(value: Data) -> DeviceKey:
    driver_, pool_, device = (value.get(name) or "" for name in ("driver", "pool", "device"))
    return driver_, pool_, device, value.get("shareID") or ""


def allocated(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if device_key(value) not in scope.allocated:
        shown = dict(zip(KEY_NAMES, device_key(value), strict=True))
        yield invalid(where, shown, "must be an allocated device in the claim")
