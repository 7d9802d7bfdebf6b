"""How a cluster is to be: configuration, plugins, seed; checked before anything is built."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from msgspec.structs import replace

from stowplan.config import (
    PluginRef,
    SchedulerConfig,
    load_config,
    parse_feature_gates,
)
from stowplan.core.algorithm import TieBreak
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.errors import InputError
from stowplan.framework.plugin import points_of
from stowplan.plugins import IN_TREE

Config = Mapping[str, Any] | str | os.PathLike[str] | SchedulerConfig | None
"""A KubeSchedulerConfiguration: data, the path of a file, or None for the default."""

HISTORY_BYTES = 64 * 2**20

ClockName = Literal["virtual", "real"]


@dataclass(frozen=True, slots=True)
class Setup:
    config: SchedulerConfig
    """Without extenders: they are not called."""
    registry: Registry
    seed: int
    clock: ClockName = "virtual"
    tie_break: TieBreak = "random"
    detail: bool = True
    history_bytes: float = math.inf
    """Memory for the details of past decisions."""
    extenders: tuple[str, ...] = ()
    """Addresses of the extenders that the configuration names."""
    strict: bool = False
    lean: bool = False
    """Only the scheduler works: no controllers, no kubelet (pods run from their binding on), no
    events.  For those who bring a million pods; see `stream`."""
    timed: bool = False
    """Where the scheduler's time goes is measured; see `Cluster.times`."""


class Options(TypedDict, total=False):
    """How a cluster may differ from others; `Cluster` says what each means."""

    seed: int
    clock: ClockName
    plugins: Iterable[type]
    tie_break: TieBreak
    detail: bool
    timed: bool
    strict: bool
    feature_gates: Mapping[str, bool]


def make_setup(
    config: Config,
    options: Options,
    *,
    registry: Registry = IN_TREE,
    history_bytes: float = HISTORY_BYTES,
    lean: bool = False,
) -> Setup:
    for name in options:
        _check_choice("an option", name, list(Options.__annotations__))
    seed, feature_gates = options.get("seed", 0), options.get("feature_gates")
    clock, tie_break = options.get("clock", "virtual"), options.get("tie_break", "random")
    _check_choice("clock", clock, get_args(ClockName))
    _check_choice("tie_break", tie_break, get_args(TieBreak))
    if not isinstance(seed, int):
        raise InputError(f"seed is {seed!r}", hint="it is a whole number")
    loaded = load_with_gates(config, feature_gates)
    own = _named(options.get("plugins", ()), registry)
    loaded = _with_plugins(loaded, list(own))
    return Setup(
        replace(loaded, extenders=[]),
        {**registry, **own},
        seed,
        clock,
        tie_break,
        options.get("detail", True),
        history_bytes,
        tuple(extender.url_prefix for extender in loaded.extenders),
        options.get("strict", False),
        lean,
        options.get("timed", False),
    )


def load_with_gates(
    config: Config, feature_gates: Mapping[str, bool] | None = None
) -> SchedulerConfig:
    """The configuration as it is with these gates, which are checked as `--feature-gates` is."""
    if not isinstance(config, SchedulerConfig):
        words = (f"{name}={value}" for name, value in (feature_gates or {}).items())
        return load_config(config, gates=parse_feature_gates(words))
    if feature_gates:
        raise InputError(
            "feature_gates is given, and a configuration that was loaded without them",
            hint="load_config takes them too, as `gates`",
        )
    return config


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        hint = f"it may be {' or '.join(repr(choice) for choice in choices)}"
        raise InputError(f"{name} is {value!r}", hint=hint)


def _named(plugins: Iterable[type], registry: Registry) -> dict[str, type]:
    if isinstance(plugins, type):
        plugins = [plugins]
    named: dict[str, type] = {}
    for plugin in plugins:
        name = getattr(plugin, "name", None)
        if not isinstance(plugin, type) or not isinstance(name, str) or not points_of(plugin):
            raise InputError(
                f"{plugin!r} is no plugin",
                where="plugins",
                hint="a plugin is a class with a `name` and a method of an extension point",
            )
        if name in named or name in registry:
            raise InputError(f"there is a plugin {name!r} already", where="plugins")
        named[name] = plugin
    return named


def _with_plugins(config: SchedulerConfig, names: list[str]) -> SchedulerConfig:
    """A plugin that a profile says nothing about is enabled there, at all its points."""
    profiles = []
    for profile in config.profiles:
        plugins = profile.plugins
        named = {ref.name for _, each in plugins.sets() for ref in (*each.enabled, *each.disabled)}
        unnamed = [PluginRef(name=name) for name in names if name not in named]
        multi_point = replace(plugins.multi_point, enabled=[*plugins.multi_point.enabled, *unnamed])
        profiles.append(replace(profile, plugins=replace(plugins, multi_point=multi_point)))
    return replace(config, profiles=profiles)


# -- how much plugins count -------------------------------------------------------------------


WEIGHT_MAX = 100


def weights_of(machine: Machine) -> dict[str, dict[str, int]]:
    """Profile -> plugin -> weight."""
    return {name: dict(each.plugins.weights) for name, each in machine.frameworks.items()}


def reweighed(
    config: SchedulerConfig, known: Mapping[str, int], profile: str, weights: Mapping[str, int]
) -> SchedulerConfig:
    """The configuration with these weights; 0 leaves a plugin's scores out.

    `known` are the weights that the profile has.
    """
    for name, weight in weights.items():
        if name not in known:
            hint = f"these score: {', '.join(sorted(known))}"
            raise InputError(f"{name!r} does not score in profile {profile!r}", hint=hint)
        if not isinstance(weight, int) or not 0 <= weight <= WEIGHT_MAX:
            hint = f"a whole number from 0 to {WEIGHT_MAX}"
            raise InputError(f"the weight of {name} is {weight!r}", hint=hint)
    profiles = []
    for each in config.profiles:
        if each.scheduler_name == profile:
            score = each.plugins.score
            rest = [ref for ref in score.enabled if ref.name not in weights]
            counted = [PluginRef(name=n, weight=w) for n, w in weights.items() if w]
            left_out = [PluginRef(name=n) for n, w in weights.items() if not w]
            kept = [ref for ref in score.disabled if ref.name not in weights]
            score = replace(score, enabled=[*rest, *counted], disabled=[*kept, *left_out])
            each = replace(each, plugins=replace(each.plugins, score=score))
        profiles.append(each)
    return replace(config, profiles=profiles)
