"""`python -m tests.e2e.differential`: both servers, some seeds, and what differs."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tests.e2e.build_control_plane import find
from tests.e2e.differential.sides import run
from tests.e2e.harness.cluster import EmbeddedCluster, RealCluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--devices", action="store_true", help="only resource.k8s.io")
    parser.add_argument("--show", type=int, default=1000, help="differences to print")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = EmbeddedCluster(Path(folder) / "ours")
        theirs = RealCluster(Path(folder) / "theirs", find(os.environ))
        try:
            ours.start()
            theirs.start()
            tally = run(
                ours.api(),
                theirs.api(),
                seed=options.seed,
                requests=options.requests,
                devices=options.devices,
            )
        finally:
            ours.stop()
            theirs.stop()
    for text in tally.differing[: options.show]:
        print(text)
    for text in tally.accepted:
        print(f"accepted: {text}")
    print(tally.table())


if __name__ == "__main__":
    main()
