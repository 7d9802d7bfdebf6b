"""Cells of tables that take more than a look at a field; `tables.txt` says where they belong.

Each function takes an object as JSON data and the time, and returns what is in one cell.  Pods have
a module of their own (`pod_cells`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.apiserver.http import durations
from stowplan.apiserver.http.durations import UNKNOWN, human_duration
from stowplan.apiserver.http.pod_cells import NONE
from stowplan.objects.times import TimeError, parse_time

Data = dict[str, Any]
Cell = Callable[[Data, float], Any]

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def part(data: Data, *path: str) -> Any:
    """The mapping at a path, empty when any part of it is missing."""
    found: Any = data
    for key in path:
        found = (found.get(key) if isinstance(found, dict) else None) or {}
    return found


def name(data: Data, now_s: float) -> str:
    return str(part(data, "metadata").get("name", ""))


def age(data: Data, now_s: float) -> str:
    return durations.age(part(data, "metadata").get("creationTimestamp"), now_s)


def node_state(data: Data, now_s: float) -> str:
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in part(data, "status").get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if part(data, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def node_roles(data: Data, now_s: float) -> str:
    labels = part(data, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role"}
    return ",".join(sorted(roles - {""})) or NONE


def _address(wanted: str) -> Cell:
    def cell(data: Data, now_s: float) -> str:
        found = part(data, "status").get("addresses") or ()
        return next((it["address"] for it in found if it.get("type") == wanted), "") or NONE

    return cell


def service_addresses(data: Data, now_s: float) -> str:
    spec = part(data, "spec")
    return ",".join(spec.get("externalIPs") or ()) or spec.get("externalName") or NONE


def service_ports(data: Data, now_s: float) -> str:
    ports = [
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}"
        f"/{port.get('protocol', 'TCP')}"
        for port in part(data, "spec").get("ports") or ()
    ]
    return ",".join(ports) or NONE


def pairs_of_selector(data: Data, now_s: float) -> str:
    return _pairs(part(data, "spec", "selector"))


def template_node_selector(data: Data, now_s: float) -> str:
    return _pairs(part(data, "spec", "template", "spec", "nodeSelector"))


def _of_containers(field: str) -> Cell:
    def cell(data: Data, now_s: float) -> str:
        containers = part(data, "spec", "template", "spec").get("containers") or []
        return ",".join(str(one.get(field, "")) for one in containers)

    return cell


def selector(data: Data, now_s: float) -> str:
    return selector_text(part(data, "spec").get("selector"))


def selector_text(selector: Any) -> str:
    """
    >>> selector_text({"matchLabels": {"a": "1"}, "matchExpressions": [
    ...     {"key": "b", "operator": "In", "values": ["x", "y"]}]})
    'a=1,b in (x,y)'
    """
    if not isinstance(selector, dict) or not selector:
        return NONE
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        return _pairs(selector)
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    words = {"In": "in", "NotIn": "notin"}
    for one in selector.get("matchExpressions") or ():
        key, operator = one.get("key", ""), one.get("operator", "")
        if operator in words:
            parts.append(f"{key} {words[operator]} ({','.join(one.get('values') or ())})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts) or NONE


def _pairs(labels: Data) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def ready(data: Data, now_s: float) -> str:
    replicas = part(data, "spec").get("replicas", 0)
    return f"{part(data, 'status').get('readyReplicas', 0)}/{replicas}"


def completions(data: Data, now_s: float) -> str:
    spec = part(data, "spec")
    succeeded, parallelism = part(data, "status").get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_state(data: Data, now_s: float) -> str:
    true = {
        condition.get("type")
        for condition in part(data, "status").get("conditions") or ()
        if condition.get("status") == "True"
    }
    for state in ("Complete", "Failed"):
        if state in true:
            return state
    if part(data, "metadata").get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if state in true:
            return state
    return "Running"


def job_duration(data: Data, now_s: float) -> str:
    status = part(data, "status")
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    try:
        return human_duration((parse_time(end) if end else now_s) - parse_time(start))
    except TimeError:
        return UNKNOWN


def _modes(spec: Data) -> str:
    modes = (_ACCESS_MODES.get(mode, mode) for mode in spec.get("accessModes") or ())
    return ",".join(dict.fromkeys(modes))


def modes(data: Data, now_s: float) -> str:
    return _modes(part(data, "spec"))


def phase(data: Data, now_s: float) -> str:
    if part(data, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return part(data, "status").get("phase") or ""


def claim_ref(data: Data, now_s: float) -> str:
    found = part(data, "spec", "claimRef")
    return f"{found.get('namespace')}/{found.get('name')}" if found else ""


def bound_capacity(data: Data, now_s: float) -> str:
    capacity = part(data, "status", "capacity").get("storage", "")
    return capacity if part(data, "spec").get("volumeName") else ""


def bound_modes(data: Data, now_s: float) -> str:
    return _modes(part(data, "status")) if part(data, "spec").get("volumeName") else ""


def claim_state(data: Data, now_s: float) -> str:
    """Of a claim for devices."""
    deleted = bool(part(data, "metadata").get("deletionTimestamp"))
    status = part(data, "status")
    states = {
        "deleted": deleted,
        "pending": not deleted and not status.get("allocation"),
        "allocated": bool(status.get("allocation")),
        "reserved": bool(status.get("allocation") and status.get("reservedFor")),
    }
    return ",".join(it for it, holds in states.items() if holds)


def group_policy(data: Data, now_s: float) -> str:
    is_gang = part(data, "spec", "schedulingPolicy").get("gang") is not None
    return "Gang" if is_gang else "Basic"


def group_state(data: Data, now_s: float) -> str:
    conditions = {it.get("type"): it for it in part(data, "status").get("conditions") or ()}
    state = "Pending"
    if (scheduled := conditions.get("PodGroupScheduled")) is not None:
        state = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        state = disrupted.get("reason", "")
    return state


def class_name(data: Data, now_s: float) -> str:
    annotations = part(data, "metadata", "annotations")
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return name(data, now_s) + (" (default)" if default else "")


def _limit(field: str) -> Cell:
    def cell(data: Data, now_s: float) -> str:
        limit = part(data, "spec").get(field)
        return "N/A" if limit is None else str(limit)

    return cell


def data_count(data: Data, now_s: float) -> int:
    return len(part(data, "data")) + len(part(data, "binaryData"))


def _event(core: str, new: str) -> Callable[[Data], Any]:
    """A field of an event in either of its shapes: core/v1 or events.k8s.io/v1."""
    return lambda data: data.get(core if data.get("apiVersion") == "v1" else new)


_about = _event("involvedObject", "regarding")
_first = _event("firstTimestamp", "deprecatedFirstTimestamp")
_last = _event("lastTimestamp", "deprecatedLastTimestamp")
_message = _event("message", "note")
_count = _event("count", "deprecatedCount")
_source = _event("source", "deprecatedSource")
_reporter = _event("reportingComponent", "reportingController")


def event_first(data: Data, now_s: float) -> str:
    return durations.age(_first(data) or data.get("eventTime"), now_s)


def event_last(data: Data, now_s: float) -> str:
    seen = part(data, "series").get("lastObservedTime") or _last(data) or _first(data)
    return durations.age(seen or data.get("eventTime"), now_s)


def event_object(data: Data, now_s: float) -> str:
    about = _about(data) or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_source(data: Data, now_s: float) -> str:
    source = _source(data) or {}
    names = (source.get("component") or _reporter(data) or "", source.get("host") or "")
    return ", ".join(filter(None, names))


CELLS: dict[str, Cell] = {
    it.__name__: it
    for it in (
        age, bound_capacity, bound_modes, claim_ref, claim_state, class_name, completions,
        data_count, event_first, event_last, event_object, event_source, group_policy, group_state,
        job_duration, job_state, modes, name, node_roles, node_state, pairs_of_selector, phase,
        ready, selector, service_addresses, service_ports, template_node_selector,
    )
} | {
    "containers": _of_containers("name"),
    "images": _of_containers("image"),
    "internal_ip": _address("InternalIP"),
    "external_ip": _address("ExternalIP"),
    "min_available": _limit("minAvailable"),
    "max_unavailable": _limit("maxUnavailable"),
    "event_field": lambda data, now_s: (_about(data) or {}).get("fieldPath", ""),
    "event_message": lambda data, now_s: str(_message(data) or "").strip(),
    "event_count": lambda data, now_s: part(data, "series").get("count") or _count(data) or 1,
}  # fmt: skip
"""Those that the table may name."""
