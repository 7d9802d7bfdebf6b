"""The notebooks in examples/: run their cells, compare or write what comes out.

python -m tests.examples.notebook      # runs them and stores the outputs
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text())
    return notebook


def run(cells: list[Cell]) -> list[list[Cell]]:
    """The outputs of the code cells, run one after the other, as Jupyter would store them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    return [_outputs("".join(cell["source"]), names, n) for n, cell in enumerate(codes, 1)]


def _outputs(source: str, names: dict[str, Any], count: int) -> list[Cell]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    shown = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[Cell] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if shown is not None:
        data = {"text/plain": repr(shown).splitlines(keepends=True)}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = shown._repr_html_().splitlines(keepends=True)
        outputs.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def main() -> None:
    for path in NOTEBOOKS:
        notebook = read(path)
        codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        outputs = run(notebook["cells"])
        for count, (cell, found) in enumerate(zip(codes, outputs, strict=True), 1):
            cell["outputs"], cell["execution_count"] = found, count
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
