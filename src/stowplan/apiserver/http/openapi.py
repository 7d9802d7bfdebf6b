"""OpenAPI documents: enough for kubectl to validate, apply, dry-run and explain.

The schemas come from `wire_schema`: every field with its type, and no prose.  The paths tell
kubectl which query parameters a PATCH takes: it then leaves field validation to the server.
Strategic merge patch is left out of them on purpose: kubectl then merges lists by its own,
complete tables instead of by these schemas.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import msgspec

from stowplan.apiserver import wire_schema
from stowplan.apiserver.http.resources import Gates, Resource, served
from stowplan.apiserver.wire_schema import Field, Message

Data = dict[str, Any]

TITLE = "Stowplan"

_SCALARS: dict[str, Data] = {
    "s": {"type": "string"},
    "i": {"type": "integer", "format": "int64"},
    "j": {"type": "integer", "format": "int32"},
    "b": {"type": "boolean"},
    "y": {"type": "string", "format": "byte"},
    wire_schema.QUANTITY: {"type": "string"},
    wire_schema.INT_OR_STRING: {"type": "string", "format": "int-or-string"},
    **{name: {"type": "string", "format": "date-time"} for name in wire_schema.TIMES},
    **{name: {"type": "object"} for name in wire_schema.RAW},
    **{name: {"type": "array", "items": {"type": "string"}} for name in wire_schema.WRAPPED_LISTS},
}
_TYPE_FIELDS: Data = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def _document_name(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@cache
def index(gates: Gates) -> Data:
    """Where the document of each group and version is."""
    paths = {}
    for group, version in served(gates):
        name = _document_name(group, version)
        digest = hashlib.sha256(encoded(gates, group, version)).hexdigest().upper()
        paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
    return {"paths": paths}


@cache
def encoded(gates: Gates, group: str, version: str) -> bytes:
    return msgspec.json.encode(document(gates, group, version))


def document(gates: Gates, group: str, version: str) -> Data:
    """OpenAPI v3 of one group and version."""
    schemas = _Schemas()
    paths = {}
    for resource in served(gates)[group, version].values():
        name = schemas.add_kind(resource)
        paths[_path_of(resource)] = _operations(resource, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas.found},
    }


@cache
def swagger() -> Data:
    """OpenAPI v2: that it is there is all that clients need of it."""
    return {
        "swagger": "2.0",
        "info": {"title": TITLE, "version": "unversioned"},
        "paths": {},
        "definitions": {},
    }


@cache
def swagger_protobuf() -> bytes:
    """The same for kubectl, which asks for it by this encoding alone.

    Without an answer kubectl reports that, and not that a kind is missing.
    """

    def text(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    info = text(1, TITLE.encode()) + text(2, b"unversioned")
    return text(1, b"2.0") + text(2, info) + text(8, b"") + text(9, b"")


def _path_of(resource: Resource) -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/{namespace}" if resource.kind.namespaced else ""
    return f"{root}/{resource.version}{scope}/{resource.kind.plural}/{{name}}"


def _gvk(resource: Resource) -> Data:
    return {"group": resource.group, "kind": resource.kind.name, "version": resource.version}


def _operations(resource: Resource, schema: str) -> Data:
    content = {"application/json": {"schema": _reference(schema)}}
    common = {
        "x-kubernetes-group-version-kind": _gvk(resource),
        "responses": {"200": {"description": "OK", "content": content}},
    }
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    patch = {
        **common,
        "operationId": f"patch{resource.version}{resource.kind.name}",
        "x-kubernetes-action": "patch",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in names
        ],
        "requestBody": {
            "content": {"application/merge-patch+json": {"schema": {"type": "object"}}}
        },
    }
    get = {
        **common,
        "operationId": f"read{resource.version}{resource.kind.name}",
        "x-kubernetes-action": "get",
    }
    return {"get": get, "patch": patch}


def _reference(schema: str) -> Data:
    return {"$ref": f"#/components/schemas/{schema}"}


class _Schemas:
    """The messages that a document needs, each described once."""

    def __init__(self) -> None:
        self.found: dict[str, Data] = {}

    def add_kind(self, resource: Resource) -> str:
        kind = resource.kind.name
        message = wire_schema.message_of(resource.api_version, kind)
        assert message is not None, f"{resource.full_name} is served and not described"
        name = self._add(message)
        schema = self.found[name]
        schema["properties"] = {**_TYPE_FIELDS, **schema["properties"]}
        schema["x-kubernetes-group-version-kind"] = [_gvk(resource)]
        return name

    def _add(self, message: Message) -> str:
        name = f"io.k8s.{message.name}"
        if name not in self.found:
            schema: Data = {"type": "object"}
            self.found[name] = schema
            schema["properties"] = {
                field.name: self._schema(field) for field in message.by_name.values()
            }
        return name

    def _schema(self, field: Field) -> Data:
        inner = self._type(field.type)
        if field.flag == "*":
            return {"type": "array", "items": inner}
        if field.flag == "%":
            return {"type": "object", "additionalProperties": inner}
        return inner

    def _type(self, type_: str) -> Data:
        if (scalar := _SCALARS.get(type_)) is not None:
            return scalar
        message = wire_schema.message(type_)
        return {"type": "object"} if message is None else _reference(self._add(message))
