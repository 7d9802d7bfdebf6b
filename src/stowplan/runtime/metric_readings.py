"""What /metrics reads off the machine at the moment it is asked: queues, cache, plugins, gates.

These numbers are kept where they arise and cost nothing extra on the way of a pod.  Called by
`runtime.metrics` before it writes the text.
"""

from __future__ import annotations

import os
import platform
import resource
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from stowplan._version import KUBERNETES_VERSION, __version__
from stowplan.config import GATES, FeatureGates, Stage
from stowplan.core.machine import Machine
from stowplan.plugins.dynamic_resources.device_counts import DeviceCounts
from stowplan.runtime.exposition import Family, Labels
from stowplan.runtime.metric_choice import MetricChoice
from stowplan.runtime.metric_table import RESULTS

Families = Mapping[str, Family]


def read_machine(families: Families, machine: Machine) -> None:
    _read_queue(families, machine)
    _read_cache(families, machine)
    _read_plugins(families, machine)
    _read_devices(families, machine.objects.derived(DeviceCounts))
    _prime(families, machine)


def forget_counts(machine: Machine) -> None:
    """Start from nothing what is counted there."""
    for framework in machine.frameworks.values():
        kept = framework.kept
        kept.hits = kept.misses = kept.rows_asked = 0
        for tally in framework.tallies.values():
            tally.pre_filtered = tally.filtered = tally.scored = 0
    counts = machine.queue.metrics
    counts.incoming_pods.clear()
    counts.held_back_s.clear()
    counts.hint_durations.clear()


def describe_build(families: Families, gates: FeatureGates) -> None:
    """What does not change while the process runs."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    release = f"{major}.{minor}"
    system = f"{platform.system().lower()}/{platform.machine()}"
    families["kubernetes_build_info"].set(f"v{KUBERNETES_VERSION}", major, minor, system, value=1)
    families["version_info"].set("kube", release, release, release, value=1)
    families["stowplan_build_info"].set(__version__, platform.python_version(), value=1)
    for name, enabled in gates.states().items():
        stage = GATES[name].stage
        label = "" if stage == Stage.GA else stage.value
        families["kubernetes_feature_enabled"].set(name, label, value=int(enabled))
    for level, count in Counter(family.spec.level for family in families.values()).items():
        families["registered_metrics_total"].set(level, "", value=count)


def describe_choice(families: Families, choice: MetricChoice) -> None:
    """What the flags about metrics came to."""
    families["disabled_metrics_total"].set(value=len(choice.disabled))
    families["hidden_metrics_total"].set(value=len(choice.disabled & families.keys()))
    unexpected = families["cardinality_enforcement_unexpected_categorizations_total"]
    unexpected.set(value=len(choice.unexpected))


def _read_queue(families: Families, machine: Machine) -> None:
    queue = machine.queue
    counts = queue.metrics
    pending = families["scheduler_pending_pods"]
    for name, count in queue.pending_counts().items():
        pending.set(name, value=count)
    _copy(families["scheduler_queue_incoming_pods_total"], counts.incoming_pods.items())
    _copy(families["scheduler_unschedulable_pods"], counts.unschedulable_pods.items())
    inflight = (((event,), count) for event, count in counts.inflight_events.items())
    _copy(families["scheduler_inflight_events"], inflight)
    held_back = (((name,), seconds) for name, seconds in queue.held_back_seconds().items())
    _copy(families["stowplan_namespace_held_back_seconds_total"], held_back)
    families["stowplan_held_back_pods"].set(value=queue.held_back_count())
    hints = families["scheduler_queueing_hint_execution_duration_seconds"]
    for labels, durations in counts.hint_durations.items():
        hints.histograms[labels] = durations


def _read_cache(families: Families, machine: Machine) -> None:
    size = families["scheduler_cache_size"]
    size.set("nodes", value=len(machine.cache.nodes))
    size.set("pods", value=machine.cache.pod_count)
    size.set("assumed_pods", value=machine.cache.assumed_count)
    running = families["scheduler_goroutines"]
    running.set("binding", value=machine.binding_count)
    running.set("prioritizing_extender", value=int(machine.is_deciding))


def _read_plugins(families: Families, machine: Machine) -> None:
    evaluations = families["scheduler_plugin_evaluation_total"]
    for labels, count in _evaluations(machine).items():
        evaluations.set(*labels, value=count)
    answers = families["stowplan_kept_answers_total"]
    rows = families["stowplan_kept_answer_rows_total"]
    for profile, framework in machine.frameworks.items():
        kept = framework.kept
        answers.set(profile, "hit", value=kept.hits)
        answers.set(profile, "miss", value=kept.misses)
        rows.set(profile, value=kept.rows_asked)


def _read_devices(families: Families, counts: DeviceCounts) -> None:
    creates = (((status,), count) for status, count in counts.creates.items())
    _copy(families["scheduler_resourceclaim_creates_total"], creates)
    prepared = families["scheduler_dra_bindingconditions_allocations_total"]
    _copy(prepared, counts.prepared.items())
    waits = families["scheduler_dra_bindingconditions_wait_duration_seconds"]
    for labels, seconds in counts.waits:
        waits.observe(*labels, value=seconds)
    counts.waits.clear()


def _evaluations(machine: Machine) -> Counter[Labels]:
    """(plugin, point, profile) -> in how many attempts it had a say."""
    found: Counter[Labels] = Counter()
    for profile, framework in machine.frameworks.items():
        for tally in framework.tallies.values():
            for point, names, count in (
                ("PreFilter", tally.pre_filters, tally.pre_filtered),
                ("Filter", tally.filters, tally.filtered),
                ("PreScore", tally.pre_scores, tally.scored),
                ("Score", tally.scores, tally.scored),
            ):
                for name in names:
                    found[name, point, profile] += count
    return found


def _prime(families: Families, machine: Machine) -> None:
    """Show from the start what can be counted: a rate needs a first value, even zero."""
    for profile in machine.frameworks:
        for result in RESULTS:
            families["scheduler_schedule_attempts_total"].add(result, profile, amount=0)
        for result in ("no_hint", "hint_used", "hint_not_used"):
            families["scheduler_batch_attempts_total"].add(profile, result, amount=0)
    for stage in ("predicate", "assume", "bind"):
        families["scheduler_volume_scheduling_stage_error_total"].add(stage, amount=0)


def _copy(family: Family, counts: Iterable[tuple[Labels, float]]) -> None:
    family.values = {labels: float(count) for labels, count in counts}


# -- what the process takes of the machine, under the names that Prometheus' clients share ----
# Read from /proc; where there is none, only the time of the processor is known.


_PROC = Path("/proc")
_NO_LIMIT = 2**64 - 1
"""As Prometheus' Go library shows that there is none."""


def read_process(families: Mapping[str, Family], proc: Path = _PROC) -> None:
    times = os.times()
    families["process_cpu_seconds_total"].set(value=times.user + times.system)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    families["process_max_fds"].set(value=limit)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    families["process_virtual_memory_max_bytes"].set(
        value=_NO_LIMIT if memory == resource.RLIM_INFINITY else memory
    )
    for reader in (_of_process, _of_network):
        try:
            found = reader(proc)
        except (OSError, ValueError, LookupError):
            continue
        for name, value in found.items():
            families[name].set(value=value)


def _of_process(proc: Path) -> dict[str, float]:
    # The command's name, in parentheses, may contain anything: what follows it is counted.
    fields = (proc / "self" / "stat").read_text().rpartition(")")[2].split()
    started_ticks, virtual_bytes, resident_pages = (int(field) for field in fields[19:22])
    boot = next(
        line.split()[1] for line in (proc / "stat").read_text().splitlines() if line[:6] == "btime "
    )
    started_s = int(boot) + started_ticks / os.sysconf("SC_CLK_TCK")
    return {
        "process_start_time_seconds": started_s,
        "process_virtual_memory_bytes": virtual_bytes,
        "process_resident_memory_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"),
        "process_open_fds": len(os.listdir(proc / "self" / "fd")),
    }


def _of_network(proc: Path) -> dict[str, float]:
    """Of our network namespace, as everywhere: a line of names, and one of numbers below it."""
    lines = (proc / "self" / "net" / "netstat").read_text().splitlines()
    names, numbers = (line.split() for line in lines if line.startswith("IpExt:"))
    found = dict(zip(names, numbers, strict=True))
    return {
        "process_network_receive_bytes_total": int(found["InOctets"]),
        "process_network_transmit_bytes_total": int(found["OutOctets"]),
    }
