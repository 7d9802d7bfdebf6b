"""Stowplan: kube-scheduler, written in Python.

The public API.  Importing it is cheap: what it exports is loaded on first use, so that
`stowplan --help` does not pay for NumPy.  `__init__.pyi` tells type checkers what there is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stowplan._version import __version__

_HOMES = {
    "Cluster": "stowplan.world.cluster",
    "Decision": "stowplan.world.decision",
    "Diff": "stowplan.world.diff",
    "Listing": "stowplan.world.listing",
    "Remark": "stowplan.world.remarks",
    "Table": "stowplan.world.table",
    "dry_run": "stowplan.world.dry_run",
    "shadow": "stowplan.answers.following",
    "simulate": "stowplan.sim.simulate",
    "read_trace": "stowplan.sim.files",
}
"""Where each exported name is defined."""

_MODULES = frozenset({"errors", "plugin"})

__all__ = [
    "Cluster",
    "Decision",
    "Diff",
    "Listing",
    "Remark",
    "Table",
    "__version__",
    "dry_run",
    "errors",
    "plugin",
    "read_trace",
    "shadow",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"stowplan.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'stowplan' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
