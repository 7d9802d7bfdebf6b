"""Worlds: forks of the cluster that somebody plays with, a few at a time.

A world is made of two forks: the cluster with everything placed that can be, and the one that is
changed.  The difference is between these two.  Every change is kept with what it touched, so that a
world can be taken along (`exporting`).
All of it happens on the source's worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from stowplan.answers import deeds, why
from stowplan.answers.what_if import compared
from stowplan.answers.why import Why
from stowplan.errors import InputError, NotFound, StowplanError, TooManyRequests
from stowplan.objects.manifests import describe, object_key, read_manifests
from stowplan.web.asking import Ask
from stowplan.web.exporting import as_manifest, exported, is_there
from stowplan.world.cluster import Cluster

WORLDS_MAX = 8
CHANGES_MAX = 200
NODES_ADDED_MAX = 1000
REPLICAS_MAX = 20_000
ROWS_MAX = 500
"""Of each part of a difference; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Made:
    """A change that was made."""

    words: str
    """For people."""
    options: tuple[str, ...] = ()
    """The same as options of `stowplan what-if`; empty for what has none."""
    touched: tuple[tuple[str, str], ...] = ()
    """Objects that were changed or created, by kind and key."""
    removed: tuple[tuple[str, str], ...] = ()
    blocked: Mapping[str, str] = field(default_factory=dict)
    reweighs: bool = False


@dataclass(slots=True)
class World:
    id: str
    name: str
    before: Cluster
    after: Cluster
    made: list[Made] = field(default_factory=list)
    """The changes, in order."""

    def told(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "changes": [made.words for made in self.made],
            "pendingBefore": len(self.before.pods(pending=True)),
            "pendingAfter": len(self.after.pods(pending=True)),
            "weights": self.after.weights(),
        }


class Worlds:
    def __init__(self, asked: Sequence[str]) -> None:
        """`asked`: the options with which a command asks about the cluster."""
        self._asked = asked
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

    # -- changes ----------------------------------------------------------------------------

    def change(self, ask: Ask) -> dict[str, Any]:
        """One change, made to a fork of the world first: what is refused leaves no trace."""
        world = self.get(ask.parts[0])
        verb = ask.word("verb")
        do = _VERBS.get(verb)
        if do is None:
            hint = f"there are: {', '.join(_VERBS)}"
            raise InputError(f"the change {verb!r} is not known", hint=hint)
        if len(world.made) >= CHANGES_MAX:
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
        world.made.append(made)
        return world.told()

    def difference(self, ask: Ask) -> dict[str, Any]:
        """Who moved, who fits now, who is evicted; each part bounded, with its count."""
        world = self.get(ask.parts[0])
        blocked = {pod: why for made in world.made for pod, why in made.blocked.items()}
        told = compared(world.before, world.after, blocked).to_dict()
        counts = {}
        for part in ("moved", "placed", "pending", "gone", "preempted", "blocked"):
            counts[part] = len(told[part])
            told[part] = dict(list(told[part].items())[:ROWS_MAX])
        for part in ("nodesAdded", "nodesRemoved"):
            counts[part] = len(told[part])
            told[part] = told[part][:ROWS_MAX]
        return {**told, "counts": counts, **world.told()}

    def export(self, ask: Ask) -> dict[str, Any]:
        """The world as manifests to apply, and as the command line that asks the same, with the
        files that it names."""
        world = self.get(ask.parts[0])
        return exported(world.id, world.after, world.made, self._asked)


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
    touched = tuple((data["kind"], object_key(data)) for data in objects)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Made(f"apply {shown}", touched=touched)


def _put(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    """An edited object takes the place of the one that is there; a pod is tried again."""
    objects = [data for _, data in _manifests(_text(body, "text"))]
    deeds.replace(cluster, objects)
    touched = tuple((data["kind"], object_key(data)) for data in objects)
    return Made(f"edit {', '.join(describe(data) for data in objects[:3])}", touched=touched)


def _weigh(cluster: Cluster, body: Mapping[str, Any]) -> Made:
    profile, weights = _text(body, "profile"), body.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise InputError("weights are missing", hint='as {"NodeResourcesFit": 5}')
    cluster.reweigh(weights, profile)
    told = ", ".join(f"{name} {weight}" for name, weight in weights.items())
    return Made(f"weigh {told}", reweighs=True)


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
    gone = [(each["kind"], object_key({"metadata": each})) for each in fix.delete]
    for kind, name in gone:
        cluster.delete(name, kind)
    if is_there(cluster, "Pod", key):
        cluster.retry(key)
    return Made(
        f"for {key}: {fix.title}",
        touched=tuple((data["kind"], object_key(data)) for data in objects),
        removed=tuple(gone),
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
    """Whether manifests would be taken, tried on a fork; for checking while somebody types.

    What is wrong with them is the answer, and no failure.
    """
    try:
        objects = [data for _, data in _manifests(ask.word("text"))]
        with cluster.fork() as trial:
            if ask.body.get("verb") == "edit":
                trial.put(objects)
            else:
                trial.apply(objects)
    except StowplanError as error:
        told = {"error": error.problem, "where": error.where, "hint": error.hint}
        return {"objects": [], **told}
    return {"objects": [describe(data) for data in objects], "error": ""}


def manifest_text(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """An object as a manifest to look at or to edit: without what a server fills in."""
    kind, name = ask.text("kind", "Pod"), ask.text("name")
    data = as_manifest(cluster.get(kind, name))
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


def _full(key: str) -> str:
    return key if "/" in key else f"default/{key}"
