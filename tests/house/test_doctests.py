"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"


def with_examples() -> list[str]:
    files = (p for p in sorted(SRC.rglob("*.py")) if ">>> " in p.read_text())
    names = (".".join(p.relative_to(SRC).with_suffix("").parts) for p in files)
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("name", with_examples())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))

    assert result.failed == 0
