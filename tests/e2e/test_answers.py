"""`stowplan why` and `what-if` on a live cluster and on a dump of it: the same, and only read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stowplan.cli import main
from tests.e2e.harness.cluster import ADMIN, Cluster
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.world import World


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, [*arguments, "-o", "json"])
    assert result.exit_code in (0, 1), result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_the_same_answer_live_and_from_a_dump(
    cluster: Cluster, world: World, tmp_path: Path
) -> None:
    world.add_nodes(node("a"))
    world.create(pod("p", nodeSelector={"kubernetes.io/hostname": "aa"}))
    live = "--kubeconfig", str(cluster.kubeconfig(ADMIN))
    before = world.get("Pod", "p")

    code, told = ask("why", "p", *live)
    _, if_labelled = ask("what-if", *live, "--label", "a:kubernetes.io/hostname=aa")

    assert code == 1
    best = told["fixes"][0]
    assert best["changes"][0]["patch"] == [
        {"op": "replace", "path": "/spec/nodeSelector/kubernetes.io~1hostname", "value": "a"}
    ]
    assert if_labelled["placed"] == {f"{before['metadata']['namespace']}/p": "a"}
    items = [world.get("Node", "a"), before]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    _, from_dump = ask("why", "p", "-f", str(dump))
    assert from_dump["fixes"][0]["changes"] == best["changes"]
    assert world.get("Pod", "p") == before, "it was only read"
