"""OpenAPI documents: enough for kubectl to validate, apply, dry-run and explain.

The schemas come from the structs, so `kubectl explain` shows what this program reads; every object
says that more fields are kept (x-kubernetes-preserve-unknown-fields).  The paths tell kubectl which
query parameters a PATCH takes: it then leaves field validation to the server.  Strategic merge
patch is left out of them on purpose: kubectl then merges lists by its own, complete tables instead
of by these schemas.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from stowplan.apiserver.http.resources import SERVED, Resource

Data = dict[str, Any]

TITLE = "Stowplan"
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_TEMPLATE_PREFIX = "io.stowplan"


def _document_name(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@cache
def index() -> Data:
    """Where the document of each group and version is."""
    paths = {}
    for group, version in SERVED:
        name = _document_name(group, version)
        digest = hashlib.sha256(encoded(group, version)).hexdigest().upper()
        paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
    return {"paths": paths}


@cache
def encoded(group: str, version: str) -> bytes:
    return msgspec.json.encode(document(group, version))


def document(group: str, version: str) -> Data:
    """OpenAPI v3 of one group and version."""
    schemas = _Schemas()
    paths = {}
    for resource in SERVED[group, version].values():
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


def _path_of(resource: Resource) -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/{namespace}" if resource.kind.namespaced else ""
    return f"{root}/{resource.version}{scope}/{resource.kind.plural}/{{name}}"


def _gvk(resource: Resource) -> Data:
    return {"group": resource.group, "kind": resource.kind.name, "version": resource.version}


def _operations(resource: Resource, schema: str) -> Data:
    answer = {
        "200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
    }
    common = {"x-kubernetes-group-version-kind": _gvk(resource), "responses": answer}
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


class _Schemas:
    """Turns struct types into named schemas."""

    def __init__(self) -> None:
        self.found: dict[str, Data] = {}

    def add_kind(self, resource: Resource) -> str:
        kind = resource.kind
        group = resource.group or "core"
        name = f"{_TEMPLATE_PREFIX}.{group}.{resource.version}.{kind.name}"
        described = inspect.type_info(kind.struct)
        assert isinstance(described, inspect.StructType), f"{kind} is no struct"
        self.found[name] = {
            **self._struct(described),
            "description": f"{kind.name} ({resource.api_version}), as far as Stowplan reads it; "
            "every other field is kept as it was written.",
            "x-kubernetes-group-version-kind": [_gvk(resource)],
        }
        return name

    def _struct(self, described: inspect.StructType) -> Data:
        properties = {field.encode_name: self._schema(field.type) for field in described.fields}
        return {"type": "object", "properties": properties, **_OPEN}

    def _schema(self, described: inspect.Type) -> Data:
        match described:
            case inspect.StructType():
                return self._reference(described)
            case inspect.UnionType():
                return self._union(described)
            case inspect.DictType():
                values = self._schema(described.value_type)
                return {"type": "object", "additionalProperties": values}
            case inspect.ListType():
                return {"type": "array", "items": self._schema(described.item_type)}
            case inspect.BoolType():
                return {"type": "boolean"}
            case inspect.IntType():
                return {"type": "integer", "format": "int64"}
            case inspect.FloatType():
                return {"type": "number"}
            case inspect.StrType():
                return {"type": "string"}
            case _:
                return {"type": "object", **_OPEN}

    def _union(self, described: inspect.UnionType) -> Data:
        if any(isinstance(one, inspect.FloatType) for one in described.types):
            # Text, a whole number or a fraction: a quantity.
            return {"type": "string", "description": "An amount, such as 100m or 2Gi."}
        known = [one for one in described.types if not isinstance(one, inspect.NoneType)]
        if len(known) == 1:
            return self._schema(known[0])
        return {"x-kubernetes-int-or-string": True, "type": "string", "format": "int-or-string"}

    def _reference(self, described: inspect.StructType) -> Data:
        name = f"{_TEMPLATE_PREFIX}.{described.cls.__name__}"
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._struct(described)
        return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}
