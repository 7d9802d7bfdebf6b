"""Plants a mutant in a copy of the package, and runs the tests that pass through it there.

The working tree is never touched: each worker has a folder with a copy of the package, put first
on the path.  Tests run in two goes, because most mutants are caught by the first: a few fast tests
from each module that has some.  Then the others, as many as fit in the time: all that are meant for
the mutated module, then in turns from each, for the hundredth test of one says less than the fifth
of another.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from itertools import count
from pathlib import Path
from resource import RLIMIT_CPU, setrlimit
from typing import IO

import pytest

from tests.mutants.coverage_map import KEPT, CoverageMap, distance
from tests.mutants.mutations import Mutant
from tests.mutants.processes import run_in_fork
from tests.mutants.sampling import PACKAGE, ROOT

PYTEST = (
    "-q",
    "-x",
    "--tb=no",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-o",
    "timeout=0",
)
FIRST_PER_MODULE, FIRST_MAX, FIRST_S = 4, 40, 2.0
REST_MAX, REST_SHARE = 600, 0.7
WALL_FACTOR = 30
"""Limits are of processor time: on a machine that is busy neither a mutant hangs nor a test."""

_turns = count()


@dataclass(frozen=True, slots=True)
class Outcome:
    mutant: Mutant
    caught: bool
    how: str


class Bench:
    """One worker's copy of the package.

    It stays where it is from run to run, so that only the mutated module is compiled each time.
    """

    def __init__(self, coverage: CoverageMap, seconds_max: float) -> None:
        self._coverage = coverage
        self._seconds_max = seconds_max
        folder, self._lock = _free_folder()
        self._source = folder / "src"
        self._output = folder / "output"
        shutil.rmtree(self._source, ignore_errors=True)
        shutil.copytree(PACKAGE, self._source / PACKAGE.name)

    def run(self, mutant: Mutant) -> Outcome:
        tests = self._coverage.tests_for(mutant)
        if not tests:
            return Outcome(mutant, False, "no test runs this line")
        near = {test for test in tests if distance(mutant, test) == 0}
        first, rest = self._in_two_goes(tests, near)
        with _planted(mutant, self._source):
            for go in (first, rest):
                how = self._run_tests(go) if go else ""
                if how:
                    return Outcome(mutant, True, how)
        return Outcome(mutant, False, f"{len(first) + len(rest)} of {len(tests)} tests passed")

    def _in_two_goes(self, tests: list[str], near: set[str]) -> tuple[list[str], list[str]]:
        per_module: Counter[str] = Counter()
        first: list[str] = []
        left: list[tuple[int, int, str]] = []
        seconds = 0.0
        for place, test in enumerate(tests):
            module, cost = test.partition("::")[0], self._coverage.seconds[test]
            per_module[module] += 1
            if (
                per_module[module] <= FIRST_PER_MODULE
                and len(first) < FIRST_MAX
                and seconds + cost < FIRST_S
            ):
                first.append(test)
                seconds += cost
            else:
                turn = 0 if test in near else per_module[module]
                left.append((turn, place, test))
        rest: list[str] = []
        seconds = 0.0
        for _, _, test in sorted(left)[:REST_MAX]:
            seconds += self._coverage.seconds[test]
            if seconds < REST_SHARE * self._seconds_max:
                rest.append(test)
        return first, rest

    def _run_tests(self, tests: list[str]) -> str:
        """How the tests noticed; empty if they did not."""

        def work() -> int:
            os.environ["PYTHONPATH"] = f"{self._source}{os.pathsep}{ROOT}"
            os.environ["HYPOTHESIS_PROFILE"] = "mutants"
            sys.path[:] = [str(self._source), *(p for p in sys.path if p != str(ROOT / "src"))]
            setrlimit(RLIMIT_CPU, (int(self._seconds_max), int(self._seconds_max) + 1))
            return int(pytest.main([*PYTEST, *tests]))

        code = run_in_fork(work, WALL_FACTOR * self._seconds_max, str(self._output))
        if code == 0:
            return ""
        if code is None or code < 0:
            return "hangs"
        failed = [
            s
            for s in self._output.read_text(errors="replace").splitlines()
            if s[:6] in ("FAILED", "ERROR ")
        ]
        return failed[0] if failed else f"exit {code}"


def _free_folder() -> tuple[Path, IO[str]]:
    """One that no other worker has, and the lock that says so while it is open."""
    for number in count():
        folder = KEPT / "copies" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return folder, lock
    raise AssertionError


@contextmanager
def _planted(mutant: Mutant, source: Path) -> Iterator[None]:
    """The mutant stands in the copy meanwhile."""
    copy = source / mutant.path.relative_to(PACKAGE.parent)
    copy.write_bytes(mutant.apply(mutant.path.read_bytes()))
    # What was compiled from an earlier mutant, of the same second and size, is not this one.
    written_s = int(time.time()) + next(_turns)
    os.utime(copy, (written_s, written_s))
    try:
        yield
    finally:
        shutil.copy2(mutant.path, copy)
