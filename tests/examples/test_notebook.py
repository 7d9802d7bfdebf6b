"""The notebook shows what its cells do."""

from __future__ import annotations

from tests.examples.notebook import read, run


def test_the_stored_outputs_are_those_of_the_cells() -> None:
    notebook = read()
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]

    assert run(notebook["cells"]) == stored
    assert any(stored)
