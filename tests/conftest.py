"""Settings for every test: hypothesis profiles, and the seeds of simulations."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a slow machine is not a wrong program.
settings.register_profile("default", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SEEDS_DEFAULT = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `simulation_seed` runs once per seed; `make simulate` chooses them."""
    if "simulation_seed" in metafunc.fixturenames:
        metafunc.parametrize("simulation_seed", _seeds(), ids=lambda seed: f"seed-{seed}")


def _seeds() -> list[int]:
    if seed := os.environ.get("STOWPLAN_SEED"):
        return [int(seed)]
    return list(range(int(os.environ.get("STOWPLAN_SEEDS") or SEEDS_DEFAULT)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    """A simulation that failed says how to run it again, alone."""
    report = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get("simulation_seed")
    if seed is not None and report.failed:
        name = item.nodeid.split("::")[-1].split("[")[0]
        report.sections.append(("replay", f"make simulate SEED={seed} ARGS='-k {name}'"))
    return report
