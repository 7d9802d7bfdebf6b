"""Fields that belong to a feature gate: left out of what is written where the gate is off.

What an object has already stays.  Works on JSON data; `writes` calls it before anything is checked.
Mirrors the `dropDisabled...` functions of upstream's registry, as far as groups go.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import zip_longest
from typing import Any

from stowplan.apiserver.client_defaults import POD_SPECS
from stowplan.objects.pod_groups import (
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    WORKLOAD_CLAIMS,
)

Data = dict[str, Any]

_PLAN = {
    "schedulingConstraints": TOPOLOGY_AWARE,
    "resourceClaims": WORKLOAD_CLAIMS,
    "disruptionMode": WORKLOAD_AWARE_PREEMPTION,
    "priorityClassName": WORKLOAD_AWARE_PREEMPTION,
    "priority": WORKLOAD_AWARE_PREEMPTION,
}
"""Of a group or a template of one."""
_POD_SPEC = {"schedulingGroup": GENERIC_WORKLOAD}


def without_gated(kind: str, data: Data, old: Data | None, gates: Collection[str]) -> Data:
    """`data` without the fields of gates that are off, unless the object has them already."""
    before = old or {}
    if kind == "PodGroup":
        return _group(data, before, gates)
    if kind == "Workload":
        return _at("spec", data, before, gates)
    if kind in POD_SPECS and GENERIC_WORKLOAD not in gates:
        return _at(POD_SPECS[kind], data, before, gates)
    return data


def _group(data: Data, before: Data, gates: Collection[str]) -> Data:
    spec = data.get("spec") or {}
    spec = _kept(_PLAN, spec, before.get("spec") or {}, gates)
    data = {**data, "spec": spec}
    if data.get("status") and not spec.get("resourceClaims"):
        data["status"] = _kept(
            {"resourceClaimStatuses": WORKLOAD_CLAIMS}, data["status"], {}, gates
        )
    return data


def _at(path: str, data: Data, before: Data, gates: Collection[str]) -> Data:
    """Leave out what is gated at the end of this path."""
    name, _, rest = path.partition(".")
    found, was = data.get(name), before.get(name) or {}
    if not isinstance(found, dict):
        return data
    if rest:
        return {**data, name: _at(rest, found, was, gates)}
    if templates := found.get("podGroupTemplates"):
        pairs = zip_longest(templates, (was.get("podGroupTemplates") or [])[: len(templates)])
        kept = [_kept(_PLAN, now, then or {}, gates) for now, then in pairs]
        return {**data, name: {**found, "podGroupTemplates": kept}}
    return {**data, name: _kept(_POD_SPEC, found, was, gates)}


def _kept(fields: dict[str, str], found: Data, was: Data, gates: Collection[str]) -> Data:
    if not fields.keys() & found.keys():
        return found
    return {
        key: value
        for key, value in found.items()
        if key not in fields or fields[key] in gates or was.get(key) is not None
    }
