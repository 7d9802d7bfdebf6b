"""Results as JSON: the ten fields that others read, and beside them all the rest.

`results` has exactly FIELDS for each workload, whatever more we learn to measure; `details` has
everything else by workload, `machine` what it ran on, `errors` why a workload has no result.
`run` makes results, `report` turns them into text.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stowplan.errors import InputError

Result = dict[str, Any]
"""All that is known about one run; with `error` instead, if there was none."""

FIELDS = (
    "workload",
    "nodes",
    "init_pods",
    "pods",
    "pods_per_s",
    "attempt_p50_ms",
    "attempt_p99_ms",
    "peak_rss_mib",
    "phases_us",
    "plugins_us",
)


def to_json(results: Sequence[Mapping[str, Any]]) -> str:
    document: dict[str, Any] = {"results": [], "details": {}, "machine": machine()}
    for result in results:
        if "error" in result:
            document.setdefault("errors", {})[result["workload"]] = result["error"]
            continue
        document["results"].append({name: result[name] for name in FIELDS})
        document["details"][result["workload"]] = {
            name: value for name, value in result.items() if name not in FIELDS
        }
    return json.dumps(document, indent=2)


def from_json(text: bytes | str, where: str) -> dict[str, Result]:
    """By workload.  Fields that the file does not have are missing here as well."""
    try:
        document = json.loads(text)
        details = document.get("details", {})
        found = {
            str(result["workload"]): {**details.get(result["workload"], {}), **result}
            for result in document["results"]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            "these are no results", where=where, hint="write them with `stowplan bench -o json`"
        ) from None
    return found


def read_results(path: Path) -> dict[str, Result]:
    return from_json(path.read_bytes(), str(path))


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
