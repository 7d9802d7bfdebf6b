"""Requests to a Kubernetes API server, built purely: what to send, not how.

`cluster.client` sends them.  Paths, verbs and content types are all decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stowplan.cluster.appending import ACCEPT, JSON, appended
from stowplan.cluster.port import ListOptions
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, Kind

APPEND = "append"
"""A patch that takes two requests: the object is read, and put in its place with more in it."""

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}

PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """
    >>> path_of(POD, "default", "web-1", "binding")
    '/api/v1/namespaces/default/pods/web-1/binding'
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    parts = [root]
    if kind.namespaced and namespace:
        parts.append(f"namespaces/{namespace}")
    parts.append(kind.plural)
    parts += [part for part in (name, subresource) if part]
    return "/".join(parts)


def http_request(request: Request) -> HttpRequest:
    match request:
        case Get(kind, namespace, name):
            return HttpRequest("GET", path_of(kind, namespace, name))
        case Create(kind, namespace, body):
            return HttpRequest("POST", path_of(kind, namespace), body=_object(kind, body))
        case Update(kind, namespace, name, body, subresource):
            path = path_of(kind, namespace, name, subresource)
            return HttpRequest("PUT", path, body=_object(kind, body))
        case Patch(kind, namespace, name, body, patch_type, subresource):
            path = path_of(kind, namespace, name, subresource)
            if patch_type == APPEND:
                return HttpRequest("GET", path_of(kind, namespace, name), accept=ACCEPT)
            data = msgspec.json.encode(body)
            return HttpRequest("PATCH", path, body=data, content_type=PATCH_TYPES[patch_type])
        case Delete():
            return _delete(request)
        case Bind(namespace, name, uid, node, annotations):
            metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
            if annotations:
                metadata["annotations"] = annotations
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            path = path_of(POD, namespace, name, "binding")
            return HttpRequest("POST", path, body=msgspec.json.encode(body))
        case _:
            assert_never(request)


def appending(request: Patch, stored: bytes) -> HttpRequest:
    """The second part of a patch of that type, after the object was read; ValueError."""
    path = path_of(request.kind, request.namespace, request.name, request.subresource)
    body, content_type = appended(stored, request.body)
    return HttpRequest("PUT", path, body=body, content_type=content_type)


def _object(kind: Kind, body: KubeObject | dict[str, Any]) -> bytes:
    if isinstance(body, KubeObject):
        if not body.kind:
            body = msgspec.structs.replace(body, api_version=kind.api_version, kind=kind.name)
        return msgspec.json.encode(body)
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name, **body})


def _delete(request: Delete) -> HttpRequest:
    options: dict[str, Any] = {}
    if request.uid:
        options["preconditions"] = {"uid": request.uid}
    if request.grace_period_seconds is not None:
        options["gracePeriodSeconds"] = request.grace_period_seconds
    body = b""
    if options:
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options})
    path = path_of(request.kind, request.namespace, request.name)
    return HttpRequest("DELETE", path, body=body)


def list_request(kind: Kind, options: ListOptions, continue_token: str = "") -> HttpRequest:
    query = _selectors(options) | {"limit": str(PAGE_SIZE)}
    if continue_token:
        query["continue"] = continue_token
    return HttpRequest("GET", path_of(kind, options.namespace), query)


def watch_request(
    kind: Kind, options: ListOptions, resource_version: str, timeout_s: int
) -> HttpRequest:
    query = _selectors(options) | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_s),
    }
    return HttpRequest("GET", path_of(kind, options.namespace), query)


def _selectors(options: ListOptions) -> dict[str, str]:
    pairs = {"fieldSelector": options.field_selector, "labelSelector": options.label_selector}
    return {name: text for name, text in pairs.items() if text}
