"""The text of a configuration file: its data, the line of every field, the keys that come twice.

`load` reads the data and, when something is wrong, asks for lines.  The data come from
`objects.yaml_reader` (the rules of kubectl); here the same text is composed once more only for
where things stand, which is cheap for a file of this size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from stowplan.config.field_error import Problem, child
from stowplan.errors import ConfigError, InputError
from stowplan.objects.yaml_reader import ShallowLoader, read_yaml_documents

_LAST_STEP = re.compile(r"(\.[^.\[\]]+|\[[^\]]*\]|^[^.\[\]]+)$")


@dataclass(frozen=True, slots=True)
class Document:
    data: Any
    lines: Mapping[str, int] = field(default_factory=dict)
    """Path of a field -> its line, from 1.  Empty when the data did not come from a text."""
    repeated: tuple[Problem, ...] = ()
    """Keys that come twice in one mapping."""

    def line(self, path: str) -> int | None:
        """The line of `path`, or of what it is in: a field may be absent, or a default."""
        while path and path not in self.lines:
            path = _LAST_STEP.sub("", path) if _LAST_STEP.search(path) else ""
        return self.lines.get(path)


def read_document(text: bytes, where: str) -> Document:
    """Read YAML or JSON.  Of several YAML documents only the first counts, as upstream."""
    try:
        if text.lstrip().startswith(b"{"):
            return _read_json(text, where)
        return _read_yaml(text, where)
    except InputError as error:
        place = error.where if where else f"line {error.where.removeprefix(':')}"
        raise ConfigError(error.problem, where=place, hint=error.hint) from None
    except RecursionError:
        raise ConfigError("nested too deep", where=where) from None


def _read_yaml(text: bytes, where: str) -> Document:
    root = _compose(text)
    if root is None:
        # Empty, or not YAML at all; the reader says what is wrong.
        return Document(next((data for _, data in read_yaml_documents(text, where)), None))
    lines, repeated = _walk(root)
    clean: bytes | str = yaml.serialize(root) if repeated else text
    data = next(data for _, data in read_yaml_documents(clean, where))
    return Document(data, lines, tuple(_repeated_in_yaml(repeated)))


def _compose(text: bytes) -> yaml.Node | None:
    loader = ShallowLoader(text)
    try:
        return loader.get_node() if loader.check_node() else None
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    finally:
        loader.dispose()


def _walk(root: yaml.Node) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Lines per path, and (path, key, line) of repeated keys, of which only the last is left.

    What an alias repeats is gone through once: it may contain itself.
    """
    lines: dict[str, int] = {"": root.start_mark.line + 1}
    repeated: list[tuple[str, str, int]] = []
    pending = [("", root)]
    seen: set[int] = set()
    while pending:
        path, node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[f"{path}[{index}]"] = item.start_mark.line + 1
                pending.append((f"{path}[{index}]", item))
        elif isinstance(node, yaml.MappingNode):
            last: dict[str, tuple[yaml.Node, yaml.Node]] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in last and name != "<<":
                    repeated.append((child(path, name), name, line))
                last[name] = key, value
                lines[child(path, name)] = line
            node.value = list(last.values()) if len(last) < len(node.value) else node.value
            pending += [(child(path, name), value) for name, (_, value) in last.items()]
    return lines, sorted(repeated, key=lambda found: found[2])


def _repeated_in_yaml(repeated: list[tuple[str, str, int]]) -> Iterator[Problem]:
    for path, name, line in repeated:
        yield Problem(path, f'line {line}: key "{name}" already set in map')


def _read_json(text: bytes, where: str) -> Document:
    found: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) < len(pairs):
            names = [name for name, _ in pairs]
            found.extend(dict.fromkeys(name for name in names if names.count(name) > 1))
        return data

    try:
        data = json.loads(text, object_pairs_hook=mapping)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}" if where else f"line {error.lineno}"
        raise ConfigError(f"not readable as JSON: {error.msg}", where=place) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not readable as JSON: {error}", where=where) from None
    root = _compose(text)
    lines, repeated = _walk(root) if root is not None else ({}, [])
    # Where the text is JSON but not YAML (tabs), the names are known and their paths are not.
    paths = [path for path, _, _ in repeated] or found
    texts = tuple(Problem(path, f'duplicate field "{path}"') for path in paths if found)
    return Document(data, lines, texts)
