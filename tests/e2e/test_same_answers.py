"""kube-apiserver and the embedded server answer the same, over requests from a grammar.

What may differ is listed by class in docs/differences.md.  `python -m tests.e2e.differential`
shows every answer that does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.differential.sides import run
from tests.e2e.harness.cluster import Cluster
from tests.e2e.harness.kinds import EMBEDDED, KUBERNETES

REQUESTS = 700
CODES_MIN = 0.97
BODIES_MIN = 0.93
SHOWN_MAX = 25

SCHEDULING = (
    "/pods", "/nodes", "/persistentvolumeclaims", "/persistentvolumes", "/storageclasses",
    "/priorityclasses", "/poddisruptionbudgets", "/csinodes",
)  # fmt: skip
"""Kinds that decide where pods go: what kube-apiserver refuses of them is refused."""


@pytest.mark.parametrize("kind", [KUBERNETES])
@pytest.mark.parametrize("seed", [101, 102])
def test_both_servers_answer_the_same(
    clusters: Callable[[str], Cluster], kind: str, seed: int
) -> None:
    tally = run(clusters(EMBEDDED).api(), clusters(kind).api(), seed=seed, requests=REQUESTS)

    shown = "\n".join([tally.table(), *tally.differing[:SHOWN_MAX]])
    assert tally.share(tally.codes) >= CODES_MIN, shown
    assert tally.share(tally.bodies) >= BODIES_MIN, shown
    taken = [it for it in tally.accepted if any(part in it for part in SCHEDULING)]
    assert not taken, "\n".join(taken)
