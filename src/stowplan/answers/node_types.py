"""Types of nodes with prices, as a file lists them: what `plan nodes` may buy.

docs/answers.md shows the form.  Whatever is wrong with a file is said with its place in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from stowplan.errors import InputError
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.yaml_reader import read_yaml_documents
from stowplan.world.cluster import Cluster

INSTANCE = "node.kubernetes.io/instance-type"
FIELDS = ("name", "price", "cpu", "memory", "pods", "resources", "labels", "taints", "zones", "max",
          "like")  # fmt: skip
TYPES_MAX = 500
NODES_MAX = 10_000

Types = str | os.PathLike[str] | Iterable[Mapping[str, Any]] | Mapping[str, Any]
"""The path of a file, or what is in one."""


@dataclass(frozen=True, slots=True)
class NodeType:
    name: str
    price: float
    room: dict[str, str] = field(default_factory=dict)
    """Resource -> amount, for pods."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    zone: str = ""
    max: int = NODES_MAX
    like: str = ""
    """A node of the cluster that it is like, instead of amounts."""

    @property
    def title(self) -> str:
        return f"{self.name} in {self.zone}" if self.zone else self.name

    @property
    def prefix(self) -> str:
        """What its nodes are called."""
        words = f"{self.name}-{self.zone}" if self.zone else self.name
        kept = "".join(c if c.isalnum() else "-" for c in words.lower())
        return "-".join(part for part in kept.split("-") if part) or "node"

    def add(self, cluster: Cluster, count: int) -> list[str]:
        """So many nodes of this type into a cluster; their names."""
        if self.like:
            return cluster.add_nodes(count, like=self.like, prefix=f"{self.prefix}-new")
        return cluster.add_nodes(
            count,
            cpu=self.room.get("cpu", "0"),
            memory=self.room.get("memory", "0"),
            zones=[self.zone] if self.zone else None,
            labels={INSTANCE: self.name, **self.labels},
            taints=self.taints,
            resources={n: a for n, a in self.room.items() if n not in ("cpu", "memory")},
            prefix=f"{self.prefix}-new",
        )


def read_types(types: Types) -> list[NodeType]:
    """Each type, and each zone of it by itself."""
    where, data = _data(types)
    entries = data.get("types") if isinstance(data, Mapping) else data
    if not isinstance(entries, list) or not entries or len(entries) > TYPES_MAX:
        hint = "write `types:` and below it `- name: ...`, `price: ...`, `cpu: ...`, `memory: ...`"
        raise InputError(f"this is no list of 1 to {TYPES_MAX} node types", where=where, hint=hint)
    found = [
        each
        for number, entry in enumerate(entries)
        for each in _types(entry, f"{where}: types[{number}]")
    ]
    titles = [each.title for each in found]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise InputError(f"the type {twice!r} comes twice", where=where)
    return found


def prices_by_name(types: Types | None) -> dict[str, float]:
    """Instance type -> price; of several zones the lowest."""
    found: dict[str, float] = {}
    for each in read_types(types) if types is not None else ():
        found[each.name] = min(each.price, found.get(each.name, each.price))
    return found


def _data(types: Types) -> tuple[str, Any]:
    if not isinstance(types, str | os.PathLike):
        return "types", types if isinstance(types, Mapping) else list(types)
    where = os.fspath(types)
    try:
        text = Path(where).read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", where=where) from None
    documents = [document for _, document in read_yaml_documents(text, where)]
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents", where=where, hint="one is wanted")
    return where, documents[0]


def _types(entry: Any, where: str) -> Iterable[NodeType]:
    if not isinstance(entry, Mapping):
        raise InputError("a node type is a mapping with `name` and `price`", where=where)
    for name in entry:
        if name not in FIELDS:
            near = get_close_matches(str(name), FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(FIELDS)}"
            raise InputError(f"there is no field {name!r}", where=where, hint=hint)
    name, price = entry.get("name"), entry.get("price")
    if not isinstance(name, str) or not name:
        raise InputError("the type has no name", where=where)
    where = f"{where} ({name})"
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e12:
        raise InputError(f"the price is {price!r}", where=where, hint="a number from 0 on")
    count = entry.get("max", NODES_MAX)
    if not isinstance(count, int) or not 0 <= count <= NODES_MAX:
        raise InputError(f"max is {count!r}", where=where, hint=f"from 0 to {NODES_MAX:,}")
    like = entry.get("like") or ""
    room = {} if like else _room(entry, where)
    for zone in _texts(entry.get("zones"), "zones", where) or [""]:
        yield NodeType(
            name,
            float(price),
            room,
            _labels(entry.get("labels"), where),
            tuple(_texts(entry.get("taints"), "taints", where)),
            zone,
            count,
            str(like),
        )


def _room(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    more = entry.get("resources") or {}
    if not isinstance(more, Mapping):
        raise InputError("`resources` is no mapping of names to amounts", where=where)
    room = {name: str(entry[name]) for name in ("cpu", "memory", "pods") if name in entry}
    room |= {str(name): str(amount) for name, amount in more.items()}
    for name in ("cpu", "memory"):
        if name not in room:
            hint = "say what its pods may request, or `like: NODE`"
            raise InputError(f"there is no {name}", where=where, hint=hint)
    for name, amount in room.items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            raise InputError(f"{name}: {error}", where=where) from None
    return room


def _texts(value: Any, field_name: str, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"`{field_name}` is no list of texts", where=where)
    return list(value)


def _labels(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
        raise InputError("`labels` is no mapping of texts", where=where)
    return {str(key): text for key, text in value.items()}
