"""A decision as users see it: the outcome of one attempt, with its tables and its history."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.core.decision import Decision as CoreDecision
from stowplan.core.explanation import Explanation
from stowplan.core.group_outcome import GroupOutcome
from stowplan.errors import InputError
from stowplan.world.history import Entry, History
from stowplan.world.table import Table, text_column

if TYPE_CHECKING:
    from stowplan.world.cluster import Cluster


class Decision:
    """What became of a pod in one attempt, and why.

    Truth: it has a node.  `history` are all decisions on the pod that are still known, the oldest
    first.
    """

    __slots__ = ("_brief", "_cluster", "_entry", "_explanation", "_history")

    def __init__(self, brief: CoreDecision, explanation: Explanation | None = None) -> None:
        self._brief = brief
        self._explanation = explanation
        self._entry: Entry | None = None
        self._history: History | None = None
        self._cluster: Cluster | None = None

    @classmethod
    def of(cls, entry: Entry, history: History, cluster: Cluster | None = None) -> Decision:
        decision = cls(entry.decision, history.explanation_of(entry))
        decision._entry, decision._history = entry, history
        decision._cluster = cluster
        return decision

    def explain(self) -> Any:
        """Why, with names and amounts, and what would help: `cluster.why(pod)`, as it is now."""
        if self._cluster is None:
            raise InputError(f"there is no cluster any more to ask about {self.pod!r}")
        return self._cluster.why(self.pod)

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return self._brief.pod

    @property
    def node(self) -> str:
        """Where it goes; empty when no node was found."""
        return self._brief.node

    @property
    def message(self) -> str:
        """Why there is no node, without what preemption said; empty when there is one."""
        return "" if self._brief.node else self._brief.message or self._brief.error

    @property
    def post_filter_message(self) -> str:
        """What preemption said."""
        return self._brief.post_filter_message

    @property
    def full_message(self) -> str:
        """Both, as the pod's condition and its event say it."""
        return "" if self._brief.node else self._brief.full_message

    @property
    def victims(self) -> tuple[str, ...]:
        """Pods that are evicted to make room on `nominated_node`."""
        return self._brief.victims

    @property
    def nominated_node(self) -> str:
        return self._brief.nominated_node

    @property
    def score(self) -> int | None:
        """The total of the node that was chosen; None where there was nothing to compare."""
        return self._brief.score

    @property
    def node_count(self) -> int:
        return self._brief.node_count

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> number of nodes, for a pod that fits nowhere."""
        return dict(self._brief.reasons)

    @property
    def unschedulable_plugins(self) -> tuple[str, ...]:
        """The plugins that turned the pod down."""
        return self._brief.unschedulable_plugins

    @property
    def error(self) -> str:
        """A plugin or the scheduler itself failed."""
        return self._brief.error

    @property
    def gated(self) -> bool:
        """Held back before the queue, so no node was looked at."""
        return self._brief.gated

    @property
    def group(self) -> GroupOutcome | None:
        """The group that the pod was decided on with: its name (`group`), how many members it
        needs (`needed`), who of them had a place (`placed`) and who had none (`unplaced`), whether
        that was enough (`is_placed`).  None for a pod of its own."""
        return self._brief.group

    @property
    def claims(self) -> dict[str, Any]:
        """The pod's claims by name, once it has a node: their devices, and who reserved them."""
        return dict(self._detail("claims") or {})

    @property
    def unmet_requests(self) -> list[dict[str, Any]]:
        """The requests for devices that keep the pod from getting a node.

        For each its `claim`, `request` and `class`, how many devices are `wanted`, how many there
        are `matching` and of those `free`, and `where`.  Devices are counted as they are now.
        """
        return [] if self._brief.node else list(self._detail("unmetRequests") or ())

    def _detail(self, name: str) -> Any:
        make = (self._brief.details or {}).get(name)
        return None if make is None else make()

    @property
    def time(self) -> float:
        """When it was made, in seconds, by the cluster's clock."""
        return 0.0 if self._entry is None else self._entry.time_s

    @property
    def attempt(self) -> int:
        """Which attempt on this pod it was, counted from 1; 0 for a pod that was not tried."""
        return 0 if self._entry is None else self._entry.attempt

    @property
    def has_detail(self) -> bool:
        """Whether `scores`, `rejected` and `feasible` are still known."""
        return self._explanation is not None

    @property
    def scores(self) -> Table:
        """Nodes by plugins, weighted, and `total`; without rows when nothing was compared."""
        told = self._explanation
        if told is None or not told.scores:
            return Table("node", [], {})
        return Table("node", told.feasible, {**told.scores, "total": told.totals()})

    @property
    def normalised_scores(self) -> Table:
        """The same before weighting: from 0 to 100."""
        return self._scores(lambda name, column: column // self._weight(name))

    @property
    def raw_scores(self) -> Table:
        """The same as plugins gave them, before normalising: numbers of their own."""
        raw = {} if self._explanation is None else self._explanation.raw
        return self._scores(
            lambda name, column: raw[name] if name in raw else column // self._weight(name)
        )

    def _weight(self, plugin: str) -> int:
        """Scores of extenders are weighted by themselves."""
        return 1 if self._explanation is None else self._explanation.weights.get(plugin, 1)

    def _scores(self, form: Callable[[str, Any], Any]) -> Table:
        told = self._explanation
        if told is None or not told.scores:
            return Table("node", [], {})
        columns = {name: form(name, column) for name, column in told.scores.items()}
        return Table("node", told.feasible, columns)

    @property
    def weights(self) -> dict[str, int]:
        """Plugin -> what its normalised scores were multiplied with."""
        told = self._explanation
        return {} if told is None else {name: self._weight(name) for name in told.scores}

    @property
    def rejected(self) -> Table:
        """Per node that was turned down: plugin, code, reasons."""
        found = [] if self._explanation is None else list(self._explanation.rejected())
        return Table(
            "node",
            [name for name, _ in found],
            {
                "plugin": text_column([status.plugin for _, status in found]),
                "code": text_column([status.code.label for _, status in found]),
                "reasons": text_column([tuple(status.reasons) for _, status in found]),
            },
        )

    @property
    def feasible(self) -> list[str]:
        """The nodes that passed every filter."""
        return [] if self._explanation is None else self._explanation.feasible

    @property
    def history(self) -> list[Decision]:
        """All decisions on this pod that are still known, the oldest first."""
        if self._history is None:
            return [self]
        return [Decision.of(entry, self._history) for entry in self._history.of(self.pod)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `stowplan dry-run -o json` prints it."""
        return replace(self._brief, explanation=self._explanation).to_dict()

    def __bool__(self) -> bool:
        return bool(self._brief.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self._brief.pod)

    def _outcome(self) -> str:
        if self.node:
            return f"goes to {self.node}"
        if self.victims:
            return f"evicts {', '.join(self.victims)} from {self.nominated_node}"
        return "is gated" if self.gated else "has no node"

    def __repr__(self) -> str:
        said = f": {self.full_message}" if self.message else ""
        text = f"<Decision: {self.pod} {self._outcome()}{said}>"
        return text if text.isprintable() else repr(text)

    def _repr_html_(self) -> str:
        """For notebooks.  Whatever comes from the cluster is text."""
        head = f"<p><b>{escape(self.pod)}</b> {escape(self._outcome())}</p>"
        why = f"<p>{escape(self.full_message)}</p>" if self.message else ""
        tables = [table for table in (self.scores, self.rejected) if len(table)]
        return head + why + "".join(table._repr_html_() for table in tables)
