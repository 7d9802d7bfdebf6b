"""`stowplan dry-run`: where would the pods of these files go, and why?

Reads manifests and dumps, lets a cluster in this process decide, and prints what came of it: a
table and the reasons for people, every decision in full as JSON for programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from stowplan.cli._asking import gates_for, say_data
from stowplan.cli._device_lines import devices_of, unmet_lines
from stowplan.cli._lazy import is_verbose
from stowplan.cli._options import (
    config_option,
    context_option,
    filename_option,
    gates_option,
    option,
    output_option,
    plugins_option,
    seed_option,
)
from stowplan.cli._output import (
    Column,
    count_of,
    note,
    print_table,
    say,
    say_json,
    say_trace,
    some_of,
    working,
)
from stowplan.errors import InputError

if TYPE_CHECKING:
    from stowplan.answers.groups import Lack
    from stowplan.core.algorithm import TieBreak
    from stowplan.world.cluster import Cluster
    from stowplan.world.decision import Decision

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
csinode,csidriver,csistoragecapacity,volumeattachment,\
deviceclass,resourceslice,resourceclaim,resourceclaimtemplate > cluster.json
"""


@click.command("dry-run", epilog=EXAMPLES)
@filename_option
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@option("--kubeconfig FILE", "Ask a live cluster; it is only read.")
@context_option
@config_option
@plugins_option
@gates_option
@option(
    "--tie-break",
    "Which of several equally good nodes to take.",
    "random",
    type=click.Choice(["random", "name"]),
)
@seed_option("Makes the random choices repeatable.", None)
@output_option("text", "wide", "json", "yaml", text="`wide` shows what pods request.")
@option("--pod only NAME...", "Show this pod alone.")
@option("--lenient", "Ignore fields that do not exist.")
@option("--exit-code", "Exit with 1 when a pod got no node.")
def dry_run(
    filenames: tuple[str, ...],
    more_files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugin_paths: tuple[str, ...],
    feature_gates: tuple[str, ...],
    tie_break: TieBreak,
    seed: int | None,
    output: str,
    only: tuple[str, ...],
    lenient: bool,
    exit_code: bool,
) -> None:
    """Say where the pending pods of a dump or of manifests would go, and why.

    Pods with a node run there; all others are decided in queue order, each with those before it
    in place.  Deployments and their like stand for the pods they lack.  A pod that preempts is
    tried again once its victims are gone.  No cluster is needed, and none is changed.

    Exit status: 0 when every pod was decided on, whether it fits or not (see `--exit-code`);
    2 when the input is wrong, and then nothing is decided.
    """
    from stowplan.answers.groups import lacks_of
    from stowplan.runtime.plugins_path import load_registry
    from stowplan.world.dry_run import last_words, prepare
    from stowplan.world.reading import read_files
    from stowplan.world.strictness import refuse_unknown, remarks_on_input

    with working("reading…"):
        live = (kubeconfig or "", context) if kubeconfig is not None or context else None
        names = [*filenames, *more_files]
        manifests = read_files(names) if names or live is None else []
        if not lenient:
            refuse_unknown(manifests)
        cluster = prepare(
            manifests,
            config,
            tie_break=tie_break,
            seed=seed,
            detail=output in ("json", "yaml"),
            registry=load_registry(plugin_paths),
            feature_gates=gates_for(manifests, feature_gates),
            live=live,
        )
    for remark in remarks_on_input(manifests):
        note(remark.text, hint=remark.hint)
    _say_what_is_missing(cluster)
    pods = cluster.queue()
    with working("deciding…"):
        cluster.run()
    if is_verbose():
        for trace in cluster.plugin_traces():
            say_trace(trace)
    chosen = _chosen([pod.key for pod in pods], only)
    outcomes = [Outcome([*last_words(cluster, key)]) for key in chosen]
    decisions = (decision for outcome in outcomes for decision in outcome.decisions)
    lacks = lacks_of(cluster, [outcome.last for outcome in outcomes])
    if output == "json":
        _print_json(decisions, lacks)
    elif output == "yaml":
        say_data(_as_data(decisions, lacks), output)
    else:
        wide = outcomes if output == "wide" else []
        _print_text(outcomes, [_amounts(cluster, outcome.pod) for outcome in wide], lacks)
        if tie_break == "random" and seed is None and any(each.last.node for each in outcomes):
            say("Ties between nodes were broken by chance; `--seed N` repeats a run.")
    if exit_code and not all(outcome.last.node for outcome in outcomes):
        click.get_current_context().exit(1)


def _chosen(keys: list[str], only: tuple[str, ...]) -> list[str]:
    """The pods to show, in the order they were decided in."""
    named = {name: [key for key in keys if name in (key, key.partition("/")[2])] for name in only}
    for name, found in named.items():
        if not found:
            near = get_close_matches(name, keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`-f` names what is decided"
            raise InputError(f"there is no pending pod {name!r}", hint=hint)
    wanted = {key for found in named.values() for key in found}
    return [key for key in keys if key in wanted] if only else keys


def _amounts(cluster: Cluster, key: str) -> list[str]:
    """What a pod requests, cpu and memory first."""
    from stowplan.answers.words import shown
    from stowplan.objects.resources import pod_requests

    requests = pod_requests(cluster.pod(key), use_status=False)
    first = [shown(name, requests[name]) if name in requests else "-" for name in ("cpu", "memory")]
    others = [f"{name}={amount}" for name, amount in requests.items()
              if name not in ("cpu", "memory") and amount]  # fmt: skip
    return [*first, ",".join(others) or "-"]


# -- what the user should know --------------------------------------------------------------


def _say_what_is_missing(cluster: Cluster) -> None:
    """Remarks on stderr about whatever makes the answer less than it seems."""
    for remark in cluster.remarks():
        note(remark.text, hint=remark.hint)
    waiting = cluster.pods(pending=True)
    if all(pod.metadata.deletion_timestamp is not None for pod in waiting):
        running = sum(1 for pod in cluster.pods(pending=False) if pod.spec.node_name)
        note(
            f"nothing to decide: {_all_running(running)}",
            hint="a pending pod is one without `spec.nodeName`; add its manifest with `-f`",
        )


def _all_running(count: int) -> str:
    if not count:
        return "there are no pods"
    return "the only pod has a node" if count == 1 else f"all {count} pods have a node"


# -- JSON -----------------------------------------------------------------------------------


def _as_data(decisions: Iterable[Decision], lacks: list[Lack]) -> dict[str, Any]:
    groups = {"groups": [lack.to_dict() for lack in lacks]} if lacks else {}
    return {"decisions": [decision.to_dict() for decision in decisions], **groups}


def _print_json(decisions: Iterable[Decision], lacks: list[Lack]) -> None:
    """One decision a line, and then one group that was not placed."""
    import msgspec

    before = '{"decisions": [\n'
    for decision in decisions:
        say_json(before + msgspec.json.encode(decision.to_dict()).decode(), nl=False)
        before = ",\n"
    if before.startswith("{"):
        say_json('{"decisions": []}')
        return
    groups = ",\n".join(msgspec.json.encode(lack.to_dict()).decode() for lack in lacks)
    say_json(f'\n], "groups": [\n{groups}\n]}}' if lacks else "\n]}")


# -- text -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What came of one pod."""

    decisions: list[Decision]
    """The last word, and before it whom the pod evicts."""

    @property
    def pod(self) -> str:
        return self.last.pod

    @property
    def last(self) -> Decision:
        return self.decisions[-1]

    @property
    def evicted(self) -> list[str]:
        return [victim for decision in self.decisions for victim in decision.victims]


def _print_text(outcomes: list[Outcome], amounts: list[list[str]], lacks: list[Lack]) -> None:
    if not outcomes:
        return
    columns = [Column("POD"), Column("NODE"), Column("SCORE", right=True), Column("")]
    waiting = {pod for lack in lacks for pod in lack.outcome.placed}
    rows = [_row(outcome, outcome.pod in waiting) for outcome in outcomes]
    if amounts:
        wide = [Column("CPU", right=True), Column("MEMORY", right=True), Column("OTHERS")]
        columns[3:3] = wide
        rows = [[*row[:3], *more, row[3]] for row, more in zip(rows, amounts, strict=True)]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_table(columns, rows)
    for outcome in outcomes:
        if outcome.evicted:
            _section(_evictions(outcome))
    for outcome in outcomes:
        if outcome.last.node and (lines := devices_of(outcome.last)):
            _section(lines)
    for lack in lacks:
        _section(_of_group(lack, outcomes))
    told = {pod for lack in lacks for pod in lack.pods}
    for lines in _reasons([outcome for outcome in outcomes if outcome.pod not in told]):
        _section(lines)
    _section([_summary(outcomes)])


def _section(lines: Iterable[str]) -> None:
    say()
    for line in lines:
        say(line)


def _row(outcome: Outcome, waits: bool) -> list[str]:
    """`waits`: it had a place, but its group had not enough of them."""
    last = outcome.last
    score = "-" if last.score is None else str(last.score)
    return [last.pod, last.node or "-", score, "waits for its group" if waits else _remark(outcome)]


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


def _of_group(lack: Lack, outcomes: list[Outcome]) -> Iterator[str]:
    """Why a group was not placed, and which devices its members lack."""
    headline, *lines = lack.lines()
    yield f"{headline}:"
    yield from (f"  {line}" for line in lines)
    own = [outcome.last for outcome in outcomes if outcome.pod in lack.outcome.unplaced]
    unmet = [line for decision in own for line in unmet_lines(decision)]
    yield from (f"  {line}" for line in dict.fromkeys(unmet))


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
    yield from unmet_lines(decision)
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
