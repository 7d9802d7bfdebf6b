"""The JSON API, path by path: which view answers, of the cluster or of a fork (`?world=`).

docs/page.md is its description.  A view is a function of a cluster and an `Ask`; long ones are
asked so that the cluster itself does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from stowplan._version import __version__
from stowplan.answers import why
from stowplan.errors import InputError
from stowplan.web import decisions, nodes, opinions, queues, worlds
from stowplan.web.asking import Ask
from stowplan.web.changes import Changes
from stowplan.web.paths import NAME, Handler, Paths
from stowplan.web.sources import Beside, ClusterSource
from stowplan.web.worlds import Worlds
from stowplan.world.cluster import Cluster

View = Callable[[Cluster, Ask], Any]


class Routes(Paths):
    """Of a cluster."""

    def __init__(self, source: ClusterSource, changes: Changes) -> None:
        self._source = source
        self._changes = changes
        self.worlds = Worlds(source.asked)
        pod = f"pods/{NAME}/{NAME}"
        second = isinstance(source, Beside)
        short: dict[str, View] = {
            "map": nodes.map_view,
            "map/pods": nodes.map_pods,
            "search": nodes.search,
            "nodes": nodes.node_table,
            f"nodes/{NAME}": nodes.node_view,
            "remarks": queues.remarks,
            "pods": queues.pod_table,
            "events": queues.events_view,
            "log": lambda cluster, ask: queues.log_view(cluster, source.lines, ask),
            "manifest": worlds.manifest_text,
            "workloads": worlds.workloads,
        }
        # Who looks beside another scheduler asks the copy that ours has run.
        of_ours: dict[str, View] = {
            "queue": queues.queue_view,
            f"{pod}/attempts/{NAME}": decisions.attempt_table,
        }
        long: dict[str, View] = {
            f"{pod}/why": decisions.why_view,
            f"{pod}/why-not/{NAME}": decisions.why_not,
            "pending": lambda cluster, ask: why(cluster).to_dict(),
        }
        super().__init__(
            {
                **{path: {"GET": self._view(view)} for path, view in short.items()},
                **{path: {"GET": self._view(view, long=second)} for path, view in of_ours.items()},
                **{path: {"GET": self._view(view, long=True)} for path, view in long.items()},
                "opinions": {"GET": self._opinions},
                pod: {"GET": self._pod_beside if second else self._view(decisions.pod_view)},
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
        # Both wait for the same thread, where somebody else may come between them.
        told, made = await asyncio.gather(
            self._view(lambda cluster, _: queues.about(cluster))(ask),
            source.work(self.worlds.all),
        )
        return {
            **told,
            "name": source.name,
            "kind": source.kind,
            "views": source.views,
            "live": source.live,
            "note": source.note,
            **self._changes.outage.to_dict(),
            "version": source.version,
            "stowplan": __version__,
            "worlds": made,
        }

    async def _pod_beside(self, ask: Ask) -> Any:
        """As it is in the cluster, with our attempts at it; `ours` is where we would put it."""
        if ask.text("world"):
            return await self._view(decisions.pod_view)(ask)
        there = await self._source.read(lambda cluster: decisions.pod_view(cluster, ask))
        try:
            ours = await self._source.ask(lambda copy: decisions.pod_view(copy, ask))
        except InputError:
            # It came after the copy was made.
            return there
        mine = {} if there["node"] else {"ours": ours["node"], "place": ours["place"]}
        return {**there, **mine, "attempts": ours["attempts"], "wakes": ours["wakes"]}

    async def _opinions(self, ask: Ask) -> Any:
        """What ours says beside another scheduler: of pods that were placed, and of one that
        waits or all."""
        source = self._source
        if not isinstance(source, Beside):
            return {}
        waiting = await source.read(opinions.waiting)
        ours = await source.ask(partial(opinions.would_go, waiting=waiting))
        return opinions.told(source.opinions(), ours, ask)

    async def _time(self, ask: Ask) -> Any:
        times = await self._source.read(lambda cluster: cluster.times())
        return {**self._changes.series.view(), "times": times}

    async def _all_worlds(self, ask: Ask) -> Any:
        return {"worlds": await self._source.work(self.worlds.all)}

    async def _create(self, ask: Ask) -> Any:
        make = await self._source.read(lambda cluster: cluster.forking())
        return await self._source.work(lambda: self.worlds.create(make()))

    async def _delete(self, ask: Ask) -> Any:
        return await self._source.work(lambda: self.worlds.delete(ask.parts[0]))
