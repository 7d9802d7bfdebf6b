"""The workloads that come with Stowplan, and how a name chooses among them.

`SchedulingBasic` is a case: its main workload is run, the first one for measuring performance.
`SchedulingBasic/500Nodes` is one workload; `*` and `?` stand for anything, so `SchedulingBasic/*`
are all of them.  The files are in `workloads/`, written after the catalogue of scheduler_perf.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from stowplan.bench.language import Value, Workload, read_workloads
from stowplan.errors import InputError

FILES = Path(__file__).parent / "workloads"
TEMPLATES = FILES / "templates"

NODES, PODS, INIT_PODS = "initNodes", "measurePods", "initPods"
"""The parameters that `--nodes`, `--pods` and `--init-pods` set."""

PERFORMANCE = "performance"


@cache
def shipped() -> tuple[Workload, ...]:
    return tuple(
        workload for file in sorted(FILES.glob("*.yaml")) for workload in read_workloads(file)
    )


def choose(names: Iterable[str], workloads: Sequence[Workload]) -> list[Workload]:
    """The workloads of these names, in the order given, each once."""
    found: dict[str, Workload] = {}
    for name in names:
        for workload in _matching(name, workloads):
            found[workload.full_name] = workload
    return list(found.values())


def _matching(name: str, workloads: Sequence[Workload]) -> list[Workload]:
    if "/" not in name and "*" not in name:
        case = [workload for workload in workloads if workload.case == name]
        if case:
            return [main_workload(case)]
    else:
        pattern = name if "/" in name else f"{name}/*"
        matching = [each for each in workloads if fnmatchcase(each.full_name, pattern)]
        if matching:
            return matching
    known = list(dict.fromkeys([each.case for each in workloads]))
    near = get_close_matches(name.partition("/")[0], known, n=1)
    if near and "/" in name:
        hint = ", ".join(each.full_name for each in workloads if each.case == near[0])
    else:
        hint = f"did you mean {near[0]!r}?" if near else "`stowplan bench --list` lists them"
    raise InputError(f"no workload {name!r}", hint=hint)


def main_workload(case: Sequence[Workload]) -> Workload:
    """The first that is meant to measure performance; else the last, which is the largest."""
    return next((each for each in case if PERFORMANCE in each.labels), case[-1])


def resized(
    workload: Workload, *, nodes: int | None, pods: int | None, init_pods: int | None
) -> Workload:
    asked = {NODES: nodes, PODS: pods, INIT_PODS: init_pods}
    changes: dict[str, Value] = {name: n for name, n in asked.items() if n is not None}
    return workload.with_params(changes) if changes else workload
