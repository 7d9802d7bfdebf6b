"""What a trace is like, as text: the tables of `stowplan trace inspect`."""

from __future__ import annotations

from typing import Any

from stowplan.cli._output import Column, count_of, note, print_table, say
from stowplan.sim.spans import show_span
from stowplan.sim.summary import demand_lines, size_text

_BARS = "▁▂▃▄▅▆▇█"


def say_summary(found: dict[str, Any]) -> None:
    nodes, pods = found["nodes"], found["pods"]
    say(f"{found['name']}: {show_span(found['span_s'])}, {_count(nodes['count'], 'node')}, "
        f"{_count(pods['count'], 'pod')}")  # fmt: skip
    say()
    _sizes("NODES", nodes["sizes"])
    say()
    _sizes("PODS", pods["sizes"])
    say()
    for line in _facts(found):
        say(line)
    say()
    columns = [Column("RESOURCE"), *(Column(t, right=True) for t in ("CAPACITY", "MEAN", "PEAK"))]
    print_table(columns, demand_lines(found))
    for remark in found["remarks"]:
        note(f"{remark['count']:,} {remark['text']}", hint="; ".join(remark["examples"]))


def _sizes(title: str, sizes: list[dict[str, Any]]) -> None:
    rows = [
        (f"{size['count']:,}", size_text(size["size"]) if "size" in size else _others(size))
        for size in sizes
    ]
    print_table([Column(title, right=True), Column("SIZE")], rows)


def _others(size: dict[str, Any]) -> str:
    return f"of {count_of(size['others'], 'other size')}"


def _facts(found: dict[str, Any]) -> list[str]:
    pods, arrivals, lifetimes = found["pods"], found["arrivals"], found["lifetimes_s"]
    outcomes = ", ".join(f"{count:,} {name}" for name, count in pods["outcomes"].items())
    placed = f", {pods['placed']:,} with a recorded node" if pods["placed"] else ""
    namespaces = ", ".join(f"{name} {count:,}" for name, count in pods["namespaces"].items())
    constrained = f"{pods['constrained']:,} pods with constraints{placed}"
    at_most = f"at most {arrivals['per_hour_max']:,} in one, {arrivals['at_once_max']:,} at once"
    lines = [
        f"kinds      {_count(pods['templates'], 'template')}, {constrained}",
        f"namespaces {namespaces}",
        f"outcomes   {outcomes}, {pods['run_until_the_end']:,} run until the end",
        f"arrivals   {arrivals['per_hour_mean']:,.4g} per hour, {at_most}",
    ]
    if arrivals.get("by_hour_of_day"):
        lines.append(f"           {_bars(arrivals['by_hour_of_day'])} by hour of the day")
    if lifetimes:
        shown = ", ".join(f"{name} {show_span(value)}" for name, value in lifetimes.items())
        lines.append(f"lifetimes  {shown}")
    if found["changes"]:
        changes = ", ".join(f"{count:,} {what}" for what, count in found["changes"].items())
        lines.append(f"changes    {changes}")
    return lines


def _bars(counts: list[int]) -> str:
    """
    >>> _bars([0, 7, 14])
    '▁▄█'
    """
    highest = max(counts) or 1
    return "".join(_BARS[count * (len(_BARS) - 1) // highest] for count in counts)


def _count(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
