"""Workloads to pods: what the controllers of a cluster would make of a Deployment and its kin.

`dry-run` places pods, and manifests seldom hold any, so this plays the controllers: owners, labels,
claims and tolerations are as theirs; names look like theirs but depend on nothing but the input, so
the same manifest gives the same pods.  Mirrors `pkg/controller/{deployment,replicaset,statefulset,
job,daemon}`.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from stowplan.errors import InputError
from stowplan.objects.daemons import pin_to_node, runs_on, with_daemon_tolerations
from stowplan.objects.manifests import (
    DEFAULT_NAMESPACE,
    Manifest,
    check,
    decode,
    describe,
)
from stowplan.objects.node import Node
from stowplan.objects.pod import PodTemplate

PODS_MAX = 1_000_000
"""Of one workload: more is a mistake of typing."""

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for generated names: without vowels, so that no words come out."""
_SUFFIX_LENGTH = 5
_SUFFIXES = len(_ALPHABET) ** _SUFFIX_LENGTH
_STEP = 5_077_153
"""Coprime to 27: stepping by it visits every suffix once before one comes again."""


def is_workload(data: dict[str, Any]) -> bool:
    return (str(data.get("apiVersion")), str(data.get("kind"))) in _EXPANDERS


def expand_workloads(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The same objects, and after each workload what it makes.

    A workload of which something is there already, as in a dump of a running cluster, is left as
    it is.
    """
    given = list(manifests)
    owned = {owner for _, data in given for owner in _owners(data)}
    nodes = _nodes(given)
    expanded = []
    for where, data in given:
        expanded.append((where, data))
        if is_workload(data) and _identity(data) not in owned:
            expanded.extend((where, made) for made in expand_workload(data, nodes, where=where))
    return expanded


def expand_workload(
    data: dict[str, Any], nodes: Sequence[Node] = (), *, where: str = ""
) -> list[dict[str, Any]]:
    """The objects a controller makes of one workload: its pods, and what stands between.

    That is a Deployment's ReplicaSet, and the claims of a StatefulSet.  `nodes` is for DaemonSets:
    one pod per node that it suits.
    """
    decode(data, where)
    try:
        template = (data.get("spec") or {}).get("template")
        if template is None:
            place = f"{describe(data)}: spec.template"
            raise InputError("there is no pod template", where=place)
        check(template, PodTemplate, describe(data), below="spec.template")
        return _EXPANDERS[data["apiVersion"], data["kind"]](data, nodes)
    except InputError as error:
        place = f"{where}: {error.where}" if where else error.where
        raise InputError(error.problem, where=place, hint=error.hint) from None


def stable_uid(*parts: str) -> str:
    """A UID that depends on the parts alone."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _deployment(data: dict[str, Any], nodes: Sequence[Node]) -> list[dict[str, Any]]:
    spec = data["spec"]
    label = {"pod-template-hash": _hash(spec["template"])}
    template = copy.deepcopy(spec["template"])
    _labels(template).update(label)
    selector = copy.deepcopy(spec.get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **label}
    name = f"{_name(data)}-{label['pod-template-hash']}"
    namespace = _namespace(data)
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": stable_uid("ReplicaSet", namespace, name),
            "labels": dict(_labels(template)),
            "ownerReferences": [_owner_reference(data)],
        },
        "spec": {
            "replicas": _count(data, "replicas", 1),
            "selector": selector,
            "template": template,
        },
    }
    return [replica_set, *_replicas(replica_set, nodes)]


def _replicas(data: dict[str, Any], _nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """ReplicaSet and ReplicationController."""
    prefix = f"{_name(data)}-"
    return [
        _pod(data, f"{prefix}{_suffix(data, index)}", generate_name=prefix)
        for index in range(_count(data, "replicas", 1))
    ]


def _stateful_set(data: dict[str, Any], _nodes: Sequence[Node]) -> list[dict[str, Any]]:
    spec = data["spec"]
    ordinals = spec.get("ordinals") or {}
    start = _whole(data, "ordinals.start", ordinals.get("start"), 0)
    revision = f"{_name(data)}-{_hash(spec['template'])}"
    templates = _claim_templates(data)
    made: list[dict[str, Any]] = []
    for ordinal in range(start, start + _count(data, "replicas", 1)):
        pod = _pod(data, f"{_name(data)}-{ordinal}", generate_name=f"{_name(data)}-")
        _labels(pod).update(
            {
                "apps.kubernetes.io/pod-index": str(ordinal),
                "controller-revision-hash": revision,
                "statefulset.kubernetes.io/pod-name": _name(pod),
            }
        )
        claims = [_claim(data, template, pod) for template in templates]
        _mount(pod, templates, claims)
        made += [*claims, pod]
    return made


def _claim_templates(data: dict[str, Any]) -> list[dict[str, Any]]:
    templates: list[dict[str, Any]] = data["spec"].get("volumeClaimTemplates") or []
    for index, template in enumerate(templates):
        if not (template.get("metadata") or {}).get("name"):
            where = f"{describe(data)}: spec.volumeClaimTemplates[{index}].metadata.name"
            raise InputError("the claim has no name", where=where)
    return templates


def _claim(data: dict[str, Any], template: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    claim = copy.deepcopy(template)
    name = f"{_name(template)}-{_name(pod)}"
    metadata = claim.setdefault("metadata", {})
    metadata |= {
        "name": name,
        "namespace": _namespace(data),
        "uid": stable_uid("PersistentVolumeClaim", _namespace(data), name),
    }
    return {**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _mount(
    pod: dict[str, Any], templates: list[dict[str, Any]], claims: list[dict[str, Any]]
) -> None:
    """A claim takes the place of a volume of the same name."""
    names = [_name(template) for template in templates]
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": _name(claim)}}
        for name, claim in zip(names, claims, strict=True)
    ]
    others = [
        volume for volume in pod["spec"].get("volumes") or [] if volume.get("name") not in names
    ]
    if volumes or others:
        pod["spec"]["volumes"] = volumes + others


def _job(data: dict[str, Any], _nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """As many pods as run at once: the next ones start when these are done."""
    spec = data["spec"]
    ended = any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in (data.get("status") or {}).get("conditions") or []
    )
    if spec.get("suspend") or ended:
        return []
    count = _count(data, "parallelism", 1)
    if spec.get("completions") is not None:
        count = min(count, _count(data, "completions", 1))
    indexed = spec.get("completionMode") == "Indexed"
    uid = _uid(data)
    made = []
    for index in range(count):
        prefix = f"{_name(data)}-{index}-" if indexed else f"{_name(data)}-"
        pod = _pod(data, f"{prefix}{_suffix(data, index)}", generate_name=prefix)
        _labels(pod).update(
            {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": _name(data),
                "controller-uid": uid,
                "job-name": _name(data),
            }
        )
        if indexed:
            key = "batch.kubernetes.io/job-completion-index"
            _labels(pod)[key] = str(index)
            pod["metadata"].setdefault("annotations", {})[key] = str(index)
        made.append(pod)
    return made


def _daemon_set(data: dict[str, Any], nodes: Sequence[Node]) -> list[dict[str, Any]]:
    made = []
    prefix = f"{_name(data)}-"
    revision = _hash(data["spec"]["template"])
    for index, node in enumerate(nodes):
        pod = _pod(data, f"{prefix}{_suffix(data, index)}", generate_name=prefix)
        _labels(pod)["controller-revision-hash"] = revision
        pod["spec"] = with_daemon_tolerations(pod["spec"])
        if runs_on(pod, node):
            pod["spec"] = pin_to_node(pod["spec"], node.name)
            made.append(pod)
    return made


def _pod(data: dict[str, Any], name: str, *, generate_name: str) -> dict[str, Any]:
    template = data["spec"]["template"]
    written = template.get("metadata") or {}
    namespace = _namespace(data)
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": generate_name,
        "namespace": namespace,
        "uid": stable_uid("Pod", namespace, name),
    }
    for field in ("labels", "annotations", "finalizers"):
        if written.get(field):
            metadata[field] = copy.deepcopy(written[field])
    created = (data.get("metadata") or {}).get("creationTimestamp")
    if created:
        metadata["creationTimestamp"] = created
    metadata["ownerReferences"] = [_owner_reference(data)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def _owner_reference(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "name": _name(data),
        "uid": _uid(data),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _count(data: dict[str, Any], field: str, default: int) -> int:
    return _whole(data, field, data["spec"].get(field), default)


def _whole(data: dict[str, Any], field: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if not 0 <= value <= PODS_MAX:
        raise InputError(
            f"{value} must be from 0 to {PODS_MAX}", where=f"{describe(data)}: spec.{field}"
        )
    return value


def _name(data: dict[str, Any]) -> str:
    return str(data["metadata"]["name"])


def _namespace(data: dict[str, Any]) -> str:
    return str((data.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE)


def _uid(data: dict[str, Any]) -> str:
    uid = data["metadata"].get("uid")
    return str(uid) if uid else stable_uid(data["kind"], _namespace(data), _name(data))


def _labels(data: dict[str, Any]) -> dict[str, Any]:
    metadata = data["metadata"] = data.get("metadata") or {}
    metadata["labels"] = metadata.get("labels") or {}
    labels: dict[str, Any] = metadata["labels"]
    return labels


def _hash(template: dict[str, Any]) -> str:
    """Of the template, in the letters Kubernetes uses: the `7d4b9c` of a ReplicaSet's name."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return _letters(int.from_bytes(digest[:8], "big"), 10)


def _suffix(data: dict[str, Any], index: int) -> str:
    start = int(stable_uid("suffix", data["kind"], _namespace(data), _name(data))[:8], 16)
    return _letters((start + index * _STEP) % _SUFFIXES, _SUFFIX_LENGTH)


def _letters(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def _identity(data: dict[str, Any]) -> tuple[str, str, str]:
    return str(data.get("kind")), _namespace(data), str((data.get("metadata") or {}).get("name"))


def _owners(data: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    metadata = data.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in references if isinstance(references, list) else ():
        if isinstance(owner, dict):
            yield str(owner.get("kind")), _namespace(data), str(owner.get("name"))


def _nodes(manifests: list[Manifest]) -> list[Node]:
    decoded = (
        decode(data, where)
        for where, data in manifests
        if data.get("kind") == "Node" and data.get("apiVersion") == "v1"
    )
    return [node for node in decoded if isinstance(node, Node)]


_EXPANDERS: dict[
    tuple[str, str], Callable[[dict[str, Any], Sequence[Node]], list[dict[str, Any]]]
] = {
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "ReplicaSet"): _replicas,
    ("v1", "ReplicationController"): _replicas,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("batch/v1", "Job"): _job,
}
