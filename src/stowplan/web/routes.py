"""The JSON API, path by path: which view answers, of the cluster or of a fork (`?world=`).

docs/page.md is its description.  A view is a function of a cluster and an `Ask`; long ones are
asked so that the cluster itself does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan._version import __version__
from stowplan.answers import why
from stowplan.web import decisions, nodes, queues, worlds
from stowplan.web.asking import Ask
from stowplan.web.changes import Changes
from stowplan.web.paths import NAME, Handler, Paths
from stowplan.web.sources import ClusterSource
from stowplan.web.worlds import Worlds
from stowplan.world.cluster import Cluster

View = Callable[[Cluster, Ask], Any]


class Routes(Paths):
    """Of a cluster."""

    def __init__(self, source: ClusterSource, changes: Changes) -> None:
        self._source = source
        self._changes = changes
        self.worlds = Worlds()
        pod = f"pods/{NAME}/{NAME}"
        short: dict[str, View] = {
            "map": nodes.map_view,
            "map/pods": nodes.map_pods,
            "search": nodes.search,
            "nodes": nodes.node_table,
            f"nodes/{NAME}": nodes.node_view,
            "queue": queues.queue_view,
            "remarks": queues.remarks,
            "pods": queues.pod_table,
            pod: decisions.pod_view,
            f"{pod}/attempts/{NAME}": decisions.attempt_table,
            "events": queues.events_view,
            "manifest": worlds.manifest_text,
            "workloads": worlds.workloads,
        }
        long: dict[str, View] = {
            f"{pod}/why": decisions.why_view,
            f"{pod}/why-not/{NAME}": decisions.why_not,
            "pending": lambda cluster, ask: why(cluster).to_dict(),
        }
        super().__init__(
            {
                **{path: {"GET": self._view(view)} for path, view in short.items()},
                **{path: {"GET": self._view(view, long=True)} for path, view in long.items()},
                "": {"GET": self._about},
                "time": {"GET": self._time},
                "check": {"POST": self._view(worlds.check, long=True)},
                "worlds": {"GET": self._all_worlds, "POST": self._create},
                f"worlds/{NAME}": {"DELETE": self._delete},
                f"worlds/{NAME}/changes": {"POST": self._in_worlds(Worlds.change)},
                f"worlds/{NAME}/diff": {"GET": self._in_worlds(Worlds.difference)},
                f"worlds/{NAME}/export": {"GET": self._in_worlds(Worlds.export)},
            }
        )

    def _view(self, view: View, *, long: bool = False) -> Handler:
        async def answer(ask: Ask) -> Any:
            world = ask.text("world")
            if world:
                return await self._source.work(lambda: view(self.worlds.get(world).after, ask))
            read = self._source.ask if long else self._source.read
            return await read(lambda cluster: view(cluster, ask))

        return answer

    def _in_worlds(self, action: Callable[[Worlds, Ask], Any]) -> Handler:
        async def answer(ask: Ask) -> Any:
            return await self._source.work(lambda: action(self.worlds, ask))

        return answer

    async def _about(self, ask: Ask) -> Any:
        source = self._source
        told = await self._view(lambda cluster, _: queues.about(cluster))(ask)
        return {
            **told,
            "name": source.name,
            "kind": source.kind,
            "views": source.views,
            "live": source.live,
            "note": source.note,
            "problem": source.problem,
            "version": source.version,
            "stowplan": __version__,
            "worlds": await source.work(self.worlds.all),
        }

    async def _time(self, ask: Ask) -> Any:
        return self._changes.series.view()

    async def _all_worlds(self, ask: Ask) -> Any:
        return {"worlds": await self._source.work(self.worlds.all)}

    async def _create(self, ask: Ask) -> Any:
        fork = await self._source.read(lambda cluster: cluster.fork())
        return await self._source.work(lambda: self.worlds.create(fork))

    async def _delete(self, ask: Ask) -> Any:
        return await self._source.work(lambda: self.worlds.delete(ask.parts[0]))
