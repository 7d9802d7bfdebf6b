"""From what a user names to manifests: files, folders, standard input, dicts and lists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from stowplan.errors import InputError
from stowplan.objects.manifests import Manifest, flatten, read_manifests
from stowplan.world.garbage import garbage_stays

STDIN = "-"
SUFFIXES = (".json", ".yaml", ".yml")

Objects = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]
"""A path (of a file or a folder), an object as a dict (or a `List`), or any number of these."""

_HINT = "give Kubernetes objects as dicts: a `List`, or any number of them"


def read_objects(objects: Objects, *, paths: bool = True) -> list[Manifest]:
    """Every object of the input, in order; whatever is none raises InputError.

    Text is the path of a file or folder, if `paths` are wanted.
    """
    with garbage_stays():
        return list(_manifests(objects, "objects", paths))


def read_files(names: Iterable[str]) -> list[Manifest]:
    """Every object of these files and folders; `-` is standard input."""
    names = list(names)
    if not names:
        raise InputError("no file is given", hint="name one with `-f FILE`, or pipe it into `-f -`")
    if names.count(STDIN) > 1:
        raise InputError("standard input can be read only once", where=STDIN)
    with garbage_stays():
        return [manifest for name in names for manifest in _of_path(name)]


def _manifests(objects: Any, where: str, paths: bool) -> Iterator[Manifest]:
    if isinstance(objects, Mapping):
        yield from flatten(_plain(objects, where), where)
    elif paths and isinstance(objects, str | os.PathLike):
        yield from _of_path(os.fspath(objects))
    elif isinstance(objects, str | bytes) or not isinstance(objects, Iterable):
        raise InputError(f"found {type(objects).__name__!r}", where=where, hint=_HINT)
    else:
        for index, item in enumerate(objects):
            place = f"{where}[{index}]"
            if paths and isinstance(item, str | os.PathLike):
                yield from _of_path(os.fspath(item))
            else:
                yield from flatten(_plain(item, place), place)


def _plain(data: Any, where: str) -> Any:
    """As JSON data: YAML libraries read times as `datetime`, for instance."""
    try:
        return msgspec.to_builtins(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"not readable as JSON: {error}", where=where) from None


def _of_path(name: str) -> Iterator[Manifest]:
    for where, text in _texts(name):
        try:
            found = read_manifests(text, where)
        except InputError as error:
            raise _explained(error, text) from None
        if not text.strip():
            raise InputError("the file is empty", where=where)
        yield from found


def _texts(name: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of a file, of standard input, or of every file in a folder."""
    if name == STDIN:
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise InputError(f"no file in it ends with {', '.join(SUFFIXES)}", where=name)
        for file in files:
            yield str(file), file.read_bytes()
        return
    try:
        yield name, path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", where=name, hint=_near(path)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=name) from None


def _near(path: Path) -> str:
    try:
        names = [file.name for file in path.parent.iterdir() if file.exists()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"did you mean '{path.with_name(near[0])}'?" if near else ""


def _explained(error: InputError, text: bytes) -> InputError:
    """The table that kubectl prints for people is the commonest wrong input."""
    first = text.lstrip().split(b"\n", 1)[0]
    if first.startswith((b"NAME ", b"NAMESPACE ")):
        hint = "this looks like a table; ask kubectl for `-o yaml` or `-o json`"
        return InputError("no Kubernetes objects", where=error.where, hint=hint)
    return error
