"""Objects as bytes: whole, as their metadata, or as rows of a table; one by one or as lists.

The JSON of an object is made once and kept for a while: the answer to a write, the events of all
watches and the lists that follow show the same version, and making it is what a request costs.
Objects are immutable, so what is kept never becomes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from stowplan.apiserver import wire_schema
from stowplan.apiserver.conforming import complete
from stowplan.apiserver.http.negotiation import Shape, Wanted
from stowplan.apiserver.http.resources import Resource
from stowplan.apiserver.http.tables import table_of
from stowplan.apiserver.store import view
from stowplan.apiserver.watches import UntypedFields
from stowplan.clock import Clock
from stowplan.objects.base import KubeObject

Data = dict[str, Any]
Item = tuple[KubeObject, UntypedFields]

KEPT_MAX = 4096
ITEMS_PER_TURN = 200
"""Of a long list, before others get their turn."""

encode = msgspec.json.Encoder().encode


class Encoder:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, int], tuple[KubeObject, bytes]] = {}

    def data(self, resource: Resource, thing: KubeObject, rest: UntypedFields) -> Data:
        """The object as JSON data, in the shape its API version has."""
        data = view(resource.kind, thing, rest)
        if resource.conversion is not None:
            data = resource.conversion.shown(data)
        return self.complete(resource, data)

    def complete(self, resource: Resource, data: Data) -> Data:
        """With what an object of this resource always shows."""
        message = wire_schema.message_of(resource.api_version, resource.kind.name)
        assert message is not None, f"{resource.full_name} is served and not described"
        return complete(data, message)

    def whole(self, resource: Resource, thing: KubeObject, rest: UntypedFields) -> bytes:
        key = (resource.api_version, id(thing))
        known = self._kept.get(key)
        if known is not None and known[0] is thing:
            return known[1]
        text = encode(self.data(resource, thing, rest))
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        # The object is kept with its text, so that its identity is not given to another.
        self._kept[key] = (thing, text)
        return text

    def one(
        self, resource: Resource, item: Item, wanted: Wanted, include_object: str = "Metadata"
    ) -> bytes:
        """One object in the shape that the client wants."""
        if wanted.shape is Shape.OBJECT:
            return self.whole(resource, *item)
        if wanted.shape is Shape.METADATA:
            return encode(_metadata_only(self.data(resource, *item)))
        return encode(self._table(resource, [item], {}, wanted, include_object))

    async def many(
        self,
        resource: Resource,
        items: Sequence[Item],
        metadata: Data,
        wanted: Wanted,
        include_object: str = "Metadata",
    ) -> bytes:
        """A list in the shape that the client wants."""
        if wanted.shape is Shape.TABLE:
            return await self._long_table(resource, items, metadata, wanted, include_object)
        texts: list[bytes] = []
        for start in range(0, len(items), ITEMS_PER_TURN):
            if start:
                await asyncio.sleep(0)
            part = items[start : start + ITEMS_PER_TURN]
            texts += [self.one(resource, item, wanted) for item in part]
        kind, api_version = f"{resource.kind.name}List", resource.api_version
        if wanted.shape is Shape.OBJECT:
            # A list says once of what kind its items are.
            head = encode({"apiVersion": api_version, "kind": resource.kind.name})[:-1] + b","
            size = len(head)
            texts = [b"{" + it[size:] if it.startswith(head) else it for it in texts]
        if wanted.shape is Shape.METADATA:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(texts) + b"]}"

    async def _long_table(
        self,
        resource: Resource,
        items: Sequence[Item],
        metadata: Data,
        wanted: Wanted,
        include_object: str,
    ) -> bytes:
        table = self._table(resource, items[:ITEMS_PER_TURN], metadata, wanted, include_object)
        for start in range(ITEMS_PER_TURN, len(items), ITEMS_PER_TURN):
            await asyncio.sleep(0)
            part = items[start : start + ITEMS_PER_TURN]
            table["rows"] += self._table(resource, part, {}, wanted, include_object)["rows"]
        return encode(table)

    def _table(
        self,
        resource: Resource,
        items: Sequence[Item],
        metadata: Data,
        wanted: Wanted,
        include_object: str,
    ) -> Data:
        objects = [self.data(resource, *item) for item in items]
        if not metadata and len(objects) == 1:
            metadata = {"resourceVersion": objects[0]["metadata"].get("resourceVersion", "")}
        table = table_of(resource.kind, objects, self._clock.now())
        rows = []
        for data, cells in zip(objects, table.rows, strict=True):
            row: Data = {"cells": cells}
            if include_object == "Object":
                row["object"] = data
            elif include_object != "None":
                row["object"] = _metadata_only(data)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{wanted.version}",
            "metadata": metadata,
            "columnDefinitions": table.columns,
            "rows": rows,
        }


def _metadata_only(data: Data) -> Data:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": data.get("metadata", {}),
    }
