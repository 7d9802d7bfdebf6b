"""Pods get devices: through claims and extended resources, on either API server, as documented."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.cluster import STOWPLAN
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import Process, eventually
from tests.e2e.harness.world import World
from tests.e2e.test_kubectl import find_kubectl
from tests.house.documents import ROOT, Run, runs

Data = dict[str, Any]

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
CLASS: Data = {
    "metadata": {"name": "gpu"},
    "spec": {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "extendedResourceName": "example.com/gpu",
    },
}


def claim(name: str, count: int = 1) -> Data:
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": count}}
    # For the driver alone: it must come through every write as it was.
    config = [{"opaque": {"driver": DRIVER, "parameters": {"b": 1, "a": [2]}}}]
    devices = {"requests": [request], "config": config}
    return {"metadata": {"name": name}, "spec": {"devices": devices}}


def gpus(node_name: str, count: int) -> Data:
    return {
        "metadata": {"name": node_name},
        "spec": {
            "driver": DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}"} for n in range(count)],
        },
    }


def claiming(name: str, claim_name: str) -> Data:
    return pod(name, resourceClaims=[{"name": "gpus", "resourceClaimName": claim_name}])


@pytest.fixture
def devices(scheduled: World) -> Iterator[World]:
    """A node with two GPUs, and one without."""
    scheduled.add_nodes(node("plain"), node("gpus"))
    scheduled.api.post(f"{API}/deviceclasses", CLASS)
    scheduled.api.post(f"{API}/resourceslices", gpus("gpus", 2))
    yield scheduled
    for it in scheduled.api.items(CLAIMS):
        path = f"{CLAIMS}/{it['metadata']['name']}"
        scheduled.api.patch(path, {"metadata": {"finalizers": None}})
        scheduled.api.delete(path)
    for plural in ("resourceslices", "deviceclasses"):
        scheduled.api.delete(f"{API}/{plural}")


def allocated(claim_: Data) -> list[str]:
    return [it["device"] for it in claim_["status"]["allocation"]["devices"]["results"]]


def test_claims_are_allocated_reserved_and_waited_for(devices: World) -> None:
    for name in ("one", "other", "third"):
        # Without blanks: kube-apiserver keeps those in parameters, and stumbles on them later.
        text = json.dumps(claim(name), separators=(",", ":"), sort_keys=True)
        code, _ = devices.api.send_text("POST", CLAIMS, text)
        assert code == 201
        [made] = devices.create(claiming(f"with-{name}", name))
        if name != "third":
            assert devices.until_bound(f"with-{name}") == {f"with-{name}": "gpus"}
            found = devices.api.get(f"{CLAIMS}/{name}")
            assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
            uid = made["metadata"]["uid"]
            consumer = {"resource": "pods", "name": f"with-{name}", "uid": uid}
            assert found["status"]["reservedFor"] == [consumer]
    first, second = (devices.api.get(f"{CLAIMS}/{name}") for name in ("one", "other"))
    assert sorted(allocated(first) + allocated(second)) == ["gpu-0", "gpu-1"]
    message = devices.until_rejected("with-third")["message"]
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")

    # As the claim controller does when the pod is gone.
    devices.delete("Pod", "with-one")
    cleared = {"status": {"allocation": None, "reservedFor": None}}
    devices.api.patch(f"{CLAIMS}/one/status", cleared)
    assert devices.until_bound("with-third") == {"with-third": "gpus"}
    assert allocated(devices.api.get(f"{CLAIMS}/third")) == allocated(first)


def test_an_extended_resource_is_backed_by_devices(devices: World) -> None:
    asks = pod("extended")
    amounts = asks["spec"]["containers"][0]["resources"]
    amounts["requests"]["example.com/gpu"] = "2"
    amounts["limits"] = {"example.com/gpu": "2"}
    devices.create(asks)

    assert devices.until_bound("extended") == {"extended": "gpus"}
    (found,) = devices.api.items(CLAIMS)
    assert found["metadata"]["name"].startswith("extended-extended-resources-")
    assert allocated(found) == ["gpu-0", "gpu-1"]
    mapped = devices.get("Pod", "extended")["status"]["extendedResourceClaimStatus"]
    assert mapped["resourceClaimName"] == found["metadata"]["name"]


# -- the document -----------------------------------------------------------------------------

_WHAT_DIFFERS = ((r"\b\d+s\b", "AGE"), (r"\bnode-\d\b", "NODE"), (r"-[a-z0-9]{5}\b(?= )", "-NAME"),
                 (r"\b10(\.\d+){3}\b", "ADDRESS"), (r"[ -]+", " "))  # fmt: skip


def _normal(text: str) -> str:
    for pattern, word in _WHAT_DIFFERS:
        text = re.sub(pattern, word, text)
    return text.strip()


def _document() -> list[Run]:
    return [it for it in runs() if it.block.text.startswith("$ stowplan up --nodes 8 --gpus 8")]


def test_the_five_commands_of_the_document(tmp_path: Path) -> None:
    program = find_kubectl()
    if program is None:
        pytest.skip("no kubectl: not in KUBEBUILDER_ASSETS, not built by `make e2e`, not in PATH")
    up, export, *others = _document()
    assert len(others) == 3
    assert export.command == "export KUBECONFIG=kubeconfig"
    kubeconfig = tmp_path / "kubeconfig"
    command = up.command.partition(" >")[0].replace(
        "kubeconfig kubeconfig", f"kubeconfig {kubeconfig}"
    )
    words = command.removeprefix("stowplan ").split()
    server = Process("stowplan up", [STOWPLAN, *words, "--port", "0"], tmp_path / "up.log", {})
    path = f"{Path(program).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path), "PATH": path}
    try:
        eventually("there is a kubeconfig", kubeconfig.exists, must_live=server)
        for it in others:
            printed = [""]

            def shows(run: Run = it, last: list[str] = printed) -> bool:
                done = subprocess.run(
                    run.command,
                    shell=True,
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                last[0] = done.stdout + done.stderr
                return _normal(run.output) == _normal(done.stdout)

            if "apply" in it.command:
                assert shows(), printed[0]
            else:
                eventually(f"{it.command} shows what the document says", shows, must_live=server)
    finally:
        server.stop()
