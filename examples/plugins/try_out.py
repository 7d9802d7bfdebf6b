"""Decide on the pods of `cluster.yaml` with the plugins of this folder.

python examples/plugins/try_out.py
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from cheap_nodes import CheapNodes
from team_nodes import TeamNodes

from stowplan.config import load_config
from stowplan.core.dry_run import DryRun
from stowplan.objects.manifests import read_manifests
from stowplan.offline import build_cluster
from stowplan.plugins import IN_TREE

HERE = Path(__file__).parent

manifests = read_manifests((HERE / "cluster.yaml").read_bytes(), "cluster.yaml")
run = DryRun(
    build_cluster(manifests),
    config=load_config(HERE / "scheduler.yaml"),
    registry={**IN_TREE, "TeamNodes": TeamNodes, "CheapNodes": CheapNodes},
    random=Random(1),
)
for decision in run.decide():
    print(f"{decision.pod}: {decision.node or decision.full_message}")
