"""`plan_consolidate`: nodes that can go, one after the other, and how far from the least we are.

Each step drains a node on a fork: every pod that was on it has a new place, nobody else lost his,
and no budget stood in the way; the next step starts from there.  The bound is that of `packing`.
`cluster.plan_consolidate` and `stowplan plan consolidate` are this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.answers.drain_trials import State, drained
from stowplan.answers.node_types import INSTANCE, Types, prices_by_name
from stowplan.answers.packing import Bound, gap
from stowplan.answers.placement_bound import placement_bound
from stowplan.answers.text import WIDTH, wrapped
from stowplan.answers.words import Tell, count_of, shown, some_of, tell_nobody
from stowplan.printable import printable
from stowplan.world.cluster import Cluster

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(slots=True)
class Step:
    node: str
    evicted: list[str] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    """The pods made in their stead -> their nodes."""
    saved: dict[str, int] = field(default_factory=dict)
    """Resource -> how much the node has of it."""
    price: float | None = None

    def to_dict(self) -> dict[str, Any]:
        price = {} if self.price is None else {"price": self.price}
        return {
            "drain": self.node,
            "evicted": self.evicted,
            "placed": self.placed,
            "saved": {**self.saved, **price},
        }


@dataclass(slots=True, repr=False)
class Consolidation:
    """Truth: at least one node can go."""

    steps: list[Step] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Nodes that were tried -> why they stay."""
    node_count: int = 0
    bound: Bound = field(default_factory=Bound)
    price: float | None = None
    """Of all nodes now, where prices are known; the bound is in the same unit."""

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def cost(self) -> float:
        """What there is now: a price, or a number of nodes."""
        return self.node_count if self.price is None else self.price

    @property
    def cost_after(self) -> float:
        saved = (1 if self.price is None else step.price or 0.0 for step in self.steps)
        return self.cost - sum(saved)

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": [step.to_dict() for step in self.steps],
            "kept": self.kept,
            "unit": "nodes" if self.price is None else "price",
            "before": self.cost,
            "after": self.cost_after,
            "bound": self.bound.price,
            "boundBy": self.bound.method,
            "gapBefore": gap(self.cost, self.bound.price),
            "gapAfter": gap(self.cost_after, self.bound.price),
        }

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        can = count_of(len(self.steps), "node")
        yield from wrapped(f"{can} of {self.node_count} can go, in this order:", width)
        for number, step in enumerate(self.steps, 1):
            saved = ", ".join(f"{shown(name, amount)} {name}" for name, amount in step.saved.items()
                              if name in ("cpu", "memory"))  # fmt: skip
            price = "" if step.price is None else f", {step.price:g}"
            moved = count_of(len(step.evicted), "pod")
            yield from wrapped(
                f"{number}. drain {step.node}: {moved} move, saves {saved}{price}", width, "  "
            )
            if step.placed:
                where = Counter(step.placed.values())
                names = [f"{node} ({n})" if n > 1 else node for node, n in sorted(where.items())]
                yield from wrapped(f"to {some_of(names, 5)}", width, "     ")
        if self.kept:
            yield ""
            yield from wrapped("what stays, and why:", width)
            alike: dict[str, list[str]] = {}
            for node, why in self.kept.items():
                alike.setdefault(why, []).append(node)
            for why, nodes in list(alike.items())[:10]:
                yield from wrapped(f"{some_of(nodes)}: {why}", width, "  ")
            if len(alike) > 10:
                rest = sum(len(nodes) for nodes in list(alike.values())[10:])
                yield f"  and {rest} more"
        yield ""
        unit = "nodes" if self.price is None else "in price"
        yield from wrapped(
            f"now {self.cost:g} {unit}, after {self.cost_after:g}, at least {self.bound.price:.4g}"
            f" by {self.bound.method}",
            width,
        )
        gaps = (100 * gap(cost, self.bound.price) for cost in (self.cost, self.cost_after))
        yield from wrapped("gap {:.1f} % now, {:.1f} % after".format(*gaps), width)

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines()))

    __repr__ = __str__


def plan_consolidate(
    cluster: Cluster,
    *,
    types: Types | None = None,
    keep: Iterable[str] = (),
    tell: Tell = tell_nobody,
) -> Consolidation:
    """Which nodes can go, in which order, with every pod placed anew and budgets respected.

    `types` has prices by the nodes' instance type; `keep` are nodes that stay.  Nodes of the
    control plane stay, and those with pods that nobody would make again.  The cluster itself is
    not changed.
    """
    prices = prices_by_name(types)
    world = cluster.fork()
    try:
        world.run()
        nodes = {node.name: node.metadata.labels or {} for node in world.objects("Node")}
        answer = Consolidation(node_count=len(nodes))
        for name in keep:
            world.get("Node", name)
            answer.kept[name] = "it is to stay"
        for name, labels in nodes.items():
            if any(key in labels for key in CONTROL_PLANE):
                answer.kept.setdefault(name, "it is of the control plane")
        price_of = {name: prices.get(labels.get(INSTANCE, ""), 0.0)
                    for name, labels in nodes.items()}  # fmt: skip
        if prices:
            answer.price = sum(price_of.values())
        answer.bound = placement_bound(world, answer.kept, price_of if prices else None)
        world = _drained(world, answer, price_of if prices else None, tell)
    finally:
        world.close()
    return answer


def _drained(
    world: Cluster, answer: Consolidation, price_of: dict[str, float] | None, tell: Tell
) -> Cluster:
    """The cluster after all steps; those before are closed."""
    left = {node.name for node in world.objects("Node")} - set(answer.kept)
    state = State(world)
    while left:
        state.weigh(world)
        for name in state.emptiest(left, price_of):
            tell(f"{len(answer.steps)} drained, {len(left)} to try")
            left.discard(name)
            why = state.why_not(name)
            if why:
                answer.kept[name] = why
                continue
            trial = world.fork()
            moved = drained(trial, state, name)
            if isinstance(moved, str):
                trial.close()
                answer.kept[name] = moved
                continue
            saved = state.amounts(name)
            price = None if price_of is None else price_of[name]
            answer.steps.append(Step(name, moved.evicted, moved.placed, saved, price))
            world.close()
            world = trial
            break
    return world
