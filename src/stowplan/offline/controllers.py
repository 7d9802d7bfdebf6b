"""What the controllers of a cluster would still make: pods of workloads, claims of pods.

A manifest holds a Deployment and no pods; a dump of a running cluster holds the Deployment, its
ReplicaSets and their pods.  So a workload is counted first, through owner references, and only
what is missing of it is made (`objects.expand` does the making).  Called by `stowplan.offline`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from stowplan.objects.base import KubeObject, OwnerReference
from stowplan.objects.expand import expand_workload
from stowplan.objects.labels import compile_selector
from stowplan.objects.manifests import check, decode, describe
from stowplan.objects.node import Node
from stowplan.objects.node_selector import METADATA_NAME
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.objects.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from stowplan.offline.given import Given, with_uid

REVISION = "deployment.kubernetes.io/revision"
TEMPLATE_HASH = "pod-template-hash"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

_FINISHED = frozenset({"Succeeded", "Failed"})

Owner = tuple[str, str, str]
"""Kind, namespace and name."""

Keep = Callable[[Pod], bool]


def with_missing(given: list[Given]) -> list[Given]:
    """The same objects, and after each workload what its controller would make now."""
    controllers = _Controllers(given)
    complete = []
    for entry in given:
        complete.append(entry)
        if entry.obj.metadata.deletion_timestamp is None:
            complete.extend(controllers.make(entry))
    return complete


class _Controllers:
    def __init__(self, given: list[Given]) -> None:
        objects = [entry.obj for entry in given]
        self._nodes = [obj for obj in objects if isinstance(obj, Node)]
        self._pods: dict[Owner, list[Pod]] = defaultdict(list)
        self._replica_sets: dict[Owner, list[ReplicaSet]] = defaultdict(list)
        self._keys = {obj.key for obj in objects if isinstance(obj, Pod)}
        self._claims = {obj.key for obj in objects if isinstance(obj, PersistentVolumeClaim)}
        self._more: dict[str, int] = {}
        """ReplicaSet -> pods that its Deployment wants of it beyond its own `replicas`."""
        for obj in objects:
            for owner in _owners(obj):
                if isinstance(obj, Pod):
                    self._pods[owner].append(obj)
                elif isinstance(obj, ReplicaSet):
                    self._replica_sets[owner].append(obj)
        self._strays = _strays(objects, self._pods)
        for obj in objects:
            if isinstance(obj, Deployment):
                self._plan(obj)

    def make(self, entry: Given) -> Iterator[Given]:
        match entry.obj:
            case Deployment() as deployment:
                yield from self._of_deployment(entry, deployment)
            case ReplicaSet() | ReplicationController() as replicated:
                yield from self._of_replicas(entry, replicated)
            case StatefulSet():
                yield from self._made(entry, entry.data, lambda pod: True)
            case DaemonSet():
                served = {_node_of(pod) for pod in self._active(_identity(entry.obj))}
                yield from self._made(entry, entry.data, lambda pod: _node_of(pod) not in served)
            case Job() as job:
                yield from self._of_job(entry, job)
            case Pod() as pod:
                yield from self._claims_of(entry, pod)
            case _:
                pass

    # -- one kind of workload each ----------------------------------------------------------

    def _plan(self, deployment: Deployment) -> None:
        """A Deployment that wants more than its ReplicaSets makes the newest of them grow."""
        owned = self._replica_sets.get(_identity(deployment))
        missing = self._missing_of(deployment)
        if owned and missing > 0:
            newest = max(owned, key=_revision)
            self._more[newest.key] = self._more.get(newest.key, 0) + missing

    def _missing_of(self, deployment: Deployment) -> int:
        owned = self._replica_sets.get(_identity(deployment), ())
        promised = sum(max(_replicas(rs), len(self._active(_identity(rs)))) for rs in owned)
        selector = compile_selector(deployment.spec.selector)
        strays = sum(
            _is_active(pod) and selector.matches(pod.metadata.labels or {})
            for pod in self._strays.get(deployment.key, ())
        )
        return _replicas(deployment) - promised - strays

    def _of_deployment(self, entry: Given, deployment: Deployment) -> Iterator[Given]:
        if self._replica_sets.get(_identity(deployment)):
            return
        missing = self._missing_of(deployment)
        if missing > 0:
            yield from self._made(entry, entry.data, _at_most(missing))

    def _of_replicas(
        self, entry: Given, replicated: ReplicaSet | ReplicationController
    ) -> Iterator[Given]:
        wanted = _replicas(replicated) + self._more.get(replicated.key, 0)
        missing = wanted - len(self._active(_identity(replicated)))
        if missing > 0:
            data = _with_spec(entry.data, replicas=wanted)
            yield from self._made(entry, data, _at_most(missing))

    def _of_job(self, entry: Given, job: Job) -> Iterator[Given]:
        pods = self._pods.get(_identity(job), [])
        done = [pod for pod in pods if pod.status.phase == "Succeeded"]
        active = [pod for pod in pods if _is_active(pod)]
        reported = (entry.data.get("status") or {}).get("succeeded")
        succeeded = max(len(done), reported if isinstance(reported, int) else 0)
        parallelism, completions = job.spec.parallelism, job.spec.completions
        if parallelism is None and completions is None:
            completions = 1
        wanted = 1 if parallelism is None else parallelism
        data = entry.data
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
            if job.spec.completion_mode == "Indexed":
                data = _with_spec(data, parallelism=completions)
        elif succeeded:
            # Pods that share a work queue: once one has succeeded, no new ones are started.
            wanted = 0
        taken = {_completion_index(pod) for pod in (*done, *active)} - {None}
        few = _at_most(wanted - len(active))
        yield from self._made(
            entry, data, lambda pod: _completion_index(pod) not in taken and few(pod)
        )

    def _claims_of(self, entry: Given, pod: Pod) -> Iterator[Given]:
        """Claims of generic ephemeral volumes: one per volume, owned by the pod."""
        is_pending = not pod.spec.node_name and pod.status.phase not in _FINISHED
        for index, volume in enumerate(pod.spec.volumes or ()):
            template = volume.ephemeral and volume.ephemeral.volume_claim_template
            if not template:
                continue
            place = entry.place(f"spec.volumes[{index}].ephemeral.volumeClaimTemplate")
            claim = check(template, PersistentVolumeClaim, place)
            if not is_pending or f"{pod.key}-{volume.name}" in self._claims:
                continue
            metadata = replace(
                claim.metadata,
                name=f"{pod.name}-{volume.name}",
                namespace=pod.namespace,
                owner_references=[OwnerReference(kind="Pod", uid=pod.uid, controller=True)],
            )
            claim = replace(
                claim, api_version="v1", kind="PersistentVolumeClaim", metadata=metadata
            )
            yield Given(entry.where, template, with_uid(claim), is_new=True, made_by=entry.made_by)

    # -- making -----------------------------------------------------------------------------

    def _made(self, entry: Given, data: dict[str, Any], wanted: Keep) -> Iterator[Given]:
        """What is made of a workload, without pods that are there already or not wanted."""
        made_by = describe(entry.data)
        claims: list[Given] = []
        for made in expand_workload(data, self._nodes, where=entry.where):
            obj = decode(made, entry.where)
            assert obj is not None, "schedulers read whatever controllers make"
            given = Given(entry.where, made, obj, is_new=True, made_by=made_by)
            if isinstance(obj, PersistentVolumeClaim):
                claims.append(given)
            elif not isinstance(obj, Pod):
                yield given
            else:
                if obj.key not in self._keys and wanted(obj):
                    yield from (claim for claim in claims if claim.obj.key not in self._claims)
                    # It would be made now, however old its workload is.
                    metadata = replace(obj.metadata, creation_timestamp=None)
                    given.obj = replace(obj, metadata=metadata)
                    yield given
                    yield from self._claims_of(given, obj)
                claims = []

    def _active(self, owner: Owner) -> list[Pod]:
        return [pod for pod in self._pods.get(owner, ()) if _is_active(pod)]


def _strays(objects: Iterable[KubeObject], pods: Mapping[Owner, list[Pod]]) -> dict[str, list[Pod]]:
    """Deployment -> pods of a ReplicaSet that is not in the input, told by the set's name."""
    known = {_identity(obj) for obj in objects if isinstance(obj, ReplicaSet)}
    strays: dict[str, list[Pod]] = defaultdict(list)
    for owner, owned in pods.items():
        kind, namespace, name = owner
        if kind != "ReplicaSet" or owner in known:
            continue
        for pod in owned:
            suffix = f"-{(pod.metadata.labels or {}).get(TEMPLATE_HASH)}"
            if name.endswith(suffix):
                strays[f"{namespace}/{name.removesuffix(suffix)}"].append(pod)
    return strays


def _is_active(pod: Pod) -> bool:
    """As ReplicaSets and Jobs count: an ended or ending pod is to be replaced."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def _identity(obj: KubeObject) -> Owner:
    return type(obj).__name__, obj.namespace, obj.name


def _owners(obj: KubeObject) -> list[Owner]:
    references = obj.metadata.owner_references or ()
    return [(owner.kind, obj.namespace, owner.name) for owner in references]


def _replicas(workload: Deployment | ReplicaSet | ReplicationController) -> int:
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def _revision(replica_set: ReplicaSet) -> tuple[int, str]:
    text = (replica_set.metadata.annotations or {}).get(REVISION, "")
    revision = int(text) if text.isascii() and text.isdigit() else 0
    return revision, replica_set.metadata.creation_timestamp or ""


def _node_of(pod: Pod) -> str:
    """The node a daemon runs on, or is meant for."""
    if pod.spec.node_name or pod.spec.affinity is None:
        return pod.spec.node_name
    node_affinity = pod.spec.affinity.node_affinity
    required = node_affinity.required if node_affinity is not None else None
    for term in (required.node_selector_terms if required is not None else None) or ():
        for field in term.match_fields or ():
            if field.key == METADATA_NAME and field.values:
                return field.values[0]
    return ""


def _completion_index(pod: Pod) -> str | None:
    return (pod.metadata.annotations or {}).get(COMPLETION_INDEX)


def _at_most(count: int) -> Keep:
    """True for the first `count` pods asked about."""
    left = iter(range(count))
    return lambda pod: next(left, None) is not None


def _with_spec(data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**data, "spec": {**(data.get("spec") or {}), **fields}}
