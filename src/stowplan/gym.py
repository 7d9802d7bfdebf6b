"""Learning to place pods: a Gymnasium environment over a trace (`pip install stowplan[gym]`).

Each pod of the trace is one step: the action is the node it goes to.  Which nodes may be chosen,
the scheduler says (`Stream.feasible`), and it is also who places the pod: a plugin narrows its
choice to that one node.  Nothing here knows a rule of scheduling.  docs/simulation.md has the
observation and the reward; `examples/learning` trains a policy and runs it as a plugin.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stowplan.errors import InputError
from stowplan.framework import Cycle, PodInfo, PreFilterResult
from stowplan.sim.record import State
from stowplan.sim.run import TraceRun
from stowplan.sim.settings import Settings
from stowplan.sim.simulate import inputs_of
from stowplan.sim.spans import parse_span
from stowplan.sim.trace import Trace, namespace_of
from stowplan.sim.workload import make_workload
from stowplan.world.reading import Objects
from stowplan.world.setup import Config, Setup, make_setup
from stowplan.world.stream import offers_of, requests_of

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise InputError(
        "gymnasium is not installed", where="stowplan.gym", hint="`pip install stowplan[gym]`"
    ) from None

Arrays = dict[str, NDArray[np.float32]]
Mask = NDArray[np.bool_]

_SEED_END = 2**31


class PlacementEnv(gymnasium.Env):  # type: ignore[misc]
    """One pod, one step, one node.

    `trace` and the options are those of `stowplan.simulate`; a pod runs its service time from when
    it is placed.  A pod that no node would take is turned away without a step, and so is one whose
    action is a node that would not take it.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        trace: Trace | str | os.PathLike[str],
        *,
        nodes: Objects | None = None,
        config: Config = None,
        plugins: Iterable[type] = (),
        plugin_paths: Iterable[str] = (),
        arrivals: str = "recorded",
        inflate: float = 1.0,
        until: str | float | None = None,
    ) -> None:
        self._inputs = inputs_of(trace, nodes, plugins)
        self._config = config
        self._settings = Settings(
            plugin_paths=tuple(plugin_paths),
            until_s=math.inf if until is None else parse_span(until, "until"),
            arrivals=arrivals,  # type: ignore[arg-type]
            inflate=inflate,
            ends="service",
            evicted="lost",
            samples=2,
        )
        self._scale = _Scale(self._inputs.trace, self._inputs.nodes)
        self.node_names = self._scale.node_names
        """What the actions mean."""
        self.resources = self._scale.resources
        """What the pod's features mean."""
        self.feature_names = tuple(
            f"{resource}.{what}" for what in ("free", "allocatable") for resource in self.resources
        )
        """What the nodes' features mean."""
        shape = len(self.node_names), len(self.feature_names)
        self.observation_space = spaces.Dict(
            {
                "nodes": spaces.Box(0.0, 1.0, shape, np.float32),
                "pod": spaces.Box(0.0, 1.0, (len(self.resources),), np.float32),
            }
        )
        self.action_space = spaces.Discrete(len(self.node_names))
        self._episode: _Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        super().reset(seed=seed)
        self.close()
        settings = replace(self._settings, seed=int(self.np_random.integers(_SEED_END)))
        setup = make_setup(
            self._config,
            {"seed": settings.seed, "plugins": self._inputs.plugins, "detail": False},
            registry=self._inputs.registry(settings.plugin_paths),
            lean=True,
        )
        self._episode = episode = _Episode(self._inputs, settings, setup, self._scale)
        episode.next_pod()
        if episode.is_over:
            raise InputError("no pod of the trace fits any node", where=self._inputs.trace.name)
        return episode.observation(), episode.info()

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        episode = self._running()
        if episode.is_over:
            raise InputError("this episode is over", hint="`reset()` begins another")
        reward = episode.place(int(action)) - episode.next_pod()
        return episode.observation(), reward, episode.is_over, False, episode.info()

    def action_masks(self) -> Mask:
        """Which nodes would take the pod."""
        return self._running().mask.copy()

    def close(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _running(self) -> _Episode:
        if self._episode is None:
            raise InputError("no episode has begun", hint="`reset()` begins one")
        return self._episode


class _Scale:
    """What amounts are divided by: the largest node, and all nodes together."""

    def __init__(self, trace: Trace, nodes: tuple[dict[str, Any], ...] | None) -> None:
        manifests = (
            [trace.node(n) for n in range(trace.node_count)] if nodes is None else list(nodes)
        )
        if not manifests:
            raise InputError("has no nodes", where=trace.name)
        self.node_names = tuple(str(node["metadata"]["name"]) for node in manifests)
        self.position = {name: number for number, name in enumerate(self.node_names)}
        offers = [offers_of(node, f"node {node['metadata']['name']}") for node in manifests]
        self.requests = [
            requests_of({**template, "metadata": {"name": "pod"}}, f"pod template {number}")
            for number, template in enumerate(trace.pod_templates)
        ]
        asked = {name for one in self.requests for name, amount in one.items() if amount}
        self.resources = tuple(sorted({"cpu", "memory"} | asked))
        amounts = np.array([[one.get(name, 0) for name in self.resources] for one in offers], float)
        self.largest = np.maximum(amounts.max(axis=0), 1.0)
        self.total = np.maximum(amounts.sum(axis=0), 1.0)

    def asked(self, template: int) -> NDArray[np.float64]:
        requests = self.requests[template]
        return np.array([requests.get(name, 0) for name in self.resources], float)

    def share(self, template: int) -> float:
        """Of the whole cluster, on average over the resources."""
        return float((self.asked(template) / self.total).mean())


class _Episode:
    """The trace from its beginning to its end, pod by pod."""

    def __init__(self, inputs: Any, settings: Settings, setup: Setup, scale: _Scale) -> None:
        self._trace, self._scale = inputs.trace, scale
        self._wanted: dict[str, str] = {}
        chooser = _chooser(self._wanted)
        self._work = make_workload(inputs.trace, settings)
        self._run = TraceRun(
            inputs.trace, inputs.nodes, self._work, settings, _narrowed(setup, chooser)
        )
        self._coming = self._one_by_one()
        self._pod = -1
        self.is_over = False
        self.mask: Mask = np.zeros(len(scale.node_names), np.bool_)
        self._placed = self._turned_away = 0

    def close(self) -> None:
        self._coming.close()
        self._run.stream.close()

    def _one_by_one(self) -> Generator[int, None, None]:
        for pods in self._run.arrivals():
            yield from pods

    def next_pod(self) -> float:
        """Go on to the next pod that fits somewhere; what was turned away on the way."""
        lost = 0.0
        for index in self._coming:
            self._pod, self.mask = index, self._feasible(index)
            if self.mask.any():
                return lost
            lost += self._turn_away()
        self._pod, self.is_over = -1, True
        self.mask = np.zeros_like(self.mask)
        return lost

    def _feasible(self, index: int) -> Mask:
        mask = np.zeros(len(self._scale.node_names), np.bool_)
        pod = self._trace.pod(int(self._work.source[index]))
        manifest = {"apiVersion": "v1", "kind": "Pod", **pod}
        for name in self._run.stream.feasible(manifest):
            mask[self._scale.position[name]] = True
        return mask

    def _turn_away(self) -> float:
        self._turned_away += 1
        return self._scale.share(int(self._work.template[self._pod]))

    def place(self, action: int) -> float:
        """What it is worth; the scheduler has the last word."""
        index, run = self._pod, self._run
        if not (0 <= action < len(self.mask) and self.mask[action]):
            return -self._turn_away()
        key = self._key(index)
        self._wanted[key] = self._scale.node_names[action]
        run.arrive([index])
        run.stream.run_until(run.stream.now_s)
        del self._wanted[key]
        if run.record.state[index] == State.PENDING:
            run.end([index])
            return -self._turn_away()
        self._placed += 1
        return self._scale.share(int(self._work.template[index]))

    def _key(self, index: int) -> str:
        template = self._trace.pod_templates[self._work.template[index]]
        return f"{namespace_of(template)}/{self._work.name(self._trace, index)}"

    def observation(self) -> Arrays:
        scale, cluster = self._scale, self._run.stream.cluster
        count = len(scale.resources)
        nodes = np.zeros((len(scale.node_names), 2 * count), np.float32)
        for first, table in ((0, cluster.free()), (count, cluster.allocatable())):
            rows = [scale.position[name] for name in table.index]
            for column, resource in enumerate(scale.resources):
                if resource in table:
                    nodes[rows, first + column] = table[resource] / scale.largest[column]
        pod = np.zeros(count, np.float32)
        if self._pod >= 0:
            pod[:] = scale.asked(int(self._work.template[self._pod])) / scale.largest
        return {"nodes": nodes.clip(0.0, 1.0), "pod": pod.clip(0.0, 1.0)}

    def info(self) -> dict[str, Any]:
        return {
            "action_mask": self.mask.astype(np.int8),
            "pod": self._key(self._pod) if self._pod >= 0 else "",
            "time_s": self._run.stream.now_s,
            "placed": self._placed,
            "turned_away": self._turned_away,
        }


def _chooser(wanted: dict[str, str]) -> type:
    """A plugin that leaves the scheduler one node for the pods named here."""

    class ChosenNode:
        name = "ChosenNode"

        def __init__(self, args: Any, handle: Any) -> None:
            pass

        def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterResult | None:
            node = wanted.get(pod.key)
            return None if node is None else PreFilterResult(frozenset({node}))

    return ChosenNode


def _narrowed(setup: Setup, chooser: type) -> Setup:
    """With the plugin in every profile, and a scheduler that always looks at all nodes."""
    made = make_setup(
        setup.config, {"seed": setup.seed, "plugins": [chooser]}, registry=setup.registry, lean=True
    )
    profiles = [
        structs.replace(profile, percentage_of_nodes_to_score=100)
        for profile in made.config.profiles
    ]
    return replace(made, config=structs.replace(made.config, profiles=profiles), detail=False)


__all__ = ["PlacementEnv"]
