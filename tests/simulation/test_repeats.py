"""A seed is a run: whoever runs it, in whatever process, sees the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.running import simulate

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SEEDS = (2, 5, 11)

_PRINT_DIGESTS = f"""
from tests.simulation.running import simulate
for seed in {SEEDS}:
    print(simulate(seed).digest)
"""


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    """With other hashes of strings and other addresses: nothing may depend on them."""
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run(
        [sys.executable, "-c", _PRINT_DIGESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found == [simulate(seed).digest for seed in SEEDS]


def test_other_seeds_give_other_runs() -> None:
    assert len({simulate(seed).digest for seed in range(4)}) == 4
