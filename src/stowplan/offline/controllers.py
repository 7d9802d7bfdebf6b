"""What the controllers of a cluster would still make: pods of workloads, claims of pods.

A manifest holds a Deployment and no pods; a dump of a running cluster holds the Deployment, its
ReplicaSets and their pods.  So a workload is counted first, through owner references, and only
what is missing of it is made, of what `objects.workload_pods` says.  Names look like an API
server's but depend on nothing but the input, so the same manifest gives the same pods.  Called by
`stowplan.offline`.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

from msgspec.structs import replace

from stowplan.apiserver.bodies import with_job_selector
from stowplan.apiserver.defaults import default_object
from stowplan.errors import InputError
from stowplan.objects.base import KubeObject, OwnerReference
from stowplan.objects.daemons import node_of, pin_to_node, suits
from stowplan.objects.labels import compile_selector
from stowplan.objects.manifests import check, decode, describe
from stowplan.objects.names import LETTERS, letters
from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.objects.workload_pods import (
    HASH_LABEL,
    Data,
    count_succeeded,
    daemon_pod,
    free_indexes,
    has_ended,
    is_active,
    is_indexed,
    job_pod,
    job_pods_wanted,
    ordinals_of,
    pod_from,
    replica_set_of,
    replicas_of,
    revision_of,
    stateful_claims,
    stateful_pod,
    stateful_revision,
    template_hash,
)
from stowplan.objects.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Workload,
)
from stowplan.offline.input_objects import InputObject, stable_uid, with_uid

PODS_MAX = 1_000_000
"""Of one workload: more is a mistake of typing."""

_SUFFIX_LENGTH = 5
_SUFFIXES: int = len(LETTERS) ** _SUFFIX_LENGTH
_STEP = 5_077_153
"""Coprime to 27: stepping by it visits every suffix once before one comes again."""

Owner = tuple[str, str, str]
"""Kind, namespace and name."""


def with_missing(entries: list[InputObject]) -> list[InputObject]:
    """The same objects, and after each workload what its controller would make now."""
    controllers = _Controllers(entries)
    complete = []
    for entry in entries:
        if isinstance(entry.obj, Job):
            entry = _with_selector(entry)
        complete.append(entry)
        if entry.obj.metadata.deletion_timestamp is None:
            complete.extend(controllers.make(entry))
    return complete


def _with_selector(entry: InputObject) -> InputObject:
    """A Job as an API server would have it: how many pods, and by which labels it knows them.

    Without them its controller would not take its own pods for its own, and make others for ever.
    """
    job = decode(with_job_selector(entry.data, entry.obj.uid), entry.where)
    assert job is not None
    return dataclasses.replace(entry, obj=default_object(with_uid(job), creating=False))


class _Controllers:
    def __init__(self, entries: list[InputObject]) -> None:
        objects = [entry.obj for entry in entries]
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

    def make(self, entry: InputObject) -> Iterator[InputObject]:
        if isinstance(entry.obj, Workload):
            _refuse_counts(entry, entry.obj)
        match entry.obj:
            case Deployment() as deployment:
                yield from self._of_deployment(entry, deployment)
            case ReplicaSet() | ReplicationController() as owner:
                wanted = replicas_of(owner) + self._more.get(owner.key, 0)
                if owner.key in self._more:
                    # As its Deployment would have scaled it.
                    entry.obj = replace(owner, spec=replace(owner.spec, replicas=wanted))
                yield from self._replicas(entry, owner, wanted - len(self._active(owner)))
            case StatefulSet() as owner:
                yield from self._of_stateful_set(entry, owner)
            case DaemonSet() as owner:
                yield from self._of_daemon_set(entry, owner)
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
            newest = max(
                owned, key=lambda rs: (revision_of(rs), rs.metadata.creation_timestamp or "")
            )
            self._more[newest.key] = self._more.get(newest.key, 0) + missing

    def _missing_of(self, deployment: Deployment) -> int:
        owned = self._replica_sets.get(_identity(deployment), ())
        promised = sum(max(replicas_of(rs), len(self._active(rs))) for rs in owned)
        selector = compile_selector(deployment.spec.selector)
        strays = sum(
            is_active(pod) and selector.matches(pod.metadata.labels or {})
            for pod in self._strays.get(deployment.key, ())
        )
        return replicas_of(deployment) - promised - strays

    def _of_deployment(self, entry: InputObject, deployment: Deployment) -> Iterator[InputObject]:
        missing = self._missing_of(deployment)
        stray = next(iter(self._strays.get(deployment.key, ())), None)
        if self._replica_sets.get(_identity(deployment)) or (missing <= 0 and stray is None):
            return
        _require_template(entry, deployment)
        digest = "" if stray is None else (stray.metadata.labels or {})[HASH_LABEL]
        made = _made(entry, replica_set_of(deployment, replicas_of(deployment), digest=digest))
        if stray is not None:
            # The set that the pods are of, which the input does not show.
            made.obj = _with_uid_of_owner(made.obj, stray)
        yield made
        assert isinstance(made.obj, ReplicaSet)
        yield from self._replicas(entry, made.obj, missing)

    def _replicas(
        self, entry: InputObject, owner: ReplicaSet | ReplicationController, missing: int
    ) -> Iterator[InputObject]:
        if missing > 0:
            _require_template(entry, owner)
            yield from self._alike(entry, owner, pod_from(owner), missing)

    def _of_stateful_set(self, entry: InputObject, owner: StatefulSet) -> Iterator[InputObject]:
        _require_template(entry, owner)
        for index, template in enumerate(owner.spec.volume_claim_templates or ()):
            if not template.name:
                field = f"spec.volumeClaimTemplates[{index}].metadata.name"
                raise InputError("the claim has no name", where=entry.place(field))
        revision = stateful_revision(owner)
        for ordinal in ordinals_of(owner):
            if f"{owner.namespace}/{owner.name}-{ordinal}" in self._keys:
                continue
            for body in stateful_claims(owner, ordinal):
                claim = _made(entry, body)
                if claim.obj.key not in self._claims:
                    yield claim
            yield from self._with_claims(_made(entry, stateful_pod(owner, ordinal, revision)))

    def _of_daemon_set(self, entry: InputObject, owner: DaemonSet) -> Iterator[InputObject]:
        _require_template(entry, owner)
        body = daemon_pod(owner, template_hash(owner.spec.template))
        suits_node = suits(body)
        have_it = {node_of(pod) for pod in self._active(owner)}
        for index, node in enumerate(self._nodes):
            if node.name not in have_it and suits_node(node, False):
                pinned = {**body, "spec": pin_to_node(body["spec"], node.name)}
                yield from self._alike(entry, owner, pinned, 1, index)

    def _of_job(self, entry: InputObject, job: Job) -> Iterator[InputObject]:
        _require_template(entry, job)
        pods = self._pods.get(_identity(job), [])
        active = len(self._active(job))
        succeeded = count_succeeded(job, pods)
        missing = job_pods_wanted(job, active=active, succeeded=succeeded) - active
        if job.spec.suspend or has_ended(job) or missing <= 0:
            return
        if not is_indexed(job):
            yield from self._alike(entry, job, job_pod(job, None), missing)
            return
        for index in free_indexes(job, pods)[:missing]:
            yield from self._alike(entry, job, job_pod(job, index), 1, index)

    def _claims_of(self, entry: InputObject, pod: Pod) -> Iterator[InputObject]:
        """Claims of generic ephemeral volumes: one per volume, owned by the pod."""
        is_pending = not pod.spec.node_name and pod.status.phase not in ENDED_PHASES
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
                owner_references=[
                    OwnerReference(
                        api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
                    )
                ],
            )
            claim = replace(
                claim, api_version="v1", kind="PersistentVolumeClaim", metadata=metadata
            )
            yield InputObject(
                entry.where, template, with_uid(claim), is_new=True, made_by=entry.made_by
            )

    # -- making -----------------------------------------------------------------------------

    def _alike(
        self, entry: InputObject, owner: Workload, body: Data, number: int, start: int = 0
    ) -> Iterator[InputObject]:
        """So many pods that differ in nothing but their names."""
        names = self._names(owner, body["metadata"]["generateName"], start)
        first = _made(entry, body, next(names))
        yield from self._with_claims(first)
        for name in islice(names, number - 1):
            data = {**first.data, "metadata": {**first.data["metadata"], "name": name}}
            metadata = replace(first.obj.metadata, name=name, uid="")
            pod = with_uid(replace(first.obj, metadata=metadata))
            yield from self._with_claims(dataclasses.replace(first, data=data, obj=pod))

    def _names(self, owner: Workload, prefix: str, start: int) -> Iterator[str]:
        """That no pod has yet."""
        seed = stable_uid("suffix", type(owner).__name__, owner.namespace, owner.name)
        first = int(seed[:8], 16)
        for index in count(start):
            name = prefix + letters((first + index * _STEP) % _SUFFIXES, _SUFFIX_LENGTH)
            if f"{owner.namespace}/{name}" not in self._keys:
                yield name

    def _with_claims(self, made: InputObject) -> Iterator[InputObject]:
        assert isinstance(made.obj, Pod)
        self._keys.add(made.obj.key)
        yield made
        yield from self._claims_of(made, made.obj)

    def _active(self, owner: KubeObject) -> list[Pod]:
        return [pod for pod in self._pods.get(_identity(owner), ()) if is_active(pod)]


def _strays(objects: Iterable[KubeObject], pods: Mapping[Owner, list[Pod]]) -> dict[str, list[Pod]]:
    """Deployment -> pods of a ReplicaSet that is not in the input, told by the set's name."""
    known = {_identity(obj) for obj in objects if isinstance(obj, ReplicaSet)}
    strays: dict[str, list[Pod]] = defaultdict(list)
    for owner, owned in pods.items():
        kind, namespace, name = owner
        if kind != "ReplicaSet" or owner in known:
            continue
        for pod in owned:
            suffix = f"-{(pod.metadata.labels or {}).get(HASH_LABEL)}"
            if name.endswith(suffix):
                strays[f"{namespace}/{name.removesuffix(suffix)}"].append(pod)
    return strays


def _with_uid_of_owner(obj: KubeObject, child: Pod) -> KubeObject:
    owner = child.metadata.controller()
    uid = owner.uid if owner is not None else ""
    return replace(obj, metadata=replace(obj.metadata, uid=uid or obj.metadata.uid))


def _identity(obj: KubeObject) -> Owner:
    return type(obj).__name__, obj.namespace, obj.name


def _owners(obj: KubeObject) -> list[Owner]:
    references = obj.metadata.owner_references or ()
    return [(owner.kind, obj.namespace, owner.name) for owner in references]


def _made(entry: InputObject, body: Data, name: str = "") -> InputObject:
    """The object that an API server would make of this body."""
    metadata = {**body["metadata"], "namespace": entry.obj.namespace}
    if name:
        metadata["name"] = name
    data = {**body, "metadata": metadata}
    obj = decode(data, entry.where)
    assert obj is not None, "schedulers read whatever controllers make"
    return InputObject(entry.where, data, with_uid(obj), is_new=True, made_by=describe(entry.data))


def _refuse_counts(entry: InputObject, workload: Workload) -> None:
    for field in ("replicas", "ordinals.start", "parallelism", "completions"):
        number: Any = workload.spec
        for name in field.split("."):
            number = getattr(number, name, None)
        if number is not None and not 0 <= number <= PODS_MAX:
            problem = f"{number} must be from 0 to {PODS_MAX}"
            raise InputError(problem, where=entry.place(f"spec.{field}"))


def _require_template(entry: InputObject, workload: Workload) -> None:
    if workload.spec.template is None:
        raise InputError("there is no pod template", where=entry.place("spec.template"))
