"""Strict decoding: JSON data into the structs of `types`, every mistake found, none forgiven.

msgspec stops at the first mistake and words it its own way; this walks the same struct
definitions, goes on, and words mistakes as kube-scheduler does.  Two kinds are kept apart, as
upstream keeps them: fields that do not exist (`unknown`), and values of the wrong type (`wrong`).
"""

from __future__ import annotations

import base64
import binascii
import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from stowplan.config.duration import Duration
from stowplan.config.field_error import Problem, child, did_you_mean, go_value

S = TypeVar("S", bound=msgspec.Struct)

TYPE_META = frozenset({"apiVersion", "kind"})

_GO_NAMES = {
    "SchedulerConfig": "KubeSchedulerConfiguration",
    "Profile": "KubeSchedulerProfile",
    "PluginRef": "Plugin",
    "LeaderElection": "LeaderElectionConfiguration",
    "ClientConnection": "ClientConnectionConfiguration",
    "ExtenderConfig": "Extender",
}
_BAD = object()


@dataclass(slots=True)
class Decoder:
    """Reads one object of the file; `base` is where that object stands."""

    base: str = ""
    unknown: list[Problem] = field(default_factory=list)
    wrong: list[Problem] = field(default_factory=list)

    def decode(self, kind: type[S], data: Mapping[str, Any]) -> S:
        """Read `data`; what is wrong is left out of the struct and noted."""
        own = {key: value for key, value in data.items() if key not in TYPE_META}
        return self._struct(kind, own, _At())

    def _struct(self, kind: type[S], data: Mapping[str, Any], at: _At) -> S:
        fields = _fields(kind)
        given = {}
        for key in sorted(data, key=str):
            here = at.field(key, kind)
            if key not in fields:
                text = f'unknown field "{here.path}"'
                hint = did_you_mean(str(key), fields)
                self.unknown.append(Problem(self._absolute(here.path), text, hint))
            elif data[key] is not None:
                name, hint = fields[key]
                value = self._value(hint, data[key], here)
                if value is not _BAD:
                    given[name] = value
        return kind(**given)

    def _value(self, hint: Any, data: Any, at: _At) -> Any:
        expected, bounds = _strip(hint)
        origin = typing.get_origin(expected)
        if expected is Any:
            return data
        if origin is list and isinstance(data, list):
            (item,) = typing.get_args(expected)
            return [self._item(item, entry, at.index(i)) for i, entry in enumerate(data)]
        if origin is dict and isinstance(data, dict):
            (_, item) = typing.get_args(expected)
            return {key: self._item(item, data[key], at.field(key)) for key in sorted(data)}
        if expected is Duration:
            return self._duration(data, at)
        if isinstance(expected, type) and issubclass(expected, msgspec.Struct):
            if isinstance(data, dict):
                return self._struct(expected, data, at)
        elif isinstance(expected, type):
            value = self._scalar(expected, bounds, data, at)
            if value is not None:
                return value
        return self._wrong_type(hint, data, at)

    def _item(self, hint: Any, data: Any, at: _At) -> Any:
        """A member of a list or map: one that is null, or wrong, is the zero value of its type.

        A wrong one is kept so that those after it keep their index.
        """
        value = _BAD if data is None else self._value(hint, data, at)
        return _zero(hint) if value is _BAD else value

    def _scalar(self, expected: type, bounds: msgspec.Meta | None, data: Any, at: _At) -> Any:
        """The value, `_BAD` once a problem of its own is noted, or None for a wrong type."""
        if expected is bytes and isinstance(data, str):
            return self._bytes(data, at)
        if expected in (str, bool) and type(data) is expected:
            return data
        if isinstance(data, bool) or not isinstance(data, int | float):
            return None
        if expected is float:
            return float(data)
        if expected is int and (isinstance(data, int) or data.is_integer()):
            low, high = (bounds.ge, bounds.le) if bounds else (None, None)
            if (low is None or data >= low) and (high is None or data <= high):
                return int(data)
        return None

    def _duration(self, data: Any, at: _At) -> Any:
        if not isinstance(data, str):
            hint = 'a duration is text, such as "15s" or "1m30s"'
            return self._note(at, _unmarshal(json_kind(data), at, "string"), hint=hint)
        try:
            return Duration.parse(data)
        except ValueError as error:
            return self._note(at, str(error), hint="write it as 15s, 1m30s or 1h")

    def _bytes(self, data: str, at: _At) -> Any:
        text = data.replace("\r", "").replace("\n", "")
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            return self._note(at, f"illegal base64 data at input byte {_first_bad(text)}")

    def _wrong_type(self, hint: Any, data: Any, at: _At) -> Any:
        expected = _go_type(hint)
        number = isinstance(data, int | float) and not isinstance(data, bool)
        shown = json_kind(data)
        if number and expected.startswith(("int", "float")):
            shown = f"number {go_value(data)}"
        return self._note(at, _unmarshal(shown, at, expected))

    def _note(self, at: _At, text: str, *, hint: str = "") -> Any:
        self.wrong.append(Problem(self._absolute(at.path), text, hint))
        return _BAD

    def _absolute(self, path: str) -> str:
        return f"{self.base}.{path}" if self.base else path


@dataclass(frozen=True, slots=True)
class _At:
    """A place: with its indices, without (as Go prints it), and the struct it belongs to."""

    path: str = ""
    names: str = ""
    owner: str = ""

    def field(self, name: str, owner: type | None = None) -> _At:
        of = _GO_NAMES.get(owner.__name__, owner.__name__) if owner else self.owner
        return _At(child(self.path, name), child(self.names, name), of)

    def index(self, index: int) -> _At:
        return _At(f"{self.path}[{index}]", self.names, self.owner)


def _unmarshal(shown: str, at: _At, expected: str) -> str:
    field = f"{at.owner}.{at.names}"
    return f"json: cannot unmarshal {shown} into Go struct field {field} of type {expected}"


@functools.lru_cache(maxsize=64)
def _fields(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """Key in the file -> (attribute, type)."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = msgspec.structs.fields(kind)
    return {f.encode_name: (f.name, hints[f.name]) for f in fields if f.encode_name}


def _strip(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """The type without `| None` and without its bounds, and the bounds."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
    if typing.get_origin(hint) is Annotated:
        base, meta = typing.get_args(hint)
        return base, meta
    return hint, None


def _zero(hint: Any) -> Any:
    expected, _ = _strip(hint)
    return expected()


def _go_type(hint: Any) -> str:
    expected, bounds = _strip(hint)
    if bounds is not None and bounds.title:
        return bounds.title
    if typing.get_origin(expected) is list:
        return f"[]{_go_type(typing.get_args(expected)[0])}"
    if typing.get_origin(expected) is dict:
        return "map[string]string"
    scalars = {str: "string", bool: "bool", int: "int32", float: "float32", bytes: "[]uint8"}
    name = expected.__name__
    return scalars.get(expected) or f"v1.{_GO_NAMES.get(name, name)}"


def json_kind(data: Any) -> str:
    match data:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _first_bad(text: str) -> int:
    """Where Go would stop: the first character that is not base64, or the end."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return next((i for i, character in enumerate(text) if character not in alphabet), len(text))
