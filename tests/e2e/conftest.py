"""Clusters under test and schedulers on them; see `tests.e2e.harness`.

`cluster` is parametrized: a test that takes it runs on the embedded API server and on the real
one.  Each of the two is started once; `make e2e` gives each a worker of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.cluster import Cluster, EmbeddedCluster, RealCluster
from tests.e2e.harness.kinds import EMBEDDED, KUBERNETES, OneWorkerEach
from tests.e2e.harness.rights import grant
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World

TEST_TIMEOUT_S = 180.0
"""For pytest-timeout, the last resort; waits of the tests themselves end earlier and say why."""


def pytest_configure() -> None:
    """Whoever runs this in the background may have us ignore SIGINT: the commands that are started
    here would inherit that, and not hear Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerEach:
    return OneWorkerEach(config, log)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Each kind is started when somebody first asks for it, and stopped at the end."""
    started: dict[str, Cluster] = {}

    def running(kind: str) -> Cluster:
        if kind not in started:
            made = _make(kind, tmp_path_factory.mktemp(kind) / "cluster")
            started[kind] = made
            made.start()
            grant(made)
        return started[kind]

    yield running
    for made in started.values():
        made.stop()


def _make(kind: str, folder: Path) -> Cluster:
    if kind == EMBEDDED:
        return EmbeddedCluster(folder)
    try:
        return RealCluster(folder, find(os.environ))
    except MissingControlPlane as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module", params=[EMBEDDED, KUBERNETES])
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    """An empty cluster, and empty again afterwards."""
    made = World(cluster)
    yield made
    made.sweep()


@pytest.fixture
def new_scheduler(world: World, tmp_path: Path) -> Iterator[Callable[..., Scheduler]]:
    """Makes schedulers for this test; takes what `Scheduler` takes."""

    def make(**options: Any) -> Scheduler:
        made = Scheduler(world.cluster, tmp_path, **options)
        world.schedulers.append(made)
        return made

    yield make
    for scheduler in world.schedulers:
        scheduler.stop()


@pytest.fixture(scope="module")
def standing_scheduler(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    made = Scheduler(cluster, tmp_path_factory.mktemp("scheduler"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def scheduled(world: World, standing_scheduler: Scheduler) -> World:
    """A cluster with a scheduler on it, the same one for all tests of a module."""
    world.schedulers.append(standing_scheduler)
    return world
