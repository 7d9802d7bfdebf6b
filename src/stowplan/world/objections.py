"""Who turns down which node, each filter asked for itself.

A decision names the first plugin that turned a node down: the others were not asked any more.  Here
each filter of the pod's profile is run by the framework as the only one of a profile, with its own
PreFilter, so that a node's objections are all known.  Made by `Cluster.objections`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from stowplan.config.types import PluginRef, Plugins, PluginSet
from stowplan.core.algorithm import Algorithm, Search
from stowplan.core.machine import Machine
from stowplan.core.profiles import build_frameworks
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.errors import PluginFailed
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Status
from stowplan.state.pod_info import PodInfo

Mask = NDArray[np.bool_]
Found = TypeVar("Found")


class Objections:
    """Per plugin the nodes that it would turn down, whatever the others say."""

    __slots__ = ("_found", "_rows", "names", "plugins", "rejected")

    def __init__(
        self,
        names: list[str],
        rows: list[int],
        found: dict[str, tuple[Mask, Diagnosis | Status]],
    ) -> None:
        self.names = names
        """The nodes; the arrays here are in their order."""
        self._rows = rows
        self._found = found
        self.plugins = tuple(found)
        """Those that object to at least one node, in the order they are asked."""
        self.rejected = {name: mask for name, (mask, _) in found.items()}
        """Plugin -> which nodes it turns down."""

    def count(self) -> NDArray[np.int64]:
        """How many plugins object to each node."""
        total = np.zeros(len(self.names), np.int64)
        for mask in self.rejected.values():
            total += mask
        return total

    def groups(self) -> list[tuple[tuple[str, ...], NDArray[np.intp]]]:
        """Nodes that the same plugins object to, those with the fewest objections first."""
        code = np.zeros(len(self.names), np.int64)
        for number, mask in enumerate(self.rejected.values()):
            code |= mask.astype(np.int64) << number
        groups = []
        for value in np.unique(code).tolist():
            plugins = tuple(name for n, name in enumerate(self.plugins) if value >> n & 1)
            groups.append((plugins, (code == value).nonzero()[0]))
        return sorted(groups, key=lambda group: (len(group[0]), -len(group[1]), group[0]))

    def reasons(self, plugin: str, position: int) -> tuple[str, ...]:
        """What the plugin says of the node at this position."""
        mask, diagnosis = self._found[plugin]
        if not mask[position]:
            return ()
        if isinstance(diagnosis, Status):
            return diagnosis.reasons
        status = diagnosis.status(self._rows[position])
        return () if status is None else status.reasons


def objections(machine: Machine, pod: PodInfo) -> Objections:
    """`machine` is nobody else's: frameworks are made on it."""
    profile = pod.pod.spec.scheduler_name
    whole = machine.frameworks[profile]
    table = machine.table
    table.refresh(machine.cache)
    rows = table.alive.nonzero()[0]
    names = [table.names[row] for row in rows.tolist()]
    found: dict[str, tuple[Mask, Diagnosis | Status]] = {}
    for name in _asked(whole):
        passed, why = _answer(_alone(machine, whole, name), pod)
        mask = ~passed[rows] if len(passed) else np.ones(len(rows), np.bool_)
        if why is not None and mask.any():
            found[name] = mask, why
    return Objections(names, rows.tolist(), found)


def _asked(framework: Framework) -> Iterable[str]:
    plugins = framework.plugins
    named = [getattr(plugin, "name", "") for plugin in (*plugins.filter, *plugins.pre_filter)]
    return dict.fromkeys(named)


def _alone(machine: Machine, whole: Framework, name: str) -> Framework:
    """A profile that asks nobody else about nodes."""
    config = machine.config
    profile = config.profile(whole.profile)
    assert profile is not None, whole.profile
    plugins = whole.plugins
    only = PluginSet(enabled=[PluginRef(name=name)])
    at = {
        "pre_filter": only if _has(plugins.pre_filter, name) else PluginSet(),
        "filter": only if _has(plugins.filter, name) else PluginSet(),
        "queue_sort": PluginSet(enabled=[PluginRef(name=_name(plugins.queue_sort))]),
        "bind": PluginSet(enabled=[PluginRef(name=_name(each)) for each in plugins.bind]),
    }
    alone = replace(profile, plugins=Plugins(**at), percentage_of_nodes_to_score=100)
    handle = whole.handle
    (framework,) = build_frameworks(
        replace(config, profiles=[alone]), handle, registry=machine.registry
    ).values()
    framework.handle.nominated = handle.nominated
    return framework


def _has(plugins: Iterable[object], name: str) -> bool:
    return any(_name(plugin) == name for plugin in plugins)


def _name(plugin: object) -> str:
    return str(getattr(plugin, "name", ""))


def _answer(framework: Framework, pod: PodInfo) -> tuple[Mask, Diagnosis | Status | None]:
    """The rows that pass (none at all: an empty array), and why the others do not."""
    cycle = Cycle(framework.handle, framework.handle.nodes)
    nobody = np.zeros(0, np.bool_)
    try:
        search = run_search(framework, cycle, pod)
    except PluginFailed as failure:
        return nobody, failure.status
    if search.found is None:
        return nobody, search.diagnosis
    diagnosis = search.diagnosis or framework.diagnose(cycle.nodes, search.found)
    return search.found.mask.copy(), diagnosis


def run_search(framework: Framework, cycle: Cycle, pod: PodInfo) -> Search:
    """The choice of a node and nothing else: nobody is evicted, nothing is written."""
    return run_steps(Algorithm().search(framework, cycle, pod))


def run_steps(steps: Generator[Any, Any, Found]) -> Found:
    """To the end; nobody is there to wait for, since extenders are not called."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        found: Found = done.value
        return found
