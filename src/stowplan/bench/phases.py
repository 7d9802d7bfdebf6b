"""From looks at the stack to microseconds per pod, by phase and by plugin.

A look belongs to the phase of the innermost function that the table below knows; so a helper
counts for whoever called it, and code that moves elsewhere is still counted somewhere sensible.
`sampler` takes the looks, `run` puts the sums into the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from types import CodeType

from stowplan.bench.sampler import Stack
from stowplan.plugins import IN_TREE

WAITING = "waiting"
OTHER = "other"

_ROOT = "stowplan/"

# (file, function) -> phase; a function of "" stands for the whole file, a file that ends in "/"
# for the whole folder.  The more exact entry wins.
_PHASES: dict[tuple[str, str], str] = {
    ("apiserver/", ""): "api server",
    ("cluster/", ""): "informers",
    ("runtime/driver.py", "_put_all"): "informers",
    ("runtime/driver.py", ""): "driver",
    ("runtime/event_recorder.py", ""): "events",
    ("embedded.py", ""): "driver",
    ("runtime/metrics.py", ""): "metrics",
    ("core/attempts.py", ""): "decisions and metrics",
    ("core/decision.py", ""): "decisions and metrics",
    ("core/cluster_changes.py", ""): "cluster changes",
    ("core/machine.py", "_decided"): "binding",
    ("core/machine.py", "_answered"): "binding",
    ("core/machine.py", ""): "machine",
    ("core/steps.py", ""): "machine",
    ("core/messages.py", ""): "machine",
    ("core/binding.py", ""): "binding",
    ("core/waiting.py", ""): "permit",
    ("core/failure.py", ""): "failure handling",
    ("core/pod_status.py", ""): "failure handling",
    ("core/preemption.py", ""): "PostFilter",
    ("core/reserving.py", "assume"): "assume",
    ("core/reserving.py", "permit"): "permit",
    ("core/reserving.py", "_permit"): "permit",
    ("core/reserving.py", ""): "reserve",
    ("core/schedule_one.py", "assume_and_reserve"): "reserve",
    ("core/schedule_one.py", "_post_filter"): "PostFilter",
    ("core/schedule_one.py", "_fits_nowhere"): "PostFilter",
    ("core/schedule_one.py", ""): "cycle",
    ("core/algorithm.py", "_pick"): "pick",
    ("core/algorithm.py", "_ask_priorities"): "Score",
    ("core/algorithm.py", ""): "cycle",
    ("framework/runtime.py", "plan_of"): "plan",
    ("framework/planning.py", ""): "plan",
    ("framework/runtime.py", "pre_filter"): "PreFilter",
    ("framework/runtime.py", "_one_pre_filter"): "PreFilter",
    ("framework/runtime.py", "find_feasible"): "Filter",
    ("framework/runtime.py", "local_answers"): "kept answers",
    ("framework/runtime.py", "score"): "Score",
    ("framework/runtime.py", "diagnose"): "PostFilter",
    ("framework/kept.py", ""): "kept answers",
    ("framework/diagnosis.py", ""): "PostFilter",
    ("framework/timing.py", ""): "metrics",
    ("queue/", ""): "queue",
    ("state/node_table.py", "refresh"): "snapshot",
    ("bench/stage.py", "send"): "creating pods",
    ("bench/pod_ops.py", ""): "creating pods",
    ("bench/stage.py", ""): "benchmark",
    ("bench/measure.py", "bound"): "decisions and metrics",
    ("bench/yardstick.py", ""): WAITING,
    ("bench/cluster_run.py", ""): "event loop and HTTP",
    ("bench/", ""): "benchmark",
}

# Under these, the API server's and the informers' work is told apart by whose it is.
_OWNERS = {
    "events": "events",
    "creating pods": "creating pods",
    "binding": "binding",
    "driver": "binding",
}
_SHARED = frozenset({"api server", "informers"})

_POINTS = (
    ("filter_", "Filter"),
    ("score_", "Score"),
    ("normalize", "Score"),
    ("pre_filter", "PreFilter"),
    ("pre_score", "PreScore"),
    ("post_filter", "PostFilter"),
    ("reserve", "reserve"),
    ("unreserve", "reserve"),
    ("pre_bind", "binding"),
)


def phases(stacks: Mapping[Stack, int]) -> Counter[str]:
    """Looks per phase."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[_phase(stack)] += count
    return found


def plugins(stacks: Mapping[Stack, int]) -> Counter[str]:
    """Looks per plugin, whatever it was doing."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        plugin = next((name for code in stack if (name := _plugin_of(code.co_filename))), "")
        if plugin:
            found[plugin] += count
    return found


def per_pod_us(looks: Mapping[str, int], cpu_s: float, pods: int, total: int) -> dict[str, float]:
    """Microseconds of processor time per pod; the largest first."""
    if not total or not pods:
        return {}
    unit = cpu_s / total / pods * 1e6
    ordered = sorted(looks.items(), key=lambda item: -item[1])
    return {name: round(count * unit, 2) for name, count in ordered if name != WAITING}


def _phase(stack: Stack) -> str:
    if any(_is_pause(code) for code in stack[:1]):
        return WAITING
    shared = ""
    for code in stack:
        phase = _phase_of(code.co_filename, code.co_name)
        if shared and phase in _OWNERS:
            return f"{_OWNERS[phase]}: {shared}"
        if not phase or (shared and phase in _SHARED):
            continue
        if phase not in _SHARED:
            return shared or phase
        shared = phase
    return shared or OTHER


# By name: code objects of different files may be equal.
@cache
def _phase_of(path: str, function: str) -> str:
    file = _file_of(path)
    if not file:
        return ""
    if file.startswith("plugins/"):
        return next((phase for start, phase in _POINTS if function.startswith(start)), "")
    folder = file.partition("/")[0] + "/"
    for key in ((file, function), (file, ""), (folder, "")):
        if key in _PHASES:
            return _PHASES[key]
    return ""


@cache
def _plugin_of(path: str) -> str:
    file = _file_of(path)
    return _plugin_files().get(file, "") if file.startswith("plugins/") else ""


@cache
def _plugin_files() -> dict[str, str]:
    return {
        plugin.__module__.removeprefix("stowplan.").replace(".", "/") + ".py": name
        for name, plugin in IN_TREE.items()
    }


@cache
def _file_of(path: str) -> str:
    """`core/machine.py`; "" for what is not ours."""
    _, found, file = path.replace("\\", "/").rpartition(_ROOT)
    return file if found else ""


def _is_pause(code: CodeType) -> bool:
    if code.co_name == "select" and code.co_filename.endswith("selectors.py"):
        return True  # The event loop has nothing to do.
    return code.co_name == "_pause" and _file_of(code.co_filename) == "bench/engine.py"
