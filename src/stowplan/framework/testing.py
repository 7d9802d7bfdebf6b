"""For tests of plugins: stand-ins that fail when a plugin reads what it said it does not read.

    watch = Watch(plugin.reads)
    plugin.filter_node(cycle, watch.pod(pod), watch.node(node))

`ask_everything` asks a plugin of a class, in all its forms, about every node of a table; made with
a watched handle, it has nothing else to read from.  See docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import make_plugin
from stowplan.framework.reads import ANYTHING, Reads, reads_of, skips_by_traits
from stowplan.framework.status import SKIP_ALWAYS, SKIP_STEADILY, Code, Status
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

_SUMS = ("requested", "nonzero_milli_cpu", "nonzero_memory", "used_ports", "port_conflict")
_SUM_COLUMNS = ("requested", "pod_count", "nonzero_milli_cpu", "nonzero_memory", "port_used")
_SIZES = ("requests", "running_requests", "taken_up", "nonzero_requests", "fit_score_requests")
_OWN = ("annotations", "name", "uid", "resource_version", "generate_name")
_READING = ("get", "all", "version", "changed_since", "kinds", "change_count")
_REST = ("nominated", "waiting", "activate", "framework", "pod_by_key", "node")


class ReadsMore(AssertionError):
    """A plugin read what its `reads` does not allow."""


class _StandIn:
    """Passes on what is read, but for what must not be; some of it as stand-ins again."""

    def __init__(
        self, of: object, forbidden: Mapping[str, str], inside: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        self._of, self._forbidden, self._inside = of, forbidden, inside

    def __getattr__(self, name: str) -> Any:
        if name in self._forbidden:
            what = f"{type(self._of).__name__}.{name}"
            raise ReadsMore(f"{what} was read, which takes {self._forbidden[name]}")
        value = getattr(self._of, name)
        return self._inside[name](value) if name in self._inside else value

    def __bool__(self) -> bool:
        return bool(self._of)

    def __len__(self) -> int:
        return len(self._of)  # type: ignore[arg-type]


class _Nothing(dict[str, str]):
    """Forbids everything."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return str(Reads.CLUSTER)


class Watch:
    def __init__(self, reads: Reads = ANYTHING) -> None:
        self._reads = reads

    def _unless(self, needed: Reads, *names: str) -> dict[str, str]:
        return {} if needed in self._reads else dict.fromkeys(names, str(needed))

    def pod(self, pod: PodInfo) -> Any:
        """Without its size, and without what its replicas do not share, unless these are read."""
        own = {}
        if Reads.CLUSTER not in self._reads:
            own = self._unless(Reads.ANNOTATIONS, *_OWN)
        size = self._unless(Reads.SIZE, "resources")

        def container(thing: Any) -> Any:
            return _StandIn(thing, size, {})

        def containers(things: Any) -> Any:
            return things and [container(thing) for thing in things]

        def spec(thing: Any) -> Any:
            inside = {"containers": containers, "init_containers": containers}
            return _StandIn(thing, size, inside)

        def whole(thing: Any) -> Any:
            metadata = lambda given: _StandIn(given, own, {})  # noqa: E731
            return _StandIn(thing, {}, {"metadata": metadata, "spec": spec})

        kind = _StandIn(pod.kind, self._unless(Reads.SIZE, *_SIZES), {"pod": whole, "spec": spec})
        about = {"key": own["name"], "uid": own["uid"]} if own else {}
        return _StandIn(pod, about, {"pod": whole, "kind": lambda _: kind})

    def node(self, node: NodeInfo) -> Any:
        forbidden = self._unless(Reads.SUMS, *_SUMS, "pods")

        def pods(there: Any) -> Any:
            every = ("get", "items", "keys", "values")
            return _StandIn(there, self._unless(Reads.PODS, *every), {})

        inside = {} if Reads.PODS in self._reads else {"pods": pods}
        return _StandIn(node, forbidden, inside)

    def table(self, table: NodeTable) -> Any:
        forbidden = self._unless(Reads.SUMS, *_SUM_COLUMNS, "ports")
        forbidden |= self._unless(Reads.PODS, "pods", "counts")

        def infos(given: Any) -> Any:
            return [info and self.node(info) for info in given]

        info = lambda given: lambda row: self.node(given(row))  # noqa: E731
        return _StandIn(table, forbidden, {"infos": infos, "info": info})

    def handle(self, handle: Handle) -> Any:
        """A handle of its own: what was kept before hides what is read."""
        forbidden, reading = (self._unless(Reads.CLUSTER, *n) for n in (_REST, _READING))
        nothing = _Nothing() if reading else {}

        def derived(given: Any) -> Any:
            return lambda made: _StandIn(given(made), nothing, {})

        inside = {
            "nodes": self.table,
            "objects": lambda given: _StandIn(given, reading, {"derived": derived}),
        }
        return _StandIn(replace(handle), forbidden, inside)

    def cycle(self, handle: Any) -> Any:
        cycle = Cycle(handle, handle.nodes)
        inside = {"nodes": self.table, "handle": lambda _: handle}
        return _StandIn(cycle, {}, inside) if isinstance(cycle.nodes, NodeTable) else cycle


def ask_everything(plugin: type, args: Any, handle: Handle, pod: PodInfo) -> None:
    """Ask about every node of the table, in each form there is; raises `ReadsMore`."""
    reads = reads_of(plugin)
    first = make_plugin(plugin, args, replace(handle))
    if hasattr(first, "signature") and first.signature(pod) is None:
        # About this pod it may read the cluster.
        reads |= Reads.CLUSTER
    watch = Watch(reads)
    given, asked = watch.handle(handle), watch.pod(pod)
    made, cycle, table = make_plugin(plugin, args, given), watch.cycle(given), handle.nodes
    rows = np.flatnonzero(table.alive)
    infos = [watch.node(table.info(row)) for row in rows.tolist()]
    if hasattr(made, "signature"):
        made.signature(asked)
    for point, one, every in (
        ("pre_filter", "filter_node", "filter_nodes"),
        ("pre_score", "score_node", "score_nodes"),
    ):
        more = () if point == "pre_filter" else (rows,)
        answer = getattr(made, point)(cycle, asked, *more) if hasattr(made, point) else None
        if isinstance(answer, Status) and answer.code is not Code.SUCCESS:
            if answer in (SKIP_STEADILY, SKIP_ALWAYS) and skips_by_traits(plugin):
                # This is remembered for pods of any size, so it must not be read on the way here.
                sizeless = Watch(reads ^ (reads & Reads.SIZE))
                given = sizeless.handle(handle)
                again = make_plugin(plugin, args, given)
                getattr(again, point)(sizeless.cycle(given), sizeless.pod(pod), *more)
            continue
        for info in infos if hasattr(made, one) else ():
            getattr(made, one)(cycle, asked, info)
        for where in (slice(0, table.size), rows) if hasattr(made, every) else ():
            getattr(made, every)(cycle, asked, watch.table(table), where)
