"""`stowplan trace`: traces converted, inspected, cut, scaled, shuffled, superposed and made up.

Thin: each command reads, calls one function of `stowplan.sim`, and writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.cli._asking import say_data
from stowplan.cli._lazy import LazyGroup
from stowplan.cli._options import option, output_option, seed_option, together
from stowplan.cli._output import note, say, working

if TYPE_CHECKING:
    from stowplan.sim.trace import Trace

EXAMPLES = """\b
Examples:
  stowplan trace inspect openb
  stowplan trace convert logs/audit.log.gz -o cluster.stowtrace
  stowplan trace convert tables/ --mapping alibaba-gpu-2020 -o pai.stowtrace
  stowplan trace cut pai.stowtrace --from 7d --to 14d -o week.stowtrace
  stowplan trace scale week.stowtrace 0.1 -o small.stowtrace
  stowplan trace synthesise --from openb --nodes 10000 --pods 1000000 --days 30 -o month.stowtrace
"""


@click.group("trace", cls=LazyGroup, epilog=EXAMPLES)
def trace() -> None:
    """Work with traces: nodes and pods over time."""


reading_options = together(
    option(
        "--mapping FILE",
        "How to read CSV tables: a YAML file, or openb, borg-2019, azure-2020 or alibaba-gpu-2020.",
    ),
    option(
        "--table tables NAME=FILE...",
        "The file of a table, `pods` or `nodes`, where the mapping would take another.",
    ),
)
writing_options = together(
    reading_options, option("-o --output target FILE", "The trace to write.", required=True)
)
by_chance = seed_option("Decides by chance.")


def _command(short_help: str, example: str) -> Callable[[Callable[..., None]], click.Command]:
    epilog = f"\b\nExample:\n  stowplan trace {example}"
    return trace.command(short_help=short_help, epilog=epilog)


@_command("Read any trace and write it in Stowplan's format.", "convert audit.log -o a.stowtrace")
@click.argument("source")
@writing_options
def convert(source: str, target: str, **reading: Any) -> None:
    """Read SOURCE and write it in Stowplan's format, which is compact and quick to read.

    SOURCE is a folder of CSV tables or a single one (with --mapping), an audit log of Kubernetes,
    a .sktrace of SimKube, a recording, or a trace in Stowplan's format.  Rows that make no sense
    are counted and shown.
    """
    _write(_read(source, **reading), target)


@_command("Say what a trace is like.", "inspect openb -o json")
@click.argument("source")
@reading_options
@output_option()
def inspect(source: str, output: str, **reading: Any) -> None:
    """Say what a trace is like: how long, how many, of which sizes, how busy, and what is odd."""
    from stowplan.sim.summary import summary

    read = _read(source, quiet=True, **reading)
    with working("counting…"):
        found = summary(read)
    if output == "text":
        from stowplan.cli._trace_text import say_summary

        say_summary(found)
    else:
        say_data(_finite(found), output)


@_command(
    "Take a window, namespaces or a share of a trace.",
    "cut openb --from 100d --to 130d -o month.stowtrace",
)
@click.argument("source")
@option("--from from_ TIME", "Where it begins, as 7d or 90m.", "0s")
@option("--to TIME", "Where it ends.")
@option("-n --namespace namespaces", "Its pods; may be repeated.", multiple=True, type=str)
@option("--share X", "0.1: a tenth of the pods.", 1.0, type=float)
@by_chance
@writing_options
def cut(source: str, target: str, **options: Any) -> None:
    """Take a part of a trace.  What is there when it begins is there at its time 0."""
    from stowplan.sim import transform
    from stowplan.sim.spans import parse_span

    reading, from_s, to = _reading(options), options.pop("from_"), options.pop("to")
    options["from_s"] = parse_span(from_s, "--from")
    options["to_s"] = math.inf if to is None else parse_span(to, "--to")
    options["namespaces"] = set(options["namespaces"]) or None
    _write(transform.cut(_read(source, **reading), **options), target)


@_command("Make a trace larger or smaller, its mix as it is.", "scale openb 10 -o large.stowtrace")
@click.argument("source")
@click.argument("factor", type=float)
@option("--jitter TIME", "How far copies arrive from the original.", "30m")
@by_chance
@writing_options
def scale(source: str, factor: float, jitter: str, seed: int, target: str, **reading: Any) -> None:
    """Multiply nodes and pods by FACTOR and keep the mix of sizes."""
    from stowplan.sim import transform
    from stowplan.sim.spans import parse_span

    jitter_s = parse_span(jitter, "--jitter")
    _write(transform.scale(_read(source, **reading), factor, seed=seed, jitter_s=jitter_s), target)


@_command("Draw anew who arrives when.", "shuffle openb --seed 7 -o shuffled.stowtrace")
@click.argument("source")
@by_chance
@writing_options
def shuffle(source: str, seed: int, target: str, **reading: Any) -> None:
    """Keep the moments of arrival, and draw anew which pod arrives at which."""
    from stowplan.sim import transform

    _write(transform.shuffle(_read(source, **reading), seed=seed), target)


@_command("Put several traces into one.", "superpose openb night.stowtrace -o both.stowtrace")
@click.argument("sources", nargs=-1, required=True)
@option(
    "--nodes",
    "The nodes of all traces, or of the first alone.",
    "all",
    type=click.Choice(["all", "first"]),
)
@writing_options
def superpose(sources: tuple[str, ...], nodes: str, target: str, **reading: Any) -> None:
    """Put the pods of several traces into one, each from its own time 0."""
    from stowplan.sim import transform

    traces = [_read(source, **reading) for source in sources]
    _write(transform.superpose(traces, nodes=nodes), target)


@_command(
    "Make up a trace like another one.",
    "synthesise --from openb --nodes 100 --pods 10000 --days 7 -o week.stowtrace",
)
@option("--from source TRACE", "What it shall be like.", required=True)
@option("--nodes N", type=int, required=True)
@option("--pods N", type=int, required=True)
@option("--days N", type=float, required=True)
@option(
    "--load X",
    "Change lifetimes so that pods ask for this share of the nodes on average, of the "
    "resource that is asked for most; 0.7 is 70 percent.",
    type=float,
)
@by_chance
@writing_options
def synthesise(source: str, target: str, **options: Any) -> None:
    """Make up a trace like another one: its arrivals over the week, its sizes and lifetimes.

    The same seed gives the same trace on every machine.
    """
    from stowplan.sim.synthesise import synthesise as make

    read = _read(source, **_reading(options))
    with working("drawing…"):
        made = make(read, **options)
    _write(made, target)


def _reading(options: dict[str, Any]) -> dict[str, Any]:
    """Takes out of the options those that say how to read."""
    return {name: options.pop(name) for name in ("mapping", "tables")}


def _read(
    source: str, *, mapping: str | None, tables: tuple[str, ...], quiet: bool = False
) -> Trace:
    from stowplan.errors import InputError
    from stowplan.sim.files import read_trace

    named = {}
    for table in tables:
        name, _, file = table.partition("=")
        if name not in ("pods", "nodes") or not file:
            raise InputError(f"{table!r} names no table", hint="pods=FILE or nodes=FILE")
        named[name] = file
    if named and mapping is None:
        raise InputError("tables without a mapping", hint="give --mapping, too")
    with working("reading…"):
        found = read_trace(source, mapping, named)
    if not quiet:
        for remark in found.remarks:
            examples = f" ({'; '.join(remark.examples)})" if remark.examples else ""
            note(f"{remark.count:,} {remark.text}{examples}")
    return found


def _write(made: Trace, target: str) -> None:
    from stowplan.sim.files import write_trace

    with working("writing…"):
        write_trace(made, target)
    size = Path(target).stat().st_size
    say(f"{target}: {made.pod_count:,} pods, {made.node_count:,} nodes, {size:,} bytes")


def _finite(data: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
