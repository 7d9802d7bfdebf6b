"""Which API servers a test runs on, and that each has a worker of its own in `make e2e`."""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

EMBEDDED = "embedded"
KUBERNETES = "kubernetes"

only_on_kubernetes = pytest.mark.parametrize("cluster", [KUBERNETES], indirect=True)


class OneWorkerEach(LoadScopeScheduling):  # type: ignore[misc]
    """Starting a cluster takes long: all tests on it run where it was started."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, parameters = nodeid.partition("[")
        found = re.search(rf"\b({EMBEDDED}|{KUBERNETES})\b", parameters)
        return found[1] if found else path.partition("::")[0]
