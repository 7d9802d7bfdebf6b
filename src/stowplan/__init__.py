"""Stowplan: kube-scheduler, written in Python.

The public API.  Importing it is cheap: what it exports is loaded on first use, so that
`stowplan --help` does not pay for NumPy.
"""

from __future__ import annotations

from stowplan._version import __version__

__all__ = ["__version__"]
