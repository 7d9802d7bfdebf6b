"""Would a pod like this fit?  The scheduler's own search, for pods that nobody adds.

A trial on a fork costs a fork; whether a changed pod passes all filters on some node takes only the
search itself.  So many changes can be tried, and the few that hold are proven on forks.  Made by
`Cluster.screen`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from stowplan.core.algorithm import Search
from stowplan.core.group_outcome import GroupOutcome
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from stowplan.world.applying import Sources, completed
from stowplan.world.engine import Engine
from stowplan.world.groups import outcome_in_domain
from stowplan.world.objections import Objections, objections, run_search


class Screen:
    def __init__(self, engine: Engine, sources: Sources) -> None:
        """`engine` is nobody else's: it is closed with this."""
        self._engine = engine
        self._sources = sources
        machine = engine.driver.machine
        machine.table.refresh(machine.cache)

    def fits(self, pod: Mapping[str, Any]) -> int:
        """How many nodes would take this pod now, given as a manifest; gates are not asked."""
        search = self._search(pod)
        return 0 if search is None else search.feasible_count

    def feasible(self, pod: Mapping[str, Any]) -> list[str]:
        """The nodes that would take this pod now, as far as the scheduler looks: at all of them if
        percentageOfNodesToScore is 100."""
        search = self._search(pod)
        if search is None or search.found is None:
            return []
        names = self._engine.driver.machine.table.names
        return [names[row] for row in search.found.mask.nonzero()[0].tolist()]

    def _search(self, pod: Mapping[str, Any]) -> Search | None:
        info = self._info(pod)
        machine = self._engine.driver.machine
        framework = machine.frameworks.get(info.pod.spec.scheduler_name) if info else None
        if info is None or framework is None:
            return None
        cycle = Cycle(framework.handle, framework.handle.nodes)
        try:
            return run_search(framework, cycle, info)
        except PluginFailed:
            return None

    def objections(self, pod: Mapping[str, Any]) -> Objections:
        """Which plugins would turn down which nodes for it, each asked for itself."""
        info = self._info(pod)
        assert info is not None, "it was decoded before"
        return objections(self._engine.driver.machine, info)

    def group_in(self, group: str, pods: Iterable[str], value: str) -> GroupOutcome | None:
        """How these members of a group would fare where its topology label has that value."""
        return outcome_in_domain(self._engine.driver.machine, group, pods, value)

    def _info(self, pod: Mapping[str, Any]) -> PodInfo | None:
        try:
            found = completed(self._engine.store, [("trial", dict(pod))], self._sources)
        except StowplanError:
            return None
        return PodInfo(found[0]) if found and isinstance(found[0], Pod) else None

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
