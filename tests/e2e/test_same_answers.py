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
DEVICE_REQUESTS = 900
CODES_MIN = 0.97
BODIES_MIN = 0.93
SHOWN_MAX = 25

SCHEDULING = (
    "/pods", "/nodes", "/persistentvolumeclaims", "/persistentvolumes", "/storageclasses",
    "/priorityclasses", "/poddisruptionbudgets", "/csinodes",
)  # fmt: skip
"""Kinds that decide where pods go: what kube-apiserver refuses of them is refused."""
WORKLOADS = (
    "/deployments", "/replicasets", "/replicationcontrollers", "/statefulsets", "/daemonsets",
    "/jobs", "/cronjobs",
)  # fmt: skip
"""Kinds that make pods: so is what is refused of them, but for conflicts.

A scale that changes nothing is a new version there, as it has another manager, and none here."""


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
    made = [it for it in tally.accepted if any(part in it for part in WORKLOADS)]
    taken += [it for it in made if "'reason': 'Conflict'" not in it]
    assert not taken, "\n".join(taken)


@pytest.mark.parametrize("kind", [KUBERNETES])
@pytest.mark.parametrize("seed", [201, 202])
def test_both_servers_answer_the_same_about_devices(
    clusters: Callable[[str], Cluster], kind: str, seed: int
) -> None:
    """Claims, templates, classes and slices in all versions; in one namespace with admin access."""
    apis = clusters(EMBEDDED).api(), clusters(kind).api()
    tally = run(*apis, seed=seed, requests=DEVICE_REQUESTS, devices=True)

    shown = "\n".join([tally.table(), *tally.differing[:SHOWN_MAX]])
    assert tally.share(tally.codes) >= CODES_MIN, shown
    assert tally.share(tally.bodies) >= BODIES_MIN, shown
    assert not tally.accepted, "\n".join(tally.accepted)
