"""Which tests run a line, and how long they take: measured once per test module, then kept.

Each test module runs in a process of its own under `coverage`, and what it found is kept in a file
of its own.  It is measured again when its text has changed.  When that of a source file it ran
through has, what was measured moves with the lines: a new line is taken to be run by those who run
the one before it.  Tests that fail there are left out: they cannot tell a mutant from the program.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.mutants.mutations import Mutant
from tests.mutants.processes import run_in_fork
from tests.mutants.sampling import PACKAGE, ROOT

KEPT = ROOT / ".mutants"
FOLDERS = (
    "queue",
    "state",
    "core",
    "plugins",
    "cluster",
    "apiserver",
    "framework",
    "runtime",
    "conformance",
    "simulation",
    "world",
    "fuzz",
    "cli",
    "answers",
    "offline",
    "sim",
    "web",
)
"""Not those that measure: on a busy machine they would notice what is not there."""
MARKS = "not e2e and not ui and not (slow and simulation)"
"""What `make test` runs."""
LEFT_OUT = {"test_memory.py"}
"""They take minutes, and run what others run."""
ENOUGH_S = 150.0
"""Of a test module that takes longer, only so much is run: any of its tests, drawn at random."""
MODULE_S_MAX = 1200.0
"""By the clock: whatever hangs ends."""


MANY_TESTS = 300


class Recorder:
    """A pytest plugin that notes who ran which line."""

    def __init__(self, measured: Any) -> None:
        self.seconds: dict[str, float] = {}
        """Of the processor: others may use it, too."""
        self.failed: set[str] = set()
        self._measured = measured
        self._enough_s = time.process_time() + ENOUGH_S

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if len(items) > MANY_TESTS:
            Random(0).shuffle(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._measured.switch_context(item.nodeid)
        started_s = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - started_s
            self._measured.switch_context("")
            if time.process_time() > self._enough_s:
                item.session.shouldstop = "enough is known"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


class CoverageMap:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._imported: dict[str, set[int]] = defaultdict(set)
        """Lines that run when the module is imported, inside functions too."""

    def add(self, measured: dict[str, Any]) -> None:
        tests = measured["tests"]
        names = list(tests)
        named: dict[str, set[str]] = {}
        self.seconds.update(tests)
        for path, found in measured["files"].items():
            moved = _moved_lines(path, found["hash"])
            for line, mask in found["lines"].items():
                now = (int(line),) if moved is None else moved.get(int(line), ())
                if mask not in named:
                    bits = reversed(f"{int(mask, 16):b}")
                    named[mask] = {
                        name for bit, name in zip(bits, names, strict=False) if bit == "1"
                    }
                if not named[mask]:
                    self._imported[path].update(now)
                for place in now:
                    self._tests[path][place].update(named[mask])

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that are meant for the module first, then those of its room; of these the ones that
        name most of what the changed code names, then the fastest."""
        path = str(mutant.path.relative_to(ROOT))
        lines = range(mutant.line, mutant.last_line + 1)
        if mutant.in_function and not any(line in self._imported[path] for line in lines):
            found = set().union(*(self._tests[path].get(line, ()) for line in lines))
        else:
            found = self._tests_of_module(path) | self._tests_of_name(mutant)
        words = _words(mutant.before)

        def order(test: str) -> tuple[int, int, float, str]:
            named = len(words & _words_of(test))
            return distance(mutant, test), -named, self.seconds[test], test

        return sorted(found, key=order)

    def _tests_of_module(self, path: str) -> set[str]:
        return set().union(*self._tests[path].values())

    def _tests_of_name(self, mutant: Mutant) -> set[str]:
        """Who runs a line that names the constant which the mutant changes."""
        line = mutant.path.read_text().splitlines()[mutant.line - 1]
        name = re.match(r"\s*([A-Za-z_]\w*)", line)
        found: set[str] = set()
        if name is not None:
            for path, number in _lines_with(name[1]):
                found |= self._tests[path].get(number, set())
        return found


def distance(mutant: Mutant, test: str) -> int:
    """How far a test is from a module: a line that much runs through is run by many others."""
    room, *folders, name = mutant.path.relative_to(PACKAGE).parts
    _, place, *_ = test.split("/")
    stem = Path(test.partition("::")[0]).stem.removeprefix("test_")
    if place != room:
        return 2
    return 0 if stem in (Path(name).stem, *folders) else 1


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]{4,}", text))


@cache
def _words_of(test: str) -> frozenset[str]:
    """Of the test's own text, or of its module where it is not a function."""
    path, _, name = test.partition("::")
    functions = _functions(path)
    return functions.get(name.partition("[")[0], functions[""])


@cache
def _functions(path: str) -> dict[str, frozenset[str]]:
    source = (ROOT / path).read_text()
    lines = source.splitlines()
    return {"": _words(source)} | {
        node.name: _words("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@cache
def _lines_with(name: str) -> list[tuple[str, int]]:
    word = re.compile(rf"\b{name}\b")
    return [
        (str(path.relative_to(ROOT)), number)
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]


def load_map(say: Callable[[str], None], workers: int) -> CoverageMap:
    """What is kept, after measuring the test modules that are new or no longer hold."""
    modules = _test_modules()
    unknown = [path for path in modules if not _holds(_kept_file(path), path)]
    if unknown:
        _kept_file(unknown[0]).parent.mkdir(parents=True, exist_ok=True)
        with get_context("fork").Pool(workers) as pool:
            for said in pool.imap_unordered(_measure_apart, unknown):
                say(said)
    found = CoverageMap()
    for path in modules:
        found.add(json.loads(_kept_file(path).read_text()))
    return found


def _kept_file(module: Path) -> Path:
    name = str(module.relative_to(ROOT / "tests")).replace("/", "-")
    return KEPT / "coverage" / f"{name}.json"


def _measure_apart(module: Path) -> str:
    """In a process of its own; says what came of it."""
    kept, name = _kept_file(module), module.relative_to(ROOT)
    if run_in_fork(lambda: _measure(module, kept), MODULE_S_MAX) == 0:
        return f"measured {name}"
    kept.write_text(json.dumps({"hash": _asked(module), "tests": {}, "files": {}}))
    return f"{name} cannot be measured, and is left out"


def _test_modules() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
        if path.name not in LEFT_OUT
    ]


def _holds(kept: Path, module: Path) -> bool:
    if not kept.exists():
        return False
    measured = json.loads(kept.read_text())
    return measured["hash"] == _asked(module) and all(
        (ROOT / path).exists()
        and (_hash(ROOT / path) == found["hash"] or _source(found["hash"]).exists())
        for path, found in measured["files"].items()
    )


def _source(value: str) -> Path:
    """The text of a source file as it was measured."""
    return KEPT / "sources" / f"{value}.py"


@cache
def _moved_lines(path: str, value: str) -> dict[int, range] | None:
    """Where each line is now, with the new ones after it; None: where it was."""
    if _hash(ROOT / path) == value:
        return None
    before, now = (file.read_text().splitlines() for file in (_source(value), ROOT / path))
    places: list[tuple[int, int]] = []
    for block in SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks():
        places += [(block.a + n + 1, block.b + n + 1) for n in range(block.size)]
    ends = [place for _, place in places[1:]] + [len(now) + 1]
    return {line: range(place, end) for (line, place), end in zip(places, ends, strict=True)}


def _measure(module: Path, kept: Path) -> int:
    from coverage import Coverage

    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    measured = Coverage(data_file=None, config_file=False, source=[str(PACKAGE)], messages=False)
    recorder = Recorder(measured)
    measured.start()
    pytest.main(
        [
            str(module.relative_to(ROOT)),
            "-q",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "-o",
            "timeout=0",
            "-m",
            MARKS,
        ],
        plugins=[recorder],
    )
    measured.stop()
    tests = {name: s for name, s in recorder.seconds.items() if name not in recorder.failed}
    places = {name: place for place, name in enumerate(tests)}
    data = measured.get_data()
    files = {}
    for file in sorted(data.measured_files()):
        lines = {}
        for line, contexts in data.contexts_by_lineno(file).items():
            mask = sum(1 << places[name] for name in set(contexts) if name in places)
            if mask or contexts == [""]:
                lines[line] = f"{mask:x}"
        if any(mask != "0" for mask in lines.values()):
            path = Path(file)
            kept_source = _source(_hash(path))
            kept_source.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kept_source)
            files[str(path.relative_to(ROOT))] = {"hash": _hash(path), "lines": lines}
    kept.write_text(
        json.dumps(
            {
                "hash": _asked(module),
                "tests": tests,
                "failed": sorted(recorder.failed),
                "files": files,
            }
        )
    )
    return 0


def _asked(module: Path) -> str:
    """What was asked for: these tests, of this module."""
    return f"{_hash(module)} {MARKS}"


@cache
def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
