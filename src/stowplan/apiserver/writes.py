"""What a kube-apiserver does with each write: check, fill in, commit, clean up.

`Writer` turns a request into changes of the ledger.  Pods that come as structs, bindings, deletes
and conditions stay structs all the way; PUT, other patches and bodies of JSON data pass through
`updates`, `patch` and `client_defaults`, so that no field is lost.  `store` calls it; `garbage`
calls back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver import answers, rules
from stowplan.apiserver.admission import ADMITTED, Admission
from stowplan.apiserver.bindings import Binder
from stowplan.apiserver.bodies import (
    SharedRests,
    changed_identity,
    check_body,
    check_identity,
    check_new,
    clean_body,
    conformed,
    with_job_selector,
)
from stowplan.apiserver.bootstrap import IMMORTAL_NAMESPACES
from stowplan.apiserver.claim_patches import patched_claim
from stowplan.apiserver.client_defaults import filled_slice, with_defaults
from stowplan.apiserver.defaults import DEFAULTED, default_object, default_spec, qos_class
from stowplan.apiserver.deletion import may_go, plan_deletion
from stowplan.apiserver.garbage import FOREGROUND, Garbage
from stowplan.apiserver.gated_fields import without_gated
from stowplan.apiserver.identity import GENERATED_NAME_BASE_MAX, Identity
from stowplan.apiserver.ledger import NOBODY, SAME_REST, Ledger, Table
from stowplan.apiserver.owners import Ref
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.pod_update import validate_pod_update
from stowplan.apiserver.pod_validation import validate_spec
from stowplan.apiserver.pod_writes import Merged, patched_pod
from stowplan.apiserver.retention import EventRetention
from stowplan.apiserver.services import with_addresses
from stowplan.apiserver.updates import merge_update
from stowplan.apiserver.validation import (
    VALIDATED,
    validate_finalizers,
    validate_meta,
    validate_object_update,
    validate_status_of,
)
from stowplan.apiserver.watches import UntypedFields
from stowplan.clock import Clock
from stowplan.cluster.port import Answer
from stowplan.errors import ApiError, BadRequest
from stowplan.objects.api import Create, Delete, Patch, Update
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.codec import join, split
from stowplan.objects.kinds import (
    EVENT,
    JOB,
    KIND_BY_STRUCT,
    NAMESPACE,
    POD_GROUP,
    RESOURCE_SLICE,
    SERVICE,
    WORKLOAD,
    Kind,
)
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, PriorityClass, RuntimeClass

NAME_ATTEMPTS_MAX = 8

_Way = tuple[
    tuple[type[KubeObject], ...],
    Table,
    int,
    Callable[[Kind, Any, ObjectMeta], KubeObject],
]
"""How objects of a kind are made: the structs that are taken as they come (none of a Job), its
table, the generation to begin with (0: the one that was sent), and what makes the object as it is
stored out of what was sent."""

_kind = attrgetter("kind")
_NOTHING: list[answers.Problem] = []

_WITH_GENERATION = frozenset(
    {
        "CronJob", "DaemonSet", "Deployment", "DeviceClass", "EndpointSlice", "Ingress",
        "IngressClass", "Job", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PriorityClass",
        "ReplicaSet", "ReplicationController", "ResourceSlice", "StatefulSet",
    }
)  # fmt: skip
# Whatever they come as.
_MADE_FROM_DATA = (JOB, POD_GROUP, WORKLOAD)
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
        gates: frozenset[str] = frozenset(),
    ) -> None:
        self.ledger, self.gates = ledger, gates
        self._identity = identity
        self._create_namespaces = create_namespaces
        self._admission = Admission(self, gates)
        self.binder = Binder(ledger, identity, self._admission)
        self._garbage = Garbage(ledger, self)
        self._events = EventRetention(identity.now_s, self._expire)
        self._rests = SharedRests()
        self._pods = ledger.tables[Pod]
        self._namespaces = ledger.tables[Namespace].objects[""]
        self._ways = {struct: self._way(table) for struct, table in ledger.tables.items()}

    def fork(self, clock: Clock) -> Writer:
        """One that goes on from here, on a fork of the ledger."""
        ledger, identity = self.ledger.fork(), Identity(clock, self._identity.seed)
        other = Writer(
            ledger, identity, create_namespaces=self._create_namespaces, gates=self.gates
        )
        other._admission = self._admission.fork(other)
        other.binder = self.binder.fork(ledger, identity, other._admission)
        other._garbage = self._garbage.fork(ledger, other)
        other._events = self._events.fork(identity.now_s, other._expire)
        other._rests = self._rests.fork()
        other._ways = {struct: other._way(table) for struct, table in ledger.tables.items()}
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

    def create(self, requests: Sequence[Create]) -> Sequence[Answer]:
        """For each of them the new object, or why there is none."""
        if self._create_namespaces:
            self._make_namespaces(requests)
        told: list[Answer] = []
        for kind, alike in groupby(requests, _kind):
            create = self._create_events if kind is EVENT else self._create
            told += create(kind, alike)
        return told

    def _create_events(self, kind: Kind, requests: Iterator[Create]) -> list[Answer]:
        """As many at a time as may come before an old one has to go."""
        told: list[Answer] = []
        while some := [*islice(requests, self._events.room())]:
            new = self._create(kind, some)
            self._events.keep(new)
            told += new
        return told

    def _create(self, kind: Kind, requests: Iterable[Create]) -> list[Answer]:
        taken, table, generation, prepare = self._ways[kind.struct]
        ledger, now, uid = self.ledger, self._identity.now(), self._identity.uid
        told: list[Answer] = []
        where, home, names = None, "", NOBODY
        for request in requests:
            thing, rest, found = request.body, None, _NOTHING
            try:
                if not isinstance(thing, taken):
                    thing, rest, found = self._from_data(kind, thing)
                sent = thing.metadata
                if (request.namespace, sent.namespace) != where:
                    home = self._namespace(kind, request.namespace, sent)
                    where = request.namespace, sent.namespace
                    names = table.objects.get(home, NOBODY)
                name = sent.name
                if not name:
                    name = self._generate_name(kind, names, sent.generate_name)
                version = f"{ledger.version + 1}"
                meta = replace(
                    sent,
                    name=name,
                    namespace=home,
                    uid=uid(version),
                    resource_version=version,
                    generation=generation or sent.generation,
                    creation_timestamp=now,
                    deletion_timestamp=None,
                    deletion_grace_period_seconds=None,
                )
                problems = validate_meta(kind, meta)
                try:
                    new = prepare(kind, thing, meta)
                except answers.InvalidObject as error:
                    problems += error.causes
                if problems or found:
                    raise answers.InvalidObject(kind, name, [*problems, *found])
                if sent.resource_version:
                    check_new(sent.resource_version)
                if name in names:
                    raise answers.already_exists(kind, name)
            except ApiError as error:
                told.append(error)
                continue
            ledger.add(table, new, rest)
            told.append(new)
            if not names:
                where = None  # It is the first one there: look for its names anew.
        if kind.struct in _CLASSES:
            self._admission.forget()
        return told

    def _way(self, table: Table) -> _Way:
        kind, struct = table.kind, table.kind.struct
        prepare: Callable[[Kind, Any, ObjectMeta], KubeObject] = _as_sent
        if struct is Pod:
            prepare = self._admission.admit_pod
        elif struct in _PREPARED:
            prepare = self._prepare
        taken = () if kind in _MADE_FROM_DATA else (struct,)
        return taken, table, 1 if kind.name in _WITH_GENERATION else 0, prepare

    def _from_data(
        self, kind: Kind, body: Any
    ) -> tuple[KubeObject, UntypedFields, list[answers.Problem]]:
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
        data = self._filled(kind, data)
        thing, rest = self._split(kind, data)
        return thing, self._rests.of(rest), rules.validate_data(kind.name, data)

    def _filled(
        self, kind: Kind, data: dict[str, Any], old: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """With the defaults that clients see; when a device was tainted is one of them."""
        data = with_defaults(kind, without_gated(kind.name, data, old, self.gates))
        return filled_slice(data, self._identity.now()) if kind is RESOURCE_SLICE else data

    def _prepare(self, kind: Kind, thing: KubeObject, meta: ObjectMeta) -> KubeObject:
        """An object of a kind that has defaults, rules or admission, as it will be stored."""
        new = default_object(_as_sent(kind, thing, meta), creating=True)
        new = self._admission.admit_object(kind, new)
        if problems := rules.object_problems(kind, new):
            raise answers.InvalidObject(kind, new.name, problems)
        return new

    def _namespace(self, kind: Kind, namespace: str, meta: ObjectMeta) -> str:
        """The namespace of a new object, which must exist and stay."""
        if not kind.namespaced:
            return ""
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

    def _make_namespaces(self, requests: Sequence[Create]) -> None:
        """See that the namespaces of new objects are there."""
        wanted = {request.namespace: None for request in requests if request.kind.namespaced}
        missing = [name for name in wanted if name and name not in self._namespaces]
        if missing:
            new = (Namespace(metadata=ObjectMeta(name=name)) for name in missing)
            self.create([Create(NAMESPACE, "", thing) for thing in new])

    def _generate_name(self, kind: Kind, names: Mapping[str, KubeObject], base: str) -> str:
        if not base:
            return ""
        first = self.ledger.version + 1
        for number in range(first, first + NAME_ATTEMPTS_MAX):
            name = base[:GENERATED_NAME_BASE_MAX] + self._identity.suffix(number)
            if name not in names:
                return name
        raise answers.already_exists(kind, name)

    def _expire(self, event: ObjectMeta) -> None:
        table = self.ledger.tables[EVENT.struct]
        thing = table.find(event.namespace, event.name)
        if thing is not None and thing.metadata.uid == event.uid:
            self._remove(table, thing, thing.metadata)

    # Update and patch.

    def update(self, requests: Sequence[Update]) -> Sequence[Answer]:
        """For each of them the object as it is then, or why it was not changed."""
        return one_by_one(self._update, requests)

    def _update(self, request: Update) -> KubeObject:
        table, old = self._require(request.kind, request.namespace, request.name)
        current = view(table.kind, old, table.rest(old.namespace, old.name))
        return self._replace(table, old, current, request.body, request.subresource)

    def patch(self, requests: Sequence[Patch]) -> Sequence[Answer]:
        """For each of them the object as it is then, or why it was not changed."""
        return one_by_one(partial(self._patch, {}), requests)

    def _patch(self, merged: Merged, request: Patch) -> KubeObject:
        table, old = self._require(request.kind, request.namespace, request.name)
        version = self.ledger.version + 1
        if isinstance(old, Pod):
            new: KubeObject | None = patched_pod(old, request, merged, version)
        else:
            new = patched_claim(old, request, version)
        if new is not None:
            if new is not old:
                self.ledger.modify(table, old, new)
            return new
        current = view(table.kind, old, table.rest(old.namespace, old.name))
        patched = apply_patch(request.patch_type, table.kind.name, current, request.body)
        body = conformed(table.kind, patched, is_patch=True)
        return self._replace(table, old, current, body, request.subresource, is_patch=True)

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
        new, rest = self._split(kind, self._filled(kind, data, current))
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
            problems += self._admission.refused_status(kind, after, before)
            problems += rules.validate_status(kind.name, after, before)
            problems += validate_status_of(kind, new)
        else:
            problems += rules.validate_changed(kind.name, after, before)
            if isinstance(new, Pod):
                problems += validate_spec(new.spec)
                if subresource == "":
                    problems += validate_pod_update(after.get("spec", {}), before.get("spec", {}))
            else:
                problems += rules.object_problems(kind, new)
                problems += validate_object_update(kind, new, old)
        if problems:
            raise answers.InvalidObject(kind, old.name, problems)

    def _modify(
        self, table: Table, old: KubeObject, new: KubeObject, rest: UntypedFields
    ) -> KubeObject:
        """Commit a change; an object that was only waiting for it goes."""
        if may_go(new.metadata):
            return self._remove(table, old, new.metadata, rest)
        self.ledger.modify(table, old, new, rest)
        if table.kind.struct in _CLASSES:
            self._admission.forget()
        return new

    def _split(self, kind: Kind, data: dict[str, Any]) -> tuple[KubeObject, UntypedFields]:
        try:
            return split(data, kind.struct)
        except msgspec.ValidationError as error:
            raise answers.not_handled(kind, str(error)) from None

    # Delete.

    def delete(
        self, requests: Sequence[Delete], propagation: str = "Background"
    ) -> Sequence[Answer]:
        """For each of them the last state of the object, or why it was not deleted.

        `propagation` is Background, Foreground or Orphan: what happens to dependants.
        """
        return one_by_one(partial(self._delete_one, propagation=propagation), requests)

    def _delete_one(self, request: Delete, propagation: str) -> KubeObject:
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

    def _delete(self, table: Table, old: KubeObject, grace_s: int | None) -> KubeObject:
        if self.binder.pods_run_at_once:
            grace_s = 0
        meta, gone = plan_deletion(old, grace_s, self._identity.now_s())
        if gone:
            return self._remove(table, old, meta)
        if meta is old.metadata:
            return old
        new = replace(old, metadata=replace(meta, resource_version=self.ledger.next_version()))
        self.ledger.modify(table, old, new)
        return new

    def _remove(
        self, table: Table, old: KubeObject, meta: ObjectMeta, rest: UntypedFields = SAME_REST
    ) -> KubeObject:
        ledger = self.ledger
        last = replace(meta, resource_version=f"{ledger.version + 1}")
        final = replace(old, metadata=last)
        ledger.remove(table, old, final, rest)
        if table.kind.struct in _CLASSES:
            self._admission.forget()
        self._garbage.after_removal(last)
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
            self.ledger.modify(self.ledger.tables[Namespace], old, new)
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
        self._events.keep([*self.ledger.tables[EVENT.struct].every()])
        self._garbage.collect()

    # Objects as they are.

    def put(self, thing: KubeObject, rest: UntypedFields = None) -> KubeObject:
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
        if old is None:
            self.ledger.add(table, new, rest)
        else:
            self.ledger.modify(table, old, new, rest)
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


def _as_sent(kind: Kind, thing: KubeObject, meta: ObjectMeta) -> KubeObject:
    return replace(thing, api_version=kind.api_version, kind=kind.name, metadata=meta)


def view(kind: Kind, thing: KubeObject, rest: UntypedFields) -> dict[str, Any]:
    """The whole object as the API serves it, with the fields that no struct holds."""
    data = with_defaults(kind, join(thing, rest))
    if isinstance(thing, Pod):
        data["status"] = {**data.get("status", {}), "qosClass": qos_class(thing.spec)}
    return data
