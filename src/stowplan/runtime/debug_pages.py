"""The pages for people: /debug and those that it lists, as text and as JSON.

They show names, numbers and reasons, and nothing of what is inside a pod.  Long ones come in
pieces, made while they are sent: what they are made of is read then, a node or a pod at a time.

Called by `runtime.endpoints`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from stowplan._version import KUBERNETES_VERSION, __version__
from stowplan.clock import Clock
from stowplan.core.debugger import dump_node, latest_first, owing_lines
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explanation
from stowplan.core.machine import Machine
from stowplan.objects.times import format_time
from stowplan.printable import printable
from stowplan.queue import Debt, QueuedPod, namespace_of

_FEASIBLE, _REJECTED = "FEASIBLE NODE", "REJECTED NODE"
_SCORE_WIDTH = 5
_PLUGIN_WIDTH = 20
"""Tables are written line by line: nobody has seen all lines when the first is written."""


@dataclass(frozen=True, slots=True)
class Page:
    """Read one of the two, once."""

    text: Iterable[str]
    json: Iterable[str]


# -- /debug ---------------------------------------------------------------------------------

INDEX = {
    "/debug/queue": "who waits where, since when, and because of which plugin",
    "/debug/cache": "every node with its sums and pods; ?node=NAME for one",
    "/debug/decisions/NAMESPACE/POD": "the last decision on this pod: every score and rejection",
    "/debug/bottlenecks": "the slowest phases of the last minutes, rated Low to Critical",
    "/debug/flags/v": "PUT a number to change the verbosity of the log",
}


def index_page() -> Page:
    width = max(map(len, INDEX))
    lines = [f"{path:<{width}}  {about}\n" for path, about in INDEX.items()]
    pages = [{"path": path, "about": about} for path, about in INDEX.items()]
    return Page([*lines, "\n?output=json has each page as JSON.\n"], [_text({"pages": pages})])


# -- /debug/queue ---------------------------------------------------------------------------


def queue_page(machine: Machine, now_s: float) -> Page:
    queue = machine.queue
    waiting, places = queue.waiting(), dict(queue.places())
    counts: dict[str, int] = dict(queue.pending_counts())
    counts["in flight"] = sum(place == "in flight" for place in places.values())
    if held_back_count := queue.held_back_count():
        counts["held back"] = held_back_count
    owing = queue.owing()
    rows = (_queued(queued, places.get(queued.info.uid, ""), now_s, owing) for queued in waiting)
    summary = ", ".join(f"{count} {place}" for place, count in counts.items())
    lines = owing_lines(machine)
    width = max((len(printable(queued.info.key)) for queued in waiting), default=0)
    return Page(
        chain([f"{summary}\n"], map(_line, lines), _queue_lines(rows, width)),
        _json_pieces({"counts": counts}, "pods", rows),
    )


def _queued(
    queued: QueuedPod, place: str, now_s: float, owing: Mapping[str, Debt]
) -> dict[str, Any]:
    ends_s = queued.backoff_expiration_s
    debt = owing.get(namespace_of(queued.info.key)) if place == "active" else None
    data: dict[str, Any] = {
        "pod": queued.info.key,
        "queue": place,
        "priority": queued.info.priority,
        "attempts": queued.attempts,
        "waitingSeconds": round(now_s - queued.timestamp_s, 3),
    }
    optional = {
        "backoffSeconds": round(ends_s - now_s, 3) if ends_s is not None and ends_s > now_s else 0,
        "heldBackSeconds": round(debt.until_s - now_s, 3) if debt is not None else 0,
        "rejectedBy": sorted(queued.rejectors),
        "gatedBy": queued.gating_plugin,
        "gate": queued.gating_status.message if queued.gating_status is not None else "",
        "nominatedNode": queued.info.pod.status.nominated_node_name,
    }
    return data | {name: value for name, value in optional.items() if value}


def _queue_lines(rows: Iterable[dict[str, Any]], width: int) -> Iterator[str]:
    form = f"{{:<{width}}}  {{:<13}}  {{:>10}}  {{:>8}}  {{:>9}}  {{}}\n"
    first = True
    for row in rows:
        if first:
            yield "\n" + form.format("POD", "QUEUE", "PRIORITY", "ATTEMPTS", "WAITS", "BECAUSE OF")
            first = False
        because = row.get("gatedBy") or ",".join(row.get("rejectedBy", ())) or "-"
        waits = f"{row['waitingSeconds']:.0f}s"
        cells = (row["queue"], row["priority"], row["attempts"], waits, printable(because))
        yield form.format(printable(row["pod"]), *cells)


# -- /debug/cache ---------------------------------------------------------------------------


def cache_page(machine: Machine, names: Sequence[str] = ()) -> Page | None:
    """All nodes, or those named; None if one is not known."""
    cache = machine.cache
    if any(name not in cache.nodes for name in names):
        return None
    infos = [cache.nodes[name] for name in names] if names else latest_first(machine)
    head = {
        "nodeCount": len(cache.nodes),
        "podCount": cache.pod_count,
        "assumedPods": cache.assumed_uids(),
        "waitingAtPermit": machine.waiting.uids(),
    }
    dumps = (dump_node(machine, info) for info in infos)
    summary = f"{len(cache.nodes)} nodes, {cache.pod_count} pods, {cache.assumed_count} assumed\n"
    text = (f"\n{dump.text}\n" for dump in dumps)
    return Page(chain([summary], text), _json_pieces(head, "nodes", dumps))


# -- /debug/decisions -----------------------------------------------------------------------


def decision_page(machine: Machine, key: str) -> Page | None:
    """The last decision on this pod; None if none is remembered."""
    decision = machine.decision_of(key)
    if decision is None:
        return None
    found = decision.explanation
    data = _decision_data(decision)
    if found is None:
        why = "\nwhat plugins said of each node was not kept: too many decisions at once\n"
        return Page([*_decision_lines(decision), why], [_text(data)])
    return Page(
        chain(
            _decision_lines(decision), _score_lines(found, decision.node), _rejection_lines(found)
        ),
        _decision_pieces(data, found),
    )


def _decision_data(decision: Decision) -> dict[str, Any]:
    data: dict[str, Any] = {
        "pod": decision.pod,
        "nodeCount": decision.node_count,
        "evaluatedCount": decision.evaluated_count,
        "feasibleCount": decision.feasible_count,
    }
    optional: dict[str, Any] = {
        "node": decision.node,
        "score": decision.score,
        "message": decision.full_message,
        "nominatedNode": decision.nominated_node,
        "victims": list(decision.victims),
        "unschedulablePlugins": sorted(decision.unschedulable_plugins),
    }
    return data | {name: value for name, value in optional.items() if value not in ("", [], None)}


def _decision_lines(decision: Decision) -> Iterator[str]:
    outcome = "failed" if decision.error else "does not fit"
    if decision.node:
        score = "" if decision.score is None else f", score {decision.score}"
        outcome = f"placed on {decision.node}{score}"
    yield _line(f"pod {decision.pod}: {outcome}")
    yield (
        f"{decision.node_count} nodes, {decision.evaluated_count} looked at, "
        f"{decision.feasible_count} feasible\n"
    )
    if not decision.node and decision.full_message:
        yield _line(decision.full_message)
    if decision.victims:
        victims = ", ".join(decision.victims)
        yield _line(f"evicts from {decision.nominated_node}: {victims}")


def _line(text: str) -> str:
    """What others wrote in it does not end it."""
    return f"{printable(text)}\n"


def _score_lines(found: Explanation, chosen: str) -> Iterator[str]:
    if not len(found.rows):
        return
    widths = {plugin: max(len(plugin), _SCORE_WIDTH) for plugin in found.scores}
    name_width = max(len(_FEASIBLE), found.name_width)
    titles = "  ".join(f"{plugin:>{width}}" for plugin, width in widths.items())
    yield f"\n{_FEASIBLE:<{name_width}}  {'TOTAL':>{_SCORE_WIDTH}}  {titles}".rstrip() + "\n"
    for name, scores in found.ranked(chosen):
        total = sum(scores.values()) if scores else "-"
        cells = "  ".join(f"{scores[plugin]:>{width}}" for plugin, width in widths.items())
        yield _line(f"{name:<{name_width}}  {total:>{_SCORE_WIDTH}}  {cells}".rstrip())


def _rejection_lines(found: Explanation) -> Iterator[str]:
    name_width = max(len(_REJECTED), found.name_width)
    title = f"\n{_REJECTED:<{name_width}}  {'BY':<{_PLUGIN_WIDTH}}  BECAUSE OF\n"
    for name, status in found.rejected():
        reasons, plugin = ", ".join(status.reasons), status.plugin or "-"
        yield title + _line(f"{name:<{name_width}}  {plugin:<{_PLUGIN_WIDTH}}  {reasons}")
        title = ""


def _decision_pieces(data: dict[str, Any], found: Explanation) -> Iterator[str]:
    feasible = (
        {"node": name, "total": sum(scores.values()), "scores": scores}
        if scores
        else {"node": name}
        for name, scores in found.ranked(data.get("node", ""))
    )
    rejected = (
        {
            "node": name,
            "plugin": status.plugin,
            "code": status.code.label,
            "reasons": list(status.reasons),
        }
        for name, status in found.rejected()
    )
    yield _text(data)[:-1]
    yield from _array_pieces("feasible", feasible)
    yield from _array_pieces("rejected", rejected)
    yield "}"


# -- forms ----------------------------------------------------------------------------------


def _json_pieces(head: dict[str, Any], name: str, items: Iterable[Any]) -> Iterator[str]:
    """An object with the members of `head` and one long array."""
    yield _text(head)[:-1]
    yield from _array_pieces(name, items)
    yield "}"


def _array_pieces(name: str, items: Iterable[Any]) -> Iterator[str]:
    before = f',"{name}":['
    empty = True
    for item in items:
        yield before + _text(item)
        before, empty = ",\n", False
    yield f"{before}]" if empty else "]"


def _text(data: Any) -> str:
    return msgspec.json.encode(data).decode()


# -- /flagz and /statusz ----------------------------------------------------------------------
# What this process was started with, and what it is; JSON in the shape of `config.k8s.io/v1beta1`.


COMPONENT = "kube-scheduler"
_PYTHON = sys.version.split()[0]
_MINOR = KUBERNETES_VERSION.rpartition(".")[0]


def flagz(flags: Mapping[str, str]) -> Page:
    lines = [f"{COMPONENT} flagz\n\n", *(f"{name}={flags[name]}\n" for name in sorted(flags))]
    return Page(lines, [_object("Flagz", {"flags": dict(sorted(flags.items()))})])


class Statusz:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.now()

    def page(self, paths: Sequence[str]) -> Page:
        up_s = int(self._clock.now() - self._started_s)
        started = format_time(self._started_s)
        minutes, seconds = divmod(up_s, 60)
        hours, minutes = divmod(minutes, 60)
        lines = [
            f"{COMPONENT} statusz\n\n",
            f"Started: {started}\n",
            f"Up: {hours} hr {minutes:02} min {seconds:02} sec\n",
            f"Stowplan version: {__version__}\n",
            f"Python version: {_PYTHON}\n",
            f"Binary version: {KUBERNETES_VERSION}\n",
            f"Emulation version: {_MINOR}\n",
            f"Paths: {' '.join(paths)}\n",
        ]
        data = {
            "startTime": started,
            "uptimeSeconds": up_s,
            "goVersion": "",
            "binaryVersion": KUBERNETES_VERSION,
            "emulationVersion": _MINOR,
            "paths": list(paths),
        }
        return Page(lines, [_object("Statusz", data)])


def _object(kind: str, data: Mapping[str, object]) -> str:
    head = {"kind": kind, "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": COMPONENT}}
    return msgspec.json.encode({**head, **data}).decode()
