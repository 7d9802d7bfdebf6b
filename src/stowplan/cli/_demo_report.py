"""The demo's summary: how fast, how full, who waits and why, who had to go."""

from __future__ import annotations

import textwrap
from collections import defaultdict

from stowplan.cli._demo_run import TIME_S_MAX, Story
from stowplan.cli._output import Column, print_table, say, some_of, terminal_width
from stowplan.core.decision import Decision
from stowplan.objects.resources import CPU, MEMORY
from stowplan.printable import printable

PREEMPTIONS_SHOWN = 8
FILE_WIDTH = 110
BARS_WIDTH_MIN = 80
"""Columns of a terminal; on a narrower one the zones have no bars."""
ZONE = "topology.kubernetes.io/zone"


def show(story: Story) -> None:
    rate = story.bound / story.seconds if story.seconds else 0.0
    _tell(
        f"Scheduled {story.bound} of {story.pod_count} pods on {story.node_count} nodes "
        f"in {story.seconds:.1f} s: {rate:,.0f} pods per second, every node evaluated for each."
    )
    say()
    _show_zones(story)
    _show_pending(story)
    _show_preemptions(story)
    say()
    _tell("To look at it, and ask why and what if, in your browser: stowplan ui --demo")


def _tell(text: str, indent: int = 0) -> None:
    """A sentence, wrapped between words where a terminal is narrow."""
    margin, width = " " * indent, terminal_width() or FILE_WIDTH
    for line in textwrap.wrap(
        printable(text),
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        say(line)


def _show_zones(story: Story) -> None:
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
    bars = (terminal_width() or FILE_WIDTH) >= BARS_WIDTH_MIN
    rows = [
        [
            name,
            str(nodes),
            str(pods),
            f"{_share(cpu, cpu_all, bars)} of {cpu_all // 1000} cores",
            f"{_share(memory, memory_all, bars)} of {memory_all // 2**30} GiB",
        ]
        for name, (nodes, pods, cpu, cpu_all, memory, memory_all) in sorted(zones.items())
    ]
    columns = [Column("ZONE"), Column("NODES", right=True), Column("PODS", right=True)]
    print_table([*columns, Column("CPU REQUESTED"), Column("MEMORY REQUESTED")], rows)


def _share(used: int, total: int, bars: bool) -> str:
    share = used / total if total else 0.0
    bar = f"{'#' * round(share * 10):<10} " if bars else ""
    return f"{bar}{share:>4.0%}"


def _show_pending(story: Story) -> None:
    groups: dict[str, list[Decision]] = defaultdict(list)
    for decision in story.pending:
        groups[decision.full_message].append(decision)
    counts = story.driver.machine.queue.pending_counts()
    late = counts["active"] + counts["backoff"]
    rest = f", {late} not reached in {TIME_S_MAX:g} s" if late else ""
    fit_nowhere = f"{len(story.pending)} that fit nowhere"
    say()
    _tell(f"Pending: {fit_nowhere}, {counts['gated']} held at a gate{rest}.")
    for message, decisions in groups.items():
        _tell(some_of([decision.pod for decision in decisions]), indent=2)
        _tell(message, indent=4)


def _show_preemptions(story: Story) -> None:
    say()
    _tell(f"Preempted: {len(story.preemptions)} pods.")
    for victim, preemptor, node in story.preemptions[:PREEMPTIONS_SHOWN]:
        _tell(f"{victim} made room for {preemptor} on {node}", indent=2)
    left = len(story.preemptions) - PREEMPTIONS_SHOWN
    if left > 0:
        _tell(f"and {left} more", indent=2)
