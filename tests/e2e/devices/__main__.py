"""Play cases before both schedulers and print how many came out equal."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.e2e.build_control_plane import find
from tests.e2e.devices.cases import CASES
from tests.e2e.devices.sides import open_theatre
from tests.e2e.harness.cluster import RealCluster
from tests.e2e.harness.rights import grant


def main(names: list[str]) -> int:
    chosen = [case for case in CASES if not names or any(it in case.name for it in names)]
    folder = Path(tempfile.mkdtemp(prefix="devices-"))
    print(f"logs are in {folder}", flush=True)
    cluster = RealCluster(folder / "cluster", find(os.environ))
    cluster.start()
    equal = 0
    try:
        grant(cluster)
        theatre = open_theatre(cluster, folder)
        try:
            for case in chosen:
                started_s = time.monotonic()
                try:
                    theirs, ours = theatre.play(case)
                    lines = case.problems(theirs, ours)
                except pytest.fail.Exception as failure:
                    lines = [str(failure)[:3000]]
                equal += not lines
                took_s = time.monotonic() - started_s
                print(f"{'DIFF ' if lines else 'equal'} {case.name} ({took_s:.1f} s)", flush=True)
                for line in lines:
                    print(f"  {line}", flush=True)
        finally:
            for side in theatre.sides:
                side.kill()
    finally:
        cluster.stop()
    print(f"{equal} of {len(chosen)} cases equal")
    return 0 if equal == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
