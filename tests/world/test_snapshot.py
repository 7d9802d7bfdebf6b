"""A snapshot is read back to the same decisions, and holds nothing that is nobody's business."""

from __future__ import annotations

from pathlib import Path

import pytest

import stowplan as sp

MANIFEST = """
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
        - name: c
          image: acme/shop
          env: [{name: TOKEN, value: hunter2}]
          args: [hunter2]
          resources: {requests: {cpu: "3"}}
---
apiVersion: v1
kind: Node
metadata: {name: big}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
"""


@pytest.mark.parametrize("anonymise", [False, True])
def test_it_decides_the_same_and_holds_no_secret(tmp_path: Path, anonymise: bool) -> None:
    source, saved = tmp_path / "in.yaml", tmp_path / "out.json"
    source.write_text(MANIFEST)
    cluster = sp.Cluster.from_dump(source)
    cluster.snapshot(saved, anonymise=anonymise)

    text = saved.read_text()
    assert "hunter2" not in text
    assert ("shop" in text, "acme" in text) == (not anonymise, not anonymise)
    again = sp.Cluster.from_dump(saved)
    for each in (cluster, again):
        each.run()
    assert len(again.pods(pending=False)) == len(cluster.pods(pending=False)) == 2
    assert len(again.pods(pending=True)) == 1
