"""Ask a plugin about every node, in both forms at once: they must agree, whatever is asked.

Under stand-ins, which fail when the plugin reads what it says it does not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, ClusterEvent, Hint
from stowplan.framework.reads import is_node_local, reads_of
from stowplan.framework.status import Code, Normalized, Rows, Scores, Status
from stowplan.framework.testing import Watch
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.builders import World


def skips(answer: Any) -> bool:
    """Whether PreFilter or PreScore answered Skip, of any sort."""
    return isinstance(answer, Status) and answer.code is Code.SKIP


def filtered(plugin: Any, world: World, pod: Pod) -> dict[str, Status | None]:
    """The status of every node; all pass where PreFilter answers Skip."""
    watch, cycle, table = Watch(reads_of(plugin)), world.cycle(), world.table
    info, watched = watch.pod(PodInfo(pod)), watch.table(table)
    names = table.row_of
    if hasattr(plugin, "pre_filter") and skips(plugin.pre_filter(cycle, info)):
        return dict.fromkeys(names)
    single = {
        name: plugin.filter_node(cycle, info, watched.info(row)) for name, row in names.items()
    }
    whole = plugin.filter_nodes(cycle, info, watched, slice(0, table.size))
    some = np.array(list(names.values())[::-2], np.intp)
    part = plugin.filter_nodes(cycle, info, watched, some)
    assert len(whole.why) == table.size
    assert {name: whole.status(row) for name, row in names.items()} == single
    assert [part.status(n) for n in range(len(some))] == [single[table.names[r]] for r in some]
    return single


def reasons(plugin: Any, world: World, pod: Pod) -> dict[str, tuple[str, ...]]:
    """Of the nodes that are turned down."""
    found = filtered(plugin, world, pod)
    return {name: status.reasons for name, status in found.items() if status is not None}


def raw_scores(plugin: Any, world: World, pod: Pod) -> dict[str, int] | None:
    """The score of every node before normalising; None where PreScore answers Skip."""
    watch, cycle, table = Watch(reads_of(plugin)), world.cycle(), world.table
    info, watched = watch.pod(PodInfo(pod)), watch.table(table)
    names = table.row_of
    rows = np.array(list(names.values()), np.intp)
    if hasattr(plugin, "pre_score") and skips(plugin.pre_score(cycle, info, rows)):
        return None
    single = {
        name: plugin.score_node(cycle, info, watched.info(row)) for name, row in names.items()
    }
    if hasattr(plugin, "normalize_scores"):
        for asked in (rows, rows[::-2]):
            raw = np.array([single[table.names[row]] for row in asked], np.int64)
            normal = plugin.normalize_scores(cycle, info, table, asked, raw)
            assert normal_scores(plugin, cycle, info, asked).tolist() == normal.tolist()
    if is_node_local(plugin):
        part = plugin.score_nodes(cycle, info, watched, rows[::-2])
        assert part.tolist() == [single[table.names[row]] for row in rows[::-2]]
        assert part.dtype in (np.int64, np.int32)
        whole = plugin.score_nodes(cycle, info, watched, slice(0, table.size))
        assert {name: int(whole[row]) for name, row in names.items()} == single
    return single


def normal_scores(plugin: Any, cycle: Cycle, info: PodInfo, rows: Rows) -> Scores:
    """What `score_nodes` comes to, in whichever way it says so."""
    found = plugin.score_nodes(cycle, info, cycle.nodes, rows)
    if isinstance(found, int):
        return np.full(len(rows), found, np.int64)
    if isinstance(found, Normalized):
        return found.scores
    normal: Scores = plugin.normalize_scores(cycle, info, cycle.nodes, rows, found)
    return normal


def scores(plugin: Any, world: World, pod: Pod) -> dict[str, int] | None:
    """The score of every node, normalised."""
    raw = raw_scores(plugin, world, pod)
    if raw is None or not hasattr(plugin, "normalize_scores"):
        return raw
    table = world.table
    rows = np.array([table.row_of[name] for name in raw], np.intp)
    given = np.array(list(raw.values()), np.int64)
    normal = plugin.normalize_scores(world.cycle(), PodInfo(pod), table, rows, given)
    return dict(zip(raw, normal.tolist(), strict=True))


def hint(
    plugin: Any, resource: str, action: Action, pod: Pod, old: Any = None, new: Any = None
) -> Hint | None:
    """What the plugin says about an event; None when it did not register for it."""
    event = ClusterEvent(resource, action)
    for registration in plugin.events_to_register():
        if registration.event.matches(event):
            return registration.hint(pod, old, new) if registration.hint else Hint.QUEUE
    return None
