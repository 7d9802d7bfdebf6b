"""What plugins said before their scores were normalised: for explanations, after the search.

A search keeps what counts.  Kept answers have the raw scores of plugins that read one node; of
those that read the cluster the board has them, or the plugin works them out once more
(`raw_scores`), because its fast way to the normalised ones never saw them.
"""

from __future__ import annotations

from typing import Any

from stowplan.framework.cycle import Cycle
from stowplan.framework.findings import ScoreBoard
from stowplan.framework.plan import normalizes
from stowplan.framework.status import Scores
from stowplan.state.pod_info import PodInfo


def raw_scores(
    plugins: tuple[Any, ...], cycle: Cycle, pod: PodInfo, board: ScoreBoard
) -> dict[str, Scores]:
    """In the order of the board's rows, of those that normalise; the others' are what counts,
    before their weight.  `plugins` are those that score."""
    found: dict[str, Scores] = {}
    for plugin in plugins:
        name = plugin.name
        if name not in board.by_plugin or not normalizes(plugin):
            continue
        if board.answers is not None and board.answers.has(name):
            found[name] = board.answers.raw(name)[board.rows]
        elif hasattr(plugin, "raw_scores"):
            found[name] = plugin.raw_scores(cycle, pod, cycle.nodes, board.rows)
        elif board.raw is not None and name in board.raw:
            found[name] = board.raw[name]
    return found
