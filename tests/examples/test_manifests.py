"""Manifests that a reader may apply are accepted by an API server, not only by a dry run."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.objects.api import Create
from stowplan.objects.kinds import KIND_BY_NAME
from stowplan.objects.manifests import read_manifests

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["devices/gpus.yaml", "dry-run/new.yaml", "plugins/cluster.yaml"])
def test_an_api_server_takes_them(name: str) -> None:
    store = Store(VirtualClock(now_s=1.0))

    for _, data in read_manifests((EXAMPLES / name).read_bytes(), name):
        kind = KIND_BY_NAME[data["apiVersion"], data["kind"]]
        namespace = data["metadata"].get("namespace", "default") if kind.namespaced else ""

        assert store.execute(Create(kind, namespace, data)) is not None
