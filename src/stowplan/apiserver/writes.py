"""What a kube-apiserver does with each write: check, fill in, commit, clean up.

`Writer` turns a request into changes of the ledger.  Pods that come as structs, bindings, deletes
and conditions stay structs all the way; PUT, other patches and bodies of JSON data pass through
`updates`, `patch` and `served` so that no field is lost.  `store` calls it; `garbage` calls back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver import answers
from stowplan.apiserver.admission import ADMITTED, Admission
from stowplan.apiserver.bindings import Binder
from stowplan.apiserver.bodies import (
    SharedRests,
    changed_identity,
    check_body,
    check_identity,
    clean_body,
    conformed,
    with_job_selector,
)
from stowplan.apiserver.bootstrap import IMMORTAL_NAMESPACES
from stowplan.apiserver.client_defaults import with_defaults
from stowplan.apiserver.defaults import (
    DEFAULTED,
    default_object,
    default_spec,
    qos_class,
)
from stowplan.apiserver.deletion import may_go, plan_deletion
from stowplan.apiserver.event_writes import create_events
from stowplan.apiserver.evictions import delete_pods, patch_statuses
from stowplan.apiserver.garbage import FOREGROUND, Garbage
from stowplan.apiserver.identity import GENERATED_NAME_BASE_MAX, Identity
from stowplan.apiserver.ledger import NOBODY, Ledger, Table
from stowplan.apiserver.owners import Ref
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.pod_creations import create_pods
from stowplan.apiserver.pod_update import validate_pod_update
from stowplan.apiserver.pod_validation import validate_spec, validate_template
from stowplan.apiserver.pod_writes import merge_status, status_patch
from stowplan.apiserver.retention import EventRetention
from stowplan.apiserver.rules import TEMPLATED, validate_data, validate_immutable, validate_status
from stowplan.apiserver.services import with_addresses
from stowplan.apiserver.updates import merge_update
from stowplan.apiserver.validation import (
    VALIDATED,
    validate_finalizers,
    validate_meta,
    validate_object,
    validate_object_update,
    validate_status_of,
)
from stowplan.apiserver.watches import Rest
from stowplan.clock import Clock
from stowplan.cluster.port import Answer
from stowplan.errors import ApiError, BadRequest
from stowplan.objects.api import Create, Delete, Patch, Update
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.codec import join, split
from stowplan.objects.kinds import EVENT, JOB, KIND_BY_STRUCT, NAMESPACE, SERVICE, Kind
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import (
    Namespace,
    PriorityClass,
    RuntimeClass,
    WorkloadSpec,
)

NAME_ATTEMPTS_MAX = 8

_WITH_GENERATION = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "DeviceClass",
        "EndpointSlice",
        "Ingress",
        "IngressClass",
        "Job",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "ReplicaSet",
        "ReplicationController",
        "ResourceSlice",
        "StatefulSet",
    }
)
# What admitted pod specs were resolved with.
_CLASSES = frozenset({PriorityClass, RuntimeClass})
# Other kinds are stored as they come; events are, and there is one for each pod at least.
_PREPARED = DEFAULTED | ADMITTED | VALIDATED


class Writer:
    def __init__(
        self,
        ledger: Ledger,
        identity: Identity,
        *,
        create_namespaces: bool = False,
    ) -> None:
        self.ledger = ledger
        self._identity = identity
        self._create_namespaces = create_namespaces
        self._admission = Admission(self)
        self.binder = Binder(ledger, identity, self._admission)
        self._garbage = Garbage(ledger, self)
        self._events = EventRetention()
        self._rests = SharedRests()
        self._pods = ledger.tables[Pod]
        self._namespaces = ledger.tables[Namespace].objects[""]

    def fork(self, clock: Clock) -> Writer:
        """One that goes on from here, on a fork of the ledger."""
        ledger, identity = self.ledger.fork(), Identity(clock, self._identity.seed)
        other = Writer(ledger, identity, create_namespaces=self._create_namespaces)
        other._admission = self._admission.fork(other)
        other.binder = Binder(ledger, identity, other._admission)
        other._garbage = self._garbage.fork(ledger, other)
        other._events = self._events.fork()
        other._rests = self._rests.fork()
        return other

    # What admission asks.

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        return self.ledger.tables[kind.struct].find(namespace, name)

    def every(self, kind: Kind) -> Iterable[KubeObject]:
        return self.ledger.tables[kind.struct].every()

    def data(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """The whole object as the API serves it."""
        table = self.ledger.tables[kind.struct]
        thing = table.find(namespace, name)
        return None if thing is None else view(kind, thing, table.rest(namespace, name))

    # Create.

    def create(self, request: Create) -> KubeObject:
        return self._create(request, self._identity.now())

    def create_all(self, requests: Sequence[Create]) -> Sequence[Answer]:
        """For each of them the new object, or why there is none."""
        common = requests, self.ledger, self._identity, self._namespaces
        new = create_pods(*common, self._admission) or create_events(*common, self._events)
        if new is not None:
            return new
        return one_by_one(partial(self._create, now=self._identity.now()), requests)

    def _create(self, request: Create, now: str) -> KubeObject:
        kind, thing, rest = request.kind, request.body, None
        struct, ledger = kind.struct, self.ledger
        problems: list[answers.Problem] = []
        if self._create_namespaces and kind.namespaced:
            self._make_namespace(request.namespace)
        if not isinstance(thing, struct) or kind is JOB:
            thing, rest, problems = self._from_data(kind, thing)
        version = ledger.next_version()
        meta, wanted = thing.metadata, thing.metadata.resource_version
        namespace = self._namespace(kind, request.namespace, meta) if kind.namespaced else ""
        name, table = meta.name, ledger.tables[struct]
        names = table.objects.get(namespace, NOBODY)
        if not name:
            name = self._generate_name(kind, names, meta.generate_name)
        if meta.deletion_timestamp is not None or meta.deletion_grace_period_seconds is not None:
            meta = replace(meta, deletion_timestamp=None, deletion_grace_period_seconds=None)
        meta = replace(
            meta,
            name=name,
            namespace=namespace,
            uid=self._identity.uid(version),
            resource_version=version,
            generation=1 if kind.name in _WITH_GENERATION else meta.generation,
            creation_timestamp=now,
        )
        meta_problems = validate_meta(kind, meta)
        try:
            new = self._prepare(kind, thing, meta)
            problems = [*meta_problems, *problems]
        except answers.InvalidObject as error:
            problems = [*meta_problems, *error.causes, *problems]
        if problems:
            raise answers.InvalidObject(kind, name, problems)
        if wanted.isdecimal() and int(wanted):
            raise answers.internal("resourceVersion should not be set on objects to be created")
        if name in names:
            raise answers.already_exists(kind, name)
        ledger.write(table, "ADDED", None, new, rest)
        if kind is EVENT:
            for old in self._events.keep(meta, self._identity.now_s()):
                self._expire(old)
        elif struct in _CLASSES:
            self._admission.forget()
        return new

    def _from_data(self, kind: Kind, body: Any) -> tuple[KubeObject, Rest, list[answers.Problem]]:
        if isinstance(body, kind.struct):
            body = join(body, None)
        check_body(kind, body)
        data = clean_body(kind, conformed(kind, body))
        if kind is JOB:
            # Its selector is made from its uid, in the pod template, which is JSON data.
            uid = self._identity.uid(self.ledger.next_version())
            data = with_job_selector(data, uid)
        if kind is SERVICE:
            data = with_addresses(data, self.ledger.version)
        data = with_defaults(kind, data)
        thing, rest = self._split(kind, data)
        return thing, self._rests.of(rest), validate_data(kind.name, data)

    def _prepare(self, kind: Kind, thing: KubeObject, meta: ObjectMeta) -> KubeObject:
        """The object as it will be stored."""
        if isinstance(thing, Pod):
            return self._admission.admit_pod(thing.spec, meta)
        new = replace(thing, api_version=kind.api_version, kind=kind.name, metadata=meta)
        if kind.struct not in _PREPARED:
            return new
        new = self._admission.admit_object(kind, default_object(new, creating=True))
        if problems := _object_problems(kind, new):
            raise answers.InvalidObject(kind, new.name, problems)
        return new

    def _namespace(self, kind: Kind, namespace: str, meta: ObjectMeta) -> str:
        """The namespace of a new object, which must exist and stay."""
        own = meta.namespace
        if own and own != namespace:
            if namespace:
                raise BadRequest(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
            namespace = own
        found = self._namespaces.get(namespace)
        if found is None:
            if not namespace:
                raise BadRequest("an empty namespace may not be set during creation")
            raise answers.not_found(NAMESPACE, namespace)
        if found.metadata.deletion_timestamp is not None:
            raise answers.forbidden(
                kind,
                meta.name,
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
            )
        return namespace

    def _make_namespace(self, name: str) -> None:
        if name and name not in self._namespaces:
            self.create(Create(NAMESPACE, "", Namespace(metadata=ObjectMeta(name=name))))

    def _generate_name(self, kind: Kind, names: Mapping[str, KubeObject], base: str) -> str:
        if not base:
            return ""
        number = self.ledger.version + 1
        last = number + NAME_ATTEMPTS_MAX
        while True:
            name = base[:GENERATED_NAME_BASE_MAX] + self._identity.suffix(number)
            if name not in names:
                return name
            number += 1
            if number == last:
                raise answers.already_exists(kind, name)

    def _expire(self, event: ObjectMeta) -> None:
        table = self.ledger.tables[EVENT.struct]
        thing = table.find(event.namespace, event.name)
        if thing is not None and thing.metadata.uid == event.uid:
            self._remove(table, thing, thing.metadata)

    # Update and patch.

    def update(self, request: Update) -> KubeObject:
        table, old = self._require(request.kind, request.namespace, request.name)
        current = view(table.kind, old, table.rest(old.namespace, old.name))
        return self._replace(table, old, current, request.body, request.subresource)

    def patch(self, request: Patch) -> KubeObject:
        table, old = self._require(request.kind, request.namespace, request.name)
        if isinstance(old, Pod):
            patch = status_patch(old, request)
            status = None if patch is None else merge_status(old.status, patch)
            if status is not None:
                return self._write_status(old, status)
        current = view(table.kind, old, table.rest(old.namespace, old.name))
        patched = apply_patch(request.patch_type, table.kind.name, current, request.body)
        body = conformed(table.kind, patched, is_patch=True)
        return self._replace(table, old, current, body, request.subresource, is_patch=True)

    def patch_all(self, requests: Sequence[Patch]) -> Sequence[Answer]:
        """For each of them the object as it is then, or why it was not patched."""
        pods = patch_statuses(requests, self.ledger)
        return one_by_one(self.patch, requests) if pods is None else pods

    def _write_status(self, old: Pod, status: Any) -> Pod:
        if status == old.status:
            return old
        meta = replace(old.metadata, resource_version=self.ledger.next_version())
        new = replace(old, metadata=meta, status=status)
        rest = self._pods.rest(meta.namespace, meta.name)
        self.ledger.write(self._pods, "MODIFIED", old, new, rest)
        return new

    def _replace(
        self,
        table: Table,
        old: KubeObject,
        current: dict[str, Any],
        body: Any,
        subresource: str,
        *,
        is_patch: bool = False,
    ) -> KubeObject:
        kind, version = table.kind, self.ledger.next_version()
        check_body(kind, body)
        body = conformed(kind, body)
        check_identity(kind, old.metadata, body, is_patch=is_patch)
        if subresource == "resize":
            # Only a part of the body is used: refuse it first if it is malformed.
            self._split(kind, body)
        data = merge_update(kind, subresource, body, current)
        new, rest = self._split(kind, with_defaults(kind, data))
        new = self._default(new)
        result = view(kind, new, rest)
        if problems := changed_identity(body, current):
            raise answers.InvalidObject(kind, old.name, problems)
        if result == current:
            return old
        self._check_update(kind, old, new, (current, result), subresource)
        meta = new.metadata
        changed = subresource != "status" and result.get("spec") != current.get("spec")
        if changed and kind.name in _WITH_GENERATION:
            meta = replace(meta, generation=meta.generation + 1)
        new = replace(new, metadata=replace(meta, resource_version=version))
        if subresource == "status":
            # No two pods have the same status: to remember it for others would be in vain.
            known = table.rest(old.namespace, old.name)
            return self._modify(table, old, new, known if rest == known else rest)
        return self._modify(table, old, new, self._rests.of(rest))

    def _default(self, new: KubeObject) -> KubeObject:
        if isinstance(new, Pod):
            return replace(new, spec=default_spec(new.spec))
        return default_object(new, creating=False)

    def _check_update(
        self,
        kind: Kind,
        old: KubeObject,
        new: KubeObject,
        views: tuple[dict[str, Any], dict[str, Any]],
        subresource: str,
    ) -> None:
        before, after = views
        problems = validate_meta(kind, new.metadata)
        problems += validate_finalizers(new.metadata, old.metadata)
        if subresource == "status":
            problems += validate_status(kind.name, after)
            problems += validate_status_of(kind, new)
        else:
            problems += validate_data(kind.name, after)
            problems += validate_immutable(kind.name, after, before)
            if isinstance(new, Pod):
                problems += validate_spec(new.spec)
                if subresource == "":
                    problems += validate_pod_update(after.get("spec", {}), before.get("spec", {}))
            else:
                problems += _object_problems(kind, new)
                problems += validate_object_update(kind, new, old)
        if problems:
            raise answers.InvalidObject(kind, old.name, problems)

    def _modify(self, table: Table, old: KubeObject, new: KubeObject, rest: Rest) -> KubeObject:
        """Commit a change; an object that was only waiting for it goes."""
        if may_go(new.metadata):
            return self._remove(table, old, new.metadata, rest)
        self.ledger.write(table, "MODIFIED", old, new, rest)
        if table.kind.struct in _CLASSES:
            self._admission.forget()
        return new

    def _split(self, kind: Kind, data: dict[str, Any]) -> tuple[KubeObject, Rest]:
        try:
            return split(data, kind.struct)
        except msgspec.ValidationError as error:
            raise answers.not_handled(kind, str(error)) from None

    # Delete.

    def delete(self, request: Delete, propagation: str = "Background") -> KubeObject:
        """`propagation` is Background, Foreground or Orphan: what happens to dependants."""
        kind = request.kind
        table, old = self._require(kind, request.namespace, request.name)
        uid = old.metadata.uid
        if request.uid and request.uid != uid:
            raise answers.wrong_uid_to_delete(kind, old.name, request.uid, uid)
        if kind is NAMESPACE:
            return self._delete_namespace(old)
        if propagation == "Orphan":
            self._garbage.orphan(uid)
        elif propagation == "Foreground" and self.ledger.owners.dependants(uid):
            finalizers = old.metadata.finalizers or []
            if FOREGROUND not in finalizers:
                meta = replace(old.metadata, finalizers=[*finalizers, FOREGROUND])
                self.rewrite_meta(Ref(kind, meta.namespace, meta.name), meta)
                table, old = self._require(kind, request.namespace, request.name)
            answer = self._delete(table, old, request.grace_period_seconds)
            self._garbage.delete_dependants(uid)
            return answer
        return self._delete(table, old, request.grace_period_seconds)

    def delete_all(self, requests: Sequence[Delete]) -> Sequence[Answer]:
        """For each of them the last state of the object, or why it was not deleted."""
        pods = delete_pods(requests, self.ledger, self._garbage, self._identity.now_s())
        return one_by_one(self.delete, requests) if pods is None else pods

    def _delete(self, table: Table, old: KubeObject, grace_s: int | None) -> KubeObject:
        meta, gone = plan_deletion(old, grace_s, self._identity.now_s())
        if gone:
            return self._remove(table, old, meta)
        if meta is old.metadata:
            return old
        new = replace(old, metadata=replace(meta, resource_version=self.ledger.next_version()))
        rest = table.rest(new.metadata.namespace, new.metadata.name)
        self.ledger.write(table, "MODIFIED", old, new, rest)
        return new

    def _remove(
        self, table: Table, old: KubeObject, meta: ObjectMeta, rest: Rest = None
    ) -> KubeObject:
        version = self.ledger.next_version()
        final = replace(old, metadata=replace(meta, resource_version=version))
        if rest is None:
            rest = table.rest(meta.namespace, meta.name)
        self.ledger.write(table, "DELETED", old, final, rest)
        if table.kind.struct in _CLASSES:
            self._admission.forget()
        self._garbage.after_removal(final)
        return final

    def _delete_namespace(self, old: KubeObject) -> KubeObject:
        meta = old.metadata
        if meta.name in IMMORTAL_NAMESPACES:
            raise answers.forbidden(NAMESPACE, meta.name, "this namespace may not be deleted")
        if meta.deletion_timestamp is None:
            marked = replace(
                meta,
                resource_version=self.ledger.next_version(),
                deletion_timestamp=self._identity.now(),
            )
            new = replace(old, metadata=marked)
            table = self.ledger.tables[Namespace]
            self.ledger.write(table, "MODIFIED", old, new, table.rest("", meta.name))
            old = new
        self._garbage.begin_namespace(meta.name)
        return self._namespaces.get(meta.name) or old

    # What garbage collection does.

    def delete_ref(self, ref: Ref) -> None:
        table = self.ledger.tables[ref.kind.struct]
        thing = table.find(ref.namespace, ref.name)
        if thing is not None:
            self._delete(table, thing, None)

    def rewrite_meta(self, ref: Ref, meta: ObjectMeta) -> None:
        table = self.ledger.tables[ref.kind.struct]
        old = table.find(ref.namespace, ref.name)
        assert old is not None, f"{ref.kind} {ref.namespace}/{ref.name} is gone"
        version = self.ledger.next_version()
        new = replace(old, metadata=replace(meta, resource_version=version))
        self._modify(table, old, new, table.rest(ref.namespace, ref.name))

    def remove_namespace(self, name: str) -> None:
        found = self._namespaces.get(name)
        if found is not None and not found.metadata.finalizers:
            self._remove(self.ledger.tables[Namespace], found, found.metadata)

    def collect_garbage(self) -> None:
        self._garbage.collect()

    def resume(self) -> None:
        """Take up what the last process with this journal left undone."""
        now_s = self._identity.now_s()
        for thing in [*self.ledger.tables[EVENT.struct].every()]:
            for old in self._events.keep(thing.metadata, now_s):
                self._expire(old)
        self._garbage.collect()

    # Objects as they are.

    def put(self, thing: KubeObject, rest: Rest = None) -> KubeObject:
        """Store an object as it is, unchecked: how a cluster that was saved comes back.

        Only what every object must have is added: a uid, a creation time, a version.
        """
        kind = KIND_BY_STRUCT[type(thing)]
        table = self.ledger.tables[kind.struct]
        meta = thing.metadata
        namespace = (meta.namespace or "default") if kind.namespaced else ""
        version = self.ledger.next_version()
        meta = replace(
            meta,
            namespace=namespace,
            uid=meta.uid or self._identity.uid(version),
            resource_version=version,
            creation_timestamp=meta.creation_timestamp or self._identity.now(),
        )
        old = table.find(namespace, meta.name)
        new = replace(thing, api_version=kind.api_version, kind=kind.name, metadata=meta)
        self.ledger.write(table, "ADDED" if old is None else "MODIFIED", old, new, rest)
        if kind.struct in _CLASSES:
            self._admission.forget()
        return new

    def _require(self, kind: Kind, namespace: str, name: str) -> tuple[Table, KubeObject]:
        table = self.ledger.tables[kind.struct]
        thing = table.objects.get(namespace if kind.namespaced else "", NOBODY).get(name)
        if thing is None:
            raise answers.not_found(kind, name)
        return table, thing


def one_by_one(
    act: Callable[[Any], KubeObject | None], requests: Iterable[Any]
) -> Sequence[Answer]:
    """What comes of each of them, the errors included."""
    told: list[Answer] = []
    for request in requests:
        try:
            told.append(act(request))
        except ApiError as error:
            told.append(error)
    return told


def _object_problems(kind: Kind, thing: KubeObject) -> list[answers.Problem]:
    problems = validate_object(kind, thing)
    if kind.name in TEMPLATED:
        problems += validate_template(getattr(thing, "spec", WorkloadSpec()).template)
    return problems


def view(kind: Kind, thing: KubeObject, rest: Rest) -> dict[str, Any]:
    """The whole object as the API serves it, with the fields that no struct holds."""
    data = with_defaults(kind, join(thing, rest))
    if isinstance(thing, Pod):
        data["status"] = {**data.get("status", {}), "qosClass": qos_class(thing.spec)}
    return data
