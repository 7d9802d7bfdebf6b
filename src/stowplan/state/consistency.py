"""Is what we believe consistent?  Everything counted again from the pods and nodes themselves.

`cache_problems` looks at the cache alone, `table_problems` compares the node table with it.  Each
problem is one sentence; no problem is an empty list.  Called by the debugger, by
`NodeTable.check`, and after every step of the random tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.objects.node import Taint
from stowplan.state.label_column import ABSENT
from stowplan.state.node_info import NodeInfo

if TYPE_CHECKING:
    from stowplan.state.cache import Cache
    from stowplan.state.node_table import NodeTable


def cache_problems(cache: Cache) -> list[str]:
    return [*_pod_problems(cache), *_node_problems(cache)]


def table_problems(table: NodeTable, cache: Cache) -> list[str]:
    """What the table, refreshed, says otherwise than the cache."""
    problems = [*_row_problems(table, cache)]
    if not problems:
        for info in cache.nodes.values():
            if info.node is not None:
                problems += [f"node {info.name}: {text}" for text in _column_problems(table, info)]
    problems += _image_problems(table)
    problems += _pod_table_problems(table, cache)
    return problems


# -- the cache by itself --------------------------------------------------------------------


def _pod_problems(cache: Cache) -> Iterator[str]:
    on_nodes = {uid: info.name for info in cache.nodes.values() for uid in info.pods}
    for uid in cache.pod_uids():
        pod = cache.pod(uid)
        assert pod is not None
        if on_nodes.pop(uid, None) != pod.node_name:
            yield f"pod {pod.key} is not counted on its node {pod.node_name}"
    for uid, name in on_nodes.items():
        yield f"node {name} counts pod {uid}, which nobody knows"
    for uid in cache.assumed_uids():
        if cache.pod(uid) is None:
            yield f"pod {uid} is assumed but not there"


def _node_problems(cache: Cache) -> Iterator[str]:
    known = {name for name, info in cache.nodes.items() if info.node is not None}
    listed = cache.tree.names()
    if len(listed) != len(set(listed)) or set(listed) != known:
        yield f"the tree lists {len(listed)} nodes, {len(known)} are there"
    for name, info in cache.nodes.items():
        if info.node is None and not info.pods:
            yield f"node {name} is a ghost without pods"
        recounted = recount(info)
        for what, expected in recounted.items():
            found = getattr(info, what)
            if _without_zeros(found) != _without_zeros(expected):
                yield f"node {name}: {what} is {found}, its pods make {expected}"


def recount(info: NodeInfo) -> dict[str, Any]:
    """The sums of a node, from its pods."""
    requested: Counter[str] = Counter()
    claims: Counter[str] = Counter()
    milli_cpu = memory = 0
    for pod in info.pods.values():
        requested.update(pod.kind.running_requests)
        claims.update(pod.claim_keys)
        milli_cpu += pod.kind.nonzero_requests[0]
        memory += pod.kind.nonzero_requests[1]
    return {
        "requested": dict(requested),
        "claim_refs": dict(claims),
        "nonzero_milli_cpu": milli_cpu,
        "nonzero_memory": memory,
    }


def _without_zeros(value: Any) -> Any:
    return {k: v for k, v in value.items() if v} if isinstance(value, dict) else value


# -- the table against the cache ------------------------------------------------------------


def _row_problems(table: NodeTable, cache: Cache) -> Iterator[str]:
    expected = {name for name, info in cache.nodes.items() if info.node is not None}
    if set(table.row_of) != expected or table.node_count != len(expected):
        yield f"the table has {len(table.row_of)} nodes, the cache {len(expected)}"
        return
    alive = set(np.flatnonzero(table.alive).tolist())
    if alive != set(table.row_of.values()):
        yield "rows that are alive are not those that have nodes"
    for name, row in table.row_of.items():
        info = cache.nodes[name]
        if not (table.infos[row] is info and table.names[row] == name and info.row == row):
            yield f"node {name} is not what row {row} holds"
    # A change of zone alone does not reorder the list, as upstream has it.
    if sorted(table.order.tolist()) != sorted(alive):
        yield "the order of nodes is not an order of all nodes"


def _column_problems(table: NodeTable, info: NodeInfo) -> Iterator[str]:
    row, node = info.row, info.node
    assert node is not None
    plain = {
        "pod_count": len(info.pods),
        "nonzero_milli_cpu": info.nonzero_milli_cpu,
        "nonzero_memory": info.nonzero_memory,
        "unschedulable": node.spec.unschedulable,
    }
    for what, expected in plain.items():
        found = getattr(table, what)[row]
        if found != expected:
            yield f"{what} is {found}, not {expected}"
    for resource in {*info.requested, *table.resources}:
        if table.requested(resource)[row] != info.requested.get(resource, 0):
            yield f"requested {resource} is {table.requested(resource)[row]}"
    for resource in {*info.allocatable, *table.resources}:
        if table.allocatable(resource)[row] != info.allocatable.get(resource, 0):
            yield f"allocatable {resource} is {table.allocatable(resource)[row]}"
    if _taints(table.taint_lists[table.taint_list[row]]) != _taints(node.spec.taints or ()):
        yield "the taints are others"
    features = frozenset(node.status.declared_features or ())
    if table.feature_lists[table.feature_list[row]] != features:
        yield "the declared features are others"
    if table.ports.of_row(row) != info.used_ports:
        yield "the host ports are others"
    for key in table.labels_kept:
        column = table.label(key)
        number = int(column.ids[row])
        found = None if number == ABSENT else column.values[number]
        if found != info.labels.get(key):
            yield f"label {key} is {found}"


def _taints(taints: Iterable[Taint]) -> list[tuple[str, str, str]]:
    return [(taint.key, taint.value, taint.effect) for taint in taints]


def _image_problems(table: NodeTable) -> Iterator[str]:
    for name in table.images.names():
        columns = table.image(name)
        if columns is None:
            continue
        for row, info in enumerate(table.infos):
            expected = info.image_states.get(name, (0, 0)) if info is not None else (0, 0)
            if (columns[0][row], columns[1][row]) != expected:
                yield f"row {row}: image {name} is not {expected}"


def _pod_table_problems(table: NodeTable, cache: Cache) -> Iterator[str]:
    expected = Counter(
        (info.row, id(pod.kind))
        for info in cache.nodes.values()
        if info.node is not None
        for pod in info.pods.values()
    )
    pods = table.pods
    used = np.flatnonzero(pods.kind_slots >= 0)
    found = Counter(
        (row, id(pods.kinds[slot]))
        for row, slot in zip(pods.rows[used].tolist(), pods.kind_slots[used].tolist(), strict=True)
    )
    if found != expected or len(pods) != expected.total():
        yield f"the pod table has {len(pods)} pods, the nodes {expected.total()}"
    kinds = {
        pod.kind: None
        for info in cache.nodes.values()
        if info.node is not None
        for pod in info.pods.values()
    }
    for sort in ("required_affinity", "required_anti_affinity"):
        carried = Counter(term for kind in kinds for term in set(getattr(kind, sort)))
        if getattr(pods, sort).terms != dict(carried):
            yield f"the {sort.replace('_', ' ')} terms in use are others"
    claims = Counter(
        key
        for info in cache.nodes.values()
        if info.node is not None
        for pod in info.pods.values()
        for key in pod.claim_keys
    )
    if pods.claims != dict(claims):
        yield "the claims in use are others"
