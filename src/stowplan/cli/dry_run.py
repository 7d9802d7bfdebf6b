"""`stowplan dry-run`: where would the pods of these files go, and why?

Reads manifests and dumps, has `stowplan.offline` decide, and prints what came of it: a table and
the reasons for people, every decision in full as JSON for programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.cli._output import (
    Column,
    count_of,
    note,
    print_table,
    say,
    say_json,
    some_of,
    working,
)
from stowplan.errors import InputError

if TYPE_CHECKING:
    from stowplan.core.algorithm import TieBreak
    from stowplan.core.decision import Decision
    from stowplan.core.dry_run import DryRun
    from stowplan.objects.manifests import Manifest

STDIN = "-"
SUFFIXES = (".json", ".yaml", ".yml")
SCHEDULER_DEFAULT = "default-scheduler"

_NO_CLAIMS = "no new claims to deallocate, "
"""What DynamicResources adds to every failure; of no use to somebody who claims no devices."""

EXAMPLES = """\b
Examples:
  stowplan dry-run -f cluster.yaml
  kubectl get nodes,pods -A -o json | stowplan dry-run -f - -f new-deployment.yaml
  stowplan dry-run -f cluster.json --config scheduler.yaml --tie-break name -o json
  stowplan dry-run -f cluster.json --config scheduler.yaml --plugin-path ./plugins

\b
A dump with all that scheduling reads:
  kubectl get -A -o json no,po,ns,svc,deploy,rs,sts,ds,job,rc,pdb,pc,runtimeclass,pv,pvc,sc,\
csinode,csidriver,csistoragecapacity,volumeattachment > cluster.json
"""


@click.command("dry-run", epilog=EXAMPLES)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE",
    help="Manifests or dumps, JSON or YAML; a folder; `-` for standard input.  May be repeated.",
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option("--config", metavar="FILE", help="A KubeSchedulerConfiguration.")
@click.option(
    "--plugin-path",
    "plugin_paths",
    multiple=True,
    metavar="PATH",
    help="A file with your own plugins, or a folder of them; may be repeated.",
)
@click.option(
    "--tie-break",
    type=click.Choice(["random", "name"]),
    default="random",
    show_default=True,
    help="Which of several equally good nodes to take.",
)
@click.option("--seed", type=int, metavar="N", help="Makes the random choices repeatable.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when a pod got no node.")
def dry_run(
    filenames: tuple[str, ...],
    more_files: tuple[str, ...],
    config: str | None,
    plugin_paths: tuple[str, ...],
    tie_break: TieBreak,
    seed: int | None,
    output: str,
    exit_code: bool,
) -> None:
    """Say where the pending pods of a dump or of manifests would go, and why.

    Pods with a node run there; all others are decided in queue order, each with those before it
    in place.  Deployments and their like stand for the pods they lack.  A pod that preempts is
    tried again once its victims are gone.  No cluster is needed, and none is changed.

    Exit status: 0 when every pod was decided on, whether it fits or not (see `--exit-code`);
    2 when the input is wrong, and then nothing is decided.
    """
    from stowplan.offline import prepare
    from stowplan.runtime.plugins_path import load_registry

    with working("reading…"):
        run = prepare(
            _read([*filenames, *more_files]),
            config,
            tie_break=tie_break,
            seed=seed,
            detail=output == "json",
            registry=load_registry(plugin_paths),
        )
    _say_what_is_missing(run)
    if output == "json":
        all_placed = _print_json(run.decide())
    else:
        with working("deciding…"):
            outcomes = _outcomes(run.decide())
        _print_text(outcomes)
        all_placed = all(outcome.last.node for outcome in outcomes)
    if exit_code and not all_placed:
        click.get_current_context().exit(1)


# -- reading --------------------------------------------------------------------------------


def _read(filenames: list[str]) -> list[Manifest]:
    from stowplan.objects.manifests import read_manifests

    if not filenames:
        raise InputError("no file is given", hint="name one with `-f FILE`, or pipe it into `-f -`")
    if filenames.count(STDIN) > 1:
        raise InputError("standard input can be read only once", where=STDIN)
    manifests = []
    for name in filenames:
        for where, text in _texts(name):
            try:
                manifests += read_manifests(text, where)
            except InputError as error:
                raise _explained(error, text) from None
            if not text.strip():
                raise InputError("the file is empty", where=where)
    return manifests


def _texts(name: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of a file, of standard input, or of every file in a folder."""
    if name == STDIN:
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise InputError(f"no file in it ends with {', '.join(SUFFIXES)}", where=name)
        for file in files:
            yield str(file), file.read_bytes()
        return
    try:
        yield name, path.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", where=name, hint=_near(path)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=name) from None


def _near(path: Path) -> str:
    try:
        names = [file.name for file in path.parent.iterdir() if file.exists()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"did you mean '{path.with_name(near[0])}'?" if near else ""


def _explained(error: InputError, text: bytes) -> InputError:
    """The table that kubectl prints for people is the commonest wrong input."""
    first = text.lstrip().split(b"\n", 1)[0]
    if first.startswith((b"NAME ", b"NAMESPACE ")):
        hint = "this looks like a table; ask kubectl for `-o yaml` or `-o json`"
        return InputError("no Kubernetes objects", where=error.where, hint=hint)
    return error


# -- what the user should know --------------------------------------------------------------


def _say_what_is_missing(run: DryRun) -> None:
    """Remarks on stderr about whatever makes the answer less than it seems."""
    if run.config.extenders:
        urls = some_of([extender.url_prefix for extender in run.config.extenders])
        note(f"extenders are not called in a dry run: {urls}")
    if left_out := _left_out(run):
        note(f"left out, because Stowplan does not have them: {some_of(left_out, 9)}")
    _say_who_is_foreign(run)
    if not run.node_count:
        note("the input has no nodes", hint="add them, as `kubectl get nodes -o yaml`")
    elif ghosts := [name for name, info in run.cache.nodes.items() if info.node is None]:
        running = sum(len(run.cache.nodes[name].pods) for name in ghosts)
        note(f"{count_of(running, 'pod')} on nodes that are not in the input: {some_of(ghosts)}")
    if not run.pending and not run.foreign:
        running = run.cache.pod_count
        note(
            f"nothing to decide: {_all_running(running)}",
            hint="a pending pod is one without `spec.nodeName`; add its manifest with `-f`",
        )


def _all_running(count: int) -> str:
    if not count:
        return "there are no pods"
    return "the only pod has a node" if count == 1 else f"all {count} pods have a node"


def _left_out(run: DryRun) -> list[str]:
    from stowplan.config import expand_all
    from stowplan.core.profiles import implements

    profiles = expand_all(run.config, implements(run.registry))
    return sorted({name for plugins in profiles.values() for name in plugins.left_out})


def _say_who_is_foreign(run: DryRun) -> None:
    by_scheduler: dict[str, list[str]] = {}
    for pod in run.foreign:
        name = pod.pod.spec.scheduler_name or SCHEDULER_DEFAULT
        by_scheduler.setdefault(name, []).append(pod.key)
    for scheduler, pods in by_scheduler.items():
        near = get_close_matches(scheduler, run.frameworks, n=1)
        profiles = ", ".join(run.frameworks)
        note(
            f"no profile is for scheduler {scheduler!r}, so not decided: {some_of(pods)}",
            hint=f"did you mean {near[0]!r}?" if near else f"there are profiles for: {profiles}",
        )


# -- JSON -----------------------------------------------------------------------------------


def _print_json(decisions: Iterable[Decision]) -> bool:
    """One decision a line, written as it is made; whether every pod got a node."""
    import msgspec

    left: set[str] = set()
    before = '{"decisions": [\n'
    for decision in decisions:
        say_json(before + msgspec.json.encode(decision.to_dict()).decode(), nl=False)
        before = ",\n"
        if decision.node:
            left.discard(decision.pod)
        else:
            left.add(decision.pod)
    say_json('{"decisions": []}' if before.startswith("{") else "\n]}")
    return not left


# -- text -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What came of one pod, after one or more attempts."""

    last: Decision
    evicted: tuple[str, ...] = ()

    @property
    def pod(self) -> str:
        return self.last.pod


def _outcomes(decisions: Iterable[Decision]) -> list[Outcome]:
    outcomes: dict[str, Outcome] = {}
    for decision in decisions:
        outcome = outcomes.setdefault(decision.pod, Outcome(decision))
        outcome.last = decision
        outcome.evicted += decision.victims
    return list(outcomes.values())


def _print_text(outcomes: list[Outcome]) -> None:
    if not outcomes:
        return
    columns = [Column("POD"), Column("NODE"), Column("SCORE", right=True), Column("")]
    rows = [_row(outcome) for outcome in outcomes]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_table(columns, rows)
    for outcome in outcomes:
        if outcome.evicted:
            _section(_evictions(outcome))
    for lines in _reasons(outcomes):
        _section(lines)
    _section([_summary(outcomes)])


def _section(lines: Iterable[str]) -> None:
    say()
    for line in lines:
        say(line)


def _row(outcome: Outcome) -> list[str]:
    last = outcome.last
    score = "-" if last.score is None else str(last.score)
    return [last.pod, last.node or "-", score, _remark(outcome)]


def _remark(outcome: Outcome) -> str:
    last = outcome.last
    if last.node:
        return f"evicts {count_of(len(outcome.evicted), 'pod')}" if outcome.evicted else ""
    if last.gated:
        return last.message
    return "failed" if last.error and last.node_count else "does not fit"


def _evictions(outcome: Outcome) -> list[str]:
    victims = count_of(len(outcome.evicted), "pod")
    where = f"from {outcome.last.node} " if outcome.last.node else ""
    return [f"{outcome.pod} evicts {victims} {where}first:", *(f"  {v}" for v in outcome.evicted)]


def _reasons(outcomes: list[Outcome]) -> Iterator[list[str]]:
    """A paragraph for all pods that fit nowhere for the same reasons, in the order they came."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        if not outcome.last.node and not outcome.last.gated:
            alike.setdefault(tuple(_why(outcome.last)), []).append(outcome.pod)
    for (head, *lines), pods in alike.items():
        yield [f"{head} {some_of(pods)}:", *(f"  {line}" for line in lines)]


def _why(decision: Decision) -> Iterator[str]:
    if decision.error and decision.node_count:
        yield "the attempt failed for"
        yield decision.error
        return
    available = f"0/{decision.node_count} nodes are available"
    yield f"{available} for"
    if not decision.reasons:
        yield decision.message
    by_count = sorted(decision.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    width = max((len(str(count)) for _, count in by_count), default=0)
    for text, count in by_count:
        yield f"{count:>{width}}  {text}"
    if decision.post_filter_message:
        text = decision.post_filter_message.replace(f"{available}: ", "")
        yield text.removeprefix(_NO_CLAIMS)


def _summary(outcomes: list[Outcome]) -> str:
    placed = [outcome for outcome in outcomes if outcome.last.node]
    evicted = sum(len(outcome.evicted) for outcome in placed)
    gated = sum(outcome.last.gated for outcome in outcomes)
    rest = len(outcomes) - len(placed) - gated
    parts = [
        f"{len(placed)} placed" + (f", evicting {count_of(evicted, 'pod')}" if evicted else "")
    ]
    parts += [f"{rest} without a node"] if rest else []
    parts += [f"{gated} gated"] if gated else []
    return f"{count_of(len(outcomes), 'pod')}: {'; '.join(parts)}"
