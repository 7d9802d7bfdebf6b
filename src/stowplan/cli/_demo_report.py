"""The demo's summary: how fast, how full, who waits and why, who had to go."""

from __future__ import annotations

import sys
from collections import defaultdict

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stowplan.cli._demo_run import TIME_S_MAX, Story
from stowplan.core.decision import Decision
from stowplan.objects.resources import CPU, MEMORY

PREEMPTIONS_SHOWN = 8
ZONE = "topology.kubernetes.io/zone"


def show(story: Story) -> None:
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110)
    rate = story.bound / story.seconds if story.seconds else 0.0
    console.print(
        f"Scheduled {story.bound} of {story.pod_count} pods on {story.node_count} nodes "
        f"in {story.seconds:.1f} s: {rate:,.0f} pods per second, every node evaluated for each.",
        highlight=False,
    )
    console.print()
    _show_zones(console, story)
    _show_pending(console, story)
    _show_preemptions(console, story)


def _show_zones(console: Console, story: Story) -> None:
    table = Table(
        "zone", "nodes", "pods", "cpu requested", "memory requested", title_justify="left"
    )
    zones: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for info in story.driver.machine.cache.nodes.values():
        zone = zones[info.labels.get(ZONE, "")]
        amounts = (
            1,
            len(info.pods),
            info.requested[CPU],
            info.allocatable.get(CPU, 0),
            info.requested[MEMORY],
            info.allocatable.get(MEMORY, 0),
        )
        for position, amount in enumerate(amounts):
            zone[position] += amount
    for name, (nodes, pods, cpu, cpu_all, memory, memory_all) in sorted(zones.items()):
        table.add_row(
            name,
            str(nodes),
            str(pods),
            f"{_bar(cpu, cpu_all)} of {cpu_all // 1000} cores",
            f"{_bar(memory, memory_all)} of {memory_all // 2**30} GiB",
        )
    console.print(table)


def _bar(used: int, total: int) -> str:
    share = used / total if total else 0.0
    return f"{'#' * round(share * 10):<10} {share:>4.0%}"


def _show_pending(console: Console, story: Story) -> None:
    groups: dict[str, list[Decision]] = defaultdict(list)
    for decision in story.pending:
        groups[decision.full_message].append(decision)
    counts = story.driver.machine.queue.pending_counts()
    late = counts["active"] + counts["backoff"]
    rest = f", {late} not reached in {TIME_S_MAX:g} s" if late else ""
    fit_nowhere = f"{len(story.pending)} that fit nowhere"
    console.print(f"\nPending: {fit_nowhere}, {counts['gated']} held at a gate{rest}.")
    for message, decisions in groups.items():
        names = ", ".join(decision.pod for decision in decisions[:3])
        more = f" and {len(decisions) - 3} more" if len(decisions) > 3 else ""
        console.print(f"  {names}{more}", highlight=False)
        # Long sentences are wrapped, and stay indented.
        console.print(Padding(Text(message, style="yellow"), (0, 0, 0, 4), expand=False))


def _show_preemptions(console: Console, story: Story) -> None:
    console.print(f"\nPreempted: {len(story.preemptions)} pods.")
    for victim, preemptor, node in story.preemptions[:PREEMPTIONS_SHOWN]:
        console.print(f"  {victim} made room for {preemptor} on {node}", highlight=False)
    left = len(story.preemptions) - PREEMPTIONS_SHOWN
    if left > 0:
        console.print(f"  and {left} more")
