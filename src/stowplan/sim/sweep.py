"""A sweep: one configuration varied in several ways at once, every combination with a name.

    weights, arguments, thresholds, nodes      axes, each with its values
    the grid                                   their product; the first value of each comes first

Values are tried one by one before anything is run, so that what is wrong is named by its place in
the file.  docs/simulation.md describes the file.
"""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from stowplan.errors import InputError, StowplanError
from stowplan.objects.yaml_reader import read_yaml
from stowplan.sim.transform import NODES_MAX

GRID_MAX = 1000
WEIGHT_MAX = 100
_PATH_MAX = 200
_SHOWN_MAX = 40

Document = dict[str, Any]
Check = Callable[[Any], None]
"""Raises what is wrong with a configuration."""

THRESHOLDS = ("percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")
_KEYS = ("weights", "arguments", "thresholds", "nodes")
EMPTY: Document = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination: a configuration, and how many nodes there are (None: as they are)."""

    config: Any
    node_count: int | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    kind: str
    path: tuple[str, ...]
    values: tuple[Any, ...]

    def place(self, number: int) -> str:
        return f"{'.'.join((self.kind, *self.path))}[{number}]"

    def put(self, variant: Variant, value: Any) -> Variant:
        if self.kind == "nodes":
            return Variant(variant.config, value)
        config = copy.deepcopy(EMPTY if variant.config is None else dict(variant.config))
        if self.kind == "thresholds":
            config[self.path[0]] = value
        else:
            profiles = config["profiles"] = list(config.get("profiles") or [{}])
            change = _put_weight if self.kind == "weights" else _put_argument
            for profile in profiles:
                change(profile, self.path, value)
        return Variant(config, variant.node_count)


def read_sweep(
    given: Mapping[str, Any] | str | os.PathLike[str], most: int | None = GRID_MAX
) -> tuple[list[Axis], str]:
    """The axes of a file, or of its content; and what to call it in errors."""
    if isinstance(given, Mapping):
        return axes_of(dict(given), "sweep", most), "sweep"
    path = os.fspath(given)
    try:
        documents = read_yaml(Path(path).read_bytes(), path)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from None
    if len(documents) != 1:
        raise InputError("is no single document", where=path)
    return axes_of(documents[0], path, most), path


def axes_of(data: Any, where: str, most: int | None = GRID_MAX) -> list[Axis]:
    """`most`: so many combinations, for who runs all of them."""
    axes: list[Axis] = []
    for key, part in _mapping(data, where, _KEYS).items():
        place = f"{where}: {key}"
        if key == "nodes":
            axes.append(Axis(key, (), _values(part, place, _node_count)))
        elif key == "arguments":
            for plugin, paths in _mapping(part, place).items():
                for path, values in _mapping(paths, f"{place}.{plugin}").items():
                    full = (plugin, *_steps(path, f"{place}.{plugin}"))
                    axes.append(Axis(key, full, _values(values, f"{place}.{plugin}.{path}")))
        else:
            known = THRESHOLDS if key == "thresholds" else ()
            check = _weight if key == "weights" else _number
            for name, values in _mapping(part, place, known).items():
                axes.append(Axis(key, (name,), _values(values, f"{place}.{name}", check)))
    if not axes:
        raise InputError("varies nothing", where=where, hint=f"with: {', '.join(_KEYS)}")
    count = prod(len(axis.values) for axis in axes)
    if most is not None and count > most:
        hint = f"at most {most}: give fewer values, or make several sweeps"
        raise InputError(f"comes to {count} combinations", where=where, hint=hint)
    return axes


def grid(
    given: Mapping[str, Any] | str | os.PathLike[str],
    configs: Mapping[str, Any],
    check: Check,
) -> dict[str, Variant]:
    """Every combination of each configuration, by name; what would not work is refused."""
    axes, where = read_sweep(given)
    found: dict[str, Variant] = {}
    for name, config in configs.items():
        check(config)
        base = Variant(config)
        check_values(axes, base, where, check)
        prefix = f"{name}," if len(configs) > 1 else ""
        for label, values in _combinations(axes):
            variant = base
            for axis, value in zip(axes, values, strict=True):
                variant = axis.put(variant, value)
            found[prefix + label] = variant
    if len(found) > GRID_MAX:
        raise InputError(f"comes to {len(found)} combinations", where=where,
                         hint=f"at most {GRID_MAX}")  # fmt: skip
    return found


def check_values(axes: Sequence[Axis], base: Variant, where: str, check: Check) -> None:
    """Each on its own, so that what is wrong can be named."""
    for axis in axes:
        for number, value in enumerate(axis.values):
            try:
                check(axis.put(base, value).config)
            except StowplanError as error:
                place = f"{where}: {axis.place(number)}"
                raise InputError(error.problem, where=place, hint=error.hint) from None


def labels(axes: Sequence[Axis]) -> list[str]:
    """Each axis by its last word, where that says which one it is."""
    short = [axis.path[-1] if axis.path else axis.kind for axis in axes]
    counts = Counter(short)
    full = [".".join(axis.path) or axis.kind for axis in axes]
    return [one if counts[one] == 1 else whole for one, whole in zip(short, full, strict=True)]


def _combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    names = labels(axes)
    for numbers in product(*(range(len(axis.values)) for axis in axes)):
        values = tuple(axis.values[n] for axis, n in zip(axes, numbers, strict=True))
        parts = [
            f"{name}={_shown(value, number)}"
            for name, value, number in zip(names, values, numbers, strict=True)
        ]
        yield ",".join(parts), values


def _shown(value: Any, number: int) -> str:
    """A plain value as it is; the others by their number."""
    text = value if isinstance(value, str) else json.dumps(value)
    is_plain = not isinstance(value, dict | list) and 0 < len(text) <= _SHOWN_MAX
    return text if is_plain else f"#{number + 1}"


# -- putting a value into a configuration -----------------------------------------------------


def _put_weight(profile: Document, path: Sequence[str], weight: int) -> None:
    """0 leaves the plugin's scores out."""
    (name,) = path
    plugins = profile["plugins"] = dict(profile.get("plugins") or {})
    score = plugins["score"] = dict(plugins.get("score") or {})
    for key in ("enabled", "disabled"):
        score[key] = [ref for ref in score.get(key) or [] if ref.get("name") != name]
    if weight:
        score["enabled"].append({"name": name, "weight": weight})
    else:
        score["disabled"].append({"name": name})


def _put_argument(profile: Document, path: Sequence[str], value: Any) -> None:
    plugin, *steps, last = path
    configs = profile["pluginConfig"] = list(profile.get("pluginConfig") or [])
    entry = next((one for one in configs if one.get("name") == plugin), None)
    if entry is None:
        entry = {"name": plugin}
        configs.append(entry)
    place = entry["args"] = dict(entry.get("args") or {})
    for step in steps:
        inner = place.get(step)
        place[step] = dict(inner) if isinstance(inner, dict) else {}
        place = place[step]
    place[last] = value


# -- checking -----------------------------------------------------------------------------------


def _mapping(data: Any, where: str, known: Sequence[str] = ()) -> dict[str, Any]:
    hint = f"with: {', '.join(known)}" if known else ""
    if not isinstance(data, dict) or not all(isinstance(key, str) and key for key in data):
        raise InputError("is no mapping", where=where, hint=hint)
    for key in data:
        if known and key not in known:
            raise InputError(f"{key!r} cannot be varied", where=where, hint=hint)
    return data


def _values(data: Any, where: str, check: Callable[[Any], str] | None = None) -> tuple[Any, ...]:
    if not isinstance(data, list) or not 1 <= len(data) <= GRID_MAX:
        hint = f"a list of 1 to {GRID_MAX}, as `[1, 5]`"
        raise InputError("is no list of values", where=where, hint=hint)
    seen: set[str] = set()
    for number, value in enumerate(data):
        wrong = check(value) if check else ""
        if wrong:
            raise InputError(f"{value!r} is no {wrong}", where=f"{where}[{number}]")
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            raise InputError(f"{value!r} comes twice", where=f"{where}[{number}]")
        seen.add(text)
    return tuple(data)


def _steps(path: str, where: str) -> list[str]:
    steps = path.split(".")
    if len(path) > _PATH_MAX or not all(steps):
        raise InputError(f"{path!r} is no field", where=where, hint="as `scoringStrategy.type`")
    return steps


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _weight(value: Any) -> str:
    return "" if _is_whole(value, 0, WEIGHT_MAX) else f"weight from 0 to {WEIGHT_MAX}"


def _number(value: Any) -> str:
    return "" if _is_whole(value, 0, 2**31 - 1) else "number from 0 on"


def _node_count(value: Any) -> str:
    return "" if _is_whole(value, 1, NODES_MAX) else f"number of nodes from 1 to {NODES_MAX:,}"
