"""The notebooks show what their cells do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.notebook import NOTEBOOKS, read, run


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_stored_outputs_are_those_of_the_cells(path: Path) -> None:
    notebook = read(path)
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]

    assert run(notebook["cells"]) == stored
    assert any(stored)
