"""The report of a simulation: one HTML file with everything in it, which loads nothing.

First what matters (a table, and how configurations differ), then pictures: utilisation, waiting,
pending pods, a heat map of nodes.  Names are the users' text and nothing else.  Light or dark as
the reader's system is, light on paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stowplan.printable import printable
from stowplan.sim import svg
from stowplan.sim.spans import show_span

if TYPE_CHECKING:
    from stowplan.sim.results import Result, Run

CONFIGS_SHOWN = 6
"""In pictures: as many as there are colours; tables have all."""
RESOURCES_SHOWN = 4
HEAT_ROWS, HEAT_COLUMNS = 120, 240
POINTS = 160
"""Points of a waiting time curve."""
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))

STYLE = """
:root{--bg:#fff;--fg:#1b1f24;--soft:#5b6470;--line:#d9dee4;--card:#f7f9fb;
--c0:#0b66b0;--c1:#c8500b;--c2:#0f8a63;--c3:#a8478a;--c4:#a37200;--c5:#3f8fc4}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ed;--soft:#9aa4b0;--line:#333a43;
--card:#1c2127;--c0:#5aaaf0;--c1:#ff9350;--c2:#45c898;--c3:#df86c4;--c4:#e0b040;--c5:#8fd0ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:28px 24px 60px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:26px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:17px;margin:34px 0 6px}
p{margin:4px 0 10px;color:var(--soft);max-width:76ch}
.facts{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 6px}
.fact{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:9px 14px;
min-width:128px}
.fact b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
.fact span{color:var(--soft);font-size:12.5px}
.row{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:16px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:12px 12px 6px;break-inside:avoid}
figcaption{font-size:13px;color:var(--soft);margin:0 0 4px 4px;overflow-wrap:anywhere}
figcaption b{color:var(--fg)}
.wide{max-width:780px}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}
svg .tick{text-anchor:middle}svg .side{text-anchor:middle}svg .side-tick{text-anchor:end}
svg .name{text-anchor:end;fill:var(--fg);font-size:12px}svg .value{font-size:11.5px}
svg .grid{stroke:var(--line);stroke-width:1}svg .zero{stroke:var(--soft);stroke-width:1}
svg .box{fill:none;stroke:var(--line)}
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}svg .dashed{stroke-dasharray:4 4}
svg .band{stroke:none!important;fill-opacity:.16}
svg .c0{stroke:var(--c0)}svg .c1{stroke:var(--c1)}svg .c2{stroke:var(--c2)}
svg .c3{stroke:var(--c3)}svg .c4{stroke:var(--c4)}svg .c5{stroke:var(--c5)}
svg .band.c0,svg .dot.c0{fill:var(--c0)}svg .band.c1,svg .dot.c1{fill:var(--c1)}
svg .band.c2,svg .dot.c2{fill:var(--c2)}svg .band.c3,svg .dot.c3{fill:var(--c3)}
svg .band.c4,svg .dot.c4{fill:var(--c4)}svg .band.c5,svg .dot.c5{fill:var(--c5)}
svg .dot{stroke-width:2}svg .dot.open{fill:var(--card)}
svg .front{fill:none;stroke:var(--c0);stroke-width:2}svg .other{fill:var(--soft);fill-opacity:.6}
svg .best{fill:var(--c0)}svg .chosen{fill:var(--c1)}
.legend{margin:2px 0 6px 4px;font-size:12.5px}.legend span{margin-right:16px;white-space:nowrap}
.legend svg{display:inline-block;width:26px;vertical-align:middle;margin-right:5px}
.key{display:inline-block;height:10px;width:120px;vertical-align:middle;border-radius:2px;
background:linear-gradient(90deg,#edf3f8,#a6cee3,#4292c6,#2357a0,#142058)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13.5px;min-width:50%}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--line);text-align:right}
th:first-child,td:first-child{text-align:left}
thead th{color:var(--soft);font-weight:600;font-size:12.5px;overflow-wrap:anywhere}
.margin{color:var(--soft);font-size:12px}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#ccc;--card:#fff;--c0:#0b66b0;
--c1:#c8500b;--c2:#0f8a63;--c3:#a8478a;--c4:#a37200;--c5:#3f8fc4}body{padding:0;max-width:none;font-size:11px}
h2{break-after:avoid}.row{grid-template-columns:1fr 1fr}table{font-size:10px}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""


def report_html(result: Result, first: str = "") -> str:
    """`first` is HTML that goes before everything else: what a tuning found."""
    summary = result.summary()
    runs = result.runs
    title = f"Simulation of {runs[0].summary['trace']}" if runs else "Simulation"
    body = "".join(_body(result, summary)) if runs else "<p>No run was finished.</p>"
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{_text(title)}</h1>{first}{body}</body></html>\n"
    )


def pareto_html(picture: str, values: str) -> str:
    """How a tuning came to what the rest of the report holds against the given configuration."""
    return (
        "<h2>What was tried</h2><p>Each point is a configuration, on the first part of the trace. "
        "Nothing that was tried beats those on the line at all ends at once; the large one was "
        "chosen. Below, it and the given configuration on the part that was held back.</p>"
        f"<figure class=wide><figcaption><b>Chosen</b> {_text(values)}</figcaption>"
        f"{picture}</figure>"
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _body(result: Result, summary: dict[str, Any]) -> Iterator[str]:
    first = result.runs[0].summary
    configs = result.configs
    shown = configs[:CONFIGS_SHOWN]
    groups = [[run for run in result.runs if run.config == name] for name in shown]
    yield _facts(result, first)
    if not result.is_complete:
        yield (f"<p><b>{len(result.runs)} of {result.wanted} runs are done.</b> The others are "
               "missing here; start the same command again to go on.</p>")  # fmt: skip
    comparison = summary["comparison"]
    if len(configs) > 1:
        yield "<h2>How the configurations differ</h2>"
        yield from _differences(comparison, shown)
    yield "<h2>Figures</h2>"
    yield _table(comparison, configs)
    keys = svg.legend([(name, n, False) for n, name in enumerate(shown)])
    yield "<h2>Utilisation over time</h2><p>Requested by pods that have a node, of what the nodes "
    yield "offer; dashed: asked for by all pods that are there. Bands: from the lowest seed to the "
    yield f"highest.</p>{keys}"
    yield f"<div class=row>{''.join(_utilisation(groups))}</div>"
    yield "<h2>Waiting</h2><p>From arrival to a node.</p>"
    yield f"{keys}<div class=row>{_waiting(groups)}{_pending(groups)}</div>"
    yield from _causes(groups)
    yield "<h2>Nodes over time</h2><p>Each row is a node, or some neighbours among many; fuller "
    yield "nodes are above. Percent requested: 0 <span class=key></span> 100; grey: away.</p>"
    yield f"<div class=row>{''.join(_heat(groups))}</div>"
    yield from _groups(groups)


def _facts(result: Result, first: dict[str, Any]) -> str:
    seeds = len({run.seed for run in result.runs})
    facts = [
        (show_span(first["seconds"]), "of virtual time"),
        (f"{first['pods']['arrived']:,}", "pods arrived"),
        (f"{first['nodes']['most']:,}", "nodes"),
        (
            str(len(result.configs)),
            "configurations" if len(result.configs) > 1 else "configuration",
        ),
        (str(seeds), "seeds" if seeds > 1 else "seed"),
        (f"{sum(run.summary['decisions'] for run in result.runs):,}", "decisions"),
    ]
    return "<div class=facts>" + "".join(
        f"<div class=fact><b>{_text(value)}</b><span>{_text(name)}</span></div>"
        for value, name in facts
    ) + "</div>"  # fmt: skip


def _differences(comparison: dict[str, Any], shown: Sequence[str]) -> Iterator[str]:
    base = comparison["baseline"]
    before = comparison["configs"][base]
    yield f"<p>Against {_text(base)}, paired by seed, with 95 % intervals; hollow points may be "
    yield "chance.</p><div class=row>"
    for color, other in enumerate(shown):
        rows = []
        for name, one in comparison["differences"].get(other, {}).items():
            scale = abs(before[name]["mean"])
            if not scale or not (one["mean"] or one["margin"]):
                continue
            margin = None if one["margin"] is None else one["margin"] / scale * 100
            change = one["mean"] / scale * 100
            note = f"{svg.number(before[name]['mean'])} → {_number_after(before[name], one)}"
            rows.append(svg.Interval(name, change, margin, note, color))
        if rows:
            title = f"{other} against {base}"
            picture = svg.intervals(rows, "difference in percent", title=title)
            yield f"<figure class=wide><figcaption><b>{_text(title)}</b></figcaption>{picture}"
            yield "</figure>"
        elif other != base:
            yield f"<figure><figcaption><b>{_text(other)}</b>: no difference</figcaption></figure>"
    yield "</div>"


def _number_after(before: dict[str, float], difference: dict[str, float]) -> str:
    return svg.number(before["mean"] + difference["mean"])


def _table(comparison: dict[str, Any], configs: Sequence[str]) -> str:
    names = list(dict.fromkeys(name for one in configs for name in comparison["configs"][one]))
    head = "".join(f"<th>{_text(name)}</th>" for name in configs)
    rows = []
    for name in names:
        if not any(comparison["configs"][one].get(name, {}).get("mean") for one in configs):
            continue
        cells = "".join(
            f"<td>{_cell(comparison['configs'][one].get(name))}</td>" for one in configs
        )
        rows.append(f"<tr><td>{_text(name)}</td>{cells}</tr>")
    return (f"<div class=scroll><table><thead><tr><th></th>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>")  # fmt: skip


def _cell(value: dict[str, float | None] | None) -> str:
    if value is None or value["mean"] is None:
        return "–"
    text = svg.number(value["mean"])
    if value["margin"]:
        text += f" <span class=margin>± {svg.number(value['margin'])}</span>"
    return text


def _time_axis(runs: Sequence[Run]) -> tuple[svg.Axis, float]:
    """Over the longest of them, and how many seconds its unit has."""
    seconds = max(run.summary["seconds"] for run in runs)
    name, unit = next((one for one in _UNITS if seconds >= 2 * one[1]), _UNITS[-1])
    whole = svg.axis(f"time, {name}", 0.0, seconds / unit)
    ticks = [tick for tick in whole.ticks if tick[0] <= seconds / unit]
    return svg.Axis(whole.label, 0.0, seconds / unit, ticks), unit


def _utilisation(groups: Sequence[Sequence[Run]]) -> Iterator[str]:
    every = [run for runs in groups for run in runs]
    across, unit = _time_axis(every)
    resources = list(every[0].summary["resources"])[:RESOURCES_SHOWN]
    for resource in resources:
        lines, most = [], 1.0
        for color, runs in enumerate(groups):
            x = (runs[0].series["time_s"] / unit).tolist()
            for part, dashed in (("demand", True), ("requested", False)):
                values = np.array([_share(run, resource, part) for run in runs])
                most = max(most, float(values.max(initial=0)))
                band = (values.min(axis=0), values.max(axis=0)) if not dashed else (None, None)
                low, high = (None if one is None else one.tolist() for one in band)
                name = f"{runs[0].config}: {part}"
                lines.append(svg.Line(name, x, values.mean(axis=0).tolist(), color, dashed, low,
                                      high))  # fmt: skip
        up = svg.axis("percent of allocatable", 0.0, most)
        clipped = svg.chart(lines, across, up, title=f"{resource} over time")
        yield f"<figure><figcaption><b>{_text(resource)}</b></figcaption>{clipped}</figure>"


def _share(run: Run, resource: str, part: str) -> NDArray[np.float64]:
    offered = np.maximum(run.series[f"{resource}.allocatable"], 1)
    share: NDArray[np.float64] = run.series[f"{resource}.{part}"] / offered * 100.0
    return share


def _waiting(groups: Sequence[Sequence[Run]]) -> str:
    """The share of pods that have waited for at most so long; log scale, from a second on."""
    lines, longest = [], 10.0
    for color, runs in enumerate(groups):
        waits = np.sort(np.concatenate([run.pods["wait_s"] for run in runs]))
        count = len(waits)
        waits = waits[~np.isnan(waits)]
        longest = max(longest, float(waits.max(initial=0)))
        places = np.linspace(0, 1, POINTS)
        lines.append((color, runs[0].config, waits, places, count))
    decades = int(np.ceil(np.log10(longest)))
    ticks = [(float(n), show_span(10.0**n)) for n in range(decades + 1)]
    across = svg.Axis("waited at most", 0.0, float(decades), ticks)
    drawn = []
    for color, name, waits, places, count in lines:
        x = places * decades
        share = np.searchsorted(waits, 10.0**x + 1e-9, side="right") / max(1, count) * 100
        drawn.append(svg.Line(name, x.tolist(), share.tolist(), color))
    low = min((min(line.y) for line in drawn), default=0.0)
    up = svg.axis("percent of pods", floor_to(low), 100.0)
    up = svg.Axis(up.label, up.low, 100.0, [tick for tick in up.ticks if tick[0] <= 100.0])
    picture = svg.chart(drawn, across, up, title="waiting time, cumulative")
    return f"<figure><figcaption><b>Waiting time</b>, cumulative</figcaption>{picture}</figure>"


def floor_to(percent: float) -> float:
    """A round number below, so that a curve near the top can be read."""
    return float(percent // 10 * 10) if percent < 99 else 98.0


def _pending(groups: Sequence[Sequence[Run]]) -> str:
    across, unit = _time_axis([run for runs in groups for run in runs])
    lines, most = [], 1.0
    for color, runs in enumerate(groups):
        values = np.array([run.series["pods.pending"] for run in runs], np.float64)
        most = max(most, float(values.max(initial=0)))
        x = (runs[0].series["time_s"] / unit).tolist()
        low, high = values.min(axis=0).tolist(), values.max(axis=0).tolist()
        mean = values.mean(axis=0).tolist()
        lines.append(svg.Line(runs[0].config, x, mean, color, low=low, high=high))
    picture = svg.chart(lines, across, svg.axis("pods", 0.0, most), title="pending pods over time")
    return f"<figure><figcaption><b>Pending pods</b></figcaption>{picture}</figure>"


def _causes(groups: Sequence[Sequence[Run]]) -> Iterator[str]:
    """Who turned pods down, on average over time."""
    names = sorted({name for runs in groups for run in runs for name in run.summary["pending"]})
    if not names:
        return
    head = "".join(f"<th>{_text(runs[0].config)}</th>" for runs in groups)
    yield "<h2>Pending by cause</h2><p>Pods that waited, on average over time: where in the queue, "
    yield "and which plugins turned them down.</p>"
    yield f"<div class=scroll><table><thead><tr><th></th>{head}</tr></thead><tbody>"
    for name in names:
        means = [
            sum(run.summary["pending"].get(name, 0) for run in runs) / len(runs) for runs in groups
        ]
        cells = "".join(f"<td>{svg.number(mean)}</td>" for mean in means)
        yield f"<tr><td>{_text(name)}</td>{cells}</tr>"
    yield "</tbody></table></div>"


def _heat(groups: Sequence[Sequence[Run]]) -> Iterator[str]:
    """Of each configuration its first seed, for the resource that is asked for most."""
    resources = groups[0][0].summary["resources"]
    if not resources:
        return
    resource = max(resources, key=lambda name: resources[name]["demand_percent"])
    for runs in groups:
        run = runs[0]
        across, _ = _time_axis([run])
        grid = heat_grid(run.heat.percent[resource])
        label = f"{len(run.heat.node_names):,} nodes"
        title = f"{run.config}: {resource}, seed {run.seed}"
        picture = svg.cells(grid, across, label, title=title)
        yield f"<figure><figcaption><b>{_text(run.config)}</b>: {_text(resource)}, seed {run.seed}"
        yield f"</figcaption>{picture}</figure>"


def heat_grid(percent: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Nodes by times, the fullest above, as few cells as a picture has room for."""
    grid = percent.T
    if not grid.size:
        return np.full((1, 1), 255, np.uint8)
    fullness = np.where(grid == 255, 0, grid).mean(axis=1)
    grid = grid[np.argsort(-fullness, kind="stable")]
    for side, most in ((0, HEAT_ROWS), (1, HEAT_COLUMNS)):
        count = grid.shape[side]
        if count > most:
            places = (np.arange(most) * count) // most
            away = np.add.reduceat((grid == 255).astype(np.int64), places, axis=side)
            sums = np.add.reduceat(
                np.where(grid == 255, 0, grid).astype(np.int64), places, axis=side
            )
            sizes = np.diff(np.append(places, count))
            shape = (-1, 1) if side == 0 else (1, -1)
            there = sizes.reshape(shape) - away
            mean = np.where(there > 0, sums // np.maximum(there, 1), 255)
            grid = mean.astype(np.uint8)
    return grid


def _groups(groups: Sequence[Sequence[Run]]) -> Iterator[str]:
    """By priority, size and kind, where there are several."""
    for what, title in (("priority", "priority"), ("size", "size"), ("kind", "kind")):
        values = sorted({v for runs in groups for run in runs for v in run.summary["by"][what]})
        if len(values) < 2:
            continue
        yield f"<h2>By {title}</h2><div class=scroll><table><thead><tr><th></th><th>pods</th>"
        for runs in groups:
            name = _text(runs[0].config)
            yield f"<th>{name}: mean wait</th><th>p99 wait</th><th>mean slowdown</th>"
        yield "</tr></thead><tbody>"
        for value in values:
            count = groups[0][0].summary["by"][what].get(value, {}).get("pods", 0)
            yield f"<tr><td>{_text(value)}</td><td>{count:,}</td>"
            for runs in groups:
                for key in ("wait_mean", "wait_p99", "slowdown_mean"):
                    found = [run.summary["by"][what].get(value, {}).get(key) for run in runs]
                    numbers = [one for one in found if one is not None]
                    mean = sum(numbers) / len(numbers) if numbers else None
                    if mean is None:
                        yield "<td>–</td>"
                    elif key == "slowdown_mean":
                        yield f"<td>{svg.number(mean)}</td>"
                    else:
                        yield f"<td>{show_span(mean)}</td>"
            yield "</tr>"
        yield "</tbody></table></div>"
