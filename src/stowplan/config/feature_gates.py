"""Feature gates of Kubernetes 1.36: their state, and the syntax of `--feature-gates`.

A `FeatureGates` is a plain value: what is on.  Defaulting and validation take one, because some
defaults and rules hang on a gate; nothing here is global.

Mirrors `component-base/featuregate/feature_gate.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from stowplan.config.field_error import aggregate, did_you_mean
from stowplan.config.gate_table import NEEDED, OTHER_GATES, OWN_GATES
from stowplan.errors import ConfigError
from stowplan.objects.pod_groups import GROUP_GATES


class Stage(StrEnum):
    GA = "GA"
    BETA = "BETA"
    ALPHA = "ALPHA"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    stage: Stage
    enabled: bool
    locked: bool = False
    """A locked gate cannot be set to anything but its default."""


def _read(table: str) -> Iterator[tuple[str, FeatureGate]]:
    """Per paragraph `stage on|off [locked]`, and indented below whose state that is."""
    for line in filter(None, table.splitlines()):
        if not line.startswith(" "):
            stage, default, *locked = line.split()
            gate = FeatureGate(Stage(stage), default == "on", bool(locked))
        else:
            yield from ((name, gate) for name in line.split())


GATES: Mapping[str, FeatureGate] = MappingProxyType(dict(_read(OWN_GATES + OTHER_GATES)))

DEPENDENCIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        gate: tuple(needed.split())
        for gate, _, needed in (line.partition(": ") for line in NEEDED.strip().splitlines())
    }
)

SWITCHES = GROUP_GATES
"""Gates that switch behaviour of the machine and its plugins: `SchedulerConfig.features`."""

_GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_COMPONENT = "kube"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which gates are on: the defaults of 1.36, and what was set over them."""

    changed: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, name: str) -> bool:
        """Whether `name` is on.  An explicit setting beats AllAlpha and AllBeta."""
        gate = GATES[name]
        if gate.locked:
            return gate.enabled
        if name in self.changed:
            return self.changed[name]
        for group, stage in _GROUPS.items():
            if stage == gate.stage and group in self.changed:
                return self.changed[group]
        return gate.enabled

    def with_on(self, *names: str) -> FeatureGates:
        """These, and besides what is named."""
        return FeatureGates({**self.changed, **dict.fromkeys(names, True)})

    def switches(self) -> frozenset[str]:
        """Which of `SWITCHES` are on."""
        return frozenset(filter(self.enabled, SWITCHES))

    def states(self) -> dict[str, bool]:
        return {name: self.enabled(name) for name in sorted(GATES)}


DEFAULT_GATES = FeatureGates()


def parse_feature_gates(flags: str | Iterable[str]) -> FeatureGates:
    """Read the values of `--feature-gates`, each `[kube:]Name=bool,...`; the last one wins."""
    changed: dict[str, bool] = {}
    for flag in [flags] if isinstance(flags, str) else flags:
        for setting in flag.split(","):
            if setting:
                name, value = _parse_setting(setting)
                changed[name] = value
    if unknown := next((n for n in changed if n not in GATES and n not in _GROUPS), None):
        raise _error(
            f"unrecognized feature gate: {unknown}", hint=did_you_mean(unknown, [*GATES, *_GROUPS])
        )
    gates = FeatureGates(changed)
    if found := _locked_problems(changed) or dependency_problems(gates):
        raise _error(aggregate(found))
    return gates


def dependency_problems(gates: FeatureGates) -> list[str]:
    problems = []
    for name, needed in DEPENDENCIES.items():
        missing = [other for other in needed if not gates.enabled(other)]
        if gates.enabled(name) and missing:
            problems.append(
                f"{name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(missing)}]"
            )
    return problems


def _parse_setting(setting: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in setting.partition("="))
    component, colon, gate = name.rpartition(":")
    if colon and component != _COMPONENT:
        raise _error(f"component not registered: {component}", hint=f"write {gate}={value}")
    if not equals:
        raise _error(f"missing bool value for {gate}", hint=f"write {gate}=true or {gate}=false")
    if value not in _TRUE and value not in _FALSE:
        raise _error(
            f'invalid value of {gate}={value}, err: strconv.ParseBool: parsing "{value}": '
            "invalid syntax",
            hint=f"write {gate}=true or {gate}=false",
        )
    return gate, value in _TRUE


def _locked_problems(changed: Mapping[str, bool]) -> list[str]:
    return [
        f"cannot set feature gate {name} to {_go_bool(value)}, "
        f"feature is locked to {_go_bool(GATES[name].enabled)}"
        for name, value in changed.items()
        if name in GATES and GATES[name].locked and GATES[name].enabled != value
    ]


def _go_bool(value: bool) -> str:
    return "true" if value else "false"


def _error(problem: str, *, hint: str = "") -> ConfigError:
    return ConfigError(problem, where="--feature-gates", hint=hint)
