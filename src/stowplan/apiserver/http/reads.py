"""GET: one object, or a list of them, in pages and at a version.

The store has one version of everything, the latest.  A list at exactly an older version is
answered with 410, one that must not be older than a version not reached yet with 504.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.answers import internal
from stowplan.apiserver.http.encoding import Encoder
from stowplan.apiserver.http.exchange import Exchange, Reply
from stowplan.apiserver.http.options import EXACT, ListQuery, list_query
from stowplan.apiserver.http.pages import Page, Pages
from stowplan.apiserver.http.paths import Target
from stowplan.apiserver.http.resources import Resource
from stowplan.apiserver.selectors import predicate
from stowplan.apiserver.store import Store
from stowplan.errors import BadRequest, Gone, Timeout


class Reads:
    def __init__(self, store: Store, encoder: Encoder) -> None:
        self._store = store
        self._encoder = encoder
        self._pages = Pages()

    def get(self, exchange: Exchange, target: Target) -> Reply:
        version = exchange.query.get("resourceVersion", "")
        if version and not version.isdecimal():
            raise internal(_unparsed(version))
        _check_version(version, self._store.resource_version)
        item = self._store.read(target.resource.kind, target.namespace, target.name)
        include = exchange.query.get("includeObject", "Metadata")
        return Reply(self._encoder.one(target.resource, item, exchange.wanted, include))

    async def list(self, exchange: Exchange, target: Target) -> Reply:
        query = list_query(exchange.query, target.namespace)
        predicate(target.resource.kind, query.selection)
        page = self._page(target.resource, query)
        metadata: dict[str, Any] = {"resourceVersion": page.resource_version}
        if page.token:
            metadata["continue"] = page.token
            # With a selector nobody could know how many there are; Kubernetes does not say.
            if not query.selection.label_selector and not query.selection.field_selector:
                metadata["remainingItemCount"] = page.remaining
        include = exchange.query.get("includeObject", "Metadata")
        return Reply(
            await self._encoder.many(
                target.resource, page.items, metadata, exchange.wanted, include
            )
        )

    def _page(self, resource: Resource, query: ListQuery) -> Page:
        selection = query.selection
        key = (
            resource.api_version,
            resource.kind.plural,
            selection.namespace,
            selection.field_selector,
            selection.label_selector,
        )
        if query.token:
            return self._pages.following(key, query.token, query.limit)
        current = self._store.resource_version
        _check_version(query.resource_version, current)
        if query.match == EXACT and query.resource_version != current:
            raise Gone(
                f"The resourceVersion for the provided list is too old: {query.resource_version} "
                f"({current})"
            )
        items, version = self._store.select(resource.kind, selection)
        return self._pages.first(key, items, version, query.limit)


def _check_version(wanted: str, current: str) -> None:
    """Whoever asks for at least a version must not be shown an older state."""
    if not wanted:
        return
    if not wanted.isdecimal():
        raise BadRequest(f"invalid resource version: {_unparsed(wanted)}")
    if int(wanted) > int(current):
        raise Timeout(
            f"Timeout: Too large resource version: {wanted}, current: {current}", retry_after_s=1.0
        )


def _unparsed(version: str) -> str:
    return (
        f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": '
        "invalid syntax"
    )
