"""Whatever a scheduler is trusted with, none of it can be read anywhere.

A real process at `-v 10`, with a token from a credential plugin, an extender with a private key,
and pods that carry secrets where careless people put them.  Its log, its metrics and every page
that it shows are searched, also after things went wrong.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan.runtime.certs import self_signed
from tests.e2e.harness.cluster import SCHEDULER, Cluster
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import free_port
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World

PAGES = (
    "/metrics",
    "/metrics/resources",
    "/metrics/slis",
    "/configz",
    "/flagz",
    "/statusz",
    "/healthz?verbose",
    "/readyz?verbose",
    "/debug/queue",
    "/debug/cache",
    "/debug/decisions/default/fits",
    "/debug/decisions/default/waits",
    "/debug/bottlenecks",
)

Data = dict[str, Any]


class Secrets:
    """What must not be seen, by where it is kept."""

    def __init__(self, cluster: Cluster) -> None:
        pair = self_signed(["localhost"], time.time())
        self.cert, self.key = pair.cert, pair.key
        self.words = {
            "token": cluster.tokens[SCHEDULER],
            "plugin's environment": "secret-of-the-plugin",
            "caller's token": "secret-of-a-caller",
            "token in a query": "secret-in-a-query",
            "pod's environment": "secret-in-an-environment",
            "pod's command": "secret-in-a-command",
            "pod's annotation": "secret-in-an-annotation",
            "extender's key": pair.key.decode().splitlines()[1],
            "extender's key in base64": base64.b64encode(pair.key).decode()[100:160],
        }

    def found_in(self, text: str) -> list[str]:
        return [where for where, word in self.words.items() if word in text]


def with_plugin(scheduler: Scheduler, secrets: Secrets, folder: Path) -> None:
    """Let the scheduler get its token from a credential plugin."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": secrets.words["token"]},
    }
    code = f"print({json.dumps(credential)!r})"
    config = json.loads(scheduler.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": credential["apiVersion"],
            "command": sys.executable,
            "args": ["-c", code],
            "env": [{"name": "SECRET", "value": secrets.words["plugin's environment"]}],
            "interactiveMode": "Never",
        }
    }
    scheduler.kubeconfig = folder / "with-plugin.kubeconfig"
    scheduler.kubeconfig.write_text(json.dumps(config))


def extender(secrets: Secrets) -> Data:
    """Nobody is there, so that each question fails and is logged."""
    tls = {
        "insecure": True,
        "certData": base64.b64encode(secrets.cert).decode(),
        "keyData": base64.b64encode(secrets.key).decode(),
    }
    return {
        "urlPrefix": f"https://127.0.0.1:{free_port()}",
        "filterVerb": "filter",
        "enableHTTPS": True,
        "tlsConfig": tls,
        "ignorable": True,
    }


def indiscreet(name: str, secrets: Secrets, **spec: Any) -> Data:
    made = pod(name, **spec)
    made["metadata"]["annotations"] = {"note": secrets.words["pod's annotation"]}
    made["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": secrets.words["pod's environment"]}],
        "command": ["run", "--password", secrets.words["pod's command"]],
    }
    return made


def test_nothing_shows_a_secret(
    world: World, new_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    secrets = Secrets(world.cluster)
    scheduler = new_scheduler(arguments=("--v=10",))
    with_plugin(scheduler, secrets, tmp_path)
    scheduler.write_config(extenders=[extender(secrets)])
    scheduler.start()
    world.add_nodes(node("n1"))
    world.create(
        indiscreet("fits", secrets), indiscreet("waits", secrets, nodeSelector={"no": "node"})
    )
    world.until_bound("fits")
    world.until_rejected("waits")
    stranger = scheduler.endpoint(secrets.words["caller's token"])
    assert stranger.send("GET", "/metrics")[0] in (401, 403)
    query = f"/metrics?access_token={secrets.words['token in a query']}"
    assert scheduler.endpoint().send("GET", query)[0] == 200

    for page in PAGES:
        code, text = scheduler.endpoint().send("GET", page)
        assert code == 200, f"{page}: {text}"
        assert secrets.found_in(text) == [], page
    scheduler.stop()
    log = scheduler.process.text()
    assert '"HTTP" verb="GET"' in log, "it is not as talkative as it can be"
    assert "extender" in log.lower(), "it was asked, and failed"
    assert secrets.found_in(log) == []


@pytest.mark.parametrize("verbosity", ["0", "10"])
def test_a_refused_start_shows_no_secret(
    world: World, new_scheduler: Callable[..., Scheduler], tmp_path: Path, verbosity: str
) -> None:
    """A token that the cluster does not know."""
    secrets = Secrets(world.cluster)
    secrets.words["token"] = "0123456789-not-known-0123456789"
    scheduler = new_scheduler(arguments=(f"--v={verbosity}", "--startup-timeout=2s"))
    with_plugin(scheduler, secrets, tmp_path)
    scheduler.write_config(extenders=[extender(secrets)])
    scheduler.start(wait=False)

    assert scheduler.process.wait() != 0
    log = scheduler.process.text()
    assert "error: " in log
    assert secrets.found_in(log) == []
