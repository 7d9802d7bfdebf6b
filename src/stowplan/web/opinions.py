"""Second opinions: what our scheduler says beside the one that decides."""

from __future__ import annotations

from typing import Any

from stowplan.errors import InputError
from stowplan.web.asking import Ask, page_of
from stowplan.world.cluster import Cluster

WAITING_MAX = 2000
"""Pods that wait and are spoken of."""


def waiting(cluster: Cluster) -> list[str]:
    return cluster.pods(pending=True).keys[:WAITING_MAX]


def would_go(copy: Cluster, *, waiting: list[str]) -> dict[str, str]:
    """Where ours would put those that wait; empty for one that fits nowhere."""
    found = {}
    for key in waiting:
        try:
            found[key] = copy.pod(key).spec.node_name
        except InputError:
            # It came after the copy was made.
            continue
    return found


def told(judged: dict[str, Any], ours: dict[str, str], ask: Ask) -> dict[str, Any]:
    """`pod` asks about one; else a page of those that were placed, the newest first."""
    rows = judged.pop("rows")[::-1]
    pod, query = ask.text("pod"), ask.text("q").strip().lower()
    if pod:
        rows = [row for row in rows if row["pod"] == pod]
        ours = {key: node for key, node in ours.items() if key == pod}
    if query:
        rows = [row for row in rows if query in f"{row['pod']} {row['node']}".lower()]
    places = [{"pod": key, "node": node} for key, node in ours.items() if node]
    return {
        **judged,
        **page_of(rows, ask),
        "wouldPlace": places[: ask.limit],
        "wouldPlaceCount": len(places),
        "fitsNowhere": sum(not node for node in ours.values()),
    }
