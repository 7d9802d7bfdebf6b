"""A user's own plugins: installed ones (entry points) and files named by --plugin-path.

Every class with a `name` and a method of some extension point is a plugin; see docs/plugins.md.
What is found stands beside the in-tree plugins in one registry, and is enabled, weighted and
disabled in the same configuration.  A file that cannot be imported is an error with its line.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import count
from pathlib import Path
from types import ModuleType

from stowplan.core.profiles import Registry
from stowplan.errors import InputError
from stowplan.framework.plugin import points_of
from stowplan.plugins import IN_TREE

GROUP = "stowplan.plugins"

_package_number = count(1)


def load_registry(
    paths: Sequence[str] = (), installed: Iterable[EntryPoint] | None = None
) -> Registry:
    """All plugins by name: in-tree, installed, and those of `paths` (files or folders)."""
    # Files may have come since the last time.
    importlib.invalidate_caches()
    found: dict[str, type] = dict(IN_TREE)
    for point in entry_points(group=GROUP) if installed is None else installed:
        _add(found, _installed(point), f"entry point {point.value!r}")
    for path in paths:
        for file in _files(Path(path)):
            for plugin in _plugins_in(file):
                _add(found, plugin, str(file))
    return found


def _add(found: dict[str, type], plugin: type, where: str) -> None:
    name = getattr(plugin, "name", "")
    if name in found:
        other = sys.modules[found[name].__module__].__file__ or found[name].__module__
        raise InputError(
            f"there is a plugin {name!r} already", where=where, hint=f"it is in {other}"
        )
    found[name] = plugin


def _installed(point: EntryPoint) -> type:
    try:
        plugin = point.load()
    except (Exception, SystemExit) as cause:
        problem = f"entry point {point.name!r} in the group {GROUP!r} cannot be loaded"
        raise InputError(f"{problem}: {_told(cause)}", where=_place(cause, None)) from cause
    if not _is_plugin(plugin):
        raise InputError(
            f"{point.value!r} is no plugin",
            where=f"entry point {point.name!r}",
            hint="a plugin is a class with a `name` and a method of an extension point",
        )
    assert isinstance(plugin, type)
    return plugin


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
        if not files:
            raise InputError("there are no *.py files in it", where=str(path))
        return files
    if not path.exists():
        raise InputError(
            "does not exist", where=str(path), hint="--plugin-path takes a file or a folder"
        )
    if path.suffix != ".py":
        raise InputError("is no Python file", where=str(path), hint="a plugin is in a *.py file")
    return [path]


def _plugins_in(file: Path) -> list[type]:
    module = _import(file)
    plugins = [
        thing
        for thing in vars(module).values()
        if _is_plugin(thing) and thing.__module__ == module.__name__
    ]
    if not plugins:
        raise InputError(
            "there is no plugin in it",
            where=str(file),
            hint="a plugin is a class with a `name` and a method of an extension point",
        )
    return plugins


def _import(file: Path) -> ModuleType:
    """In a package of its own, so that neighbours are found by `from . import` and nothing else
    of that name is hidden."""
    package = ModuleType(f"stowplan_plugin_path_{next(_package_number)}")
    package.__path__ = [str(file.parent.resolve())]
    sys.modules[package.__name__] = package
    try:
        return importlib.import_module(f"{package.__name__}.{file.stem}")
    except (Exception, SystemExit) as cause:
        raise InputError(_told(cause), where=_place(cause, file)) from cause


def _is_plugin(thing: object) -> bool:
    return (
        isinstance(thing, type)
        and isinstance(getattr(thing, "name", None), str)
        and bool(points_of(thing))
    )


def _told(cause: BaseException) -> str:
    text = cause.msg if isinstance(cause, SyntaxError) else str(cause)
    return f"{type(cause).__name__}: {text}"


def _place(cause: BaseException, file: Path | None) -> str:
    """Where it went wrong: in this file if it was there, else wherever it was."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{_shown(cause.filename, file)}:{cause.lineno}"
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if file is not None and Path(frame.filename) == file.resolve()]
    for frame in reversed(own or frames):
        return f"{_shown(frame.filename, file)}:{frame.lineno}"
    return "" if file is None else str(file)


def _shown(filename: str, file: Path | None) -> str:
    """As the user wrote it, where it is the user's file."""
    return str(file) if file is not None and Path(filename) == file.resolve() else filename
