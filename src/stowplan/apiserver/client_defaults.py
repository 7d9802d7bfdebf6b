"""The defaults of the fields that only clients see: probes, strategies, pull policies and so on.

Works on JSON data and leaves what it is given alone.  An object made from JSON gets these when it
is created; one made from structs by the process itself has none of these fields, and gets them
when somebody reads it over the API (`Store.view`).  Mirrors `pkg/apis/*/v1/defaults.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from stowplan.objects.kinds import Kind

Data = dict[str, Any]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def with_defaults(kind: Kind, data: Data) -> Data:
    """`data` with every default that does not depend on other objects; idempotent."""
    fill, plain = _FILLERS.get(kind.name), _PLAIN.get(kind.name, ())
    if fill is None and not plain:
        return data
    data = dict(data)
    if fill is not None:
        fill(data)
    for path, defaults in plain:
        _fill_at(data, path.split("."), defaults)
    return data


def _fill_at(data: Data, path: list[str], defaults: Data) -> None:
    name, *rest = path
    if name.endswith("[]"):
        places = _each(data, name[:-2])
    else:
        places = [_child(data, name)] if isinstance(data.get(name), dict) else []
    for place in places:
        if rest:
            _fill_at(place, rest, defaults)
        else:
            _fill(place, **defaults)


def _child(data: Data, key: str) -> Data:
    """The mapping under `key`, copied so that it may be filled in place.

    What is there but is no mapping stays; the decoder has its say on it.
    """
    found = data.get(key)
    if found is not None and not isinstance(found, dict):
        return {}
    child = data[key] = dict(found or {})
    return child


def _each(data: Data, key: str) -> list[Data]:
    items = data.get(key)
    if not isinstance(items, list):
        return []
    copies = [dict(item) if isinstance(item, dict) else item for item in items]
    data[key] = copies
    return [item for item in copies if isinstance(item, dict)]


def _fill(data: Data, **defaults: Any) -> None:
    for key, value in defaults.items():
        if data.get(key) is None:
            data[key] = value


def _pod(data: Data) -> None:
    spec = _child(data, "spec")
    _pod_spec(spec)
    # Not in templates: only of a pod itself.
    _fill(spec, enableServiceLinks=True)


def _pod_spec(spec: Data) -> None:
    _fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName"):
        _fill(spec, serviceAccount=spec["serviceAccountName"])
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in _each(spec, field):
            _container(container)
    for volume in _each(spec, "volumes"):
        _volume(volume)


def _container(container: Data) -> None:
    image = container.get("image")
    _fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=pull_policy(image if isinstance(image, str) else ""),
    )
    for port in _each(container, "ports"):
        _fill(port, protocol="TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            probe = _child(container, name)
            _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if isinstance(probe.get("httpGet"), dict):
                _fill(_child(probe, "httpGet"), path="/", scheme="HTTP")
    for variable in _each(container, "env"):
        source = variable.get("valueFrom")
        if isinstance(source, dict) and isinstance(source.get("fieldRef"), dict):
            _fill(_child(_child(variable, "valueFrom"), "fieldRef"), apiVersion="v1")


def pull_policy(image: str) -> str:
    """
    >>> pull_policy("nginx"), pull_policy("reg:5000/app:1.2"), pull_policy("a:latest")
    ('Always', 'IfNotPresent', 'Always')
    """
    if "@" in image:
        return "IfNotPresent"
    _, _, last = image.rpartition("/")
    _, colon, tag = last.partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _volume(volume: Data) -> None:
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            _fill(_child(volume, source), defaultMode=420)
    if isinstance(volume.get("hostPath"), dict):
        _fill(_child(volume, "hostPath"), type="")
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}


def _template(data: Data) -> Data:
    """Fill the pod template of a workload and return the workload's spec."""
    spec = _child(data, "spec")
    template = _child(spec, "template")
    _pod_spec(_child(template, "spec"))
    return spec


def _deployment(data: Data) -> None:
    spec = _template(data)
    _fill(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _child(spec, "strategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")


def _stateful_set(data: Data) -> None:
    spec = _template(data)
    _fill(
        spec,
        podManagementPolicy="OrderedReady",
        revisionHistoryLimit=10,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    )
    strategy = _child(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), partition=0)


def _cron_job(data: Data) -> None:
    job = _child(_child(data, "spec"), "jobTemplate")
    _template(job)


def _daemon_set(data: Data) -> None:
    metadata = data.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generation"):
        # What the first version of the API had as a field.
        metadata = _child(data, "metadata")
        annotations = _child(metadata, "annotations")
        _fill(annotations, **{_TEMPLATE_GENERATION: str(metadata["generation"])})
    spec = _template(data)
    _fill(spec, revisionHistoryLimit=10)
    strategy = _child(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)


def _job(data: Data) -> None:
    spec = _template(data)
    _fill(
        spec,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="TerminatingOrFailed",
    )


def _replica_set(data: Data) -> None:
    _template(data)


def _service(data: Data) -> None:
    spec = _child(data, "spec")
    _fill(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in _each(spec, "ports"):
        _fill(port, protocol="TCP", targetPort=port.get("port"))


def _namespace(data: Data) -> None:
    _fill(_child(data, "spec"), finalizers=["kubernetes"])
    deleting = _child(data, "metadata").get("deletionTimestamp") is not None
    _child(data, "status")["phase"] = "Terminating" if deleting else "Active"


def _persistent_volume(data: Data) -> None:
    spec = _child(data, "spec")
    _fill(spec, persistentVolumeReclaimPolicy="Retain")
    if isinstance(spec.get("hostPath"), dict):
        _fill(_child(spec, "hostPath"), type="")
    since = _child(data, "metadata").get("creationTimestamp")
    if since is not None:
        _fill(_child(data, "status"), lastPhaseTransitionTime=since)


def _secret(data: Data) -> None:
    _fill(data, type="Opaque")
    plain = data.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        data["data"] = {**(data.get("data") or {}), **encoded}


def _storage_class(data: Data) -> None:
    _fill(data, reclaimPolicy="Delete")


def _csi_driver(data: Data) -> None:
    _fill(
        _child(data, "spec"),
        podInfoOnMount=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _priority_class(data: Data) -> None:
    _fill(data, value=0)


_RBAC = {"apiGroup": "rbac.authorization.k8s.io"}
_EXACT = {"allocationMode": "ExactCount", "count": 1}
_CPU_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_PLAIN: dict[str, tuple[tuple[str, Data], ...]] = {
    "Endpoints": (("subsets[].ports[]", {"protocol": "TCP"}),),
    "RoleBinding": (("roleRef", _RBAC),),
    "ClusterRoleBinding": (("roleRef", _RBAC),),
    "ResourceClaim": (("spec.devices.requests[].exactly", _EXACT),),
    "ResourceClaimTemplate": (("spec.spec.devices.requests[].exactly", _EXACT),),
    "CronJob": (
        (
            "spec",
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        ),
    ),
    "HorizontalPodAutoscaler": (("spec", {"minReplicas": 1, "metrics": [_CPU_METRIC]}),),
    "NetworkPolicy": (("spec", {"policyTypes": ["Ingress"]}),),
}
"""Defaults that are always the same, by where they belong."""

_FILLERS: dict[str, Callable[[Data], None]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "CronJob": _cron_job,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replica_set,
    "Service": _service,
    "Namespace": _namespace,
    "PersistentVolume": _persistent_volume,
    "Secret": _secret,
    "StorageClass": _storage_class,
    "CSIDriver": _csi_driver,
    "PriorityClass": _priority_class,
}
