"""`stowplan trace`: traces converted, inspected, cut, scaled, shuffled, superposed and made up.

Thin: each command reads, calls one function of `stowplan.sim`, and writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stowplan.cli._asking import output_option, say_data
from stowplan.cli._lazy import LazyCommand, LazyGroup
from stowplan.cli._output import note, say, working

if TYPE_CHECKING:
    from stowplan.sim.trace import Trace

Command = TypeVar("Command", bound=Callable[..., Any])

EXAMPLES = """\b
Examples:
  stowplan trace inspect openb
  stowplan trace convert logs/audit.log.gz -o cluster.stowtrace
  stowplan trace convert tables/ --mapping alibaba-gpu-2020 -o pai.stowtrace
  stowplan trace cut pai.stowtrace --from 7d --to 14d -o week.stowtrace
  stowplan trace scale week.stowtrace 0.1 -o small.stowtrace
  stowplan trace synthesise --from openb --nodes 10000 --pods 1000000 --days 30 -o month.stowtrace
"""


def _lazy(name: str, short_help: str) -> LazyCommand:
    return LazyCommand(__name__, name, short_help)


trace = LazyGroup(
    name="trace",
    commands_by_name={
        "convert": _lazy("convert", "Read any trace and write it in Stowplan's format."),
        "inspect": _lazy("inspect", "Say what a trace is like."),
        "cut": _lazy("cut", "Take a window, namespaces or a share of a trace."),
        "scale": _lazy("scale", "Make a trace larger or smaller, its mix as it is."),
        "shuffle": _lazy("shuffle", "Draw anew who arrives when."),
        "superpose": _lazy("superpose", "Put several traces into one."),
        "synthesise": _lazy("synthesise", "Make up a trace like another one."),
    },
    help="Work with traces: nodes and pods over time.",
    epilog=EXAMPLES,
)


def reading_options(command: Command) -> Command:
    for option in (
        click.option(
            "--table",
            "tables",
            multiple=True,
            metavar="NAME=FILE",
            help="The file of a table, `pods` or `nodes`, where the mapping would take another.",
        ),
        click.option(
            "--mapping",
            metavar="FILE",
            help="How to read CSV tables: a YAML file, or openb, borg-2019, azure-2020 or "
            "alibaba-gpu-2020.",
        ),
    ):
        command = option(command)
    return command


def writing_option(command: Command) -> Command:
    made: Command = click.option(
        "-o", "--output", "target", required=True, metavar="FILE", help="The trace to write."
    )(command)
    return made


seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Decides by chance."
)


@click.command("convert", epilog="\b\nExample:\n  stowplan trace convert audit.log -o a.stowtrace")
@click.argument("source")
@reading_options
@writing_option
def convert(source: str, target: str, **reading: Any) -> None:
    """Read SOURCE and write it in Stowplan's format, which is compact and quick to read.

    SOURCE is a folder of CSV tables or a single one (with --mapping), an audit log of Kubernetes,
    a .sktrace of SimKube, a recording, or a trace in Stowplan's format.  Rows that make no sense
    are counted and shown.
    """
    _write(_read(source, **reading), target)


@click.command("inspect", epilog="\b\nExample:\n  stowplan trace inspect openb -o json")
@click.argument("source")
@reading_options
@output_option
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


@click.command(
    "cut",
    epilog="\b\nExample:\n  stowplan trace cut openb --from 100d --to 130d -o month.stowtrace",
)
@click.argument("source")
@click.option(
    "--from", "from_", metavar="TIME", default="0s", help="Where it begins, as 7d or 90m."
)
@click.option("--to", metavar="TIME", help="Where it ends.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Its pods; may be repeated.")
@click.option("--share", type=float, default=1.0, metavar="X", help="0.1: a tenth of the pods.")
@seed_option
@reading_options
@writing_option
def cut(
    source: str,
    from_: str,
    to: str | None,
    namespaces: tuple[str, ...],
    share: float,
    seed: int,
    target: str,
    **reading: Any,
) -> None:
    """Take a part of a trace.  What is there when it begins is there at its time 0."""
    from stowplan.sim import transform
    from stowplan.sim.spans import parse_span

    from_s = parse_span(from_, "--from")
    to_s = math.inf if to is None else parse_span(to, "--to")
    wanted = set(namespaces) or None
    read = _read(source, **reading)
    made = transform.cut(read, from_s=from_s, to_s=to_s, namespaces=wanted, share=share, seed=seed)
    _write(made, target)


@click.command("scale", epilog="\b\nExample:\n  stowplan trace scale openb 10 -o large.stowtrace")
@click.argument("source")
@click.argument("factor", type=float)
@click.option(
    "--jitter", metavar="TIME", default="30m", help="How far copies arrive from the original."
)
@seed_option
@reading_options
@writing_option
def scale(source: str, factor: float, jitter: str, seed: int, target: str, **reading: Any) -> None:
    """Multiply nodes and pods by FACTOR and keep the mix of sizes."""
    from stowplan.sim import transform
    from stowplan.sim.spans import parse_span

    jitter_s = parse_span(jitter, "--jitter")
    _write(transform.scale(_read(source, **reading), factor, seed=seed, jitter_s=jitter_s), target)


@click.command(
    "shuffle", epilog="\b\nExample:\n  stowplan trace shuffle openb --seed 7 -o shuffled.stowtrace"
)
@click.argument("source")
@seed_option
@reading_options
@writing_option
def shuffle(source: str, seed: int, target: str, **reading: Any) -> None:
    """Keep the moments of arrival, and draw anew which pod arrives at which."""
    from stowplan.sim import transform

    _write(transform.shuffle(_read(source, **reading), seed=seed), target)


@click.command(
    "superpose",
    epilog="\b\nExample:\n  stowplan trace superpose openb night.stowtrace -o both.stowtrace",
)
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--nodes",
    type=click.Choice(["all", "first"]),
    default="all",
    show_default=True,
    help="The nodes of all traces, or of the first alone.",
)
@reading_options
@writing_option
def superpose(sources: tuple[str, ...], nodes: str, target: str, **reading: Any) -> None:
    """Put the pods of several traces into one, each from its own time 0."""
    from stowplan.sim import transform

    traces = [_read(source, **reading) for source in sources]
    _write(transform.superpose(traces, nodes=nodes), target)


@click.command(
    "synthesise",
    epilog="\b\nExample:\n"
    "  stowplan trace synthesise --from openb --nodes 100 --pods 10000 --days 7 -o week.stowtrace",
)
@click.option("--from", "source", required=True, metavar="TRACE", help="What it shall be like.")
@click.option("--nodes", type=int, required=True, metavar="N")
@click.option("--pods", type=int, required=True, metavar="N")
@click.option("--days", type=float, required=True, metavar="N")
@click.option(
    "--load",
    type=float,
    metavar="X",
    help="Change lifetimes so that pods ask for this share of the nodes on average, of the "
    "resource that is asked for most; 0.7 is 70 percent.",
)
@seed_option
@reading_options
@writing_option
def synthesise(source: str, target: str, **options: Any) -> None:
    """Make up a trace like another one: its arrivals over the week, its sizes and lifetimes.

    The same seed gives the same trace on every machine.
    """
    from stowplan.sim.synthesise import synthesise as make

    reading = {name: options.pop(name) for name in ("mapping", "tables")}
    read = _read(source, **reading)
    with working("drawing…"):
        made = make(read, **options)
    _write(made, target)


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
