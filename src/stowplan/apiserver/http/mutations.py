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
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http import subresources
from stowplan.apiserver.http.core_events import from_core, to_core
from stowplan.apiserver.http.encoding import Encoder, Item
from stowplan.apiserver.http.exchange import Exchange, Reply, reply
from stowplan.apiserver.http.negotiation import patch_type_of
from stowplan.apiserver.http.options import (
    DeleteQuery,
    delete_query,
    field_validation,
    is_dry_run,
    is_true,
    list_query,
)
from stowplan.apiserver.http.paths import Target
from stowplan.apiserver.http.server_side_apply import Applier, apply, check_config
from stowplan.apiserver.http.status import (
    method_not_allowed,
    no_such_resource,
    success,
    unsupported_media_type,
)
from stowplan.apiserver.http.strictness import check_fields
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.store import view
from stowplan.apiserver.watches import at_version
from stowplan.clock import Clock
from stowplan.errors import ApiError, BadRequest, NotFound
from stowplan.objects.api import Create, Delete, Patch, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import EVENT, LEASE
from stowplan.objects.times import format_time

_T = TypeVar("_T")

DELETES_PER_TURN = 200

_CREATED_BY_PUT = frozenset({EVENT, LEASE})
_RETURNED_WHEN_DELETED = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "Pod", "Service", "ServiceAccount"}
)
_ON_A_MACHINE = frozenset({"attach", "exec", "log", "portforward", "proxy"})


class Mutations:
    def __init__(self, grouped: GroupedStore, encoder: Encoder, clock: Clock) -> None:
        self._grouped = grouped
        self._store = grouped.store
        self._encoder = encoder
        self._clock = clock

    # Create.

    async def create(self, exchange: Exchange, target: Target) -> Reply:
        kind = target.resource.kind
        if kind.namespaced and not target.namespace:
            raise method_not_allowed()
        level = field_validation(exchange.query)
        body = await exchange.object()
        warnings = check_fields(target.resource, body, level)
        if target.resource.converted:
            body = from_core(body)
        request = Create(kind, target.namespace, body)
        item = await self._write(exchange, lambda: self._whole(request))
        return self._show(exchange, target, item, 201, warnings)

    async def create_sub(self, exchange: Exchange, target: Target) -> Reply:
        if target.subresource in _ON_A_MACHINE:
            raise _no_machine(target)
        if target.subresource not in target.resource.subresources:
            raise no_such_resource()
        body = await exchange.object()
        if target.subresource == "binding":
            return await self.bind(exchange, target.namespace, target.name, body)
        if target.subresource != "eviction":
            raise method_not_allowed()
        options = body.get("deleteOptions") or {}
        dry_run = is_dry_run(exchange.query) or bool(options.get("dryRun"))
        subresources.evict(self._store, target.namespace, target.name, body, dry_run=dry_run)
        return reply(success(), 201)

    async def bind(self, exchange: Exchange, namespace: str, name: str, body: Any) -> Reply:
        request = subresources.binding_request(namespace, name, body)
        await self._write(exchange, lambda: self._store.execute(request))
        return reply(success(), 201)

    # Update.

    async def update(self, exchange: Exchange, target: Target) -> Reply:
        _check_sub(target)
        level = field_validation(exchange.query)
        body = await exchange.object()
        if target.subresource == "scale":
            return reply(self._at_once(exchange, lambda: self._put_scale(target, body)))
        warnings = check_fields(target.resource, body, level)
        if target.resource.converted:
            body = from_core(body)
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        request = Update(kind, namespace, name, body, target.subresource)

        def act() -> tuple[Item, int]:
            try:
                return self._whole(request), 200
            except NotFound:
                if kind not in _CREATED_BY_PUT:
                    raise
                return self._whole(Create(kind, namespace, body)), 201

        item, code = await self._write(exchange, act)
        return self._show(exchange, target, item, code, warnings)

    def _put_scale(self, target: Target, body: dict[str, Any]) -> Any:
        return subresources.put_scale(self._store, target, body)

    # Patch.

    async def patch(self, exchange: Exchange, target: Target) -> Reply:
        _check_sub(target)
        level = field_validation(exchange.query)
        patch_type = patch_type_of(exchange.content_type)
        body = await exchange.patch_body(patch_type)
        if target.subresource == "scale":
            if patch_type == "apply":
                raise unsupported_media_type("application/merge-patch+json")
            return reply(
                self._at_once(
                    exchange,
                    lambda: subresources.patch_scale(self._store, target, patch_type, body),
                )
            )
        warnings = check_fields(target.resource, body, level)
        if patch_type == "apply":
            item, code = self._at_once(exchange, lambda: self._apply(exchange, target, body))
            return self._show(exchange, target, item, code, warnings)
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        if target.resource.converted:
            item = self._at_once(exchange, lambda: self._patch_event(target, patch_type, body))
        else:
            request = Patch(kind, namespace, name, body, patch_type, target.subresource)
            item = await self._write(exchange, lambda: self._whole(request))
        return self._show(exchange, target, item, 200, warnings)

    def _patch_event(self, target: Target, patch_type: str, body: Any) -> Item:
        """A patch of a core/v1 event is about the fields that core/v1 has."""
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        current = to_core(view(kind, *self._store.read(kind, namespace, name)))
        patched = from_core(apply_patch(patch_type, kind.name, current, body))
        return self._whole(Update(kind, namespace, name, patched))

    def _apply(self, exchange: Exchange, target: Target, body: Any) -> tuple[Item, int]:
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        config = check_config(body, name)
        if target.resource.converted:
            raise unsupported_media_type("application/merge-patch+json")
        applier = Applier(
            exchange.query.get("fieldManager", ""),
            target.resource.api_version,
            format_time(self._clock.now()),
            is_true(exchange.query, "force"),
        )
        try:
            live = view(kind, *self._store.read(kind, namespace, name))
        except NotFound:
            if target.subresource:
                raise
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
        if target.subresource:
            raise method_not_allowed()
        options = delete_query(exchange.query, await exchange.body())
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        thing, rest = self._store.read(kind, namespace, name)
        _check_preconditions(target, thing, options)
        if options.dry_run:
            return self._show(exchange, target, (thing, rest))
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
        if kind.name in _RETURNED_WHEN_DELETED:
            return self._show(exchange, target, (deleted, rest))
        resource = target.resource
        return reply(success(kind=kind.plural, group=resource.group, name=name, uid=deleted.uid))

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
        options = delete_query(exchange.query, await exchange.body())
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

    async def _write(self, exchange: Exchange, act: Callable[[], _T]) -> _T:
        if is_dry_run(exchange.query):
            with self._store.rehearse():
                return act()
        return await self._submit(act)

    def _at_once(self, exchange: Exchange, act: Callable[[], _T]) -> _T:
        if is_dry_run(exchange.query):
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
    ) -> Reply:
        if is_dry_run(exchange.query):
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


def _check_sub(target: Target) -> None:
    if not target.subresource:
        return
    if target.subresource in _ON_A_MACHINE:
        raise _no_machine(target)
    if target.subresource not in target.resource.subresources:
        raise no_such_resource()
    if target.subresource in ("binding", "eviction"):
        raise method_not_allowed()


def _no_machine(target: Target) -> BadRequest:
    return BadRequest(
        f'pod "{target.name}" has no {target.subresource}: the nodes of this cluster are simulated'
    )


def no_machine(target: Target) -> BadRequest | None:
    """What to say to `kubectl logs` and `exec`, or None when it is about something else."""
    is_pod = target.resource.kind.name == "Pod"
    return _no_machine(target) if is_pod and target.subresource in _ON_A_MACHINE else None


def _check_preconditions(target: Target, thing: KubeObject, options: DeleteQuery) -> None:
    kind = target.resource.kind
    if options.uid and options.uid != thing.uid:
        raise answers.wrong_uid_to_delete(kind, thing.name, options.uid, thing.uid)
    found = thing.metadata.resource_version
    if options.resource_version and options.resource_version != found:
        raise answers.conflict(
            kind,
            thing.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({found}). The object might have been modified",
        )
