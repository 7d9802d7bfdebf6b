"""House rules a linter does not know.  A rule worth a review comment is worth a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "stowplan"
PURE = {"objects", "cel", "state", "framework", "plugins", "queue", "config", "core"}
BANNED_IN_PURE = {
    "aiohttp",
    "asyncio",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
CLOCK_READS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600

modules = sorted(SRC.rglob("*.py"))
every_module = pytest.mark.parametrize("path", modules, ids=lambda p: str(p.relative_to(SRC)))


@every_module
def test_module_is_short_and_says_what_it_is(path: Path) -> None:
    source = path.read_text()

    assert source.count("\n") <= MODULE_LINES_MAX, f"{path}: split this module"
    assert ast.get_docstring(ast.parse(source)), f"{path}: the module docstring is the map"


@every_module
def test_functions_fit_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, (
                f"{path}:{node.lineno}: {node.name} is {length} lines"
            )


@every_module
def test_pure_rooms_neither_wait_nor_roll_dice(path: Path) -> None:
    if path.relative_to(SRC).parts[0] not in PURE:
        return
    for line, name in imports_at_run_time(ast.parse(path.read_text())):
        assert name.split(".")[0] not in BANNED_IN_PURE, f"{path}:{line}: {name} breaks replay"


@every_module
def test_only_the_clock_reads_the_time(path: Path) -> None:
    if path == SRC / "clock.py":
        return
    for line, owner, name in attributes(ast.parse(path.read_text())):
        assert (owner, name) not in CLOCK_READS, (
            f"{path}:{line}: {owner}.{name} breaks replay; take a Clock"
        )


def test_a_banned_import_is_seen_wherever_it_hides() -> None:
    source = """
from time import sleep
def late():
    import asyncio.locks
"""
    assert [name for _, name in imports_at_run_time(ast.parse(source))] == ["time", "asyncio.locks"]


def test_a_type_may_be_imported_for_the_type_checker_only() -> None:
    source = """
if TYPE_CHECKING:
    from random import Random
"""
    assert list(imports_at_run_time(ast.parse(source))) == []


def test_a_clock_read_is_seen_behind_its_module() -> None:
    source = "datetime.datetime.now(); time.time()"

    found = {(owner, name) for _, owner, name in attributes(ast.parse(source))}

    assert {("datetime", "now"), ("time", "time")} <= found


def imports_at_run_time(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
        else:
            yield from imports_at_run_time(node)


def attributes(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Each `owner.name` in the source; of `a.b.c` the owner of `c` is `b`.

    `from owner import name` counts too: it only hides the owner.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute):
            match node.value:
                case ast.Name(id=owner) | ast.Attribute(attr=owner):
                    yield node.lineno, owner, node.attr
