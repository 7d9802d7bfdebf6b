"""Groups on a real kube-apiserver: the same answers as kube-scheduler's with the same gates.

Each case is a few objects.  Both schedulers get them, one after the other, and everything comes to
rest; then pods, groups and events are compared.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.group_cases import ALL, CASES, GROUPS, OWN, Case
from tests.e2e.group_edge_cases import EDGE_CASES
from tests.e2e.harness.cluster import ADMIN, RealCluster
from tests.e2e.harness.objects import COLLECTIONS
from tests.e2e.harness.processes import Process
from tests.e2e.harness.rights import grant
from tests.e2e.harness.scheduler import Scheduler, configuration
from tests.e2e.harness.world import World

Data = dict[str, Any]

REST_S = 2.5
"""Nothing new for so long: everything is at rest."""

COLLECTIONS.update(OWN)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    try:
        programs = find(os.environ, ("etcd", "kube-apiserver", "kube-scheduler"))
    except MissingControlPlane as problem:
        pytest.skip(str(problem))
    folder = tmp_path_factory.mktemp("groups") / "cluster"
    features = f"{ALL},DRAWorkloadResourceClaims=true"
    made = RealCluster(folder, programs, features=features, apis="scheduling.k8s.io/v1alpha2=true")
    made.start()
    grant(made)
    yield made
    made.stop()


@pytest.mark.parametrize("case", [*CASES, *EDGE_CASES], ids=lambda case: case.name)
def test_the_same_answers(cluster: RealCluster, tmp_path: Path, case: Case) -> None:
    theirs = _seen(cluster, case, partial(_stock, cluster, tmp_path, case))
    ours = _seen(cluster, case, partial(_own, cluster, tmp_path, case))

    assert ours == theirs


def _seen(cluster: RealCluster, case: Case, start: Callable[[], Callable[[], None]]) -> Data:
    stop = start()
    world = World(cluster)
    try:
        nodes = [it for it in case.objects if it["kind"] == "Node"]
        world.create(*nodes)
        # A stock scheduler does not say when it knows them.
        time.sleep(1.0)
        world.create(*(it for it in case.objects if it["kind"] != "Node"))
        found = _at_rest(world)
        for step in case.later:
            _ = step(world) if callable(step) else world.create(*step)
            found = _at_rest(world)
        for name in case.deleted:
            world.delete("Pod", name)
        if case.deleted:
            found = _at_rest(world)
    finally:
        stop()
        world.sweep()
        for path in OWN.values():
            for it in world.api.items(path):
                named = f"{path}/{it['metadata']['name']}"
                if it["metadata"].get("finalizers"):
                    world.api.patch(named, {"metadata": {"finalizers": None}})
                world.api.delete(named)
    return found if case.compares_events else {**found, "events": []}


def _own(cluster: RealCluster, folder: Path, case: Case) -> Callable[[], None]:
    name = f"own-{len(list(folder.iterdir()))}"
    made = Scheduler(cluster, folder, name=name, arguments=_flags(case), **_changes(case))
    return made.start().stop


def _stock(cluster: RealCluster, folder: Path, case: Case) -> Callable[[], None]:
    program = find(os.environ, ("kube-scheduler",)) / "kube-scheduler"
    number = len(list(folder.iterdir()))
    config = folder / f"stock-{number}.yaml"
    config.write_text(json.dumps(configuration(cluster.kubeconfig(ADMIN), **_changes(case))))
    command = [program, "--config", config, "--secure-port", "0", *_flags(case)]
    return Process("kube-scheduler", command, folder / f"stock-{number}.log", {}).stop


def _flags(case: Case) -> tuple[str, ...]:
    return (f"--feature-gates={case.gates}",) if case.gates else ()


def _changes(case: Case) -> Data:
    return {"profiles": case.profiles} if case.profiles else {}


def _at_rest(world: World, timeout_s: float = 25.0) -> Data:
    """What is seen once nothing new has come for a while."""
    last, since = None, time.monotonic()
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = _snapshot(world)
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > REST_S and (now["events"] or time.monotonic() - since > 5):
            break
        time.sleep(0.2)
    assert last is not None
    return last


def _snapshot(world: World) -> Data:
    """Which of equal members got what is not said: their order is anybody's guess."""
    pods = []
    for it in world.api.items(COLLECTIONS["Pod"]):
        status = it.get("status", {})
        conditions = [
            [c["type"], c["status"], c.get("reason", ""), _sorted(c.get("message", ""))]
            for c in status.get("conditions", ())
            if c["type"] in ("PodScheduled", "DisruptionTarget")
        ]
        found = (
            _sort_of(it["metadata"]["name"]),
            it["spec"].get("nodeName", ""),
            status.get("nominatedNodeName", ""),
            json.dumps(sorted(conditions)),
        )
        pods.append(found)
    groups = {
        it["metadata"]["name"]: [
            [c["type"], c["status"], c["reason"], _sorted(c["message"])]
            for c in it.get("status", {}).get("conditions", ())
        ]
        for it in world.api.items(GROUPS)
    }
    uid = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
    events = {
        (
            event["reason"],
            event["action"],
            _sort_of(event["regarding"]["name"]),
            (event.get("related") or {}).get("kind", ""),
            uid.sub("UID", re.sub(r"/(\w+)-\d+", r"/\1", _sorted(event["note"]))),
        )
        for event in world.api.items(COLLECTIONS["Event"])
        if event["regarding"]["kind"] == "Pod"
    }
    claims = {
        it["metadata"]["name"]: sorted(
            [each.get("apiGroup", ""), each["resource"], _sort_of(each["name"])]
            for each in it.get("status", {}).get("reservedFor", ())
        )
        for it in world.api.items(OWN["ResourceClaim"])
    }
    return {
        "claims": claims,
        "pods": sorted(map(list, pods)),
        "groups": groups,
        "events": sorted(map(list, events)),
    }


def _sorted(message: str) -> str:
    """With two names in a known order, where kube-scheduler takes them from a map."""
    pair = re.search(
        r'(?<=domain found for pod group: )(.*), (.*)|(?<=got: )(".*") and (".*")', message
    )
    if pair is None:
        return message
    one, other = sorted(filter(None, pair.groups()))
    return f"{message[: pair.start()]}{one} and {other}{message[pair.end() :]}"


def _sort_of(pod: str) -> str:
    return pod.partition("-")[0]
