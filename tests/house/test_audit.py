"""What `make audit` makes of pip-audit's reports: only what is known fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.house.audit import judge

FINE = {"name": "click", "version": "8.5.1", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}
BAD = {
    "name": "aiohttp",
    "version": "3.9.1",
    "vulns": [{"id": "GHSA-5h86-8mv2-jq9f", "fix_versions": ["3.9.2"], "aliases": []}],
}
UNMENDED = {"name": "rich", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": []}]}


@pytest.mark.parametrize(
    ("packages", "code", "lines"),
    [
        ([FINE], 0, ["audit: x.txt: 1 packages, no known vulnerability"]),
        (
            [FINE, UNKNOWN],
            0,
            ["audit: x.txt: 1 packages, no known vulnerability; nothing is known of 1 more"],
        ),
        (
            [UNKNOWN, UNKNOWN],
            0,
            ["audit: x.txt: could not ask for known vulnerabilities; nothing was checked"],
        ),
        (
            [FINE, BAD, UNMENDED, UNKNOWN],
            1,
            [
                "error: x.txt: aiohttp 3.9.1 has GHSA-5h86-8mv2-jq9f, mended in 3.9.2",
                "error: x.txt: rich 1.0 has CVE-1, mended in no version yet",
            ],
        ),
    ],
)
def test_reports(packages: list[Any], code: int, lines: list[str]) -> None:
    report = json.dumps({"dependencies": packages, "fixes": []})

    assert judge("x.txt", report) == (code, lines)


def test_a_tool_that_broke_off_has_found_nothing() -> None:
    assert judge("x.txt", "")[0] == 0
    assert judge("x.txt", '{"dependencies": [')[0] == 0
