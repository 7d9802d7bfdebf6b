"""Trying a change on a fork: only what was seen to work is a fix.

A trial begins where the question begins: with the change made and nothing decided, which is what
asking again with the change in the input means.  Where many other pods wait too, it is first made
in the cluster as it is after all of them have been decided, and only what works there is tried from
the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.changes import Candidate, Data, ObjectEdit
from stowplan.answers.patches import json_patch
from stowplan.answers.situation import Situation, is_lost
from stowplan.answers.words import Tell, tell_nobody
from stowplan.errors import StowplanError
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision

TRIALS_MAX = 48
"""Forks for one question."""

PENDING = "becomes pending"

FEW = 20
"""With so many other pods that wait, every trial begins at the beginning."""

OTHERS_MAX = 300
"""More pods than these are not decided again, not even for what has been proven without them."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change after which the pod was seen to be placed."""

    title: str
    node: str
    changes: list[Data] = field(default_factory=list)
    create: list[Data] = field(default_factory=list)
    delete: list[Data] = field(default_factory=list)
    evicts: list[str] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    """What becomes of others, in words."""
    manifests: list[Data] = field(default_factory=list)
    """The changed objects, whole."""
    rank: tuple[Any, ...] = ()

    def to_dict(self) -> Data:
        return {
            "title": self.title,
            "changes": self.changes,
            "create": self.create,
            "delete": self.delete,
            "node": self.node,
            "evicts": self.evicts,
            "proven": True,
        }


class Prover:
    def __init__(self, start: Cluster, s: Situation, tell: Tell = tell_nobody) -> None:
        """`start` is the cluster before anything was decided; `s.cluster` the one after."""
        self._start = start
        self._s = s
        self._report = tell
        self.trials = 0
        self.tried: list[str] = []
        """Titles, for when nothing works."""
        self._others = [pod.key for pod in start.queue() if pod.key != s.key]
        self._first = start if len(self._others) <= FEW else s.cluster
        self._again = FEW < len(self._others) <= OTHERS_MAX

    @property
    def is_done(self) -> bool:
        return self.trials >= TRIALS_MAX

    def prove(self, candidate: Candidate) -> Fix | None:
        self.tried.append(candidate.title)
        try:
            told = self._told(candidate)
            if told is None or any(self._is_made(*each) for each in candidate.delete):
                return None
            outcome = self._trial(self._first, candidate)
            if outcome is not None and self._again:
                outcome = self._trial(self._start, candidate)
            if outcome is None:
                return None
        except (KeyError, IndexError, TypeError, StowplanError):
            # The change does not apply to this object, or makes no object of it.
            return None
        node, evicts, moves = outcome
        changes, manifests = told
        return Fix(
            candidate.title,
            node,
            changes,
            [deepcopy(each) for each in candidate.create],
            [_named(self._s, kind, key) for kind, key in candidate.delete],
            evicts,
            moves,
            manifests,
            candidate.rank(len(evicts) + sum(text.endswith(PENDING) for text in moves)),
        )

    def _is_made(self, kind: str, key: str) -> bool:
        """Whether it is a pod without a node that a workload makes again, in the input or not:
        deleting it makes no room."""
        if kind != "Pod" or not self._start.has_sources:
            return False
        pod = self._start.pod(key)
        is_owned = pod.metadata.controller() is not None
        return not pod.spec.node_name and (is_owned or self._start.source(kind, key) is None)

    def _trial(
        self, origin: Cluster, candidate: Candidate
    ) -> tuple[str, list[str], list[str]] | None:
        self.trials += 1
        self._report(f"{self._s.key}: trial {self.trials} of at most {TRIALS_MAX}")
        s = self._s
        with origin.fork() as trial:
            objects = [after for _, after in self._edited(candidate.objects)]
            if candidate.pod:
                objects.append(s.edited(candidate.pod))
                objects += self._siblings(trial, candidate)
            trial.put([*objects, *candidate.create])
            for kind, key in candidate.delete:
                trial.delete(key, kind)
            for each in candidate.objects:
                if each.kind == "Pod":
                    trial.retry(each.key)
            trial.retry(s.key)
            trial.run()
            pod = trial.pod(s.key)
            node = pod.spec.node_name
            if not node or is_lost(trial, pod):
                return None
            history = _history(trial, s.key)[_decided(origin, s.key) :]
            evicts = [victim for decision in history for victim in decision.victims]
            gone = {key for _, key in candidate.delete} | {s.key} | set(evicts)
            if candidate.delete or evicts:
                return node, evicts, _moves(trial, s.cluster, gone)
            # Nobody who runs is touched: of the others only those that wait are looked at.
            return node, evicts, self._waiting(trial) if origin is self._start else []

    def _waiting(self, trial: Cluster) -> list[str]:
        """What becomes of other pods that waited, where it is not what became of them before."""
        told = []
        for key in self._others:
            node, before = (each.pod(key).spec.node_name for each in (trial, self._s.cluster))
            if before and not node:
                told.append(f"{key} {PENDING}")
            elif node and not before:
                told.append(f"{key} is placed on {node}")
        return told

    def _siblings(self, trial: Cluster, candidate: Candidate) -> list[Data]:
        """Pods made of the same template: what changes it changes them all."""
        s = self._s
        if s.owner is None or s.cluster.source("Pod", s.key) is not None:
            return []
        uids = {owner.uid for owner in s.pod.metadata.owner_references or ()}
        found = []
        for pod in trial.pods(pending=True):
            if pod.key != s.key and uids & {o.uid for o in pod.metadata.owner_references or ()}:
                data = trial.get("Pod", pod.key)
                for edit in candidate.pod:
                    edit(data)
                found.append(data)
        return found

    # -- in words of the input --------------------------------------------------------------

    def _edited(self, edits: Iterable[ObjectEdit]) -> list[tuple[Data, Data]]:
        """Each object before and after all that is done to it."""
        cluster = self._s.cluster
        found: dict[tuple[str, str], tuple[Data, Data]] = {}
        for each in edits:
            place = each.kind, each.key
            if place not in found:
                before = cluster.source(*place) or cluster.get(*place)
                found[place] = before, deepcopy(before)
            each.edit(found[place][1])
        return list(found.values())

    def _told(self, candidate: Candidate) -> tuple[list[Data], list[Data]] | None:
        """The changes as patches, and the changed objects; None when there is nothing to change."""
        in_input = [each for each in candidate.objects if self._is_in_input(each.kind, each.key)]
        found = self._edited(in_input)
        if candidate.pod:
            found = [*self._own(candidate), *found]
        changes: dict[str, Data] = {}
        for before, after in found:
            patch = json_patch(before, after)
            if not patch:
                return None
            change = {**_reference(before), "patch": patch}
            known = changes.setdefault(str(_reference(before)), change)
            if known is not change:
                known["patch"] += patch
        if (candidate.pod or candidate.objects) and not found:
            return None
        return list(changes.values()), [after for _, after in found]

    def _own(self, candidate: Candidate) -> list[tuple[Data, Data]]:
        """The pod as the input has it, and the workload whose template it is of."""
        s, found = self._s, []
        in_input = s.cluster.source("Pod", s.key) is not None
        if in_input or s.owner is None:
            found.append((s.manifest, s.edited(candidate.pod)))
        if s.owner is not None:
            before = s.cluster.source(*s.owner) or s.cluster.get(*s.owner)
            after = deepcopy(before)
            try:
                for edit in candidate.pod:
                    edit(after["spec"]["template"])
                found.append((before, after))
            except (KeyError, IndexError):
                if not in_input:
                    raise
        return found

    def _is_in_input(self, kind: str, key: str) -> bool:
        cluster = self._s.cluster
        return kind == "Node" or not cluster.has_sources or cluster.source(kind, key) is not None


def _decided(cluster: Cluster, key: str) -> int:
    return sum(decision.attempt > 0 for decision in _history(cluster, key))


def _history(cluster: Cluster, key: str) -> list[Decision]:
    try:
        return cluster.decision(key).history
    except StowplanError:
        # Nobody has decided on it, or it names its node.
        return []


def _moves(trial: Cluster, after: Cluster, gone: set[str]) -> list[str]:
    """What is different for others from how it would be without the change."""
    diff = trial.diff(after)
    told = [f"{key} moves from {old} to {new}" for key, (old, new) in diff.moved.items()]
    told += [f"{key} loses its place on {node}" for key, node in diff.evicted.items()
             if key not in gone]  # fmt: skip
    told += [f"{key} is placed on {node}" for key, node in diff.placed.items() if key not in gone]
    told += [f"{key} {PENDING}" for key in diff.pending if key not in gone]
    return told


def _reference(data: Data) -> Data:
    metadata = data.get("metadata") or {}
    reference = {"apiVersion": data["apiVersion"], "kind": data["kind"]}
    if data["kind"] not in ("Node", "PersistentVolume", "StorageClass", "DeviceClass", "CSINode"):
        reference["namespace"] = metadata.get("namespace") or "default"
    return {**reference, "name": metadata.get("name", "")}


def _named(s: Situation, kind: str, key: str) -> Data:
    namespace, _, name = key.rpartition("/")
    reference = {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
    if not namespace:
        del reference["namespace"]
    return reference
