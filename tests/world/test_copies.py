"""Copies of other clusters: what a dump shows stays, and what it does not show is left alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import stowplan as sp
from stowplan.errors import Forbidden, InputError
from stowplan.objects.kinds import KINDS
from tests.world.things import Data, deployment, node, pod, workload


def owned(name: str, kind: str, owner: str, on: str = "", **labels: str) -> Data:
    found = pod(name, nodeName=on) if on else pod(name)
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner,
        "uid": f"uid-of-{owner}",
        "controller": True,
    }
    found["metadata"] |= {"uid": f"uid-of-{name}", "labels": labels, "ownerReferences": [reference]}
    found["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return found


def given(data: Data) -> Data:
    """As it comes from an API server."""
    name = data["metadata"]["name"]
    return {**data, "metadata": {**data["metadata"], "uid": f"uid-of-{name}"}}


def after_a_day(*objects: Data) -> sp.Cluster:
    cluster = sp.Cluster.from_dump(objects)
    cluster.run()
    cluster.run(seconds=86_400)
    return cluster


PARTS = {
    "pods of a ReplicaSet that is not shown": [
        given(deployment("web", 2)),
        *(
            owned(
                f"web-77-{n}", "ReplicaSet", "web-77", "a", app="web", **{"pod-template-hash": "77"}
            )
            for n in range(2)
        ),
    ],
    "pods of an unknown owner": [owned("x-1", "Rollout", "x", "a")],
    "pods on nodes that are not shown": [pod("far", nodeName="elsewhere")],
    "a pod of a Job that runs": [
        given(workload("Job", "run")),
        owned("run-1", "Job", "run", "a", **{"job-name": "run"}),
    ],
    "daemons, on nodes shown or not, of another hash": [
        given(workload("DaemonSet", "agent")),
        owned(
            "agent-a", "DaemonSet", "agent", "a", app="agent", **{"controller-revision-hash": "1"}
        ),
        owned(
            "agent-b", "DaemonSet", "agent", "b", app="agent", **{"controller-revision-hash": "1"}
        ),
    ],
    "a StatefulSet of another hash": [
        given(workload("StatefulSet", "db", replicas=2)),
        owned("db-0", "StatefulSet", "db", "a", app="db", **{"controller-revision-hash": "db-1"}),
        owned("db-1", "StatefulSet", "db", "a", app="db", **{"controller-revision-hash": "db-1"}),
    ],
    "a pod that is ending": [
        {
            **pod("old", nodeName="a"),
            "metadata": {"name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        }
    ],
}


@pytest.mark.parametrize("part", PARTS)
def test_what_a_dump_shows_stays(part: str) -> None:
    shown = {f"default/{data['metadata']['name']}" for data in PARTS[part] if data["kind"] == "Pod"}

    with after_a_day(node("a"), *PARTS[part]) as cluster:
        assert set(cluster.pods().keys) == shown


def test_workloads_of_a_dump_replace_what_is_taken_from_them() -> None:
    with sp.Cluster.from_dump(
        [node("a"), node("b"), *PARTS["a StatefulSet of another hash"]]
    ) as cluster:
        cluster.run()
        assert cluster.drain("a") == {}
        assert [pod.spec.node_name for pod in cluster.pods()] == ["b", "b"]


def test_a_deployment_of_a_dump_can_be_scaled() -> None:
    with sp.Cluster.from_dump([node("a", cpu="8"), *next(iter(PARTS.values()))]) as cluster:
        cluster.apply(deployment("web", 4))
        cluster.run()
        assert len(cluster.pods(pending=False)) == 4


# -- a live one ------------------------------------------------------------------------------


LISTED = given(pod("web", schedulerName="default-scheduler"))
LISTED["metadata"]["namespace"] = "default"


class Server(BaseHTTPRequestHandler):
    """Lists what it has, refuses what it is told to, and writes down what it was asked."""

    objects: dict[str, list[Data]]
    refused: set[str]
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        plural = self.path.partition("?")[0].rpartition("/")[2]
        self.asked.append((self.command, plural))
        kind = next(kind for kind in KINDS if kind.plural == plural)
        code, body = (
            200,
            {
                "kind": f"{kind.name}List",
                "apiVersion": kind.api_version,
                "metadata": {"resourceVersion": "7"},
                "items": self.objects.get(plural, []),
            },
        )
        if plural in self.refused:
            code, body = (
                403,
                {
                    "kind": "Status",
                    "status": "Failure",
                    "reason": "Forbidden",
                    "message": f"{plural} is forbidden",
                    "code": 403,
                },
            )
        data = msgspec.json.encode(body)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[type[Server], Path]]:
    class Live(Server):
        objects = {"nodes": [given(node("a"))], "pods": [LISTED]}  # noqa: RUF012
        refused: set[str] = {"poddisruptionbudgets"}  # noqa: RUF012
        asked: list[tuple[str, str]] = []  # noqa: RUF012

    server = ThreadingHTTPServer(("127.0.0.1", 0), Live)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
                ],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    yield Live, kubeconfig
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_live_cluster_is_copied_and_only_read(live: tuple[type[Server], Path]) -> None:
    server, kubeconfig = live
    with sp.Cluster.from_kubeconfig(kubeconfig=kubeconfig) as cluster:
        cluster.run()
        cluster.delete("default/web")
        cluster.add_nodes(1)
        cluster.run()

        assert cluster.decision("default/web").node == "a"
        assert cluster.missing == (
            "no right to list poddisruptionbudgets.policy: preemption and drains see no budgets",
        )
        assert cluster.remarks()[0].text == cluster.missing[0]
    assert {method for method, _ in server.asked} == {"GET"}


def test_without_nodes_there_is_nothing_to_copy(live: tuple[type[Server], Path]) -> None:
    server, kubeconfig = live
    server.refused.add("nodes")
    with pytest.raises(Forbidden, match="nodes is forbidden"):
        sp.Cluster.from_kubeconfig(kubeconfig=kubeconfig)


def test_a_context_that_is_not_there_is_refused(live: tuple[type[Server], Path]) -> None:
    with pytest.raises(InputError, match="nowhere"):
        sp.Cluster.from_kubeconfig("nowhere", kubeconfig=live[1])
