"""The queue as lanes, pods as a list, events, and what the cluster is as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.errors import InputError
from stowplan.objects.pod import ENDED_PHASES
from stowplan.web.asking import Ask, page_of
from stowplan.web.sources import Line
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.lanes import LANES, Waiting
from stowplan.world.listing import regarding

LANE_ROWS = 50
"""Shown of each lane at first."""
REMARKS_MAX = 20
TEXT_MAX = 2000


def summary(cluster: Cluster) -> dict[str, Any]:
    """What stands above every view."""
    whole, free = cluster.allocatable(), cluster.free()
    return {
        "now": cluster.now,
        "nodes": len(whole),
        "running": int((whole["pods"] - free["pods"]).sum()),
        "lanes": cluster.lane_counts(),
    }


def about(cluster: Cluster) -> dict[str, Any]:
    return {
        **summary(cluster),
        "profiles": cluster.profiles,
        "weights": cluster.weights(),
    }


def remarks(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """What makes answers less than they seem; walks over all pods."""
    found = cluster.remarks()[:REMARKS_MAX]
    return {"remarks": [{"text": each.text, "hint": each.hint} for each in found]}


def queue_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Every lane with its first pods; with `lane`, a page of that one."""
    lanes = cluster.lanes()
    wanted = ask.text("lane")
    if wanted and wanted not in lanes:
        raise InputError(f"there is no lane {wanted!r}", hint=f"there are: {', '.join(LANES)}")
    waking: dict[tuple[str, ...], list[str]] = {}
    told = {}
    for lane, waiting in lanes.items():
        if wanted in ("", lane):
            page = page_of(waiting, ask) if wanted else page_of(waiting[:LANE_ROWS], ask)
            rows = [_waiting(cluster, each, waking) for each in page["rows"]]
            told[lane] = {**page, "total": len(waiting), "rows": rows}
    return {"now": cluster.now, "lanes": told}


def _waiting(
    cluster: Cluster, waiting: Waiting, waking: dict[tuple[str, ...], list[str]]
) -> dict[str, Any]:
    key = (waiting.profile, *waiting.plugins)
    if key not in waking:
        waking[key] = cluster.wakes(waiting.profile, waiting.plugins) if waiting.plugins else []
    return {
        "pod": waiting.pod,
        "attempts": waiting.attempts,
        "since": waiting.since_s,
        "until": waiting.until_s,
        "priority": waiting.priority,
        "plugins": list(waiting.plugins),
        "why": waiting.reason or _message(cluster, waiting.pod),
        "wakes": waking[key],
        "node": waiting.node,
    }


def _message(cluster: Cluster, key: str) -> str:
    try:
        return cluster.decision(key).message
    except InputError:
        return ""


def pod_table(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Pods by name, in pages; `state` is pending or placed."""
    query, state = ask.text("q").strip().lower(), ask.text("state")
    rows = [
        {
            "pod": pod.key,
            "node": pod.spec.node_name,
            "phase": pod.status.phase or "Pending",
            "priority": pod.spec.priority or 0,
        }
        for pod in cluster.pods()
        if query in pod.key.lower()
        and (not state or (state == "pending") == (not pod.spec.node_name))
        and (state != "pending" or pod.status.phase not in ENDED_PHASES)
    ]
    return page_of(rows, ask)


def log_view(cluster: Cluster, lines: Sequence[Line], ask: Ask) -> dict[str, Any]:
    """What the scheduler decided and what it wrote to its log, the newest first."""
    query = ask.text("q").strip().lower()
    rows = [*map(_decided, cluster.latest_decisions()), *map(_written, list(lines))]
    rows.sort(key=lambda row: -row["time"])
    if query:
        rows = [row for row in rows if query in f"{row['text']} {row['pod']} {row['node']}".lower()]
    return page_of(rows, ask)


def _decided(decision: Decision) -> dict[str, Any]:
    if decision.node:
        score = "" if decision.score is None else f", {decision.score} points"
        text = f"goes to {decision.node}{score}; attempt {decision.attempt}"
    elif decision.victims:
        text = f"evicts {', '.join(decision.victims)}; attempt {decision.attempt}"
    else:
        text = decision.full_message
    return {
        "time": decision.time,
        "severity": "I" if decision.node else "W",
        "text": text,
        "pod": decision.pod,
        "node": decision.node or decision.nominated_node,
    }


def _written(line: Line) -> dict[str, Any]:
    fields = dict(line.fields)
    pod, node = str(fields.pop("pod", "")), str(fields.pop("node", ""))
    rest = "".join(f" {name}={value}" for name, value in fields.items())
    return {
        "time": line.at_s,
        "severity": line.severity,
        "text": f"{line.message}{rest}"[:TEXT_MAX],
        "pod": pod,
        "node": node,
    }


def events_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """The newest first; `q` is a part of an object's name, a reason or a note."""
    query = ask.text("q").strip().lower()
    rows = []
    for event in reversed(list(cluster.events())):
        about = event.regarding
        row = {
            "time": event.event_time or "",
            "type": event.type,
            "reason": event.reason,
            "kind": about.kind if about is not None else "",
            "object": regarding(event),
            "note": event.note,
        }
        if not query or any(query in str(value).lower() for value in row.values()):
            rows.append(row)
    page = page_of(rows, ask)
    return {**page, "rows": [{**row, "node": _node_now(cluster, row)} for row in page["rows"]]}


def _node_now(cluster: Cluster, row: dict[str, Any]) -> str:
    """Of the pod that an event is about: where it is."""
    if row["kind"] != "Pod":
        return ""
    try:
        return cluster.pod(row["object"]).spec.node_name
    except InputError:
        return ""
