"""What is different in one cluster from another: who moved, who fits now, who is evicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape

from stowplan.objects.pod import Pod

LINES_MAX = 20
"""Of each sort, in `repr`; the rest is counted."""

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Diff:
    """Pods by `namespace/name`.  Truth: there is a difference."""

    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """On another node: which before, which now."""
    placed: dict[str, str] = field(default_factory=dict)
    """Has a node now, and had none, or was not there."""
    pending: dict[str, str] = field(default_factory=dict)
    """Has no node now, and had one, or was not there: why."""
    evicted: dict[str, str] = field(default_factory=dict)
    """Gone now, and had a node: which."""
    removed: tuple[str, ...] = ()
    """Gone now, and had no node."""
    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self._sections().values())

    def _sections(self) -> dict[str, list[str]]:
        return {
            "nodes added": list(self.nodes_added),
            "nodes removed": list(self.nodes_removed),
            "moved": [f"{pod}: {old} -> {new}" for pod, (old, new) in self.moved.items()],
            "placed": [f"{pod}: {node}" for pod, node in self.placed.items()],
            "pending": [f"{pod}: {why}" if why else pod for pod, why in self.pending.items()],
            "evicted": [f"{pod}: from {node}" for pod, node in self.evicted.items()],
            "removed": list(self.removed),
        }

    def __repr__(self) -> str:
        lines = []
        for title, entries in self._sections().items():
            if entries:
                lines.append(f"{title} ({len(entries)}):")
                lines += [f"  {entry}" for entry in entries[:LINES_MAX]]
                if len(entries) > LINES_MAX:
                    lines.append(f"  and {len(entries) - LINES_MAX} more")
        return "\n".join(lines) or "no difference"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def compare(
    now: Iterable[Pod],
    before: Iterable[Pod],
    why: Mapping[str, str],
    nodes: tuple[set[str], set[str]],
) -> Diff:
    """`why` has the messages of pending pods; `nodes` are the names now and before."""
    new = {pod.key: pod for pod in now if pod.status.phase not in _ENDED}
    old = {pod.key: pod for pod in before if pod.status.phase not in _ENDED}
    diff = Diff(
        removed=tuple(key for key in old if key not in new and not old[key].spec.node_name),
        nodes_added=tuple(sorted(nodes[0] - nodes[1])),
        nodes_removed=tuple(sorted(nodes[1] - nodes[0])),
    )
    for key, pod in new.items():
        node, known = pod.spec.node_name, old.get(key)
        was = known.spec.node_name if known is not None else ""
        if node and was and node != was:
            diff.moved[key] = (was, node)
        elif node and not was:
            diff.placed[key] = node
        elif not node and (was or known is None):
            diff.pending[key] = why.get(key, "")
    for key, pod in old.items():
        if key not in new and pod.spec.node_name:
            diff.evicted[key] = pod.spec.node_name
    return diff
