"""Worlds: forks of the cluster that somebody plays with, a few at a time.

A world is made of two forks: the cluster with everything placed that can be, and the one that is
changed.  The difference is between these two.  Every change is kept as words, so that a world can
be written down as the command that does the same; the objects it touched are its manifests.
All of it happens on the source's worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import yaml

from stowplan.answers import deeds, why
from stowplan.answers.what_if import compared
from stowplan.answers.why import Why
from stowplan.errors import InputError, NotFound, TooManyRequests
from stowplan.objects.manifests import describe, read_manifests
from stowplan.web.asking import Ask
from stowplan.world.cluster import Cluster

WORLDS_MAX = 8
CHANGES_MAX = 200
NODES_ADDED_MAX = 1000
REPLICAS_MAX = 20_000
ROWS_MAX = 500
"""Of each part of a difference; the rest is counted."""

_SERVED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@dataclass(slots=True)
class World:
    id: str
    name: str
    before: Cluster
    after: Cluster
    changes: list[str] = field(default_factory=list)
    """In words, for people."""
    options: list[str] = field(default_factory=list)
    """The same as options of `stowplan what-if`; empty for what has none."""
    touched: dict[tuple[str, str], None] = field(default_factory=dict)
    """Objects that were changed or created, by kind and key, in order."""
    removed: dict[tuple[str, str], None] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    files: bool = False
    """Whether something was applied that only manifests can say."""

    def told(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "changes": self.changes,
            "pendingBefore": len(self.before.pods(pending=True)),
            "pendingAfter": len(self.after.pods(pending=True)),
            "weights": self.after.weights(),
        }


class Worlds:
    def __init__(self) -> None:
        self._worlds: dict[str, World] = {}
        self._made = 0

    def get(self, name: str) -> World:
        world = self._worlds.get(name)
        if world is None:
            raise NotFound(f"there is no fork {name!r}; it was deleted, or the server began anew")
        return world

    def all(self) -> list[dict[str, Any]]:
        return [world.told() for world in self._worlds.values()]

    def create(self, origin: Cluster) -> dict[str, Any]:
        """`origin` is a fork already, and is kept."""
        if len(self._worlds) >= WORLDS_MAX:
            origin.close()
            raise TooManyRequests(f"there are {WORLDS_MAX} forks already; delete one")
        origin.run()
        self._made += 1
        world = World(f"fork-{self._made}", f"Fork {self._made}", origin, origin.fork())
        self._worlds[world.id] = world
        return world.told()

    def delete(self, name: str) -> dict[str, Any]:
        world = self.get(name)
        del self._worlds[name]
        world.after.close()
        world.before.close()
        return {"deleted": name}

    def close(self) -> None:
        for name in list(self._worlds):
            self.delete(name)

    # -- changes ----------------------------------------------------------------------------

    def change(self, ask: Ask) -> dict[str, Any]:
        """One change, made to a fork of the world first: what is refused leaves no trace."""
        world = self.get(ask.parts[0])
        verb = ask.word("verb")
        do = _VERBS.get(verb)
        if do is None:
            hint = f"there are: {', '.join(_VERBS)}"
            raise InputError(f"the change {verb!r} is not known", hint=hint)
        if len(world.changes) >= CHANGES_MAX:
            raise TooManyRequests(f"a fork takes {CHANGES_MAX} changes; begin another")
        trial = world.after.fork()
        try:
            made = do(trial, ask.body)
            trial.run()
        except BaseException:
            trial.close()
            raise
        old, world.after = world.after, trial
        old.close()
        world.changes.append(made.words)
        world.options += made.options
        world.touched |= dict.fromkeys(made.touched)
        world.removed |= dict.fromkeys(made.removed)
        world.blocked |= made.blocked
        world.weights |= made.weights
        world.files = world.files or not made.options
        return world.told()

    def difference(self, ask: Ask) -> dict[str, Any]:
        """Who moved, who fits now, who is evicted; each part bounded, with its count."""
        world = self.get(ask.parts[0])
        told = compared(world.before, world.after, world.blocked).to_dict()
        counts = {}
        for part in ("moved", "placed", "pending", "gone", "preempted", "blocked"):
            counts[part] = len(told[part])
            told[part] = dict(list(told[part].items())[:ROWS_MAX])
        for part in ("nodesAdded", "nodesRemoved"):
            counts[part] = len(told[part])
            told[part] = told[part][:ROWS_MAX]
        return {**told, "counts": counts, **world.told()}

    def export(self, ask: Ask) -> dict[str, Any]:
        """The world as manifests to apply, and as the command line that asks the same."""
        world = self.get(ask.parts[0])
        data = [
            _bare(world.after.get(kind, key))
            for kind, key in world.touched
            if _is_there(world.after, kind, key)
        ]
        words = " ".join(quote(word) for word in ("stowplan", "what-if", *world.options))
        return {
            "manifests": yaml.safe_dump_all(data, sort_keys=False, allow_unicode=False),
            "delete": [f"{kind} {key}" for kind, key in world.removed],
            "command": f"{words} -f cluster.json",
            "needsFile": world.files,
            "weights": world.weights,
        }


@dataclass(frozen=True, slots=True)
class Made:
    """A change that was made."""

    words: str
    options: tuple[str, ...] = ()
    touched: tuple[tuple[str, str], ...] = ()
    removed: tuple[tuple[str, str], ...] = ()
    blocked: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)


def _text(body: Mapping[str, Any], name: str) -> str:
    return Ask(body=body).word(name)


def _number(body: Mapping[str, Any], name: str, most: int) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InputError(f"{name} is {value!r}", hint=f"a whole number from 0 to {most}")
    return value


def _cordon(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    node = _text(body, "node")
    cluster.cordon(node)
    return Made(f"cordon {node}", ("--cordon", node), (("Node", node),))


def _uncordon(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    node = _text(body, "node")
    cluster.uncordon(node)
    return Made(f"uncordon {node}", touched=(("Node", node),))


def _drain(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    node = _text(body, "node")
    blocked = cluster.drain(node)
    return Made(f"drain {node}", ("--drain", node), (("Node", node),), blocked=blocked)


def _remove(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    node = _text(body, "node")
    cluster.delete(node, "Node")
    return Made(f"remove node {node}", ("--remove", node), removed=(("Node", node),))


def _taint(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    node, taint = _text(body, "node"), _text(body, "taint")
    word = f"{node}:{taint}"
    deeds.taint(cluster, word)
    return Made(f"taint {node} with {taint}", ("--taint", word), (("Node", node),))


def _add_nodes(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    like, count = _text(body, "like"), _number(body, "count", NODES_ADDED_MAX)
    names = cluster.add_nodes(count, like=like, prefix=f"{like}-new")
    return Made(
        f"add {count} nodes like {like}",
        ("--add-nodes", str(count), "--like", like),
        tuple(("Node", name) for name in names),
    )


def _scale(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    workload, replicas = _text(body, "workload"), _number(body, "replicas", REPLICAS_MAX)
    word = f"{workload}={replicas}"
    deeds.scale(cluster, word)
    kind, key = deeds.workload_of(workload)
    return Made(f"scale {workload} to {replicas}", ("--scale", word), ((kind, _full(key)),))


def _delete(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    word = _text(body, "name")
    deeds.delete(cluster, word)
    return Made(f"delete {word}", ("--delete", word))


def _apply(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    objects = [data for _, data in _manifests(_text(body, "text"))]
    names = cluster.apply(objects)
    touched = tuple((data["kind"], _key(data)) for data in objects)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Made(f"apply {shown}", touched=touched)


def _put(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    """An edited object takes the place of the one that is there; a pod is tried again."""
    objects = [data for _, data in _manifests(_text(body, "text"))]
    cluster.put(objects)
    for data in objects:
        if data["kind"] == "Pod":
            cluster.retry(_key(data))
    touched = tuple((data["kind"], _key(data)) for data in objects)
    return Made(f"edit {', '.join(describe(data) for data in objects[:3])}", touched=touched)


def _weigh(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    profile, weights = _text(body, "profile"), body.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise InputError("weights are missing", hint='as {"NodeResourcesFit": 5}')
    cluster.reweigh(weights, profile)
    told = ", ".join(f"{name} {weight}" for name, weight in weights.items())
    return Made(f"weigh {told}", weights=weights)


def _fix(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    """A fix of `why`: found once more, in this world, by its title."""
    key, title = _text(body, "pod"), _text(body, "title")
    answer = why(cluster, key)
    found = answer.fixes if isinstance(answer, Why) else []
    fix = next((each for each in found if each.title == title), None)
    if fix is None:
        raise InputError(f"{title!r} does not help {key} here", hint="ask again what would help")
    objects = [*fix.manifests, *fix.create]
    cluster.put(objects)
    for each in fix.delete:
        cluster.delete(_key({"kind": each["kind"], "metadata": each}), each["kind"])
    if _is_there(cluster, "Pod", key):
        cluster.retry(key)
    return Made(
        f"for {key}: {fix.title}",
        touched=tuple((data["kind"], _key(data)) for data in objects),
        removed=tuple((each["kind"], each["name"]) for each in fix.delete),
    )


_VERBS: dict[str, Callable[[Cluster, Mapping[str, Any]], Made]] = {
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "remove": _remove,
    "taint": _taint,
    "addNodes": _add_nodes,
    "scale": _scale,
    "delete": _delete,
    "apply": _apply,
    "edit": _put,
    "weigh": _weigh,
    "fix": _fix,
}


def check(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Whether manifests would be taken, tried on a fork; for checking while somebody types."""
    objects = [data for _, data in _manifests(ask.word("text"))]
    with cluster.fork() as trial:
        if ask.body.get("verb") == "edit":
            trial.put(objects)
        else:
            trial.apply(objects)
    return {"objects": [describe(data) for data in objects]}


def manifest_text(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """An object as a manifest to look at or to edit: without what a server fills in."""
    kind, name = ask.text("kind", "Pod"), ask.text("name")
    data = _bare(cluster.get(kind, name))
    return {"text": yaml.safe_dump(data, sort_keys=False, allow_unicode=False)}


def workloads(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """What can be scaled."""
    found = []
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job"):
        for each in cluster.objects(kind)[:ROWS_MAX]:
            if not any(
                owner.kind == "Deployment" for owner in each.metadata.owner_references or ()
            ):
                spec = cluster.get(kind, each.key).get("spec") or {}
                replicas = spec.get("parallelism" if kind == "Job" else "replicas", 1)
                found.append({"workload": f"{kind.lower()}/{each.key}", "replicas": replicas})
    return {"rows": found}


def _manifests(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = read_manifests(text.encode(errors="replace"), "the text")
    if not found:
        raise InputError("no object is in the text", hint="paste manifests, YAML or JSON")
    return found


def _key(data: Mapping[str, Any]) -> str:
    metadata = data.get("metadata") or {}
    name, namespace = str(metadata.get("name", "")), metadata.get("namespace")
    if namespace:
        return f"{namespace}/{name}"
    return name if data.get("kind") in _CLUSTER_WIDE else f"default/{name}"


_CLUSTER_WIDE = ("Node", "PersistentVolume", "StorageClass", "DeviceClass", "CSINode", "Namespace",
                 "PriorityClass", "ResourceSlice", "CSIDriver", "RuntimeClass")  # fmt: skip


def _full(key: str) -> str:
    return key if "/" in key else f"default/{key}"


def _is_there(cluster: Cluster, kind: str, key: str) -> bool:
    try:
        cluster.get(kind, key)
    except InputError:
        return False
    return True


def _bare(data: dict[str, Any]) -> dict[str, Any]:
    """A served object as a manifest to apply."""
    metadata = {name: value for name, value in data["metadata"].items() if name not in _SERVED}
    rest = {name: value for name, value in data.items() if name not in ("metadata", "status")}
    if data["kind"] == "Node":
        # A simulated node has no kubelet that would say what it has.
        rest["status"] = {
            name: data["status"][name]
            for name in ("capacity", "allocatable")
            if name in data.get("status", {})
        }
    head = {name: rest.pop(name) for name in ("apiVersion", "kind")}
    return {**head, "metadata": metadata, **rest}
