"""Traces made of traces: cut, scaled, shuffled, superposed.  A seed decides what is left to chance.

All of it works on columns.  Nothing here uses functions whose last digit depends on the machine:
the same trace and seed give the same trace everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError
from stowplan.sim.dirt import Dirt
from stowplan.sim.trace import Change, Manifest, Trace, namespace_of

JITTER_S = 1800.0
"""How far a copy of a pod may arrive from the pod, either way."""
FACTOR_MAX = 10_000.0
NODES_MAX = 1_000_000
HOST = "kubernetes.io/hostname"
_DIGITS = 6
"""Times that are worked out are rounded to microseconds."""

Rows = NDArray[np.intp]


def cut(
    trace: Trace,
    *,
    from_s: float = 0.0,
    to_s: float = math.inf,
    namespaces: Collection[str] | None = None,
    share: float = 1.0,
    seed: int = 0,
) -> Trace:
    """A window of the trace, some of its namespaces, and a share of its pods.

    What is there when the window opens is there at its time 0: pods run for what is left of their
    time, and of earlier changes the last of each object is made then.
    """
    if not 0 <= from_s < to_s:
        raise InputError(f"from {from_s} s to {to_s} s is no window")
    if not 0 <= share <= 1:
        raise InputError(f"{share} is no share", hint="from 0 to 1")
    gone_s = _gone_s(trace)
    chosen = (trace.pod_arrival_s < to_s) & ((trace.pod_arrival_s >= from_s) | (gone_s > from_s))
    if namespaces is not None:
        wanted = [namespace_of(template) in namespaces for template in trace.pod_templates]
        chosen &= np.array(wanted, np.bool_)[trace.pod_template]
    rows = np.flatnonzero(chosen)
    if share < 1:
        count = round(share * len(rows))
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:count])
    stays = (trace.node_joins_s >= from_s) | (trace.node_leaves_s > from_s)
    present = (trace.node_joins_s < to_s) & stays
    shifted = _from_moment(_only(trace, rows, np.flatnonzero(present)), from_s)
    changes = _changes_within(trace.changes, from_s, to_s)
    return replace(shifted, changes=_of_present_nodes(changes, trace, shifted))


def scale(trace: Trace, factor: float, *, seed: int = 0, jitter_s: float = JITTER_S) -> Trace:
    """More or fewer nodes and pods, the mix as it is: each template's count times the factor,
    rounded to one or the other side.  Copies arrive up to `jitter_s` earlier or later."""
    if not 0 < factor <= FACTOR_MAX:
        raise InputError(f"{factor} is no factor", hint=f"above 0, up to {FACTOR_MAX:g}")
    if not 0 <= jitter_s < math.inf:
        raise InputError(f"{jitter_s} s is no jitter")
    rng = np.random.default_rng(seed)
    pod_rows, pod_copies = _multiplied(trace.pod_template, factor, rng.random())
    node_rows, node_copies = _multiplied(trace.node_template, factor, rng.random())
    scaled = _only(replace(trace, pod_node=None), pod_rows, node_rows, node_copies, pod_copies)
    shift_s = np.round((rng.random(len(pod_rows)) * 2 - 1) * jitter_s, _DIGITS)
    shift_s[pod_copies == 0] = 0.0
    arrival_s = np.maximum(scaled.pod_arrival_s + shift_s, 0.0)
    moved = _rearranged(scaled, arrival_s)
    return replace(moved, changes=_of_present_nodes(trace.changes, trace, moved))


def resize(trace: Trace, node_count: int) -> Trace:
    """The same pods on so many nodes, their mix as it is."""
    if not trace.node_count:
        raise InputError("has no nodes to make more or fewer of", where=trace.name)
    rows, copies = _multiplied(trace.node_template, node_count / trace.node_count, 0.5)
    pods = np.arange(trace.pod_count)
    resized = _only(replace(trace, pod_node=None), pods, rows, copies)
    return replace(resized, changes=_of_present_nodes(trace.changes, trace, resized))


def resize_nodes(nodes: Sequence[Manifest], node_count: int) -> tuple[dict[str, Any], ...]:
    """So many of these, taken evenly; copies have names of their own."""
    alike = np.zeros(len(nodes), np.int32)
    rows, copies = _multiplied(alike, node_count / len(nodes), 0.5)
    names = _numbered(tuple(str(node["metadata"]["name"]) for node in nodes), rows, copies)
    return tuple(_renamed(nodes[row], name) for row, name in zip(rows.tolist(), names, strict=True))


def shuffle(trace: Trace, *, seed: int = 0) -> Trace:
    """The same pods and the same moments of arrival, but who arrives when is drawn."""
    order = np.random.default_rng(seed).permutation(trace.pod_count)
    arrival_s = np.empty(trace.pod_count)
    arrival_s[order] = trace.pod_arrival_s
    return _rearranged(trace, arrival_s)


def superpose(traces: Sequence[Trace], *, nodes: str = "all") -> Trace:
    """All pods of all traces, each from its own time 0; `nodes`: of `all` of them, or the `first`.

    A name that an earlier trace has gets a number.
    """
    if not traces:
        raise InputError("no traces to superpose")
    if nodes not in ("all", "first"):
        raise InputError(f"nodes of {nodes!r}", hint="`all` or `first`")
    if len(traces) == 1:
        return traces[0]
    hosts = list(traces) if nodes == "all" else [traces[0]]
    pod_bases = np.cumsum([0, *(len(trace.pod_templates) for trace in traces)])
    node_bases = np.cumsum([0, *(len(trace.node_templates) for trace in hosts)])
    arrival_s = np.concatenate([trace.pod_arrival_s for trace in traces])
    order = np.argsort(arrival_s, kind="stable")
    joins_s = np.concatenate([trace.node_joins_s for trace in hosts])
    node_order = np.argsort(joins_s, kind="stable")
    node_names = _distinct([trace.node_names for trace in hosts])
    dirt = Dirt()
    for trace in traces:
        dirt.merge(trace.remarks)
    return Trace(
        name="+".join(trace.name for trace in traces),
        start_s=traces[0].start_s,
        pod_templates=tuple(t for trace in traces for t in trace.pod_templates),
        pod_template=_joined(traces, "pod_template", pod_bases)[order],
        pod_names=_all_names(traces, order),
        pod_arrival_s=arrival_s[order],
        pod_run_s=_joined(traces, "pod_run_s")[order],
        pod_end_s=_joined(traces, "pod_end_s")[order],
        pod_outcome=_joined(traces, "pod_outcome")[order],
        pod_node=None,
        node_templates=tuple(t for trace in hosts for t in trace.node_templates),
        node_template=_joined(hosts, "node_template", node_bases)[node_order],
        node_names=tuple(node_names[n] for n in node_order.tolist()),
        node_joins_s=joins_s[node_order],
        node_leaves_s=_joined(hosts, "node_leaves_s")[node_order],
        changes=tuple(
            sorted((c for trace in traces for c in trace.changes), key=lambda c: c.time_s)
        ),
        remarks=dirt.remarks(),
    )


# -- times ----------------------------------------------------------------------------------


def _gone_s(trace: Trace) -> NDArray[np.float64]:
    """When each pod is no longer there: as recorded, or after its run; inf: it stays."""
    known = ~np.isnan(trace.pod_end_s)
    return np.where(known, trace.pod_end_s, trace.pod_arrival_s + trace.pod_run_s)


def _from_moment(trace: Trace, from_s: float) -> Trace:
    early = trace.pod_arrival_s < from_s
    left_s = np.minimum(trace.pod_run_s, np.maximum(_gone_s(trace) - from_s, 0.0))
    return replace(
        trace,
        start_s=trace.start_s + from_s if trace.start_s else 0.0,
        pod_arrival_s=np.maximum(trace.pod_arrival_s - from_s, 0.0),
        pod_run_s=np.where(early, left_s, trace.pod_run_s),
        pod_end_s=np.maximum(trace.pod_end_s - from_s, 0.0),
        node_joins_s=np.maximum(trace.node_joins_s - from_s, 0.0),
        node_leaves_s=trace.node_leaves_s - from_s,
        changes=(),
    )


def _rearranged(trace: Trace, arrival_s: NDArray[np.float64]) -> Trace:
    """Other arrivals; each pod ends as long after its own as it did."""
    end_s = np.maximum(trace.pod_end_s - trace.pod_arrival_s + arrival_s, arrival_s)
    moved = replace(
        trace, pod_arrival_s=np.zeros_like(arrival_s), pod_end_s=np.full_like(end_s, np.nan)
    )
    order = np.argsort(arrival_s, kind="stable")
    sorted_rows = _only(moved, order, np.arange(trace.node_count))
    return replace(sorted_rows, pod_arrival_s=arrival_s[order], pod_end_s=end_s[order])


def _changes_within(changes: Sequence[Change], from_s: float, to_s: float) -> list[Change]:
    """Those of the window; of earlier ones what holds when it opens."""
    holds: dict[tuple[str, ...], Change] = {}
    later = []
    for change in changes:
        if change.time_s <= from_s:
            # In the order of the last change, as they were made.
            holds.pop(_key(change.object), None)
            holds[_key(change.object)] = Change(0.0, change.verb, change.object)
        elif change.time_s < to_s:
            later.append(Change(change.time_s - from_s, change.verb, change.object))
    return [*holds.values(), *later]


def _key(manifest: Manifest) -> tuple[str, ...]:
    metadata = manifest.get("metadata") or {}
    parts = (manifest.get("apiVersion"), manifest.get("kind"), metadata.get("namespace"))
    return (*(str(part or "") for part in parts), str(metadata.get("name") or ""))


def _of_present_nodes(changes: Sequence[Change], before: Trace, after: Trace) -> tuple[Change, ...]:
    """Without those of nodes that the trace no longer has."""
    gone = set(before.node_names) - set(after.node_names)
    return tuple(
        c for c in changes if c.object.get("kind") != "Node" or _key(c.object)[-1] not in gone
    )


# -- rows -----------------------------------------------------------------------------------


def _multiplied(template: NDArray[np.int32], factor: float, begin: float) -> tuple[Rows, Rows]:
    """Which rows, in their order, each as often as it comes; and which copy of it each is.

    Systematic sampling, template by template: wherever one begins, the number of its rows that
    were taken is its share of the factor, to less than one.  `begin` is from 0 to 1.
    """
    count = len(template)
    if not count:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    by_template = np.argsort(template, kind="stable")
    marks = np.floor(np.arange(count + 1) * factor + begin)
    times = np.empty(count, np.intp)
    times[by_template] = np.diff(marks).astype(np.intp)
    rows = np.repeat(np.arange(count), times)
    first = np.repeat(np.cumsum(times) - times, times)
    return rows, np.arange(len(rows)) - first


def _only(
    trace: Trace,
    pods: Rows,
    nodes: Rows,
    node_copies: Rows | None = None,
    pod_copies: Rows | None = None,
) -> Trace:
    """The trace with these rows alone; copies of a row have names of their own."""
    fields: dict[str, Any] = {
        name: getattr(trace, name)[pods]
        for name in ("pod_template", "pod_arrival_s", "pod_run_s", "pod_end_s", "pod_outcome")
    }
    fields |= {
        name: getattr(trace, name)[nodes]
        for name in ("node_template", "node_joins_s", "node_leaves_s")
    }
    if trace.pod_node is not None:
        places = np.full(trace.node_count + 1, -1, np.int32)
        places[nodes] = np.arange(len(nodes), dtype=np.int32)
        fields["pod_node"] = places[trace.pod_node[pods]]
    if trace.pod_names is not None:
        fields["pod_names"] = _numbered(trace.pod_names, pods, pod_copies)
    return replace(trace, **fields, node_names=_numbered(trace.node_names, nodes, node_copies))


def _numbered(names: tuple[str, ...], rows: Rows, copies: Rows | None) -> tuple[str, ...]:
    if copies is None or not copies.any():
        return tuple(names[row] for row in rows.tolist())
    pairs = zip(rows.tolist(), copies.tolist(), strict=True)
    made = [names[row] if not copy else f"{names[row]}-{copy + 1}" for row, copy in pairs]
    return tuple(_distinct([made]))


def _renamed(node: Manifest, name: str) -> dict[str, Any]:
    metadata = dict(node["metadata"])
    if metadata["name"] != name:
        metadata.pop("uid", None)
        metadata["name"] = name
        if HOST in (metadata.get("labels") or {}):
            metadata["labels"] = {**metadata["labels"], HOST: name}
    return {**node, "metadata": metadata}


def _distinct(lists: Sequence[Sequence[str]]) -> list[str]:
    """All names of all lists; one that came before gets a number that no name has."""
    taken = {name for names in lists for name in names}
    numbers: dict[str, int] = {}
    distinct = []
    for name in (name for names in lists for name in names):
        number = numbers.get(name, 0) + 1
        given = name if number == 1 else f"{name}-{number}"
        while number > 1 and given in taken:
            number += 1
            given = f"{name}-{number}"
        numbers[name] = number
        taken.add(given)
        distinct.append(given)
    return distinct


def _all_names(traces: Sequence[Trace], order: Rows) -> tuple[str, ...] | None:
    if all(trace.pod_names is None for trace in traces):
        return None
    lists = [
        trace.pod_names or [trace.pod_name(n) for n in range(trace.pod_count)] for trace in traces
    ]
    names = _distinct(lists)
    return tuple(names[n] for n in order.tolist())


def _joined(traces: Sequence[Trace], field: str, bases: NDArray[Any] | None = None) -> NDArray[Any]:
    columns = [getattr(trace, field) for trace in traces]
    if bases is not None:
        columns = [column + base for column, base in zip(columns, bases.tolist(), strict=False)]
    return np.concatenate(columns)
