"""One pod: where it stands, its attempts, each as a table of nodes by plugins, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stowplan.answers import why
from stowplan.answers.placed import Placed
from stowplan.answers.why import Why
from stowplan.errors import InputError
from stowplan.objects.pod import Pod
from stowplan.objects.resources import pod_requests
from stowplan.web.asking import Ask, page_of
from stowplan.web.exporting import is_there
from stowplan.web.nodes import running
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.table import Table

NAMES_MAX = 100
"""Of the nodes of a cause; the rest is counted."""


FORMS: dict[str, Callable[[Decision], Table]] = {
    "weighted": lambda decision: decision.scores,
    "normalised": lambda decision: decision.normalised_scores,
    "raw": lambda decision: decision.raw_scores,
}


def key_of(ask: Ask) -> str:
    return f"{ask.parts[0]}/{ask.parts[1]}"


def pod_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    key = key_of(ask)
    pod, place = cluster.pod(key), cluster.place(key)
    history = _history(cluster, key)
    plugins = sorted({name for each in history[-1:] for name in each.unschedulable_plugins})
    return {
        "pod": key,
        "node": pod.spec.node_name,
        "phase": pod.status.phase or "Pending",
        "priority": pod.spec.priority or 0,
        "profile": pod.spec.scheduler_name,
        "requests": pod_requests(pod, use_status=False),
        "place": place.place,
        "position": place.position,
        "nominated": place.nominated_node,
        "waitsFor": place.waits_for or {},
        "gatedBy": place.gated_by,
        "wakes": [] if pod.spec.node_name else cluster.wakes(pod.spec.scheduler_name, plugins),
        "attempts": [
            {"position": n, **_attempt(each), **_preemption(cluster, pod, each)}
            for n, each in enumerate(history)
        ],
        "manifest": cluster.get("Pod", key),
    }


def _history(cluster: Cluster, key: str) -> list[Decision]:
    try:
        return cluster.decision(key).history
    except InputError:
        # It came with its node, or nobody has tried it.
        return []


def _attempt(decision: Decision) -> dict[str, Any]:
    return {
        "attempt": decision.attempt,
        "time": decision.time,
        "node": decision.node,
        "score": decision.score,
        "nodes": decision.node_count,
        "message": decision.message,
        "preemption": decision.post_filter_message,
        "nominated": decision.nominated_node,
        "plugins": list(decision.unschedulable_plugins),
        "reasons": decision.reasons,
        "gated": decision.gated,
        "hasDetail": decision.has_detail,
    }


def _preemption(cluster: Cluster, pod: Pod, decision: Decision) -> dict[str, Any]:
    """Who had to go, and who was spared: of less priority, on that node then and still now."""
    spared = []
    for other in running(cluster) if decision.victims else ():
        priority = other.spec.priority or 0
        if (
            other.spec.node_name == decision.nominated_node
            and priority < (pod.spec.priority or 0)
            and other.key not in decision.victims
            and _was_there(cluster, other.key, decision.time)
        ):
            spared.append({"pod": other.key, "priority": priority})
    spared.sort(key=lambda row: (row["priority"], row["pod"]))
    victims = [{"pod": key, "isThere": is_there(cluster, "Pod", key)} for key in decision.victims]
    return {"victims": victims, "spared": spared[:NAMES_MAX], "sparedCount": len(spared)}


def _was_there(cluster: Cluster, key: str, time_s: float) -> bool:
    history = _history(cluster, key)
    # One without a decision came with its node.
    return not history or history[-1].time <= time_s


def attempt_table(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Nodes by plugins of one attempt: who turned which node down, and what each scored:
    `scores` as `form` says (weighted, normalised, raw), `total` weighted."""
    key = key_of(ask)
    history = _history(cluster, key)
    position = int(ask.parts[2]) if ask.parts[2].isdecimal() else -1
    if not 0 <= position < len(history):
        raise InputError(f"{key!r} has no attempt {ask.parts[2]!r} that is still known")
    decision = history[position]
    rejected = decision.rejected
    form = ask.text("form", "weighted")
    if form not in FORMS:
        raise InputError(f"there is no form {form!r} of scores", hint=", ".join(FORMS))
    scores = FORMS[form](decision)
    plugins = [name for name in scores.columns if name != "total"]
    query = ask.text("q").strip().lower()
    rows = [*_scored(decision, scores, plugins), *_rejected(decision)]
    if query:
        rows = [row for row in rows if _found(row, query)]
    _sort(rows, ask, plugins)
    return {
        **page_of(rows, ask),
        "plugins": plugins,
        "form": form,
        "weights": decision.weights,
        "passed": len(decision.feasible),
        "rejected": len(rejected),
        "chosen": decision.node,
        "byPlugin": _counted(rejected["plugin"]) if len(rejected) else {},
    }


def _scored(decision: Decision, scores: Table, plugins: list[str]) -> list[dict[str, Any]]:
    if not len(scores):
        return [_row(name, chosen=name == decision.node) for name in decision.feasible]
    columns = [scores[name].tolist() for name in plugins]
    totals = decision.scores["total"].tolist()
    return [
        _row(
            name,
            total=totals[n],
            scores=[column[n] for column in columns],
            chosen=name == decision.node,
        )
        for n, name in enumerate(scores.index)
    ]


def _rejected(decision: Decision) -> list[dict[str, Any]]:
    table = decision.rejected
    plugins, codes, reasons = (table[name].tolist() for name in ("plugin", "code", "reasons"))
    return [
        _row(name, plugin=plugins[n], code=codes[n], reasons=list(reasons[n]))
        for n, name in enumerate(table.index)
    ]


def _row(node: str, **known: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "plugin": "",
        "code": "",
        "reasons": [],
        "total": None,
        "scores": [],
        "chosen": False,
    }
    return {"node": node, **empty, **known}


def _found(row: dict[str, Any], query: str) -> bool:
    texts = (row["node"], row["plugin"], *row["reasons"])
    return any(query in text.lower() for text in texts)


def _sort(rows: list[dict[str, Any]], ask: Ask, plugins: list[str]) -> None:
    """By a column; without one, the chosen node first, then the best, then who was turned down."""
    sort = ask.text("sort")
    lowest = np.iinfo(np.int64).min
    if sort in ("node", "plugin"):
        rows.sort(key=lambda row: row[sort], reverse=ask.descending)
    elif sort == "reasons":
        rows.sort(key=lambda row: ", ".join(row["reasons"]), reverse=ask.descending)
    elif sort in plugins:
        place = plugins.index(sort)
        rows.sort(
            key=lambda row: row["scores"][place] if row["scores"] else lowest,
            reverse=ask.descending,
        )
    elif sort in ("", "total"):
        descending = ask.descending or not sort
        rows.sort(
            key=lambda row: (row["chosen"], lowest if row["total"] is None else row["total"]),
            reverse=descending,
        )
    else:
        raise InputError(f"there is no column {sort!r}")


def _counted(plugins: Any) -> dict[str, int]:
    names, counts = np.unique(plugins.astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def why_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """What stands in the way, and the proven fixes; `fixes=0` leaves those out."""
    found = why(cluster, key_of(ask), fixes=ask.number("fixes", 5, 10))
    assert isinstance(found, Why), "asked for a pod and no node"
    told = found.to_dict()
    for cause in told["causes"]:
        for name in ("nodes", "nearMisses"):
            cause[f"{name}Count"] = len(cause[name])
            cause[name] = cause[name][:NAMES_MAX]
    for fix, data in zip(found.fixes, told["fixes"], strict=True):
        data["moves"] = fix.moves
    return {**told, "message": found.message, "tried": found.tried, "evicted": found.evicted}


def why_not(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Why not this node: scores beside the chosen one's, or everybody who objects."""
    key, node = key_of(ask), ask.parts[2]
    cluster.get("Node", node)
    if cluster.pod(key).spec.node_name:
        found = why(cluster, key, node=node)
        assert isinstance(found, Placed), "asked about a node"
        return {**found.to_dict(), "text": [line.strip() for line in found.lines(10_000)]}
    objections = cluster.objections(key)
    place = objections.names.index(node)
    return {
        "pod": key,
        "node": "",
        "objections": [
            {"plugin": plugin, "reasons": list(objections.reasons(plugin, place))}
            for plugin in objections.plugins
            if objections.rejected[plugin][place]
        ],
    }
