"""Nodes with nominated pods: which of them a pod does not fit on, kept per kind of pod.

A pod must fit beside the equally or more important pods that were promised the node.  To find out,
they are put on a copy of the node and the filters are run once more.  Where the filters are
node-local the answer stays true until the node or its nominations change.  `Framework` asks.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.framework.handle import Nominated
from stowplan.framework.status import Status
from stowplan.state.node_table import NodeTable

Answer = Status | None


class KeptNominations:
    __slots__ = ("_answers", "_version")

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, Answer]] = {}
        """Node -> version of its row, and why the pod does not fit there (None: it does)."""
        self._version = 0

    def catch_up(self, nominated: Nominated) -> None:
        changed = nominated.nodes_changed_since(self._version)
        if changed is None:
            self._answers.clear()
        else:
            for name in changed:
                self._answers.pop(name, None)
        self._version = nominated.version

    def ask(self, nodes: NodeTable, row: int, ask: Callable[[], Answer]) -> Answer:
        """The answer for the node of this row; `ask` is called where it is not known."""
        name, version = nodes.names[row], nodes.version_of(row)
        known = self._answers.get(name)
        if known is not None and known[0] == version:
            return known[1]
        answer = ask()
        self._answers[name] = version, answer
        return answer
