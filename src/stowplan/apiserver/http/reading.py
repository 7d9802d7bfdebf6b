"""Bodies read as what they claim to be: kind, version, types, and fields nobody knows.

kubectl asks for strict validation, other clients are warned; what is unknown is dropped either way.
`mutations` reads every body here before anything is done.  Mirrors the decoding of apiserver's
`endpoints/handlers` and the strict decoding errors of apimachinery's `serializer/json`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stowplan.apiserver import wire_schema
from stowplan.apiserver.answers import InvalidObject, internal, invalid
from stowplan.apiserver.conforming import Malformed, Twice, conform, unknown_fields
from stowplan.apiserver.http.resources import Resource
from stowplan.errors import ApiError, BadRequest
from stowplan.objects.base import KubeObject
from stowplan.objects.device_versions import GROUP
from stowplan.objects.kinds import Kind

NOTED_MAX = 20
"""Named in one answer."""

_NO_KIND = Kind("", "", "", "", False, KubeObject)


class Shape(NamedTuple):
    """What a body must be."""

    api_version: str
    kind: str


SCALE = Shape("autoscaling/v1", "Scale")
BINDING = Shape("v1", "Binding")
EVICTION = Shape("policy/v1", "Eviction")
TOKEN_REQUEST = Shape("authentication.k8s.io/v1", "TokenRequest")
DELETE_OPTIONS = Shape("v1", "DeleteOptions")
_OPTIONS_OF_ANY_GROUP = "DeleteOptions"


def shape_of(resource: Resource) -> Shape:
    return Shape(resource.api_version, resource.kind.name)


def read_object(body: Any, shape: Shape, level: str = "Ignore") -> tuple[dict[str, Any], list[str]]:
    """The body with nothing but what its kind has, and warnings about the rest."""
    message = wire_schema.message_of(shape.api_version, shape.kind)
    assert message is not None, f"{shape.kind} is served and not described"
    if body is None:
        body = {}
    if not isinstance(body, dict):
        found = "array" if isinstance(body, list) else type(body).__name__
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {shape.kind}): couldn't get "
            f"version/kind; json parse error: json: cannot unmarshal {found}"
        )
    _check_kind(body, shape)
    noted: list[str] = []
    try:
        data = conform(body, message, noted.append)
    except Malformed as error:
        if shape is DELETE_OPTIONS:
            raise BadRequest(str(error)) from None
        raise _not_handled(shape, str(error)) from None
    if noted and level == "Strict":
        raise _not_handled(shape, f"strict decoding error: {', '.join(noted[:NOTED_MAX])}")
    data["apiVersion"], data["kind"] = shape.api_version, shape.kind
    return data, [] if level == "Ignore" else noted[:NOTED_MAX]


def _check_kind(body: dict[str, Any], shape: Shape) -> None:
    api_version, kind = body.get("apiVersion") or shape.api_version, body.get("kind") or shape.kind
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise BadRequest("couldn't get version/kind; json parse error: json: cannot unmarshal")
    if (api_version, kind) == shape or kind == _OPTIONS_OF_ANY_GROUP == shape.kind:
        return
    if kind == shape.kind and _is_served(api_version, kind):
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({shape.api_version})"
        )
    version = api_version.rpartition("/")[2]
    raise BadRequest(
        f'{kind} in version "{version}" cannot be handled as a {shape.kind}: no kind "{kind}" is '
        f'registered for version "{api_version}" in the scheme'
    )


def _is_served(api_version: str, kind: str) -> bool:
    """Whether kube-apiserver knows the kind in this version, be it an old one."""
    group, _, version = api_version.rpartition("/")
    newest = f"{group}/v1" if group else "v1"
    old = version == "v1beta1" or (version == "v1beta2" and group in ("apps", GROUP))
    return (version == "v1" or old) and wire_schema.message_of(newest, kind) is not None


def read_applied(body: Any, shape: Shape, name: str, level: str) -> dict[str, Any]:
    """A configuration to apply: what nobody knows is an error of the server's, as upstream.

    It is read as YAML, so of keys that come twice the last one counts, unless that is refused.
    """
    body, twice = _once(body)
    if twice and level == "Strict":
        raise BadRequest(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            f'  key "{twice}" already set in map'
        )
    try:
        data, noted = read_object(body, shape, "Warn")
    except BadRequest as error:
        if "cannot be handled as" not in error.message or "no kind" in error.message:
            raise
        raise _untyped(shape, name, error.message) from None
    if isinstance(body, dict) and "managedFields" in (body.get("metadata") or {}):
        data["metadata"]["managedFields"] = body["metadata"]["managedFields"]
    for text in noted:
        if text.startswith("unknown field "):
            path = text.removeprefix("unknown field ").strip('"')
            raise _untyped(shape, name, f".{path}: field not declared in schema")
    return data


def _once(body: Any) -> tuple[Any, str]:
    """The body without what was said before in the same place, and a key that was said twice."""
    if isinstance(body, list):
        parts = [_once(item) for item in body]
        return [part for part, _ in parts], next(filter(None, (key for _, key in parts)), "")
    if not isinstance(body, dict):
        return body, ""
    inner = {key: _once(value) for key, value in body.items()}
    twice = body.earlier[0][0] if isinstance(body, Twice) else ""
    found = twice or next(filter(None, (key for _, key in inner.values())), "")
    return {key: value for key, (value, _) in inner.items()}, found


def _untyped(shape: Shape, name: str, why: str) -> ApiError:
    group_version = shape.api_version if "/" in shape.api_version else f"/{shape.api_version}"
    return internal(
        f"failed to create typed patch object (/{name}; {group_version}, Kind={shape.kind}): {why}"
    )


def check_patch(body: Any, patch_type: str, shape: Shape, level: str) -> list[str]:
    """Warnings about fields that a patch would add to an object and nobody knows."""
    message = wire_schema.message_of(shape.api_version, shape.kind)
    if level == "Ignore" or message is None:
        return []
    parts = _json_patch_parts(body) if patch_type == "json" else [body]
    noted: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            unknown_fields(part, message, noted.append)
    if noted and level == "Strict":
        raise bad_patch(f"strict decoding error: {', '.join(noted[:NOTED_MAX])}")
    return noted[:NOTED_MAX]


def _json_patch_parts(body: Any) -> list[Any]:
    """The values that a JSON patch adds, each where it comes to be."""
    parts = []
    for operation in body if isinstance(body, list) else ():
        path = operation.get("path") if isinstance(operation, dict) else None
        if not isinstance(path, str) or operation.get("op") not in ("add", "replace"):
            continue
        part: Any = operation.get("value")
        for word in reversed(path.split("/")[1:]):
            name = word.replace("~1", "/").replace("~0", "~")
            part = [part] if name == "-" or name.isdecimal() else {name: part}
        parts.append(part)
    return parts


def bad_patch(why: str) -> InvalidObject:
    return InvalidObject(_NO_KIND, "", [invalid("patch", "{…}", why)])


def _not_handled(shape: Shape, why: str) -> BadRequest:
    version = shape.api_version.rpartition("/")[2]
    return BadRequest(
        f'{shape.kind} in version "{version}" cannot be handled as a {shape.kind}: {why}'
    )
