"""The page on a real cluster: beside stock kube-scheduler, and on the port of `stowplan run`."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.cluster import ADMIN, NOBODY, SCRAPER, STOWPLAN, Cluster
from tests.e2e.harness.kinds import KUBERNETES
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import Process, eventually
from tests.e2e.harness.rights import READER, grant_reader
from tests.e2e.harness.scheduler import Scheduler, configuration
from tests.e2e.harness.world import World

Data = dict[str, Any]


class Beside:
    """kube-scheduler on a cluster, and the page beside it, as somebody who may only read."""

    def __init__(self, world: World, folder: Path, program: Path) -> None:
        self.world = world
        config = folder / "config.yaml"
        made = configuration(world.cluster.kubeconfig(ADMIN), percentageOfNodesToScore=100)
        config.write_text(json.dumps(made))
        command: list[Any] = [program, "--config", config, "--secure-port", "0"]
        self.scheduler = Process("kube-scheduler", command, folder / "scheduler.log", {})
        grant_reader(world.cluster)
        reader = str(world.cluster.kubeconfig(READER))
        options = ["--kubeconfig", reader, "--config", str(config), "--port", "0"]
        self.page = Process("stowplan ui", [str(STOWPLAN), "ui", *options], folder / "page.log", {})
        eventually("it serves", lambda: self.url, timeout_s=60.0, must_live=self.page)

    @property
    def url(self) -> str:
        found = re.search(r"the page is at (\S+)", self.page.text())
        return found[1] if found else ""

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}api/{path}", timeout=60) as answer:
            return json.load(answer)

    def stop(self) -> None:
        for process in (self.page, self.scheduler):
            if process.exit_code is None:
                process.stop()


@pytest.fixture
def beside(clusters: Callable[[str], Cluster], tmp_path: Path) -> Iterator[Beside]:
    try:
        program = find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")
    world = World(clusters(KUBERNETES))
    world.add_nodes(*(node(f"n{number}", cpu="4") for number in range(6)))
    made = Beside(world, tmp_path, program)
    try:
        yield made
    finally:
        made.stop()
        world.sweep()


def test_beside_stock_kube_scheduler_the_page_watches_and_has_a_second_opinion(
    beside: Beside,
) -> None:
    names = [f"web-{number}" for number in range(12)]
    beside.world.create(pod("huge", cpu="64"))
    nodes: dict[str, str] = {}
    for count, name in enumerate(names, 1):
        # One by one: of a burst we may see less than the other scheduler when it decides.
        beside.world.create(pod(name, cpu="500m"))
        nodes |= beside.world.until_bound(name)
        eventually("it is judged", lambda count=count: beside.get("opinions")["total"] == count)
    opinions = beside.get("opinions")
    assert {row["pod"]: row["node"] for row in opinions["rows"]} == {
        f"default/{name}": nodes[name] for name in names
    }
    assert opinions["counts"].get("different", 0) == 0, opinions["rows"]
    told = beside.get("map?resource=cpu")
    used = dict(zip(told["names"], told["used"], strict=True))
    assert used == {f"n{n}": 500 * list(nodes.values()).count(f"n{n}") for n in range(6)}
    path = "pods/default/huge"
    eventually("ours tried it", lambda: beside.get(path)["attempts"])
    why = beside.get(f"{path}/why")
    assert why["causes"][0]["plugin"] == "NodeResourcesFit"
    assert why["fixes"]
    assert "FailedScheduling" in {row["reason"] for row in beside.get("events")["rows"]}


def test_the_page_of_run_is_for_those_who_may_see_debug(
    scheduled: World, standing_scheduler: Scheduler, cluster: Cluster
) -> None:
    scheduled.add_nodes(node("n1"))
    scheduled.create(pod("seen"))
    scheduled.until_bound("seen")

    def codes(token: str) -> list[int]:
        endpoint = standing_scheduler.endpoint(token)
        return [endpoint.send("GET", path)[0] for path in ("/ui/", "/ui/api/map", "/debug/queue")]

    assert codes("") == [403] * 3
    assert codes(cluster.tokens[NOBODY]) == [403 if cluster.has_roles else 200] * 3
    assert codes(cluster.tokens[SCRAPER]) == [200] * 3
    _, text = standing_scheduler.endpoint(cluster.tokens[SCRAPER]).send("GET", "/ui/api/map")
    told = json.loads(text)
    assert (told["names"], told["pods"]) == (["n1"], [1])
