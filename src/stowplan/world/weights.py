"""How much each scoring plugin counts: read from a scheduler, and changed in a configuration."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stowplan.config import PluginRef, SchedulerConfig
from stowplan.core.machine import Machine
from stowplan.errors import InputError

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
