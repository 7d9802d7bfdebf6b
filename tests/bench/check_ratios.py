"""Has it become slower?  `make bench-check` asks, and compares ratios, never times.

Each workload in `ratios.json` is run at a small size, and its rate as a share of the bare NumPy
kernel's, taken in the same seconds, is held against the share that is written there.  A share that
falls below MARGIN of it is a regression; one below is measured again first, since a neighbour on
the machine is no regression.  After a change that is meant to alter the speed:

    python -m tests.bench.check_ratios --write
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from stowplan.bench.alone import perform_alone

FILE = Path(__file__).parent / "ratios.json"
MARGIN = 0.6
TRIES = 3


def regressions(entries: list[dict[str, Any]]) -> list[str]:
    """Measure, and say what has become too slow."""
    problems = []
    for entry in entries:
        found = 0.0
        for _ in range(TRIES):
            found = max(found, measured(entry))
            if found >= MARGIN * entry["ratio"]:
                break
        kept = found / entry["ratio"]
        print(
            f"{label(entry):<52} {found:8.4f}  was {entry['ratio']:.4f}  x {kept:.2f}", flush=True
        )
        if kept < MARGIN:
            problems.append(f"{label(entry)} fell to {kept:.2f} of what it was")
    return problems


def label(entry: dict[str, Any]) -> str:
    return f"{entry['workload'].partition('/')[0]}, {entry['nodes']} nodes, {entry['pods']} pods"


def measured(entry: dict[str, Any]) -> float:
    request = {name: value for name, value in entry.items() if name != "ratio"}
    result = perform_alone(request)
    if "error" in result:
        sys.exit(f"error: {label(entry)}: {result['error']}")
    return float(result["ratio"])


def rewrite(entries: list[dict[str, Any]]) -> None:
    """The middle one of three: neither a lucky nor an unlucky moment."""
    for entry in entries:
        entry["ratio"] = sorted(measured(entry) for _ in range(TRIES))[TRIES // 2]
        print(f"{label(entry):<52} {entry['ratio']:8.4f}", flush=True)
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    FILE.write_text(f"[\n{lines}\n]\n")


def main() -> None:
    entries = json.loads(FILE.read_text())
    if sys.argv[1:] == ["--write"]:
        rewrite(entries)
        return
    problems = regressions(entries)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
