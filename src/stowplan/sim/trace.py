"""A trace: which nodes and pods there were, when each came and went, and what else changed.

A month has a million pods, so a trace is columns: one array per fact, a row per pod or node.
What many pods share (labels, requests, affinity) is a template, a manifest without a name; each
pod is an index into the templates, two times and an outcome.  A trace checks itself when it is
made and does not change afterwards: whoever has one may rely on order, lengths and ranges.

Readers make it (`files.py`), `building.py` helps them, the simulation replays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError

Manifest = Mapping[str, Any]

HOST = "kubernetes.io/hostname"

NAME_DIGITS = 7
"""Of names that a trace makes up: `pod-0000001` is the pod at position 0."""


class Outcome(IntEnum):
    """How a pod ends.  Of a pod that runs until the end of the trace it says nothing."""

    SUCCEEDED = 0
    FAILED = 1
    DELETED = 2
    """Somebody deleted it: a service scaled down, a job that was no longer wanted."""


Verb = Literal["apply", "delete"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something other than a pod coming or a node joining: a cordon, a label, a service."""

    time_s: float
    verb: Verb
    object: Manifest
    """The whole manifest; of a delete `apiVersion`, `kind`, name and namespace are enough."""

    def __post_init__(self) -> None:
        if self.verb not in get_args(Verb):
            raise InputError(f"{self.verb!r} is no verb", hint="`apply` or `delete`")


@dataclass(frozen=True, slots=True)
class Remark:
    """Rows of the source that made no sense, counted, with a few of them to look at."""

    text: str
    """What was wrong, and what became of such rows."""
    count: int
    examples: tuple[str, ...] = ()
    """Where: file and line, and the values that make no sense."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Nodes and pods over time.  Times are seconds since the trace begins, never negative."""

    name: str
    start_s: float
    """Time 0 of the trace as Unix time; 0.0 where nobody knows."""

    pod_templates: tuple[Manifest, ...]
    """Manifests without a name: labels, annotations, spec; the namespace is in the metadata."""
    pod_template: NDArray[np.int32]
    """Per pod, an index into `pod_templates`.  Pods are ordered by arrival."""
    pod_names: tuple[str, ...] | None
    """None: `pod-0000001` and so on, by position.  No two pods of a namespace share a name."""
    pod_arrival_s: NDArray[np.float64]
    pod_run_s: NDArray[np.float64]
    """How long it runs once it has started; inf: until the end."""
    pod_end_s: NDArray[np.float64]
    """The recorded moment of its end; nan: unknown, or it did not end."""
    pod_outcome: NDArray[np.uint8]
    """An `Outcome` each."""
    pod_node: NDArray[np.int32] | None
    """Where the recorded scheduler placed it, an index into `node_names`; -1: nowhere known."""

    node_templates: tuple[Manifest, ...]
    node_template: NDArray[np.int32]
    """Per node, an index into `node_templates`.  Nodes are ordered by when they join."""
    node_names: tuple[str, ...]
    node_joins_s: NDArray[np.float64]
    node_leaves_s: NDArray[np.float64]
    """inf: it stays."""

    changes: tuple[Change, ...] = ()
    """Everything else over time, by time."""
    remarks: tuple[Remark, ...] = ()
    """What the reader found wrong with the source.  Nothing is dropped without one."""

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            column = getattr(self, name)
            if column is not None:
                object.__setattr__(self, name, _column(name, column, dtype))
        _check_lengths(self)
        _check_pods(self)
        _check_nodes(self)
        times = [change.time_s for change in self.changes]
        _check_times("changes", np.array(times, np.float64))

    @property
    def pod_count(self) -> int:
        return len(self.pod_template)

    @property
    def node_count(self) -> int:
        return len(self.node_template)

    @property
    def span_s(self) -> float:
        """The last moment at which anything is recorded to happen.  How long pods run says nothing
        here: when they start, a scheduler decides."""
        columns = [self.pod_arrival_s, self.pod_end_s, self.node_joins_s, self.node_leaves_s]
        columns.append(np.array([change.time_s for change in self.changes], np.float64))
        known = (column[np.isfinite(column)] for column in columns)
        return max((float(column.max()) for column in known if len(column)), default=0.0)

    def pod_name(self, index: int) -> str:
        if self.pod_names is not None:
            return self.pod_names[index]
        return f"pod-{index + 1:0{NAME_DIGITS}d}"

    def pod(self, index: int) -> dict[str, Any]:
        """The manifest of a pod.  Its parts are shared with its template: do not write there."""
        return _named(self.pod_templates[self.pod_template[index]], self.pod_name(index))

    def node(self, index: int) -> dict[str, Any]:
        """The manifest of a node, as it joins, with the label that every kubelet gives its node.
        Its other parts are shared with its template."""
        name = self.node_names[index]
        node = _named(self.node_templates[self.node_template[index]], name)
        metadata = node["metadata"]
        metadata["labels"] = {HOST: name, **(metadata.get("labels") or {})}
        return node

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]


_DTYPES: dict[str, type[np.generic]] = {
    "pod_template": np.int32,
    "pod_arrival_s": np.float64,
    "pod_run_s": np.float64,
    "pod_end_s": np.float64,
    "pod_outcome": np.uint8,
    "pod_node": np.int32,
    "node_template": np.int32,
    "node_joins_s": np.float64,
    "node_leaves_s": np.float64,
}


def namespace_of(template: Manifest) -> str:
    """
    >>> namespace_of({"metadata": {"namespace": "batch"}}), namespace_of({})
    ('batch', 'default')
    """
    return str((template.get("metadata") or {}).get("namespace") or "default")


def _column(name: str, values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """The values as a read-only array of their type, without a copy where they are one."""
    array = np.asarray(values)
    exact = array.dtype.kind in ("iu" if np.dtype(dtype).kind in "iu" else "iuf")
    if array.ndim != 1 or (len(array) and not exact):
        raise InputError(f"{array.dtype} does not make a column of {np.dtype(dtype)}", where=name)
    column = array.astype(dtype, copy=False).view()
    if np.dtype(dtype).kind in "iu" and not np.array_equal(column, array):
        raise InputError(f"numbers that do not fit {np.dtype(dtype)}", where=name)
    column.flags.writeable = False
    return column


def _named(template: Manifest, name: str) -> dict[str, Any]:
    return {**template, "metadata": {**(template.get("metadata") or {}), "name": name}}


def _check_lengths(trace: Trace) -> None:
    for prefix, count in (("pod", trace.pod_count), ("node", trace.node_count)):
        for field in fields(trace):
            if field.name.endswith("templates") or not field.name.startswith(f"{prefix}_"):
                continue
            column = getattr(trace, field.name)
            if column is not None and len(column) != count:
                raise InputError(f"{len(column)} rows, not {count}", where=field.name)


def _check_pods(trace: Trace) -> None:
    _check_indexes("pod_template", trace.pod_template, 0, len(trace.pod_templates))
    _check_times("pod_arrival_s", trace.pod_arrival_s)
    _require("pod_run_s", trace.pod_run_s, trace.pod_run_s >= 0, "must not be negative")
    after = np.isnan(trace.pod_end_s) | (trace.pod_end_s >= trace.pod_arrival_s)
    _require("pod_end_s", trace.pod_end_s, after, "must not be before the arrival")
    _check_indexes("pod_outcome", trace.pod_outcome, 0, len(Outcome))
    if trace.pod_node is not None:
        _check_indexes("pod_node", trace.pod_node, -1, trace.node_count)
    _check_pod_names(trace)


def _check_pod_names(trace: Trace) -> None:
    names = trace.pod_names
    if names is None or len(set(names)) == len(names):
        return
    namespaces = [namespace_of(template) for template in trace.pod_templates]
    seen: set[tuple[str, str]] = set()
    for name, template in zip(names, trace.pod_template.tolist(), strict=True):
        key = (namespaces[template], name)
        if key in seen:
            raise InputError(f"two pods are called {'/'.join(key)!r}", where="pod_names")
        seen.add(key)


def _check_nodes(trace: Trace) -> None:
    _check_indexes("node_template", trace.node_template, 0, len(trace.node_templates))
    _check_times("node_joins_s", trace.node_joins_s)
    after = trace.node_leaves_s >= trace.node_joins_s
    _require("node_leaves_s", trace.node_leaves_s, after, "must not be before it joins")
    if len(set(trace.node_names)) != trace.node_count:
        raise InputError("two nodes share a name", where="node_names")


def _check_times(name: str, times_s: NDArray[np.float64]) -> None:
    _require(name, times_s, np.isfinite(times_s), "must be known")
    _require(name, times_s, times_s >= 0, "must not be negative")
    ordered = np.ones(len(times_s), np.bool_)
    ordered[1:] = times_s[1:] >= times_s[:-1]
    _require(name, times_s, ordered, "must not be before the row above")


def _check_indexes(name: str, indexes: NDArray[Any], first: int, end: int) -> None:
    inside = (indexes >= first) & (indexes < end)
    _require(name, indexes, inside, f"must be at least {first} and below {end}")


def _require(name: str, values: NDArray[Any], right: NDArray[np.bool_], rule: str) -> None:
    if not right.all():
        row = int(np.argmin(right))
        raise InputError(f"{values[row].item()} {rule}", where=f"{name}[{row}]")


def _equal(mine: Any, other: Any) -> bool:
    if isinstance(mine, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f")
    return type(mine) is type(other) and bool(mine == other)
