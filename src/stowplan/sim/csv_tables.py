"""A trace from CSV tables and a mapping: a row, or several about one thing, is a pod or node.

Rows that say the same of size, labels and constraints share a template; what such cells mean is
worked out once (`_Maker`).  A cell that makes no sense costs its row, which is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from stowplan.errors import InputError
from stowplan.sim.building import TraceBuilder
from stowplan.sim.csv_rows import Row, Rows, find_files
from stowplan.sim.mapping import (
    UNITS,
    Events,
    Mapping,
    Nodes,
    Number,
    Pods,
    fields_in,
    filled,
    read_mapping,
)
from stowplan.sim.trace import Outcome, Trace

_MI = 1 << 20
_OUTCOMES = {outcome.name.lower(): outcome for outcome in Outcome}
AMOUNT_MAX = Decimal(2**63 - 1)


class CellError(Exception):
    """A cell that makes no sense: what is wrong with rows like it, and what it holds."""

    def __init__(self, text: str, cell: str) -> None:
        super().__init__(text)
        self.text = text
        self.cell = cell


def read_csv_trace(
    path: Path, mapping: str | Path | Mapping, tables: dict[str, Path] | None = None
) -> Trace:
    """`path` is a folder with the tables, or the table of pods; `tables` names single ones."""
    rules = mapping if isinstance(mapping, Mapping) else read_mapping(mapping)
    folder = path if path.is_dir() else path.parent
    given = {name: [file] for name, file in (tables or {}).items()}
    if not path.is_dir():
        given.setdefault("pods", [path])
    builder = TraceBuilder()
    if rules.nodes is not None:
        files = given.get("nodes") or find_files(rules.nodes.files, folder)
        if files:
            _read_nodes(builder, rules.nodes, Rows(rules.nodes, files, folder, builder.dirt))
        else:
            builder.dirt.add(
                "tables of nodes that are not there: the trace has no nodes",
                " or ".join(rules.nodes.files),
            )
    files = given.get("pods") or find_files(rules.pods.files, folder)
    if not files:
        raise InputError(f"no file is called {' or '.join(rules.pods.files)}", where=str(folder))
    _read_pods(builder, rules.pods, Rows(rules.pods, files, folder, builder.dirt))
    zero_s = builder.first_s() if rules.begins == "at-first" else 0.0
    return builder.build(rules.name, zero_s=zero_s)


class _Happened(NamedTuple):
    """One pod or node as the rows tell it."""

    where: str
    row: Row
    begins_s: float
    starts_s: float = math.nan
    ends_s: float = math.nan
    outcome: Outcome = Outcome.DELETED
    started: Row | None = None
    """The row that says where it runs, of those that have several."""


def _read_nodes(builder: TraceBuilder, table: Nodes, rows: Rows) -> None:
    maker = _Maker(table, _node_manifest, builder.node_template)
    again: dict[str, int] = {}
    for at in (
        _from_events(builder, table, rows) if table.events else _from_rows(builder, table, rows)
    ):
        template = _checked(builder, maker, at)
        if template is None:
            continue
        name = _name(table.name, at)
        if table.events:
            again[name] = again.get(name, 0) + 1
            name = name if again[name] == 1 else f"{name}-{again[name]}"
        leaves_s = math.inf if math.isnan(at.ends_s) else at.ends_s
        joins_s = -math.inf if math.isnan(at.begins_s) else at.begins_s
        builder.add_node(template, name=name, joins_s=joins_s, leaves_s=leaves_s, where=at.where)


def _read_pods(builder: TraceBuilder, table: Pods, rows: Rows) -> None:
    maker = _Maker(table, _pod_manifest, builder.pod_template)
    for at in (
        _from_events(builder, table, rows) if table.events else _from_rows(builder, table, rows)
    ):
        template = _checked(builder, maker, at)
        if template is None:
            continue
        builder.add_pod(
            template,
            name=_name(table.name, at),
            arrival_s=at.begins_s,
            start_s=at.starts_s,
            end_s=at.ends_s,
            outcome=at.outcome,
            node=_node(table, at),
            where=at.where,
            reuses_names=table.events is not None,
        )


def _node(table: Pods, at: _Happened) -> str:
    row = at.started if table.events else at.row
    return filled(table.node, row) if table.node and row is not None else ""


def _name(pattern: str, at: _Happened) -> str:
    return filled(pattern, at.row) or f"unnamed-{at.where.rpartition(':')[2]}"


def _checked(builder: TraceBuilder, maker: _Maker, at: _Happened) -> int | None:
    try:
        return maker.template(at.row)
    except CellError as error:
        builder.dirt.add(f"{error.text}: left out", f"{at.where}: {error.cell!r}")
        return None


# -- rows and events ------------------------------------------------------------------------


def _from_rows(builder: TraceBuilder, table: Nodes | Pods, rows: Rows) -> Iterator[_Happened]:
    tell = _node_times if isinstance(table, Nodes) else _pod_times
    for where, row in rows:
        try:
            yield tell(table, row, where)  # type: ignore[arg-type]
        except CellError as error:
            builder.dirt.add(f"{error.text}: left out", f"{where}: {error.cell!r}")


def _node_times(table: Nodes, row: Row, where: str) -> _Happened:
    joins_s = _seconds(table.joins, row)
    return _Happened(where, row, joins_s, ends_s=_seconds(table.leaves, row))


def _pod_times(table: Pods, row: Row, where: str) -> _Happened:
    arrival_s = _seconds(table.arrival, row)
    start_s = _seconds(table.start, row)
    end_s = _seconds(table.end, row)
    run_s = _seconds(table.run, row)
    if math.isnan(end_s) and not math.isnan(run_s):
        end_s = (arrival_s if math.isnan(start_s) else start_s) + run_s
    outcome = Outcome.DELETED
    if table.outcome is not None:
        cell = row[table.outcome.column]
        outcome = _OUTCOMES[table.outcome.values.get(cell, table.outcome.default)]
    return _Happened(where, row, arrival_s, start_s, end_s, outcome)


def _from_events(builder: TraceBuilder, table: Nodes | Pods, rows: Rows) -> Iterator[_Happened]:
    """Rows in the order of their times; each that opens one is remembered until one closes it."""
    events = table.events
    assert events is not None
    read: list[tuple[float, str, Row]] = []
    for where, row in rows:
        try:
            time_s = _seconds(events.time, row)
        except CellError as error:
            builder.dirt.add(f"{error.text}: left out", f"{where}: {error.cell!r}")
            continue
        if math.isnan(time_s):
            builder.dirt.add("events after the trace or without a time: left out", where)
        else:
            read.append((time_s, where, row))
    read.sort(key=lambda event: event[0])
    open_now: dict[tuple[str, ...], _Happened] = {}
    for time_s, where, row in read:
        key = tuple([row[column] for column in events.key])
        done = _step(builder, events, open_now, key, _Happened(where, row, time_s))
        if done is not None:
            yield done
    yield from open_now.values()


def _step(
    builder: TraceBuilder,
    events: Events,
    open_now: dict[tuple[str, ...], _Happened],
    key: tuple[str, ...],
    event: _Happened,
) -> _Happened | None:
    """What one event makes of its pod or node; returned when that is over."""
    kind = event.row[events.type]
    known = open_now.get(key)
    if kind in events.opens:
        if known is None:
            open_now[key] = event
        else:
            builder.dirt.add("events that begin what has begun: left out", event.where)
    elif kind in events.starts:
        if known is None:
            builder.dirt.add("events that start what has not begun: it begins there", event.where)
            known = event
        # What it wants, the row says that opened it; where it runs, the one that started it.
        open_now[key] = known._replace(starts_s=event.begins_s, started=event.row)
    elif kind in events.closes:
        if known is None:
            builder.dirt.add("events that end what has not begun: left out", event.where)
            return None
        del open_now[key]
        return known._replace(ends_s=event.begins_s, outcome=_OUTCOMES[events.closes[kind]])
    elif kind not in events.ignores:
        builder.dirt.add(
            "events of a type that the mapping does not name: left out", f"{event.where}: {kind!r}"
        )
    return None


# -- cells ----------------------------------------------------------------------------------


def _decimal(number: Number, row: Row) -> Decimal | None:
    """The number of a row in its basic unit; None when there is none."""
    product = UNITS[number.unit] * Decimal(str(number.times))
    if number.value:
        return product * _parsed(number.value, "values")
    for column in number.read:
        cell = row[column].strip()
        if not cell or cell in number.missing:
            return None
        product *= _parsed(cell, column)
    return product


def _parsed(cell: str, column: str) -> Decimal:
    try:
        value = Decimal(cell)
    except InvalidOperation:
        raise CellError(f"rows whose {column} is no number", cell) from None
    if not value.is_finite() or "_" in cell or abs(value.adjusted()) > 30:
        raise CellError(f"rows whose {column} is no number", cell)
    return value


def _seconds(number: Number | None, row: Row) -> float:
    value = None if number is None else _decimal(number, row)
    return math.nan if value is None else float(value)


class _Maker:
    """Templates by the cells that they are made of."""

    def __init__(
        self,
        table: Any,
        manifest: Callable[[Any, Row], dict[str, Any]],
        position: Callable[[dict[str, Any]], int],
    ) -> None:
        self._table = table
        self._manifest = manifest
        self._position = position
        self._columns = _template_columns(table)
        self._known: dict[tuple[str, ...], int | CellError] = {}

    def template(self, row: Row) -> int:
        key = tuple([row[column] for column in self._columns])
        known = self._known.get(key)
        if known is None:
            try:
                known = self._position(self._manifest(self._table, row))
            except CellError as error:
                known = error
            self._known[key] = known
        if isinstance(known, CellError):
            raise known
        return known


def _template_columns(table: Nodes | Pods) -> tuple[str, ...]:
    texts = [*table.labels.values(), *table.annotations.values()]
    amounts = table.capacity if isinstance(table, Nodes) else table.requests
    columns = [column for number in amounts.values() for column in number.read]
    if isinstance(table, Pods):
        texts.append(table.namespace)
        columns += [values.column for values in table.affinity.values()]
        columns += table.priority.read if table.priority else ()
    return tuple(
        dict.fromkeys([*columns, *(column for text in texts for column in fields_in(text))])
    )


def _node_manifest(table: Nodes, row: Row) -> dict[str, Any]:
    amounts = _amounts(table.capacity, row)
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(table, row),
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return _merged(table.manifest, made)


def _pod_manifest(table: Pods, row: Row) -> dict[str, Any]:
    resources = {"requests": _amounts(table.requests, row)}
    # A pod that asks for an extended resource has it as its limit, too.
    limits = {name: value for name, value in resources["requests"].items() if "/" in name}
    if limits:
        resources["limits"] = limits
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "app", "resources": resources}]
    }
    terms = [
        {
            "key": label,
            "operator": "In",
            "values": sorted(set(row[values.column].split(values.split))),
        }
        for label, values in table.affinity.items()
        if row[values.column]
    ]
    if terms:
        selector = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
        spec["affinity"] = {"nodeAffinity": required}
    priority = None if table.priority is None else _decimal(table.priority, row)
    if priority is not None:
        spec["priority"] = int(priority)
    metadata = {"namespace": filled(table.namespace, row) or "default"} | _metadata(table, row)
    return _merged(
        table.manifest, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )


def _metadata(table: Nodes | Pods, row: Row) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part in ("labels", "annotations"):
        texts = {key: filled(text, row) for key, text in getattr(table, part).items()}
        found = {key: text for key, text in texts.items() if text}
        if found:
            made[part] = found
    return made


def _amounts(numbers: dict[str, Number], row: Row) -> dict[str, str]:
    amounts = {}
    for resource, number in numbers.items():
        amount = _decimal(number, row)
        if amount is None:
            continue
        if amount < 0 or amount > AMOUNT_MAX:
            cell = "×".join(row[column] for column in number.read)
            raise CellError(f"rows whose {resource} is negative or absurd", cell)
        if amount:
            amounts[resource] = _quantity(resource, amount)
    return amounts


def _quantity(resource: str, amount: Decimal) -> str:
    """As people write it: thousandths of a core, mebibytes, whole numbers of anything else."""
    if resource == "cpu":
        milli = int((amount * 1000).to_integral_value(ROUND_CEILING))
        return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
    whole = int(amount.to_integral_value(ROUND_CEILING))
    return f"{whole // _MI}Mi" if resource == "memory" and whole % _MI == 0 else str(whole)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    made = dict(below)
    for key, value in above.items():
        old = made.get(key)
        made[key] = (
            _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return made
