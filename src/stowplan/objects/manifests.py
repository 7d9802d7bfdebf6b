"""Manifests and kubectl dumps: text in, checked objects out.

`read_manifests` takes a file's bytes, JSON or YAML, one object, many documents, or a `List`;
`decode` turns one object into its struct.  Whatever is no Kubernetes object, or has a value that
cannot be parsed, is refused with file, object and field (`InputError`).  `stowplan dry-run` and
`dry_run` read their clusters here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from stowplan.errors import InputError
from stowplan.objects.base import KubeObject, Struct
from stowplan.objects.checks import first_problem, join_path
from stowplan.objects.codec import convert
from stowplan.objects.device_versions import as_v1
from stowplan.objects.kinds import KIND_BY_NAME, Kind
from stowplan.objects.yaml_reader import read_yaml_documents

_StructT = TypeVar("_StructT", bound=Struct)

Manifest = tuple[str, dict[str, Any]]
"""Where it comes from, for messages, and the object as JSON data."""

DEFAULT_NAMESPACE = "default"

_LIST_DEPTH_MAX = 8
_BLANK = re.compile(r"\s*")
_NO_TEXT = ("got `bool`", "got `int`", "got `float`")
_NOT_AN_OBJECT = "a Kubernetes object is a mapping with `apiVersion` and `kind`"


def read_manifests(text: bytes, where: str) -> list[Manifest]:
    """Every object of the text, lists flattened; `where` is the file's name."""
    found: list[Manifest] = []
    for place, document in _documents(text, where):
        if document is not None:
            found.extend(flatten(document, place))
    return found


def flatten(data: Any, where: str, *, depth: int = _LIST_DEPTH_MAX) -> Iterator[Manifest]:
    """The object itself, or the items of a `List`, `PodList` and the like."""
    if not isinstance(data, dict):
        raise InputError(f"found {_shown(data)}", where=where, hint=_NOT_AN_OBJECT)
    kind, api_version = data.get("kind"), data.get("apiVersion")
    for field, value in (("kind", kind), ("apiVersion", api_version)):
        if not isinstance(value, str) or not value:
            problem = f"`{field}` is missing" if value is None else f"`{field}` is {_shown(value)}"
            raise InputError(problem, where=where, hint=_NOT_AN_OBJECT)
    assert isinstance(kind, str)
    if not kind.endswith("List") or not ("items" in data or kind == "List"):
        yield where, data
        return
    items = data.get("items") or []
    if not isinstance(items, list) or depth == 0:
        problem = "lists in lists in lists" if depth == 0 else "`items` is not a list"
        raise InputError(problem, where=f"{where}: {kind}")
    # The API server leaves out the kind of each item where the list says it.
    item_kind = {"apiVersion": api_version, "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        if isinstance(item, dict) and kind != "List":
            item = {**item_kind, **item}
        if isinstance(item, dict) and "kind" in item and "apiVersion" in item:
            yield from flatten(item, where, depth=depth - 1)
        else:
            yield from flatten(item, f"{where}: items[{index}]", depth=depth - 1)


def decode(data: Any, where: str) -> KubeObject | None:
    """The object as a struct, every value of it checked; None for kinds scheduling does not read.

    A namespaced object without a namespace is in `default`.
    """
    if not isinstance(data, dict) or not data.get("kind") or not data.get("apiVersion"):
        raise InputError(f"found {_shown(data)}", where=where, hint=_NOT_AN_OBJECT)
    data = as_v1(data)
    kind = _kind_of(data, where)
    if kind is None:
        return None
    obj = _if_fine(data, kind.struct)
    if obj is not None and obj.metadata.name:
        return _with_namespace(obj, kind)
    place = f"{where}: {describe(data)}" if where else describe(data)
    obj = check(data, kind.struct, place)
    if not obj.metadata.name:
        raise InputError(
            "the object has no name",
            where=f"{place}: metadata.name",
            hint="`generateName` is filled in by an API server; write a `name` here",
        )
    return _with_namespace(obj, kind)


def _if_fine(data: Any, struct_type: type[_StructT]) -> _StructT | None:
    """None where there is something to say, which takes words for where it is."""
    try:
        obj = convert(data, struct_type)
    except msgspec.ValidationError:
        return None
    return obj if first_problem(obj) is None else None


def check(data: Any, struct_type: type[_StructT], place: str, *, below: str = "") -> _StructT:
    """The struct of an object, or of the part `below` it; the first bad value raises."""
    try:
        obj = convert(data, struct_type)
    except msgspec.ValidationError as error:
        raise _type_error(error, place, below) from None
    problem = first_problem(obj)
    if problem is not None:
        path, text = problem
        message, _, hint = text.partition("; ")
        raise InputError(message, where=f"{place}: {join_path(below, path)}", hint=hint)
    return obj


def describe(data: dict[str, Any]) -> str:
    """`Pod default/web-1`, for messages, however broken the object is."""
    return f"{data.get('kind')} {object_key(data)}"


def object_key(data: Mapping[str, Any]) -> str:
    """`default/web-1`, or the name alone where there are no namespaces."""
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    kind = KIND_BY_NAME.get((str(data.get("apiVersion")), str(data.get("kind"))))
    if kind is not None and not kind.namespaced:
        return str(name)
    return f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}"


def _documents(text: bytes, where: str) -> Iterator[tuple[str, Any]]:
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not text.lstrip().startswith((b"{", b"[")):
        for line, document in read_yaml_documents(text, where):
            yield (where if isinstance(document, dict) else f"{where}:{line}"), document
        return
    try:
        documents = [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        documents = _json_stream(text, where)
    for document in documents:
        yield where, document


def _json_stream(text: bytes, where: str) -> list[Any]:
    """Several JSON objects one after the other, or YAML that happens to start with a brace."""
    documents = []
    decoder = json.JSONDecoder()
    try:
        stream = text.decode()
        position = _skip_blank(stream, 0)
        while position < len(stream):
            document, position = decoder.raw_decode(stream, position)
            position = _skip_blank(stream, position)
            documents.append(document)
    except (ValueError, RecursionError) as error:
        try:
            return [document for _, document in read_yaml_documents(text, where)]
        except InputError:
            raise _json_error(error, where) from None
    return documents


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _json_error(error: Exception, where: str) -> InputError:
    if isinstance(error, json.JSONDecodeError):
        return InputError(f"not readable as JSON: {error.msg}", where=f"{where}:{error.lineno}")
    return InputError(f"not readable as JSON: {error}", where=where)


def _kind_of(data: dict[str, Any], where: str) -> Kind | None:
    api_version, name = str(data["apiVersion"]), str(data["kind"])
    kind = KIND_BY_NAME.get((api_version, name))
    if kind is not None:
        return kind
    group = api_version.rpartition("/")[0]
    for known in reversed(KIND_BY_NAME.values()):
        if known.name == name and known.group == group:
            # Ignoring it would be deciding on half a cluster.
            raise InputError(
                f"apiVersion {api_version!r} of {name} is not known",
                where=f"{where}: {describe(data)}",
                hint=f"write it as {known.api_version}",
            )
    return None


def _type_error(error: msgspec.ValidationError, place: str, below: str) -> InputError:
    """msgspec says: Expected `int`, got `str` - at `$.spec.replicas`."""
    problem, _, path = str(error).partition(" - at `$")
    path = join_path(below, path.removesuffix("`").removeprefix("."))
    problem = problem[:1].lower() + problem[1:]
    hint = ""
    if problem.startswith("expected `str") and problem.endswith(_NO_TEXT):
        hint = "put the value in quotes: in YAML a plain `n`, `yes` or `1.30` is no text"
    return InputError(problem, where=f"{place}: {path}" if path else place, hint=hint)


def _with_namespace(obj: KubeObject, kind: Kind) -> KubeObject:
    namespace = (obj.metadata.namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""
    if namespace == obj.metadata.namespace:
        return obj
    metadata = msgspec.structs.replace(obj.metadata, namespace=namespace)
    return msgspec.structs.replace(obj, metadata=metadata)


def _shown(data: Any) -> str:
    shown = repr(data)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
