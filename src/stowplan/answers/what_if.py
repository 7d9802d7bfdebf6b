"""`what_if`: the cluster before and after changes that somebody names.

Before is the cluster with everything placed that can be; after is a fork of it with the changes
made, run until nothing is left to do.  `cluster.what_if` and `stowplan what-if` are this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers import deeds
from stowplan.answers.pools import pool_label
from stowplan.answers.text import NO_CLAIMS, WIDTH, wrapped
from stowplan.answers.words import Tell, shown, tell_nobody
from stowplan.errors import InputError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.diff import Diff
from stowplan.world.reading import Objects
from stowplan.world.setup import Config

ZONE = "topology.kubernetes.io/zone"
SHOWN_MAX = 20

Fill = dict[str, dict[str, tuple[int, int]]]
"""Group of nodes -> resource -> how much is taken, and how much there is."""


@dataclass(slots=True, repr=False)
class WhatIf:
    """Truth: nobody becomes pending, and nothing stood in the way of a drain."""

    diff: Diff
    blocked: dict[str, str] = field(default_factory=dict)
    """Pods that could not be evicted from a drained node, and why."""
    preempted: dict[str, str] = field(default_factory=dict)
    """Pods that were evicted to make room -> for whom."""
    before: Fill = field(default_factory=dict)
    after: Fill = field(default_factory=dict)
    pending_before: int = 0
    pending_after: int = 0

    def __bool__(self) -> bool:
        return not self.diff.pending and not self.blocked

    def to_dict(self) -> dict[str, Any]:
        diff = self.diff
        return {
            "nodesAdded": list(diff.nodes_added),
            "nodesRemoved": list(diff.nodes_removed),
            "moved": {pod: {"from": old, "to": new} for pod, (old, new) in diff.moved.items()},
            "placed": diff.placed,
            "pending": diff.pending,
            "gone": {**diff.evicted, **dict.fromkeys(diff.removed, "")},
            "preempted": self.preempted,
            "blocked": self.blocked,
            "before": {"pending": self.pending_before, "fill": _plain(self.before)},
            "after": {"pending": self.pending_after, "fill": _plain(self.after)},
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        diff = self.diff
        yield f"pending: {self.pending_before} before, {self.pending_after} after"
        sections = (
            ("nodes added", diff.nodes_added),
            ("nodes removed", diff.nodes_removed),
            ("moved", [f"{pod}: {old} -> {new}" for pod, (old, new) in diff.moved.items()]),
            ("placed now", [f"{pod}: {node}" for pod, node in diff.placed.items()]),
            ("pending now", [_waiting(pod, why) for pod, why in diff.pending.items()]),
            ("gone", [f"{pod}: was on {node}" for pod, node in diff.evicted.items()]),
            ("gone, and had no node", diff.removed),
            ("evicted to make room", [f"{pod}: for {who}" for pod, who in self.preempted.items()]),
            ("not evicted", [f"{pod}: {why}" for pod, why in self.blocked.items()]),
        )
        for title, entries in sections:
            yield from _section(title, list(entries), width)
        yield from self._filled()

    def _filled(self) -> Iterator[str]:
        yield ""
        yield "filled:"
        names = sorted({*self.before, *self.after})
        space = max(map(len, names), default=0)
        for name in names:
            for resource in ("cpu", "memory"):
                old, new = (_share(fill, name, resource) for fill in (self.before, self.after))
                taken, whole = self.after.get(name, {}).get(resource, (0, 0))
                room = f"{shown(resource, taken)} of {shown(resource, whole)}"
                yield f"  {name:{space}}  {resource:6}  {old:>5} -> {new:>5}  {room}"

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def _waiting(pod: str, why: str) -> str:
    return f"{pod}: {why.replace(NO_CLAIMS, '')}" if why else pod


def _section(title: str, entries: list[str], width: int) -> Iterator[str]:
    if not entries:
        return
    yield ""
    yield f"{title} ({len(entries)}):"
    for entry in entries[:SHOWN_MAX]:
        yield from wrapped(entry, width, "  ")
    if len(entries) > SHOWN_MAX:
        yield f"  and {len(entries) - SHOWN_MAX} more"


def what_if(
    cluster: Cluster,
    *,
    add_nodes: int = 0,
    like: str = "",
    node_file: Objects | None = None,
    apply: Objects | None = None,
    replace: Objects | None = None,
    taint: Iterable[str] = (),
    label: Iterable[str] = (),
    cordon: Iterable[str] = (),
    scale: Iterable[str] = (),
    set: Iterable[str] = (),  # noqa: A002 - the command's word
    delete: Iterable[str] = (),
    config: Config = None,
    remove: Iterable[str] = (),
    drain: Iterable[str] = (),
    tell: Tell = tell_nobody,
) -> WhatIf:
    """What would become of everybody; words are as `stowplan what-if` takes them.

    Changes are made in the order of the parameters, whatever the order they are given in.  The
    cluster itself is not changed.
    """
    with cluster.fork() as before:
        tell("deciding what waits")
        before.run()
        tell("making the changes")
        with before.fork() as after:
            _provide(after, add_nodes, like, node_file, apply)
            if replace is not None:
                deeds.replace(after, replace)
            each: tuple[tuple[Callable[[Cluster, str], None], Iterable[str]], ...] = (
                (deeds.taint, taint),
                (deeds.label, label),
                (Cluster.cordon, cordon),
                (deeds.scale, scale),
                (deeds.set_field, set),
                (deeds.delete, delete),
            )
            for do, words in each:
                for word in words:
                    do(after, word)
            if config is not None:
                after.reconfigure(config)
            for name in remove:
                after.delete(name, "Node")
            blocked: dict[str, str] = {}
            for name in drain:
                tell(f"draining {name}")
                blocked |= after.drain(name)
            tell("deciding again")
            after.run()
            return compared(before, after, blocked)


def _provide(
    after: Cluster, add_nodes: int, like: str, node_file: Objects | None, apply: Objects | None
) -> None:
    if add_nodes and not like:
        raise InputError("which nodes to add?", hint="name one that they are like: `--like NODE`")
    if add_nodes:
        after.add_nodes(add_nodes, like=like, prefix=f"{like}-new")
    for objects in (node_file, apply):
        if objects is not None:
            after.apply(objects)


def compared(before: Cluster, after: Cluster, blocked: dict[str, str]) -> WhatIf:
    preempted = {
        victim: decision.pod
        for last in after.decisions()
        for decision in last.history
        for victim in decision.victims
    }
    known = {victim for last in before.decisions() for d in last.history for victim in d.victims}
    return WhatIf(
        after.diff(before),
        blocked,
        {victim: pod for victim, pod in preempted.items() if victim not in known},
        _fill(before),
        _fill(after),
        len(before.pods(pending=True)),
        len(after.pods(pending=True)),
    )


def _fill(cluster: Cluster) -> Fill:
    """In all, per zone and per pool."""
    whole, free = cluster.allocatable(), cluster.free()
    labels = {node.name: node.metadata.labels or {} for node in cluster.objects("Node")}
    pool = pool_label(cluster)
    fill: Fill = {}
    resources = [name for name in whole.columns if name != "pods" and whole[name].any()]
    rows = whole.index
    for place, node in enumerate(rows):
        groups = ["all nodes"]
        for key, word in ((ZONE, "zone"), (pool, "pool")):
            if key and key in labels[node]:
                groups.append(f"{word} {labels[node][key]}")
        for name in groups:
            group = fill.setdefault(name, {})
            for resource in resources:
                taken, there = group.get(resource, (0, 0))
                own = int(whole[resource][place])
                group[resource] = taken + own - int(free[resource][place]), there + own
    return fill


def _share(fill: Fill, group: str, resource: str) -> str:
    taken, whole = fill.get(group, {}).get(resource, (0, 0))
    return f"{100 * taken / whole:.0f} %" if whole else "-"


def _plain(fill: Fill) -> dict[str, Any]:
    return {
        group: {name: {"taken": taken, "whole": whole} for name, (taken, whole) in amounts.items()}
        for group, amounts in fill.items()
    }
