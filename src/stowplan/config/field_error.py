"""One problem of a configuration, worded as Kubernetes words field errors.

`decode` and `validate` find problems; `load` turns them into one `ConfigError`.  The path stands
apart from the text, so that `load` can find the line of the file it belongs to.

Mirrors `apimachinery/pkg/util/validation/field/errors.go` and `util/errors` (Aggregate).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.config.duration import Duration
from stowplan.config.types import Config


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    """Where in the file: `profiles[0].plugins.score.enabled[2]`."""
    text: str
    """All that upstream would print, which mostly begins with the path."""
    hint: str = ""


def child(path: str, name: str) -> str:
    """A field below `path`; an empty path is upstream's nil path.

    >>> child("profiles[0]", "plugins"), child("", "scoringStrategy")
    ('profiles[0].plugins', 'scoringStrategy')
    """
    return f"{path}.{name}" if path else name


def invalid(path: str, value: object, detail: str) -> Problem:
    return Problem(path, f"{path}: Invalid value: {go_value(value)}: {detail}")


def required(path: str, detail: str = "") -> Problem:
    return Problem(path, f"{path}: Required value" + (f": {detail}" if detail else ""))


def forbidden(path: str, detail: str) -> Problem:
    return Problem(path, f"{path}: Forbidden: {detail}")


def duplicate(path: str, value: object) -> Problem:
    return Problem(path, f"{path}: Duplicate value: {go_value(value)}")


def unsupported(path: str, value: object, supported: Sequence[str]) -> Problem:
    choices = ", ".join(go_value(choice) for choice in supported)
    return Problem(
        path, f"{path}: Unsupported value: {go_value(value)}: supported values: {choices}"
    )


def aggregate(texts: Iterable[str]) -> str:
    """One text bare, several in brackets, each only once.

    >>> aggregate(["a", "b", "a"])
    '[a, b]'
    """
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelled name, or "".

    >>> did_you_mean("NodeResourceFit", ["NodeResourcesFit", "NodeName"])
    "did you mean 'NodeResourcesFit'?"
    """
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def go_value(value: object) -> str:
    """A value as it stands in a field error: compact JSON, which for strings means quotes."""
    return json.dumps(_go_json(value), ensure_ascii=False, separators=(",", ":"))


def _go_json(value: Any) -> Any:
    # Upstream validates its internal types, which have no JSON names: Go's field names show.
    # Objects of the core API keep theirs.
    match value:
        case Duration():
            return str(value)
        case Config():
            fields = msgspec.structs.fields(value)
            return {_go_name(f.encode_name): _go_field(getattr(value, f.name)) for f in fields}
        case msgspec.Struct():
            return msgspec.to_builtins(value)
        case list() | tuple():
            return [_go_json(item) for item in value]
        case _:
            return value


def _go_field(value: Any) -> Any:
    # An empty list that nobody wrote is a nil slice.
    return None if value == [] else _go_json(value)


def _go_name(name: str) -> str:
    return name[0].upper() + name[1:]
