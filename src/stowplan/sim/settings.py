"""What a simulation is to do, checked: of one run, and of the nodes that come and go by themselves.

Plain data, so that it can be sent to other processes and machines; `fingerprint` tells one run from
another, so that finished ones need not be done again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from stowplan._version import __version__
from stowplan.core.algorithm import TieBreak
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml
from stowplan.sim.spans import parse_span
from stowplan.world.nodes import node_template

Arrivals = Literal["recorded", "shuffle"]
Ends = Literal["recorded", "service"]
Evicted = Literal["return", "lost"]

POOLS_MAX = 64
INFLATE_MAX = 1000.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one make that the autoscaler adds and removes."""

    name: str
    node: Mapping[str, Any]
    """A manifest without a name."""
    count_min: int
    count_max: int
    boot_s: float
    price: float
    """Per hour and node."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    pools: tuple[Pool, ...]
    every_s: float = 10.0
    """How long pods wait at least before nodes are ordered for them."""
    idle_s: float = 600.0
    """How long a node is empty before it goes."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Nodes fail by chance, each on its own, and come back."""

    mean_s: float
    """Between two failures of one node."""
    repair_s: float


@dataclass(frozen=True, slots=True)
class Settings:
    """One run."""

    config_name: str = "default"
    config: Any = None
    """A KubeSchedulerConfiguration as data; None: the default."""
    plugin_paths: tuple[str, ...] = ()
    seed: int = 0
    until_s: float = math.inf
    arrivals: Arrivals = "recorded"
    inflate: float = 1.0
    ends: Ends = "recorded"
    evicted: Evicted = "return"
    """What becomes of a pod that is evicted or loses its node: it arrives again, or is lost."""
    autoscaler: Autoscaler | None = None
    failures: Failures | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    """Per hour and node, by the value of its instance type label; "" for all others."""
    samples: int = 240
    node_count: int | None = None
    """So many nodes of the same mix; None: as they are."""
    tie_break: TieBreak = "random"
    strict: bool = False
    """A plugin's error ends the run."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("arrivals", self.arrivals, get_args(Arrivals)),
            ("ends", self.ends, get_args(Ends)),
            ("evicted", self.evicted, get_args(Evicted)),
            ("tie_break", self.tie_break, get_args(TieBreak)),
        ):
            if value not in choices:
                hint = f"it may be {' or '.join(map(repr, choices))}"
                raise InputError(f"{name} is {value!r}", hint=hint)
        if not (isinstance(self.inflate, int | float) and 0 < self.inflate <= INFLATE_MAX):
            raise InputError(f"inflate is {self.inflate!r}", hint="a number above 0, as 1.3")
        if not 2 <= self.samples <= 10_000:
            raise InputError(f"samples is {self.samples!r}", hint="from 2 to 10000")

    def fingerprint(self, trace_digest: str) -> str:
        """Equal for runs that come to the same."""
        data = asdict(self)
        data["plugin_paths"] = [_content(Path(path)) for path in self.plugin_paths]
        text = json.dumps([data, trace_digest, __version__], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _content(path: Path) -> str:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        found.update(file.name.encode() + b"\0")
        found.update(file.read_bytes() if file.is_file() else b"")
    return found.hexdigest()


def read_autoscaler(path: str) -> Autoscaler:
    """From a YAML file; docs/simulation.md shows one."""
    try:
        documents = list(read_yaml(Path(path).read_bytes(), path))
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from None
    data = documents[0] if documents else None
    return autoscaler_of(data, path)


def autoscaler_of(data: Any, where: str) -> Autoscaler:
    _check_keys(data, {"pools", "every", "idle"}, where)
    pools = data.get("pools")
    if not isinstance(pools, list) or not 1 <= len(pools) <= POOLS_MAX:
        raise InputError("pools is no list of pools", where=where, hint=f"1 to {POOLS_MAX} of them")
    found = tuple(_pool(pool, f"{where}: pools[{n}]") for n, pool in enumerate(pools))
    if len({pool.name for pool in found}) < len(found):
        raise InputError("two pools have the same name", where=where)
    return Autoscaler(
        found,
        max(1.0, parse_span(data.get("every", 10), f"{where}: every")),
        parse_span(data.get("idle", 600), f"{where}: idle"),
    )


_POOL_KEYS = {"name", "min", "max", "boot", "price", "cpu", "memory", "labels", "taints",
              "resources"}  # fmt: skip


def _pool(data: Any, where: str) -> Pool:
    _check_keys(data, _POOL_KEYS, where)
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("a pool has no name", where=where)
    numbers = data.get("min", 0), data.get("max", 0)
    for number in numbers:
        if not isinstance(number, int) or not 0 <= number <= 1_000_000:
            raise InputError(f"{number!r} is no number of nodes", where=where)
    if numbers[0] > numbers[1]:
        raise InputError(f"min is {numbers[0]}, above max, {numbers[1]}", where=where)
    price = data.get("price", 0)
    if not isinstance(price, int | float) or not 0 <= price < math.inf:
        raise InputError(f"{price!r} is no price", where=where)
    sizes = {key: data[key] for key in ("cpu", "memory", "labels", "taints", "resources")
             if key in data}  # fmt: skip
    node = node_template(**sizes)
    return Pool(name, node, *numbers, parse_span(data.get("boot", 120), where), float(price))


def _check_keys(data: Any, known: set[str], where: str) -> None:
    if not isinstance(data, dict):
        raise InputError("is no mapping", where=where, hint=f"with: {', '.join(sorted(known))}")
    for key in data:
        if key not in known:
            raise InputError(
                f"there is no setting {key!r}", where=where, hint=f"{', '.join(sorted(known))}"
            )


def parse_failures(text: str) -> Failures:
    """`mean=30d,repair=4h`."""
    where = "--failures"
    parts = dict(part.partition("=")[::2] for part in text.split(",") if part)
    if set(parts) != {"mean", "repair"}:
        raise InputError(f"{text!r} says not how nodes fail", where=where,
                         hint="write `mean=30d,repair=4h`")  # fmt: skip
    mean_s, repair_s = (parse_span(parts[name], where) for name in ("mean", "repair"))
    if mean_s < 1:
        raise InputError("a mean below one second", where=where)
    return Failures(mean_s, repair_s)
