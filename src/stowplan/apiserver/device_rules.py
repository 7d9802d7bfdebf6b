"""What the API refuses of claims, claim templates, device classes and slices, as tables.

Each message has its fields in upstream's order, and what must hold there; `""` is the message
itself.  The checks are in `device_checks` and `capacity_checks`; here they are put together and
applied, to JSON data.  `rules` calls it for every kind of resource.k8s.io.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stowplan.apiserver import device_checks as checks
from stowplan.apiserver.answers import (
    Problem,
    invalid,
    not_allowed,
    required,
)
from stowplan.apiserver.capacity_checks import capacities
from stowplan.apiserver.checks import node_terms
from stowplan.apiserver.device_checks import Scope
from stowplan.apiserver.field_rules import Rules, apply, each, inside, inside_needed, mapping
from stowplan.apiserver.validation import validate_labels
from stowplan.apiserver.wire_schema import internal_form

Data = dict[str, Any]

IMMUTABLE = "field is immutable"
DEVICES_MAX = 128
DEVICES_WITH_MORE_MAX = 64
"""If any of them has taints or consumes counters."""


def _nothing(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from ()


def _label_name(where: str, key: str) -> Iterator[Problem]:
    yield from checks.label(where, key, Scope())


def _same(item: Any) -> Any:
    return item


def _named(item: Data) -> str:
    return str(item.get("name") or "")


_EFFECTS = ("NoExecute", "NoSchedule", "None")

# Expressions, tolerations, configurations.
_SELECTORS = each(inside((("cel", inside_needed((("expression", checks.expression),))),)), most=32)
_TOLERATION: Rules = (
    ("key", checks.label_key_or_none),
    ("", checks.toleration_value),
    ("effect", checks.one_of_or_none(*_EFFECTS)),
)
_OPAQUE: Rules = (("driver", checks.driver), ("parameters", checks.json_object))
_CONFIGURATION: Rules = (("opaque", inside_needed(_OPAQUE)),)
_REFERENCES = each(checks.request_reference, most=32, key=_same)

# Claims.
_ASK: Rules = (
    ("deviceClassName", checks.class_name),
    ("selectors", _SELECTORS),
    ("", checks.amount_asked),
    ("tolerations", each(inside(_TOLERATION))),
)
_ALTERNATIVES = each(inside((("name", checks.label), *_ASK)), most=8, key=_named)


def _one_request(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    exactly, alternatives = value.get("exactly"), value.get("firstAvailable")
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        yield required(where, text)
    elif exactly is not None and alternatives:
        yield invalid(where, None, f"{text}, but multiple fields are set")
    elif alternatives:
        yield from _ALTERNATIVES(f"{where}.firstAvailable", alternatives, scope)
    else:
        yield from apply(_ASK, f"{where}.exactly", exactly, scope)


_CLAIM: Rules = (
    (
        "requests",
        each(inside((("name", checks.label), ("", _one_request))), most=32, key=_named),
    ),
    (
        "constraints",
        each(inside((("requests", _REFERENCES), ("", checks.attribute_of_constraint))), most=32),
    ),
    ("config", each(inside((("requests", _REFERENCES), *_CONFIGURATION)), most=32)),
)

# The status of claims.
_CONSUMER: Rules = (
    ("resource", checks.given),
    ("name", checks.given),
    ("uid", checks.given),
)
_NETWORK: Rules = (
    ("interfaceName", checks.short(256)),
    ("hardwareAddress", checks.short(128)),
    ("ips", each(checks.address, most=16, key=_same)),
)
_DEVICE: Rules = (("driver", checks.driver), ("pool", checks.pool), ("device", checks.label))
_DEVICE_STATUS: Rules = (
    *_DEVICE,
    ("shareID", checks.share),
    ("", checks.allocated),
    ("conditions", checks.at_most(8)),
    ("conditions", checks.conditions),
    ("data", checks.json_object_or_none),
    ("networkData", inside(_NETWORK)),
)
_STATUS: Rules = (
    (
        "reservedFor",
        each(inside(_CONSUMER), most=256, key=lambda item: str(item.get("uid") or "")),
    ),
    ("devices", each(inside(_DEVICE_STATUS), key=checks.device_key)),
)
_RESULT: Rules = (
    ("request", checks.request_reference),
    *_DEVICE,
    ("", checks.binding_conditions),
    ("shareID", checks.share),
)
_ALLOCATION_CONFIG: Rules = (
    ("source", checks.one_of("FromClaim", "FromClass")),
    ("requests", _REFERENCES),
    *_CONFIGURATION,
)
_ALLOCATED: Rules = (
    ("results", each(inside(_RESULT), most=32)),
    ("config", each(inside(_ALLOCATION_CONFIG), most=64)),
)

# Classes.
_CLASS: Rules = (
    ("selectors", _SELECTORS),
    ("config", each(inside(_CONFIGURATION), most=32)),
    ("extendedResourceName", checks.extended_name),
)

# Slices.
_TAINT: Rules = (
    ("key", checks.label_key),
    ("value", checks.label_value),
    ("effect", checks.one_of(*_EFFECTS)),
)
_COUNTERS = mapping(_nothing, _label_name, most=32)


def _counters(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from _COUNTERS(where, value, scope) if value else (required(where),)


_CONSUMPTION: Rules = (("counterSet", checks.label_if_any), ("counters", _counters))
_OF_DEVICE: Rules = (
    ("name", checks.label),
    ("", checks.attribute_count),
    ("attributes", mapping(checks.attribute, checks.qualified_name)),
    ("", capacities),
    ("", checks.device_taints(16, inside(_TAINT))),
    (
        "consumesCounters",
        each(inside(_CONSUMPTION), most=2, key=lambda item: str(item.get("counterSet") or "")),
    ),
    ("", checks.nodes_of_device),
    ("", checks.binding_conditions),
)
_POOL: Rules = (
    ("name", checks.pool),
    ("resourceSliceCount", checks.at_least(1, "zero")),
    ("generation", checks.at_least(0, "or equal to zero")),
)
_COUNTER_SETS = each(
    inside((("name", checks.label_if_any), ("counters", _counters))), most=8, key=_named
)


def _devices(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    more = any(it.get("taints") or it.get("consumesCounters") for it in value or ())
    most = DEVICES_WITH_MORE_MAX if more else DEVICES_MAX
    yield from each(inside(_OF_DEVICE), most, key=_named)(where, value, scope)


_SLICE_NAMES: Rules = (
    ("driver", checks.driver),
    ("pool", lambda where, value, scope: apply(_POOL, where, value or {}, scope)),
)
_SLICE_REST: Rules = (
    ("", checks.nodes_of_slice),
    ("", checks.counters_or_devices),
    ("devices", _devices),
    ("sharedCounters", _COUNTER_SETS),
)


def _request_names(claim: Data) -> dict[str, set[str]]:
    devices = (claim.get("spec") or {}).get("devices") or {}
    return {
        _named(request): {_named(it) for it in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _claim_problems(data: Data, old: Data | None) -> Iterator[Problem]:
    """On an update nothing but that the spec has not changed."""
    if old is None:
        devices = (data.get("spec") or {}).get("devices") or {}
        yield from apply(_CLAIM, "spec.devices", devices, Scope(_request_names(data)))
    else:
        yield from _unchanged("resource.ResourceClaimSpec", "spec", data, old)


def _template_problems(data: Data, old: Data | None) -> Iterator[Problem]:
    spec = data.get("spec") or {}
    metadata = spec.get("metadata") or {}
    yield from validate_labels(metadata.get("labels"), "spec.metadata.labels")
    for field, value in metadata.items():
        if value and field not in ("annotations", "labels"):
            yield not_allowed(f"spec.metadata.{field}", "cannot be set")
    devices = (spec.get("spec") or {}).get("devices") or {}
    yield from apply(_CLAIM, "spec.spec.devices", devices, Scope(_request_names(spec)))
    if old is not None:
        yield from _unchanged("resource.ResourceClaimTemplateSpec", "spec", data, old)


def _class_problems(data: Data, old: Data | None) -> Iterator[Problem]:
    yield from apply(_CLASS, "spec", data.get("spec") or {}, Scope())


def _slice_problems(data: Data, old: Data | None) -> Iterator[Problem]:
    spec = data.get("spec") or {}
    before = (old or {}).get("spec") or {}
    taints = {it.get("name"): it.get("taints") for it in before.get("devices") or ()}
    scope = Scope(taints=taints, per_device=bool(spec.get("perDeviceNodeSelection")))
    yield from apply(_SLICE_NAMES, "spec", spec, scope)
    if old is not None:
        for path in (("pool", "name"), ("driver",), ("nodeName",)):
            was, now = before, spec
            for part in path:
                was, now = (was or {}).get(part), (now or {}).get(part)
            if was != now:
                shown = now if path == ("nodeName",) else now or ""
                yield invalid(f"spec.{'.'.join(path)}", shown, IMMUTABLE)
    yield from apply(_SLICE_REST, "spec", spec, scope)


def _unchanged(message: str, field: str, data: Data, old: Data) -> Iterator[Problem]:
    if data.get(field) == old.get(field):
        return
    # Empty and missing are the same.
    shown, before = (internal_form(message, it.get(field) or {}) for it in (data, old))
    if shown != before:
        yield invalid(field, shown, IMMUTABLE)


_PROBLEMS: dict[str, Callable[[Data, Data | None], Iterator[Problem]]] = {
    "ResourceClaim": _claim_problems,
    "ResourceClaimTemplate": _template_problems,
    "DeviceClass": _class_problems,
    "ResourceSlice": _slice_problems,
}
DEVICE_KINDS = frozenset(_PROBLEMS)


def device_problems(kind: str, data: Data, old: Data | None = None) -> list[Problem]:
    """What is wrong with a new object, or with what an update makes of an old one."""
    return [*_PROBLEMS[kind](data, old)]


def claim_status_problems(data: Data, old: Data) -> Iterator[Problem]:
    """What a write to the status of a claim may not say."""
    status, before = data.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    scope = Scope(_request_names(data), {checks.device_key(it) for it in results})
    yield from apply(_STATUS, "status", status, scope)
    reserved = status.get("reservedFor") or []
    place = "status.reservedFor"
    if reserved and allocation is None:
        yield not_allowed(place, "may not be specified when `allocated` is not set")
    elif (data.get("metadata") or {}).get("deletionTimestamp"):
        known = before.get("reservedFor") or []
        if any(it not in known for it in reserved):
            text = "new entries may not be added while `deallocationRequested` or "
            yield not_allowed(place, f"{text}`deletionTimestamp` are set")
    if allocation is None:
        return
    place = "status.allocation"
    if before.get("allocation") is not None:
        if before["allocation"] != allocation:
            shown = internal_form("resource.AllocationResult", allocation)
            yield invalid(place, shown, IMMUTABLE)
        return
    yield from apply(_ALLOCATED, f"{place}.devices", allocation.get("devices") or {}, scope)
    selector = allocation.get("nodeSelector")
    if selector is not None:
        terms = selector.get("nodeSelectorTerms")
        yield from node_terms(f"{place}.nodeSelector.nodeSelectorTerms", terms)


ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ADMIN_TEXT = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)


def admin_problems(
    kind: str, data: Data, old: Data | None, labels: dict[str, str] | None
) -> list[Problem]:
    """Who asks for admin access, or allocates it, in a namespace that is not labelled for it."""
    if (labels or {}).get(ADMIN_LABEL) == "true":
        return []
    if old is None:
        holder = data.get("spec") or {}
        spec = holder.get("spec") or {} if kind == "ResourceClaimTemplate" else holder
        items = (spec.get("devices") or {}).get("requests") or ()
        asked = [bool((it.get("exactly") or {}).get("adminAccess")) for it in items]
        place = "spec.devices.requests"
    else:
        asked, before = (
            [bool(it.get("adminAccess")) for it in _results(it_)] for it_ in (data, old)
        )
        place = "status.allocation.devices.results"
        if any(before):
            return []
    if not any(asked):
        return []
    return [not_allowed(f"{place}[{asked.index(True)}].adminAccess", _ADMIN_TEXT)]


def _results(data: Data) -> list[Data]:
    allocation = (data.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []
