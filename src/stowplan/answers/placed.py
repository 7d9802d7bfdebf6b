"""Why there and not elsewhere: the scores of a pod's decision, and what would have tipped it.

A pod that came with its node is decided anew on a fork, as if it were pending; the scores are then
those of the cluster as it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.text import WIDTH, wrapped
from stowplan.errors import InputError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision

Data = dict[str, Any]

WEIGHT_MAX = 100
HOST = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(slots=True, repr=False)
class Placed:
    """Truth: it has a node."""

    pod: str
    node: str
    other: str
    """The node that was asked about."""
    scores: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Plugin -> points of the node, and of the other one; `total` last."""
    reason: str = ""
    """Why the other one was turned down."""
    decided_anew: bool = False
    weight: int = 0
    """Of a preference for the other node with which the pod goes there, proven; 0: none does."""

    def __bool__(self) -> bool:
        return bool(self.node)

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__

    def to_dict(self) -> Data:
        data: Data = {"pod": self.pod, "node": self.node, "causes": [], "fixes": []}
        data["compared"] = {
            "node": self.other,
            "rejected": self.reason,
            "scores": {
                self.node: {plugin: pair[0] for plugin, pair in self.scores.items()},
                self.other: {plugin: pair[1] for plugin, pair in self.scores.items()},
            }
            if self.scores
            else {},
            "preferenceWeight": self.weight,
        }
        return data

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        yield from wrapped(f"{self.pod} goes to {self.node}, not to {self.other}", width)
        if self.decided_anew:
            yield from wrapped("decided anew, in the cluster as it is now", width, "  ")
        if self.reason:
            yield from wrapped(f"{self.other} is turned down: {self.reason}", width, "  ")
            return
        yield ""
        plugin_width = max(map(len, self.scores), default=0)
        columns = max(8, len(self.node)), max(8, len(self.other))
        yield f"  {'':{plugin_width}}  {self.node:>{columns[0]}}  {self.other:>{columns[1]}}"
        for plugin, (own, others) in self.scores.items():
            yield f"  {plugin:{plugin_width}}  {own:>{columns[0]}}  {others:>{columns[1]}}"
        yield ""
        yield from (line for text in self._told() for line in wrapped(text, width, "  "))

    def _told(self) -> Iterator[str]:
        own, others = self.scores.get("total", (0, 0))
        if own == others:
            yield "They are equally good: chance decided."
        else:
            ahead = {name: a - b for name, (a, b) in self.scores.items() if name != "total"}
            plugin = max(ahead, key=lambda name: ahead[name])
            yield f"{plugin} tipped it: {ahead[plugin]} points of {own - others}."
        if self.weight:
            yield (
                f"With a preference for {self.other} (a preferred node affinity of weight "
                f"{self.weight}) it goes there; tried on a fork."
            )


def placed(world: Cluster, key: str, other: str) -> Placed:
    """`world` has been run."""
    world.get("Node", other)
    with world.fork() as trial:
        anew = _pending_again(trial, key)
        decision = trial.decision(key)
        if not decision.node:
            raise InputError(f"{key!r} has no node", hint="ask without `--node` what would help")
        if other not in decision.scores.index and other not in decision.rejected.index:
            # It was given the node that preemption made room on, without comparing.
            _pending_again(trial, key, lambda pod: None)
            anew = True
            decision = trial.decision(key)
        answer = Placed(key, decision.node, other, decided_anew=anew)
        _compare(answer, decision)
    if answer.scores and answer.node != other:
        answer.weight = _weight(world, key, other)
    return answer


def _pending_again(trial: Cluster, key: str, edit: Callable[[Data], None] | None = None) -> bool:
    """Have the pod decided, if it is not yet; True when it came with its node."""
    try:
        last = trial.decision(key)
        known = bool(last.node) and last.has_detail and edit is None
    except InputError:
        last, known = None, False
    if known:
        return False
    data = trial.get("Pod", key)
    trial.delete(key)
    trial.run()
    spec = {name: value for name, value in data["spec"].items() if name != "nodeName"}
    metadata = {name: data["metadata"][name] for name in ("name", "namespace", "labels")
                if name in data["metadata"]}  # fmt: skip
    fresh = {**data, "metadata": metadata, "spec": spec, "status": {}}
    if edit is not None:
        edit(fresh)
    trial.put(fresh)
    trial.retry(key)
    trial.run()
    return last is None


def _compare(answer: Placed, decision: Decision) -> None:
    scores = decision.scores
    if answer.other in scores.index and answer.node in scores.index:
        own, others = scores.row(answer.node), scores.row(answer.other)
        answer.scores = {plugin: (int(own[plugin]), int(others[plugin])) for plugin in own}
    elif answer.other in decision.rejected.index:
        row = decision.rejected.row(answer.other)
        answer.reason = f"{row['plugin']}: {', '.join(row['reasons'])}"
    elif answer.other != answer.node:
        answer.reason = "it was not looked at"


def _weight(world: Cluster, key: str, other: str) -> int:
    """The smallest weight of a preference that does it, by halving."""
    low, high = 1, WEIGHT_MAX
    if _goes_to(world, key, other, high) != other:
        return 0
    while low < high:
        middle = (low + high) // 2
        if _goes_to(world, key, other, middle) == other:
            high = middle
        else:
            low = middle + 1
    return high


def _goes_to(world: Cluster, key: str, other: str, weight: int) -> str:
    expression = {"key": HOST, "operator": "In", "values": [other]}
    term = {"weight": weight, "preference": {"matchExpressions": [expression]}}

    def edit(pod: Data) -> None:
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity.setdefault(PREFERRED, []).append(term)

    with world.fork() as trial:
        _pending_again(trial, key, edit)
        return trial.decision(key).node
