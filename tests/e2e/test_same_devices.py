"""Claims of devices end as with kube-scheduler: devices, statuses, conditions, events.

Each case is played before kube-scheduler and before `stowplan run` on one kube-apiserver; what can
be seen from outside afterwards must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.build_control_plane import MissingControlPlane
from tests.e2e.devices.cases import CASES, Case
from tests.e2e.devices.sides import Theatre, open_theatre
from tests.e2e.harness.cluster import Cluster
from tests.e2e.harness.kinds import only_on_kubernetes


@pytest.fixture(scope="module")
def theatre(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder: Path = tmp_path_factory.mktemp("devices")
    try:
        made = open_theatre(cluster, folder)
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")
    yield made
    for side in made.sides:
        side.kill()


@only_on_kubernetes
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_is_seen(theatre: Theatre, case: Case) -> None:
    theirs, ours = theatre.play(case)

    assert case.problems(theirs, ours) == []
