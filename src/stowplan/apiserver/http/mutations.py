"""POST, PUT, PATCH and DELETE, and what they are answered with.

A plain write joins the group that is committed this turn.  What must read before it writes (apply,
scale, eviction, deletes with a version) does both at once, outside the group.  With `dryRun=All`
everything is checked and answered, and then undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from stowplan.apiserver import answers
from stowplan.apiserver.bodies import conformed
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http import subresources
from stowplan.apiserver.http.auth import Authenticator
from stowplan.apiserver.http.encoding import Encoder, Item
from stowplan.apiserver.http.exchange import Exchange, Reply, reply
from stowplan.apiserver.http.negotiation import patch_type_of
from stowplan.apiserver.http.options import (
    DeleteQuery,
    WriteQuery,
    delete_query,
    list_query,
    write_query,
)
from stowplan.apiserver.http.paths import Target
from stowplan.apiserver.http.reading import (
    BINDING,
    DELETE_OPTIONS,
    EVICTION,
    SCALE,
    TOKEN_REQUEST,
    Shape,
    check_patch,
    read_applied,
    read_object,
    shape_of,
)
from stowplan.apiserver.http.reviews import issue_token
from stowplan.apiserver.http.server_side_apply import Applier, apply, check_config
from stowplan.apiserver.http.status import (
    method_not_allowed,
    no_such_resource,
    success,
    unsupported_patch,
)
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.store import view
from stowplan.apiserver.watches import at_version
from stowplan.clock import Clock
from stowplan.errors import ApiError, BadRequest, NotFound
from stowplan.objects.api import Create, Delete, Patch, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NAMESPACE
from stowplan.objects.times import format_time

_T = TypeVar("_T")

DELETES_PER_TURN = 200

_CREATED_BY_PUT = frozenset({
    "ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "Role", "RoleBinding",
    "RuntimeClass", "Service",
})  # fmt: skip
_RETURNED_WHEN_DELETED = frozenset({
    "CSIDriver", "CSINode", "DeviceClass", "Namespace", "PersistentVolume", "PersistentVolumeClaim",
    "Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota", "ResourceSlice", "Service",
    "ServiceAccount", "StorageClass", "VolumeAttachment",
})  # fmt: skip
_ON_A_MACHINE = frozenset({"attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy"})
_POSTED = {"binding": BINDING, "eviction": EVICTION, "token": TOKEN_REQUEST}


class Mutations:
    def __init__(
        self, grouped: GroupedStore, encoder: Encoder, clock: Clock, authenticator: Authenticator
    ) -> None:
        self._grouped = grouped
        self._authenticator = authenticator
        self._store = grouped.store
        self._encoder = encoder
        self._clock = clock

    # Create.

    async def create(self, exchange: Exchange, target: Target) -> Reply:
        kind = target.resource.kind
        if kind.namespaced and not target.namespace:
            raise method_not_allowed()
        options = write_query(exchange.query, "CreateOptions")
        shape = shape_of(target.resource)
        body, warnings = await _read(exchange, shape, options.level)
        if target.resource.conversion is not None:
            body = target.resource.conversion.stored(body)
        request = Create(kind, target.namespace, body)
        item = await self._write(options, lambda: self._whole(request))
        return self._show(exchange, target, item, 201, warnings, dry_run=options.dry_run)

    async def create_sub(self, exchange: Exchange, target: Target) -> Reply:
        if target.subresource in _ON_A_MACHINE:
            raise _no_machine(target)
        if target.subresource not in target.resource.subresources:
            raise no_such_resource()
        options = write_query(exchange.query, "CreateOptions")
        shape = _POSTED.get(target.subresource)
        if shape is None:
            raise method_not_allowed()
        body, _ = await _read(exchange, shape, options.level)
        if shape is TOKEN_REQUEST:
            self._find_account(target)
            answer = issue_token(body, target.namespace, target.name, self._authenticator)
            return reply(answer, 201)
        if shape is BINDING:
            return await self._bind(options, target.namespace, target.name, body)
        dry_run = options.dry_run or bool(body.get("deleteOptions", {}).get("dryRun"))
        subresources.evict(self._store, target.namespace, target.name, body, dry_run=dry_run)
        return reply(success(), 201)

    def _find_account(self, target: Target) -> None:
        """Raise 404 unless it is there; that of a namespace itself always is."""
        if target.name != "default":
            self._store.read(target.resource.kind, target.namespace, target.name)
        self._store.read(NAMESPACE, "", target.namespace)

    async def bind(self, exchange: Exchange, namespace: str) -> Reply:
        """A binding that is not said to be of a pod by its path."""
        options = write_query(exchange.query, "CreateOptions")
        body, _ = await _read(exchange, BINDING, options.level)
        return await self._bind(options, namespace, "", body)

    async def _bind(self, options: WriteQuery, namespace: str, name: str, body: Any) -> Reply:
        request = subresources.binding_request(namespace, name, body)
        await self._write(options, lambda: self._store.execute(request))
        return reply(success(), 201)

    # Update.

    async def update(self, exchange: Exchange, target: Target) -> Reply:
        _check_sub(target)
        options = write_query(exchange.query, "UpdateOptions")
        shape = SCALE if target.subresource == "scale" else shape_of(target.resource)
        body, warnings = await _read(exchange, shape, options.level)
        check_name(target, body.get("metadata") or {})
        if shape is SCALE:
            return reply(self._at_once(options, lambda: self._put_scale(target, body)))
        if target.resource.conversion is not None:
            body = target.resource.conversion.stored(body)
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        request = Update(kind, namespace, name, body, target.subresource)

        def act() -> tuple[Item, int]:
            try:
                return self._whole(request), 200
            except NotFound:
                if kind.name not in _CREATED_BY_PUT:
                    raise
                if uid := body.get("metadata", {}).get("uid"):
                    raise answers.wrong_uid(kind, namespace, name, uid, "") from None
                return self._whole(Create(kind, namespace, body)), 201

        item, code = await self._write(options, act)
        return self._show(exchange, target, item, code, warnings, dry_run=options.dry_run)

    def _put_scale(self, target: Target, body: dict[str, Any]) -> Any:
        return subresources.put_scale(self._store, target, body)

    # Patch.

    async def patch(self, exchange: Exchange, target: Target) -> Reply:
        _check_sub(target)
        patch_type = patch_type_of(exchange.content_type)
        applies = patch_type == "apply"
        options = write_query(exchange.query, "PatchOptions", applies=applies)
        if not applies:
            # What is not there is not found, whatever the patch says.
            self._store.read(target.resource.kind, target.namespace, target.name)
        body = await exchange.patch_body(patch_type)
        if target.subresource == "scale":
            if applies:
                raise unsupported_patch()
            return reply(
                self._at_once(
                    options,
                    lambda: subresources.patch_scale(self._store, target, patch_type, body),
                )
            )
        shape = shape_of(target.resource)
        if applies:
            config = read_applied(body, shape, target.name, options.level)
            item, code = self._at_once(options, lambda: self._apply(options, target, config))
            return self._show(exchange, target, item, code, dry_run=options.dry_run)
        warnings = check_patch(body, patch_type, shape, options.level)
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        if target.resource.conversion is not None:
            item = self._at_once(options, lambda: self._patch_shown(target, patch_type, body))
        else:
            request = Patch(kind, namespace, name, body, patch_type, target.subresource)
            item = await self._write(options, lambda: self._whole(request))
        return self._show(exchange, target, item, 200, warnings, dry_run=options.dry_run)

    def _patch_shown(self, target: Target, patch_type: str, body: Any) -> Item:
        """A patch is about the fields of the shape that is served."""
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        conversion = target.resource.conversion
        assert conversion is not None, "it is stored as it is served"
        current = conversion.shown(view(kind, *self._store.read(kind, namespace, name)))
        patched = apply_patch(patch_type, kind.name, current, body)
        api_version = target.resource.api_version
        shown = conformed(kind, patched, is_patch=True, api_version=api_version)
        whole = [{"op": "replace", "path": "", "value": conversion.stored(shown)}]
        return self._whole(Patch(kind, namespace, name, whole, "json", target.subresource))

    def _apply(self, options: WriteQuery, target: Target, body: Any) -> tuple[Item, int]:
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        config = check_config(body, name)
        conversion = target.resource.conversion
        if conversion is not None:
            if not conversion.can_apply:
                raise unsupported_patch()
            config = conversion.stored(config)
        applier = Applier(
            options.manager,
            kind.api_version,
            format_time(self._clock.now()),
            options.force,
        )
        try:
            live = view(kind, *self._store.read(kind, namespace, name))
        except NotFound:
            if target.subresource:
                raise
            metadata = config.get("metadata") or {}
            if not (version := metadata.get("resourceVersion") or "0").isdecimal():
                why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
                raise answers.internal(why) from None
            if uid := metadata.get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing "
                raise answers.conflict(kind, name, f"{why}object was found") from None
            return self._create_applied(target, apply(None, config, applier)), 201
        if version := (config.get("metadata") or {}).get("resourceVersion"):
            live["metadata"] = {**live["metadata"], "resourceVersion": version}
        applied = apply(live, config, applier)
        return self._whole(Update(kind, namespace, name, applied, target.subresource)), 200

    def _create_applied(self, target: Target, applied: dict[str, Any]) -> Item:
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        managed = applied["metadata"].pop("managedFields")
        applied["metadata"]["name"] = name
        patch = {"metadata": {"managedFields": managed}}
        with self._store.batch():
            # A create has no say in who owns what.
            self._store.execute(Create(kind, namespace, applied))
            return self._whole(Patch(kind, namespace, name, patch, "merge"))

    # Delete.

    async def delete(self, exchange: Exchange, target: Target) -> Reply:
        if target.subresource and target.subresource not in target.resource.subresources:
            raise no_such_resource()
        if target.subresource:
            raise method_not_allowed()
        options = await self._delete_options(exchange)
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        thing, rest = self._store.read(kind, namespace, name)
        subresources.check_preconditions(kind, thing, options)
        if options.dry_run:
            return self._deleted(exchange, target, (thing, rest), dry_run=True)
        request = Delete(kind, namespace, name, options.uid, options.grace_period_s)

        def act() -> KubeObject:
            return self._store.delete(request, propagation=options.propagation)

        if options.resource_version:
            # Nothing may come between the look at the version and the delete.
            deleted = act()
        else:
            deleted = await self._submit(act)
        remaining = self._remaining(target, deleted.uid)
        if remaining is not None:
            return self._show(exchange, target, remaining)
        return self._deleted(exchange, target, (deleted, rest))

    async def _delete_options(self, exchange: Exchange) -> DeleteQuery:
        body = await exchange.body()
        if body is not None:
            body, _ = read_object(body, DELETE_OPTIONS)
        return delete_query(exchange.query, body)

    def _deleted(
        self, exchange: Exchange, target: Target, item: Item, *, dry_run: bool = False
    ) -> Reply:
        """What an object that has gone is answered with: itself, or that it has."""
        kind = target.resource.kind
        if kind.name in _RETURNED_WHEN_DELETED:
            return self._show(exchange, target, item, dry_run=dry_run)
        thing, group = item[0], target.resource.group
        return reply(success(kind=kind.plural, group=group, name=thing.name, uid=thing.uid))

    def _remaining(self, target: Target, uid: str) -> Item | None:
        """The object, if it is still there: in its grace period, or held by a finalizer."""
        try:
            item = self._store.read(target.resource.kind, target.namespace, target.name)
        except NotFound:
            return None
        return item if item[0].uid == uid else None

    async def delete_collection(self, exchange: Exchange, target: Target) -> Reply:
        resource = target.resource
        if not resource.delete_collection:
            raise method_not_allowed()
        options = await self._delete_options(exchange)
        selection = list_query(exchange.query, target.namespace).selection
        items, version = self._store.select(resource.kind, selection)
        for start in range(0, 0 if options.dry_run else len(items), DELETES_PER_TURN):
            if start:
                await asyncio.sleep(0)
            with self._store.batch():
                for thing, _ in items[start : start + DELETES_PER_TURN]:
                    self._delete_one(target, thing, options)
        metadata = {"resourceVersion": version}
        return Reply(await self._encoder.many(resource, items, metadata, exchange.wanted))

    def _delete_one(self, target: Target, thing: KubeObject, options: DeleteQuery) -> None:
        kind = target.resource.kind
        request = Delete(kind, thing.namespace, thing.name, thing.uid, options.grace_period_s)
        try:
            self._store.delete(request, propagation=options.propagation)
        except NotFound:
            # It went with another one of the collection.
            return

    # How writes are carried out.

    async def _write(self, options: WriteQuery, act: Callable[[], _T]) -> _T:
        if options.dry_run:
            with self._store.rehearse():
                return act()
        return await self._submit(act)

    def _at_once(self, options: WriteQuery, act: Callable[[], _T]) -> _T:
        if options.dry_run:
            with self._store.rehearse():
                return act()
        return act()

    async def _submit(self, act: Callable[[], _T]) -> _T:
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def tell(answer: Any) -> None:
            # The client may have gone meanwhile; what it wrote stays.
            if future.done():
                return
            if isinstance(answer, ApiError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._grouped.submit(act, tell)
        return await future

    def _whole(self, request: Create | Update | Patch) -> Item:
        thing, rest = self._store.execute_whole(request)
        assert thing is not None, "these are answered with the object"
        return thing, rest

    def _show(
        self,
        exchange: Exchange,
        target: Target,
        item: Item,
        code: int = 200,
        warnings: list[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> Reply:
        if dry_run:
            item = self._as_written(target, item)
        body = self._encoder.one(target.resource, item, exchange.wanted)
        return Reply(body, code, warnings=tuple(warnings or ()))

    def _as_written(self, target: Target, item: Item) -> Item:
        """With the version that the object really has: a dry run makes no new one."""
        thing, rest = item
        try:
            written, _ = self._store.read(target.resource.kind, thing.namespace, thing.name)
        except NotFound:
            return at_version(thing, ""), rest
        return at_version(thing, written.metadata.resource_version), rest


async def _read(exchange: Exchange, shape: Shape, level: str) -> tuple[dict[str, Any], list[str]]:
    text = f"the object provided is unrecognized (must be of type {shape.kind}): "
    try:
        body = await exchange.body()
    except BadRequest as error:
        raise BadRequest(text + error.message) from None
    if body is None:
        raise BadRequest(f"{text}couldn't get version/kind; json parse error: unexpected end")
    return read_object(body, shape, level)


def check_name(target: Target, metadata: dict[str, Any]) -> None:
    """Raise 400 unless a PUT is about the object of its URL."""
    if target.namespace:
        subresources.check_namespace(target.namespace, metadata)
    name = metadata.get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if name != target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def _check_sub(target: Target) -> None:
    if not target.subresource:
        return
    if target.subresource in _ON_A_MACHINE:
        raise _no_machine(target)
    if target.subresource not in target.resource.subresources:
        raise no_such_resource()
    if target.subresource in _POSTED:
        raise method_not_allowed()


def _no_machine(target: Target) -> BadRequest:
    return BadRequest(
        f'pod "{target.name}" has no {target.subresource}: the nodes of this cluster are simulated'
    )


def no_machine(target: Target) -> BadRequest | None:
    """What to say to `kubectl logs` and `exec`, or None when it is about something else."""
    is_pod = target.resource.kind.name == "Pod"
    return _no_machine(target) if is_pod and target.subresource in _ON_A_MACHINE else None
