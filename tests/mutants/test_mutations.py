"""Which bugs are planted, and which never are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutations import mutants_of
from tests.mutants.sampling import (
    PACKAGE,
    ROOMS,
    known_equivalents,
    module_name,
    sample,
)


def changes(tmp_path: Path, source: str) -> set[tuple[str, str]]:
    path = tmp_path / "module.py"
    path.write_text(source)
    return {(mutant.before, mutant.after) for mutant in mutants_of(path)}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("x = a < b", "a < b", "(a <= b)"),
        ("x = a in b", "a in b", "(a not in b)"),
        ("x = a and b", "a and b", "(a or b)"),
        ("x = not a", "not a", "(a)"),
        ("x = a + b", "a + b", "(a - b)"),
        ("x = 3", "3", "(4)"),
        ("x = 3", "3", "(2)"),
        ("x = 4096", "4096", "(8192)"),
        ("x = True", "True", "(False)"),
        ("def f():\n    g(1)", "g(1)", "pass"),
        ("def f():\n    raise E", "raise E", "pass"),
        ("def f():\n    a.b = c", "a.b = c", "pass"),
        ("a += b", "a += b", "a -= b"),
        ("def f():\n    return a", "return a", "return None"),
        ("if a:\n    b()", "a", "True"),
        ("if a:\n    b()", "a", "False"),
        ("x = [a for a in b if c]", "c", "True"),
        ("for a in b:\n    continue", "continue", "break"),
        ("x = a[1:n]", "n", ""),
        ("x = min(a, b)", "min(a, b)", "(max(a, b))"),
        ("x = f(a, k=v)", "f(a, k=v)", "(f(a))"),
        ("x = d.get(a, b)", "d.get(a, b)", "(d.get(a))"),
    ],
)
def test_what_is_planted(tmp_path: Path, source: str, before: str, after: str) -> None:
    assert (before, after) in changes(tmp_path, source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A text of 3 lines."""',
        "x: Literal[3]",
        "def f(x: Literal[3]) -> Literal[4]: ...",
        "if TYPE_CHECKING:\n    x = 3",
        'log.warning("%d", 3)',
        "def __repr__(self):\n    return 3",
        "assert a < 3, f(3)",
        '__slots__ = ("a", 3)',
        "@cache(3)\ndef f(): ...",
        "class A(B, gc=False): ...",
        'x = f"{a + 3}"',
        "def f():\n    return False",
        "x = zip(a, b, strict=True)",
        "Answer = Callable[[int], int] | None",
        "Move = tuple[int, str]",
        'machine.log.problem("three")',
    ],
)
def test_what_is_left_alone(tmp_path: Path, source: str) -> None:
    assert changes(tmp_path, source) <= {("False", "(True)")}


def test_of_a_counter_only_that_it_counts_is_put_to_the_test(tmp_path: Path) -> None:
    source = "def f(self):\n    self._version += 1"
    assert changes(tmp_path, source) == {("self._version += 1", "pass")}
    assert changes(tmp_path, "def f(self):\n    self._version = 0") == set()


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_from_every_room() -> None:
    first, again, other = (sample(seed, 60, ROOMS) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert len(first) == len(set(first)) == 60
    assert {module_name(one.path).partition("/")[0] for one in first} == set(ROOMS)
    assert all(one.compiles() for one in first)


@pytest.mark.slow
def test_every_equivalent_mutant_is_there() -> None:
    """Code that has changed takes its entry with it."""
    for known in known_equivalents():
        found = [m for m in mutants_of(PACKAGE / known.module) if known.matches(m)]
        assert found, f"{known.module}: {known.line}: {known.before} -> {known.after} is not there"
        assert known.why
