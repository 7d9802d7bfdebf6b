"""`compare`: the same cluster and workload under two configurations, plugin sets or seeds.

Both are forks of one cluster, run to the end.  Decisions that differ are told with the plugin that
tipped them; measures come with intervals where several seeds are run.  `cluster.compare` and
`stowplan compare` are this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.gates import Gate, read_gate
from stowplan.answers.measures import MEASURES, interval, measured
from stowplan.answers.placement_bound import moves
from stowplan.answers.text import WIDTH, wrapped
from stowplan.answers.words import Tell, count_of, tell_nobody
from stowplan.errors import InputError
from stowplan.printable import printable
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.setup import Config

SEEDS_MAX = 100
SHOWN_MAX = 20

Values = dict[str, list[float]]
"""Measure -> its value for each seed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod that goes elsewhere."""

    pod: str
    base: str
    """Its node; empty: it has none."""
    other: str
    plugin: str
    """Which plugin tipped it; empty: chance did, between equals."""
    reason: str

    def to_dict(self) -> dict[str, str]:
        return {
            "pod": self.pod,
            "base": self.base,
            "other": self.other,
            "plugin": self.plugin,
            "reason": self.reason,
        }


@dataclass(slots=True, repr=False)
class Comparison:
    """Truth: no condition to fail holds."""

    base: Values
    other: Values
    seeds: list[int]
    differences: list[Difference] = field(default_factory=list)
    """Of the first seed."""
    decided: int = 0
    """Pods that were decided on in both."""
    failed: list[str] = field(default_factory=list)
    """Conditions that hold."""

    def __bool__(self) -> bool:
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "measures": {
                name: {"base": _told(self.base[name]), "other": _told(self.other[name])}
                for name in MEASURES
            },
            "decided": self.decided,
            "differences": [each.to_dict() for each in self.differences],
            "failed": self.failed,
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        yield f"{'':20}  {'base':>16}  {'other':>16}"
        for name in MEASURES:
            cells = (_cell(name, values[name]) for values in (self.base, self.other))
            yield "{:20}  {:>16}  {:>16}".format(name, *cells).rstrip()
        if len(self.seeds) > 1:
            yield from wrapped(f"means of {len(self.seeds)} seeds, with 95 % intervals", width)
        yield ""
        total = count_of(self.decided, "decision")
        yield from wrapped(f"{len(self.differences)} of {total} differ", width)
        for each in self.differences[:SHOWN_MAX]:
            where = f"{each.base or 'no node'} -> {each.other or 'no node'}"
            yield from wrapped(f"{each.pod}: {where}", width, "  ")
            yield from wrapped(f"{each.plugin or 'chance'}: {each.reason}", width, "    ")
        if len(self.differences) > SHOWN_MAX:
            yield f"  and {len(self.differences) - SHOWN_MAX} more"
        for text in self.failed:
            yield ""
            yield from wrapped(f"failed: {text}", width)

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def _told(values: list[float]) -> dict[str, Any]:
    mean, margin = interval(values)
    return {"mean": mean, "interval": [mean - margin, mean + margin], "values": values}


def _cell(name: str, values: list[float]) -> str:
    mean, margin = interval(values)
    if "." in name or name == "imbalance":
        return f"{100 * mean:.1f} %" + (f" ± {100 * margin:.1f}" if len(values) > 1 else "")
    return f"{mean:g}" if len(values) == 1 else f"{mean:.1f} ± {margin:.1f}"


def compare(
    cluster: Cluster,
    config: Config = None,
    *,
    seed: int = 0,
    new_seed: int | None = None,
    seeds: int = 1,
    anew: bool = False,
    fail_if: Iterable[str] = (),
    tell: Tell = tell_nobody,
) -> Comparison:
    """This cluster as it is configured, beside one with another configuration or another seed.

    `seeds` is how many are run, from `seed` on (`new_seed` for the other one); with `anew` pods
    that run are decided again as if they were new.  `fail_if` are conditions such as
    `pending > base`.  The cluster itself is not changed.
    """
    if not 1 <= seeds <= SEEDS_MAX:
        raise InputError(f"{seeds} seeds", hint=f"from 1 to {SEEDS_MAX}")
    gates = [read_gate(text, MEASURES) for text in fail_if]
    firsts = seed, seed if new_seed is None else new_seed
    numbers = list(range(seed, seed + seeds))
    answer = Comparison({name: [] for name in MEASURES}, {name: [] for name in MEASURES}, numbers)
    for number in range(seeds):
        tell(f"seed {number + 1} of {seeds}")
        ends = []
        for values, own, first in (
            (answer.base, None, firsts[0]),
            (answer.other, config, firsts[1]),
        ):
            with cluster.fork() as world:
                decisions = _decided(world, own, first + number, anew)
                for name, value in measured(world).items():
                    values[name].append(value)
                ends.append(decisions if number == 0 else {})
        if number == 0:
            answer.decided = len(ends[0].keys() & ends[1].keys())
            answer.differences = list(_differences(*ends))
    answer.failed = [gate.text for gate in gates if _fails(gate, answer)]
    return answer


def _fails(gate: Gate, answer: Comparison) -> bool:
    name = gate.measure
    return gate.holds(interval(answer.other[name])[0], interval(answer.base[name])[0])


def _decided(world: Cluster, config: Config, seed: int, anew: bool) -> dict[str, Decision]:
    """Run it to the end; the last decision on each pod that was decided here."""
    world.reseed(seed)
    if config is not None:
        world.reconfigure(config)
    if anew:
        _begin_anew(world)
    world.run()
    return {decision.pod: decision for decision in world.decisions()}


def _begin_anew(world: Cluster) -> None:
    """Pods that run are pending again; those that belong on their nodes stay."""
    pods = [pod for pod in world.pods(pending=False) if pod.spec.node_name and moves(pod)]
    fresh = []
    for pod in pods:
        data = world.get("Pod", pod.key)
        spec = {name: value for name, value in data["spec"].items() if name != "nodeName"}
        # Another pod in its stead: who runs cannot lose his node.
        metadata = {**data["metadata"], "uid": f"{pod.uid}-anew"}
        fresh.append({**data, "metadata": metadata, "spec": spec, "status": {}})
    world.put(fresh)


def _differences(base: dict[str, Decision], other: dict[str, Decision]) -> Iterator[Difference]:
    for key, before in base.items():
        after = other.get(key)
        if after is not None and before.node != after.node:
            yield Difference(key, before.node, after.node, *_tipped(before, after))


def _tipped(before: Decision, after: Decision) -> tuple[str, str]:
    """Which plugin, and how."""
    for one, two in ((before, after), (after, before)):
        if not two.node:
            plugins = two.unschedulable_plugins
            return (plugins[0] if plugins else "", two.message)
        if one.node and two.has_detail and one.node not in two.feasible:
            rejected = two.rejected
            if one.node in rejected.index:
                row = rejected.row(one.node)
                return row["plugin"], f"turns down {one.node}: {', '.join(row['reasons'])}"
    old, new = before.scores, after.scores
    if any(node not in table.index for table in (old, new) for node in (before.node, after.node)):
        return "", "their scores are not known"
    names = [name for name in dict.fromkeys((*old.columns, *new.columns)) if name != "total"]

    def lead(table: Any, plugin: str) -> int:
        """By how much the new node is ahead."""
        if plugin not in table:
            return 0
        return int(table.at(after.node, plugin) - table.at(before.node, plugin))

    shifts = {name: lead(new, name) - lead(old, name) for name in names}
    best = max(shifts, key=lambda name: shifts[name], default="")
    if not best or shifts[best] <= 0:
        return "", f"{before.node} and {after.node} are equally good"
    return best, f"{lead(old, best):+d} for {after.node} became {lead(new, best):+d}"
