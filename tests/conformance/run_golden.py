"""Decide the golden scenarios and say where we differ from the real kube-scheduler.

python -m tests.conformance.run_golden [FAMILY...]
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from stowplan.config import load_config
from stowplan.core.dry_run import DryRun
from stowplan.objects.manifests import decode
from tests.conformance.compare import differences

GOLDEN = Path(__file__).parent / "golden"


def families() -> list[str]:
    return sorted(path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz"))


def scenarios(family: str) -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{family}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


def decide(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    objects = [decode(item, scenario["name"]) for item in scenario["cluster"]["items"]]
    config = load_config(scenario["config"]) if scenario["config"] else None
    run = DryRun(
        [o for o in objects if o is not None], config=config, tie_break="name", random=Random(0)
    )
    wanted = len(scenario["expected"])
    decisions = []
    for decision in run.decide():
        decisions.append(decision.to_dict())
        if len(decisions) == wanted:
            break
    return decisions


def main() -> int:
    bad = 0
    for family in sys.argv[1:] or families():
        wrong = 0
        total = 0
        for scenario in scenarios(family):
            total += 1
            try:
                found = differences(scenario["expected"], decide(scenario))
            except Exception as error:
                import traceback

                found = [f"{type(error).__name__}: {error} {traceback.format_exc()[-600:]}"]
            wrong += bool(found)
            for line in found[:2] if wrong <= 4 else []:
                print(f"{scenario['name']}: {line}")
        print(f"{family}: {total - wrong} of {total} agree")
        bad += wrong
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
