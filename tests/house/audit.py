"""Are there known vulnerabilities in what Stowplan is installed with?  `make audit` asks.

pip-audit asks PyPI about every version in `requirements/`.  A machine that cannot reach it, or
reaches a mirror that does not know, is told so in one line and is not failed for it: a check that
could not be made has found nothing.  A vulnerability that is known fails it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
ASK_MAX_S = 120.0
ASK = (
    *(sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"),
    *("--format", "json", "--progress-spinner", "off", "--timeout", "10"),
)


class Verdict(NamedTuple):
    code: int
    lines: list[str]


def main() -> int:
    worst = 0
    for name in ("runtime.txt", "dev.txt"):
        verdict = judge(name, ask(REQUIREMENTS / name))
        print("\n".join(verdict.lines))
        worst = max(worst, verdict.code)
    return worst


def ask(path: Path) -> str:
    """What pip-audit says, as JSON; empty if it could not ask."""
    try:
        asked = subprocess.run(
            [*ASK, "--requirement", str(path)], capture_output=True, text=True, timeout=ASK_MAX_S
        )
    except subprocess.TimeoutExpired:
        return ""
    return asked.stdout


def judge(name: str, report: str) -> Verdict:
    """
    >>> judge("runtime.txt", "").lines
    ['audit: runtime.txt: could not ask for known vulnerabilities; nothing was checked']
    """
    found = _dependencies(report)
    asked = [it for it in found if "vulns" in it]
    if not asked:
        problem = "could not ask for known vulnerabilities; nothing was checked"
        return Verdict(0, [f"audit: {name}: {problem}"])
    known = [_line(name, it, vulnerability) for it in asked for vulnerability in it["vulns"]]
    if known:
        return Verdict(1, known)
    silent = len(found) - len(asked)
    without = f"; nothing is known of {silent} more" if silent else ""
    return Verdict(0, [f"audit: {name}: {len(asked)} packages, no known vulnerability{without}"])


def _dependencies(report: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except ValueError:
        return []
    return found


def _line(name: str, package: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    mended = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return (
        f"error: {name}: {package['name']} {package['version']} has {vulnerability['id']}, "
        f"mended in {mended}"
    )


if __name__ == "__main__":
    sys.exit(main())
