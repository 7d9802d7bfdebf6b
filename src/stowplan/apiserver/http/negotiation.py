"""Content types: what a client wants to read, and what it sent.

Answers are JSON, YAML if asked for, and for `kubectl get` a Table or the metadata alone.  Bodies
may also be protobuf, which clients send by default; answers never are, as they all accept JSON.
Mirrors apiserver's `endpoints/handlers/negotiation`.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import yaml

from stowplan.apiserver.conforming import Twice
from stowplan.apiserver.http.protobuf import MEDIA_TYPE as PROTOBUF
from stowplan.apiserver.http.protobuf import decode_protobuf
from stowplan.apiserver.http.status import (
    not_acceptable,
    unsupported_media_type,
    unsupported_patch,
)
from stowplan.errors import BadRequest, InputError
from stowplan.objects.yaml_reader import read_yaml_documents

JSON = "application/json"
YAML = "application/yaml"
READABLE = f"{JSON}, {YAML}"
WRITABLE = f"{READABLE}, {PROTOBUF}"

PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}

# A document in an encoding of its own, which only `documents` gives.
_OPENAPI = "application/com.github.proto-openapi"
_ANY = frozenset({"", "*/*", "application/*"})
_YAML_TYPES = frozenset({YAML, "application/x-yaml", "text/yaml"})
_DISCOVERY_VERSIONS = frozenset({"v2", "v2beta1"})

_KEY = re.compile(rb'"\s*:')

_dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Shape(Enum):
    OBJECT = "object"
    TABLE = "table"
    METADATA = "metadata"
    DISCOVERY = "aggregated discovery"


class Wanted(NamedTuple):
    shape: Shape
    is_yaml: bool
    version: str
    """Of the shape, where it has versions: that of tables or of aggregated discovery."""


_PLAIN = Wanted(Shape.OBJECT, False, "v1")


@lru_cache(maxsize=256)
def wanted_by(accept: str) -> Wanted:
    """The first kind of answer on the client's list that can be given; 406 if there is none."""
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media_type in _YAML_TYPES and "as" not in parameters:
            return Wanted(Shape.OBJECT, True, "v1")
        if media_type.startswith(_OPENAPI):
            return _PLAIN
        if media_type != JSON and media_type not in _ANY:
            continue
        shape = _shape(parameters)
        if shape is not None:
            return Wanted(shape, False, parameters.get("v", "v1"))
    raise not_acceptable(READABLE)


def _shape(parameters: dict[str, str]) -> Shape | None:
    wanted, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    if not wanted:
        return Shape.OBJECT
    if group == "meta.k8s.io" and version in ("v1", "v1beta1"):
        if wanted == "Table":
            return Shape.TABLE
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Shape.METADATA
    if wanted == "APIGroupDiscoveryList" and version in _DISCOVERY_VERSIONS:
        return Shape.DISCOVERY
    return None


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_body(raw: bytes, content_type: str) -> Any:
    """The body of a request as JSON data."""
    media_type = media_type_of(content_type)
    if media_type in _YAML_TYPES:
        return decode_yaml(raw)
    if media_type == PROTOBUF:
        return decode_protobuf(raw)
    if media_type not in ("", JSON):
        raise unsupported_media_type(WRITABLE)
    return decode_json(raw)


def decode_json(raw: bytes) -> Any:
    try:
        # Quick, and exact about what JSON is; which keys come twice it does not tell.
        data = msgspec.json.decode(raw)
        if len(_KEY.findall(raw)) == _count_keys(data):
            return data
        return json.loads(raw, object_pairs_hook=_mapping)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from None


def _count_keys(data: Any) -> int:
    if isinstance(data, dict):
        return len(data) + sum(_count_keys(value) for value in data.values() if value)
    if isinstance(data, list):
        return sum(map(_count_keys, data))
    return 0


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) == len(pairs):
        return data
    twice = Twice(data)
    twice.earlier, later = [], set()
    for key, value in reversed(pairs):
        if key in later:
            twice.earlier.append((key, value))
        later.add(key)
    return twice


def decode_yaml(raw: bytes) -> Any:
    try:
        documents = [document for _, document in read_yaml_documents(raw, "body")]
    except InputError as error:
        raise BadRequest(f"error converting YAML to JSON: {error.problem}") from None
    if len(documents) != 1:
        raise BadRequest(f"the body must be one YAML document, not {len(documents)}")
    return documents[0]


def patch_type_of(content_type: str) -> str:
    found = PATCH_TYPES.get(media_type_of(content_type))
    if found is None:
        raise unsupported_patch()
    return found


def to_yaml(data: Any) -> bytes:
    text: str = yaml.dump(data, Dumper=_dumper, default_flow_style=False, sort_keys=True)
    return text.encode()
