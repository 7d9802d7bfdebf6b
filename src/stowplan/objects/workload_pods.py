"""What controllers make of workloads: pods, the ReplicaSet of a Deployment, claims.

Plain data, ready for an API server, which gives names to pods that only have a prefix.  The
controllers of the embedded cluster send it to one; `offline.controllers`, which adds to manifests
what they lack, does without.  Mirrors `pkg/controller/{deployment,replicaset,statefulset,job,
daemon}`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stowplan.objects.base import KubeObject
from stowplan.objects.daemons import with_daemon_tolerations
from stowplan.objects.names import letters
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Workload,
)

Data = dict[str, Any]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_LABEL = "controller-revision-hash"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

_HASH_LENGTH = 10
_COPIED = ("labels", "annotations", "finalizers")
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/")


def template_hash(template: Mapping[str, Any] | None) -> str:
    """Ten letters that are equal for equal templates."""
    text = msgspec.json.encode(template or {}, order="deterministic")
    return letters(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"), _HASH_LENGTH)


def owner_reference(owner: KubeObject) -> Data:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def replicas_of(owner: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def is_active(pod: Pod) -> bool:
    """Neither ended nor on its way out: an owner need not replace it."""
    return pod.status.phase not in ENDED_PHASES and pod.metadata.deletion_timestamp is None


def pod_from(
    owner: Workload,
    *,
    prefix: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Data:
    """A pod of the owner's template.  Without a `prefix` it is named after its owner."""
    template = owner.spec.template or {}
    written = template.get("metadata") or {}
    metadata: Data = {key: written[key] for key in _COPIED if written.get(key)}
    metadata["generateName"] = prefix or f"{owner.name}-"
    metadata["ownerReferences"] = [owner_reference(owner)]
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


# -- Deployment -----------------------------------------------------------------------------


def replica_set_of(
    deployment: Deployment, replicas: int, *, revision: int = 1, digest: str = ""
) -> Data:
    """The ReplicaSet of the template that the Deployment has now; `digest` is the template's."""
    template = deployment.spec.template or {}
    written = template.get("metadata") or {}
    label = {HASH_LABEL: digest or template_hash(template)}
    labels = {**(written.get("labels") or {}), **label}
    selector = msgspec.to_builtins(deployment.spec.selector) or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name}-{label[HASH_LABEL]}",
            "labels": labels,
            "annotations": {**copied_annotations(deployment), REVISION: str(revision)},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), **label},
            },
            "template": {**template, "metadata": {**written, "labels": labels}},
        },
    }


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """Those that a Deployment hands on to its ReplicaSets."""
    return {
        key: text
        for key, text in (deployment.metadata.annotations or {}).items()
        if not key.startswith(_NOT_COPIED)
    }


def revision_of(obj: KubeObject) -> int:
    """Of a ReplicaSet, how often the Deployment's template had changed."""
    text = (obj.metadata.annotations or {}).get(REVISION, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


# -- StatefulSet ----------------------------------------------------------------------------


def ordinals_of(owner: StatefulSet) -> range:
    start = owner.spec.ordinals.start if owner.spec.ordinals is not None else 0
    return range(start, start + replicas_of(owner))


def stateful_revision(owner: StatefulSet) -> str:
    return f"{owner.name}-{template_hash(owner.spec.template)}"


def stateful_pod(owner: StatefulSet, ordinal: int, revision: str) -> Data:
    """A claim takes the place of a volume of the same name."""
    name = f"{owner.name}-{ordinal}"
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
    }
    body = pod_from(owner, labels=labels)
    body["metadata"]["name"] = name
    claims = {
        template.name: {
            "name": template.name,
            "persistentVolumeClaim": {"claimName": f"{template.name}-{name}"},
        }
        for template in owner.spec.volume_claim_templates or ()
    }
    spec = {**body["spec"], "hostname": name}
    others = [one for one in spec.get("volumes") or () if one.get("name") not in claims]
    if claims or others:
        spec["volumes"] = [*claims.values(), *others]
    return {**body, "spec": spec}


def stateful_claims(owner: StatefulSet, ordinal: int) -> list[Data]:
    """The claims of one pod, which outlive it."""
    selector = owner.spec.selector
    selected = (selector.match_labels or {}) if selector is not None else {}
    claims = []
    for template in owner.spec.volume_claim_templates or ():
        body = msgspec.to_builtins(template)
        body.pop("status", None)
        written = body.get("metadata") or {}
        metadata = {key: written[key] for key in ("annotations",) if key in written}
        metadata["name"] = f"{template.name}-{owner.name}-{ordinal}"
        metadata["labels"] = {**(written.get("labels") or {}), **selected}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claims.append({**body, **kind, "metadata": metadata})
    return claims


# -- DaemonSet ------------------------------------------------------------------------------


def daemon_pod(owner: DaemonSet, revision: str) -> Data:
    """Not pinned to a node yet: `daemons.suits` says to which, and `daemons.pin_to_node` pins."""
    body = pod_from(owner, labels={REVISION_LABEL: revision})
    return {**body, "spec": with_daemon_tolerations(body["spec"])}


# -- Job ------------------------------------------------------------------------------------


def job_pod(job: Job, index: int | None) -> Data:
    """With the index that it is to complete, where the job counts those."""
    if index is None:
        return pod_from(job)
    number = {COMPLETION_INDEX: str(index)}
    return pod_from(job, prefix=f"{job.name}-{index}-", labels=number, annotations=number)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def has_ended(job: Job) -> bool:
    return any(
        condition.type in ("Complete", "Failed") and condition.status == "True"
        for condition in job.status.conditions or ()
    )


def count_succeeded(job: Job, pods: Iterable[Pod]) -> int:
    done = [pod for pod in pods if pod.status.phase == "Succeeded"]
    count = len({_completion_index(pod) for pod in done}) if is_indexed(job) else len(done)
    return max(job.status.succeeded, count)


def job_pods_wanted(job: Job, *, active: int, succeeded: int) -> int:
    """How many pods should run now: the next ones start when these are done."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        return min(parallelism, job.spec.completions - succeeded)
    # Pods that share a work queue: once one has succeeded, no new ones are started.
    return active if succeeded else parallelism


def free_indexes(job: Job, pods: Iterable[Pod]) -> list[int]:
    """Those that no pod of the job has completed, or is at work on."""
    taken = {
        _completion_index(pod) for pod in pods if pod.status.phase == "Succeeded" or is_active(pod)
    }
    return [index for index in range(job.spec.completions or 0) if str(index) not in taken]


def _completion_index(pod: Pod) -> str:
    return (pod.metadata.annotations or {}).get(COMPLETION_INDEX, "")
