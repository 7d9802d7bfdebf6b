"""The cells of a row, kind by kind, in the order of the columns in `tables`.

Each function takes an object as JSON data and the time, and returns its row.  Pods have a module
of their own (`pod_cells`).
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.http.durations import UNKNOWN, age, human_duration
from stowplan.apiserver.http.pod_cells import NONE
from stowplan.objects.times import TimeError, parse_time

Data = dict[str, Any]
Row = list[Any]

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _part(data: Data, *path: str) -> Any:
    """The mapping at a path, empty when any part of it is missing."""
    found: Any = data
    for key in path:
        found = (found.get(key) if isinstance(found, dict) else None) or {}
    return found


def _name(data: Data) -> str:
    return str(_part(data, "metadata").get("name", ""))


def _age(data: Data, now_s: float) -> str:
    return age(_part(data, "metadata").get("creationTimestamp"), now_s)


def generic(data: Data, now_s: float) -> Row:
    return [_name(data), _age(data, now_s)]


def node(data: Data, now_s: float) -> Row:
    status, info = _part(data, "status"), _part(data, "status", "nodeInfo")
    addresses = {one.get("type"): one.get("address") for one in status.get("addresses") or ()}
    labels = _part(data, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role"}
    return [
        _name(data),
        _node_state(data),
        ",".join(sorted(roles - {""})) or NONE,
        _age(data, now_s),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_state(data: Data) -> str:
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in _part(data, "status").get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if _part(data, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def namespace(data: Data, now_s: float) -> Row:
    return [_name(data), _part(data, "status").get("phase", ""), _age(data, now_s)]


def service(data: Data, now_s: float) -> Row:
    spec = _part(data, "spec")
    ports = [
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}"
        f"/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports") or ()
    ]
    external = ",".join(spec.get("externalIPs") or ()) or spec.get("externalName") or NONE
    return [
        _name(data),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external,
        ",".join(ports) or NONE,
        _age(data, now_s),
        _pairs(spec.get("selector") or {}),
    ]


def _workload(data: Data) -> Row:
    """Containers, images and selector of whatever has a pod template."""
    spec = _part(data, "spec")
    containers = _part(spec, "template", "spec").get("containers") or []
    return [
        ",".join(str(one.get("name", "")) for one in containers),
        ",".join(str(one.get("image", "")) for one in containers),
        selector_text(spec.get("selector")),
    ]


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


def deployment(data: Data, now_s: float) -> Row:
    spec, status = _part(data, "spec"), _part(data, "status")
    return [
        _name(data),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(data, now_s),
        *_workload(data),
    ]


def replica_set(data: Data, now_s: float) -> Row:
    status = _part(data, "status")
    return [
        _name(data),
        _part(data, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(data, now_s),
        *_workload(data),
    ]


def stateful_set(data: Data, now_s: float) -> Row:
    ready, wanted = _part(data, "status").get("readyReplicas", 0), _part(data, "spec")
    return [
        _name(data),
        f"{ready}/{wanted.get('replicas', 0)}",
        _age(data, now_s),
        *_workload(data)[:2],
    ]


def daemon_set(data: Data, now_s: float) -> Row:
    status = _part(data, "status")
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        _name(data),
        *(status.get(name, 0) for name in counts),
        _pairs(_part(data, "spec", "template", "spec", "nodeSelector")),
        _age(data, now_s),
        *_workload(data),
    ]


def job(data: Data, now_s: float) -> Row:
    spec, status = _part(data, "spec"), _part(data, "status")
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    return [
        _name(data),
        _job_state(data),
        completions,
        _job_duration(status, now_s),
        _age(data, now_s),
        *_workload(data),
    ]


def _job_state(data: Data) -> str:
    true = {
        condition.get("type")
        for condition in _part(data, "status").get("conditions") or ()
        if condition.get("status") == "True"
    }
    for state in ("Complete", "Failed"):
        if state in true:
            return state
    if _part(data, "metadata").get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if state in true:
            return state
    return "Running"


def _job_duration(status: Data, now_s: float) -> str:
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


def volume(data: Data, now_s: float) -> Row:
    spec, status, claim_ref = (
        _part(data, "spec"),
        _part(data, "status"),
        _part(data, "spec", "claimRef"),
    )
    phase = (
        "Terminating" if _part(data, "metadata").get("deletionTimestamp") else status.get("phase")
    )
    return [
        _name(data),
        _part(spec, "capacity").get("storage", ""),
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase or "",
        f"{claim_ref.get('namespace')}/{claim_ref.get('name')}" if claim_ref else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        _age(data, now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def claim(data: Data, now_s: float) -> Row:
    spec, status = _part(data, "spec"), _part(data, "status")
    phase = (
        "Terminating" if _part(data, "metadata").get("deletionTimestamp") else status.get("phase")
    )
    bound = bool(spec.get("volumeName"))
    return [
        _name(data),
        phase or "",
        spec.get("volumeName", ""),
        _part(status, "capacity").get("storage", "") if bound else "",
        _modes(status) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        _age(data, now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def storage_class(data: Data, now_s: float) -> Row:
    annotations = _part(data, "metadata", "annotations")
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        _name(data) + (" (default)" if default else ""),
        data.get("provisioner", ""),
        data.get("reclaimPolicy", "Delete"),
        data.get("volumeBindingMode", "Immediate"),
        bool(data.get("allowVolumeExpansion")),
        _age(data, now_s),
    ]


def volume_attachment(data: Data, now_s: float) -> Row:
    spec = _part(data, "spec")
    return [
        _name(data),
        spec.get("attacher", ""),
        _part(spec, "source").get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool(_part(data, "status").get("attached")),
        _age(data, now_s),
    ]


def csi_node(data: Data, now_s: float) -> Row:
    return [_name(data), len(_part(data, "spec").get("drivers") or ()), _age(data, now_s)]


def budget(data: Data, now_s: float) -> Row:
    spec = _part(data, "spec")
    limits = (spec.get("minAvailable"), spec.get("maxUnavailable"))
    return [
        _name(data),
        *("N/A" if limit is None else str(limit) for limit in limits),
        _part(data, "status").get("disruptionsAllowed", 0),
        _age(data, now_s),
    ]


def priority_class(data: Data, now_s: float) -> Row:
    default = bool(data.get("globalDefault"))
    policy = data.get("preemptionPolicy", "")
    return [_name(data), data.get("value", 0), default, _age(data, now_s), policy]


def runtime_class(data: Data, now_s: float) -> Row:
    return [_name(data), data.get("handler", ""), _age(data, now_s)]


def lease(data: Data, now_s: float) -> Row:
    return [_name(data), _part(data, "spec").get("holderIdentity") or "", _age(data, now_s)]


def event(data: Data, now_s: float) -> Row:
    """In either of its shapes: core/v1 or events.k8s.io/v1."""
    core = data.get("apiVersion") == "v1"
    about = _part(data, "involvedObject" if core else "regarding")
    series, source = _part(data, "series"), _part(data, "source" if core else "deprecatedSource")
    first = data.get("firstTimestamp" if core else "deprecatedFirstTimestamp")
    last = data.get("lastTimestamp" if core else "deprecatedLastTimestamp")
    since = first or data.get("eventTime")
    reporter = data.get("reportingComponent" if core else "reportingController")
    names = (source.get("component") or reporter or "", source.get("host") or "")
    count = series.get("count") or data.get("count" if core else "deprecatedCount") or 1
    return [
        age(series.get("lastObservedTime") or last or since, now_s),
        data.get("type", ""),
        data.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(filter(None, names)),
        str(data.get("message" if core else "note") or "").strip(),
        age(since, now_s),
        count,
        _name(data),
    ]


def config_map(data: Data, now_s: float) -> Row:
    count = len(_part(data, "data")) + len(_part(data, "binaryData"))
    return [_name(data), count, _age(data, now_s)]


def secret(data: Data, now_s: float) -> Row:
    return [_name(data), data.get("type", "Opaque"), len(_part(data, "data")), _age(data, now_s)]


def service_account(data: Data, now_s: float) -> Row:
    return [_name(data), len(data.get("secrets") or ()), _age(data, now_s)]
