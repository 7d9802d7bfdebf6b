"""From a configuration to running frameworks: which plugins, made how, in what order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stowplan.config import (
    ExpandedPlugins,
    SchedulerConfig,
    default_args,
    expand_all,
    profile_error,
)
from stowplan.core.plugin_answers import checked, place_in
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import POINTS, ProfilePlugins, check_plugin, make_plugin, points_of
from stowplan.framework.runtime import Framework
from stowplan.framework.timing import Recorder
from stowplan.plugins import IN_TREE
from stowplan.queue import build_hint_map
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex

if TYPE_CHECKING:
    from random import Random

_UPPER = re.compile("[A-Z]")

Registry = Mapping[str, type]
"""Plugin name -> class.  In-tree ones, and a user's beside them."""


def build_frameworks(
    config: SchedulerConfig,
    handle: Handle,
    *,
    registry: Registry = IN_TREE,
    recorder: Recorder | None = None,
) -> dict[str, Framework]:
    """One framework per profile, by scheduler name; each with a handle of its own."""
    expanded = expand_all(config, implements(registry), known=sorted(registry))
    return {
        name: _framework(config, plugins, replace(handle), registry, recorder)
        for name, plugins in expanded.items()
    }


def check_config(config: SchedulerConfig, *, random: Random, registry: Registry = IN_TREE) -> None:
    """Raise ConfigError if frameworks cannot be built from this; nothing is taken into use."""
    handle = Handle(nodes=NodeTable(), objects=ObjectIndex(), random=random)
    build_frameworks(config, handle, registry=registry)


def implements(registry: Registry) -> Callable[[str], frozenset[str]]:
    return lambda name: points_of(registry[name])


def _framework(
    config: SchedulerConfig,
    plugins: ExpandedPlugins,
    handle: Handle,
    registry: Registry,
    recorder: Recorder | None,
) -> Framework:
    profile = config.profile(plugins.scheduler_name)
    assert profile is not None, plugins.scheduler_name
    percentage = profile.percentage_of_nodes_to_score
    made: dict[str, Any] = {}
    for name in plugins.instances:
        args = profile.args(name)
        if args is None:
            args = default_args(name)
        try:
            check_plugin(registry[name])
            plugin = made[name] = make_plugin(_made_of(registry[name]), args, handle)
            if hasattr(plugin, "events_to_register"):
                # Asked again for the queue; a mistake in it is to be found before anything runs.
                build_hint_map([plugin])
        except (Exception, SystemExit) as cause:
            told = f"it wanted to exit ({cause})" if isinstance(cause, SystemExit) else str(cause)
            problem = f'initializing plugin "{name}": {told}{place_in(cause, registry[name])}'
            raise profile_error(plugins.scheduler_name, problem) from cause

    def at(point: str) -> tuple[Any, ...]:
        named = plugins.at(point)
        return tuple(made[name] for name in named if point in points_of(registry[name]))

    points: dict[str, Any] = {_UPPER.sub(r"_\g<0>", point).lower(): at(point) for point in POINTS}
    (points["queue_sort"],) = points["queue_sort"]
    plugin_set = ProfilePlugins(
        **points,
        weights=dict(plugins.score_weights),
        placement_weights=dict(plugins.placement_score_weights),
        instances=made,
    )
    return Framework(
        plugins.scheduler_name,
        plugin_set,
        handle,
        percentage_of_nodes_to_score=(
            config.percentage_of_nodes_to_score if percentage is None else percentage
        ),
        recorder=recorder,
    )


def _made_of(plugin: type) -> type:
    """A user's plugin may answer anything."""
    return plugin if plugin in IN_TREE.values() else checked(plugin)
