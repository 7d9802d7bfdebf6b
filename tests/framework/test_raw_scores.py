"""Raw scores are what each plugin says of one node; normalised and weighted they add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowplan as sp
from stowplan.framework.cycle import Cycle
from stowplan.framework.runtime import Framework
from stowplan.state.pod_info import PodInfo

NODES = 12


def _cluster(ignoring: bool) -> sp.Cluster:
    cluster = sp.Cluster(seed=3)
    cluster.add_nodes(NODES, cpu=8, zones=3, labels={"disk": "ssd"})
    if ignoring:
        # Without the zone: spreading looks at rows, not at classes of them.
        cluster.add_nodes(2, cpu=8, prefix="odd", taints=["slow=yes:PreferNoSchedule"])
    cluster.apply([_pod(f"web-{n}") for n in range(7)])
    cluster.run()
    return cluster


def _pod(name: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    liked = {"labelSelector": selector, "topologyKey": "topology.kubernetes.io/zone"}
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 7, "podAffinityTerm": liked}
                    ]
                },
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 40, "preference": ssd}
                    ]
                },
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": selector,
                }
            ],
        },
    }


@pytest.mark.parametrize("ignoring", [False, True])
def test_raw_scores_are_those_of_one_node_and_make_up_the_total(
    ignoring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: dict[str, dict[str, int]] = {}
    score = Framework.score

    def noted(self: Framework, cycle: Cycle, pod: PodInfo, *rest: Any) -> Any:
        board = score(self, cycle, pod, *rest)
        for plugin in self.plugins.score:
            if plugin.name in board.plugins:
                alone[plugin.name] = {
                    node.name: plugin.score_node(cycle, pod, node)
                    for node in map(cycle.nodes.info, board.rows.tolist())
                }
        return board

    with _cluster(ignoring) as cluster:
        monkeypatch.setattr(Framework, "score", noted)
        cluster.apply([_pod("asked")])
        cluster.run()
        decision = cluster.decision("default/asked")

    raw, normal, total = decision.raw_scores, decision.normalised_scores, decision.scores
    assert {"InterPodAffinity", "PodTopologySpread", "NodeAffinity"} <= {*raw.columns}
    for name in raw.columns:
        assert dict(zip(raw.index, raw[name].tolist(), strict=True)) == alone[name], name
    assert len(set(raw["PodTopologySpread"].tolist())) > 1
    weighted = sum(normal[name].astype(np.int64) * decision.weights[name] for name in raw.columns)
    assert weighted.tolist() == total["total"].tolist()
    assert all(0 <= value <= 100 for name in normal.columns for value in normal[name])
