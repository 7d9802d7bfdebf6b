"""Device selectors: the same answers, errors, refusals and cost estimates as Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cel import CompileError, compile_expression
from stowplan.cel.compiled import assembled, checked
from tests.conformance.run_cel import GOLDEN, answer, devices, differences, expressions

DRAWN = Path(__file__).parents[1] / "cel" / "drawn"
FOLDERS = [pytest.param(GOLDEN, id="golden"), pytest.param(DRAWN, id="drawn")]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_as_kubernetes(folder: Path) -> None:
    on = devices(folder)
    wrong = [
        f"{expected['expression']}: {line}"
        for expected in expressions(folder)
        for line in differences(expected, on)
    ]

    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_counting_the_cost_changes_no_answer(folder: Path) -> None:
    """What is counted takes none of the short ways, so this compares those with the long ones."""
    on = devices(folder)
    for expected in expressions(folder):
        text = expected["expression"]
        try:
            quick = compile_expression(text)
        except CompileError:
            continue
        counted = assembled(text, checked(text), quick.max_cost, counted=True)
        for device in on:
            assert answer(counted, device) == answer(quick, device), text
