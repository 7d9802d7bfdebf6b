"""Evaluate the expressions of a folder and say where we differ from Kubernetes.

python -m tests.conformance.run_cel [--data FOLDER]

The folder holds `cel_devices.json` and any number of `cel*.jsonl.gz` (golden/dra/README.md).
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stowplan.cel import (
    CompileError,
    Device,
    EvaluationError,
    Expression,
    Version,
    compile_expression,
)

GOLDEN = Path(__file__).parent / "golden" / "dra"


def devices(folder: Path) -> list[Device]:
    return [_device(it) for it in json.loads((folder / "cel_devices.json").read_text())]


def _device(item: dict[str, Any]) -> Device:
    device = item["device"]
    return Device(
        item["driver"],
        {name: _value(it) for name, it in device.get("attributes", {}).items()},
        {name: it["value"] for name, it in device.get("capacity", {}).items()},
        device.get("allowMultipleAllocations", False),
    )


def _value(attribute: dict[str, Any]) -> Any:
    [(kind, value)] = attribute.items()
    return Version(value) if kind == "version" else value


def expressions(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("cel*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                yield json.loads(line)


def differences(expected: dict[str, Any], on: list[Device]) -> list[str]:
    """Device, what Kubernetes says, what we say; empty if all is the same."""
    try:
        expression = compile_expression(expected["expression"])
    except CompileError as error:
        if "compileError" not in expected:
            return [f"expected it to compile, got {error}"]
        return _refusals(expected["compileError"], error)
    if "compileError" in expected:
        return [f"expected {_first_line(expected['compileError'])}, got it compiled"]
    found = []
    answers = [answer(expression, device) for device in on]
    for index, (wanted, (value, _)) in enumerate(zip(expected["results"], answers, strict=True)):
        if wanted != value or isinstance(wanted, bool) != isinstance(value, bool):
            found.append(f"device {index}: expected {wanted}, got {answers[index]}")
    errors = {error for _, error in answers if error}
    if errors != {it for it in expected.get("errors", []) if it} and not found:
        found.append(f"expected errors {expected.get('errors', [])}, got {sorted(errors)}")
    if expression.too_complex != bool(expected.get("tooComplex")):
        found.append(f"expected tooComplex {bool(expected.get('tooComplex'))}")
    if expression.max_cost != expected.get("maxCost", 0):
        found.append(f"expected a cost of {expected.get('maxCost', 0)}, got {expression.max_cost}")
    return found


def _refusals(expected: str, error: CompileError) -> list[str]:
    """What the grammar refuses is worded by upstream's parser generator: not compared."""
    if "Syntax error" in expected or expected == error.details:
        return []
    return [f"expected {_first_line(expected)}, got {error}"]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def answer(expression: Expression, device: Device) -> tuple[bool | str, str]:
    """True, False or "error", and the error's message."""
    try:
        return expression.matches(device), ""
    except EvaluationError as error:
        return "error", str(error)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare expressions with Kubernetes")
    parser.add_argument("--data", type=Path, default=GOLDEN, help="folder with the recordings")
    folder = parser.parse_args().data
    on = devices(folder)
    agree = total = 0
    for expected in expressions(folder):
        total += 1
        found = differences(expected, on)
        agree += not found
        for line in found[:3]:
            print(f"{expected['expression']}: {line}")
    print(f"{agree} of {total} expressions agree")
    return 0 if total and agree == total else 1


if __name__ == "__main__":
    sys.exit(main())
