"""Which API servers a test runs on.  Each kind is a group of its own: a worker of `make e2e`."""

from __future__ import annotations

from typing import Any

import pytest


def _on(kind: str) -> Any:
    return pytest.param(kind, marks=pytest.mark.xdist_group(kind), id=kind)


EMBEDDED = _on("embedded")
KUBERNETES = _on("kubernetes")

only_on_kubernetes = pytest.mark.parametrize("cluster", [KUBERNETES], indirect=True)
