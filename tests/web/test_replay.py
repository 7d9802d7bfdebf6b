"""A simulation on the page: what is told of each moment, and what there is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import RawTestServer, TestClient
from click.testing import CliRunner

import stowplan as sp
from stowplan.cli.ui import ui
from stowplan.errors import InputError
from stowplan.sim.results import read_result
from stowplan.web import Guard, Page, Replay
from stowplan.web.asking import Ask
from stowplan.web.replay import AWAY, map_view, node_table
from tests.sim.making import trace

PODS = [(0.0, 100.0, 0), (50.0, 100.0, 0)]
"""One cpu each of nodes with four: both are there from second 50 to second 100."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[TestClient[Any, Any]]:
    sp.simulate(trace(PODS, nodes=2), seeds=2, until=200.0).write(tmp_path)
    page = Page(Replay(read_result(tmp_path), "results"), Guard(), now=lambda: 7.0)
    await page.start()
    async with TestClient(RawTestServer(page.handle, host="127.0.0.1")) as made:
        yield made
    await page.close()


async def get(client: TestClient[Any, Any], path: str, status: int = 200) -> Any:
    response = await client.get(f"/ui/api/{path}")
    assert response.status == status, await response.text()
    return await response.json()


async def test_every_moment_of_every_run_is_told_on_the_map_and_in_the_table(client) -> None:
    runs = (await get(client, "runs"))["rows"]
    used = {}
    for at in (25, 75, 125, 199):
        told = await get(client, f"runs/1/map?resource=cpu&at={at}")
        table = await get(client, f"runs/1/nodes?at={at}&sort=cpu&order=desc")
        assert told["at"] <= at < told["at"] + 1
        used[at] = sum(told["used"])
        assert [row["cpu"] for row in table["rows"]] == sorted(told["used"], reverse=True)

    assert [(run["config"], run["seed"]) for run in runs] == [("default", 1), ("default", 2)]
    assert runs[0]["end"] == pytest.approx(200)
    assert used == {25: 25, 75: 50, 125: 25, 199: 0}


async def test_a_run_has_its_figures_and_lines_over_the_whole_run(client) -> None:
    told = await get(client, "runs/0")
    node = await get(client, "runs/0/nodes/node-1")

    assert [(await get(client, f"runs/{n}"))["seed"] for n in range(2)] == [1, 2]
    assert told["figures"]["pods.arrived"] == 2
    assert max(told["charts"]["pods"]["pods.running"]) == 2
    assert max(told["charts"]["fill"]["cpu"]) == pytest.approx(2 / 8)
    assert len(told["time"]) == len(told["charts"]["fill"]["memory"])
    assert max(node["fill"]["cpu"]) == 25


async def test_it_says_what_can_be_seen_and_has_no_queue_and_no_forks(client) -> None:
    about = await get(client, "")

    assert (about["kind"], about["views"]) == ("simulation", ["map", "time"])
    for path in ("queue", "pods/default/x", "runs/2", "runs/x", "runs/0/nodes/other"):
        assert "error" in await get(client, path, status=404)
    for path in (
        "runs/0/map?at=nan",
        "runs/0/map?at=-1",
        "runs/0/map?resource=x",
        "runs/0/nodes?sort=x",
    ):
        assert "error" in await get(client, path, status=422)
    assert (await client.post("/ui/api/worlds", json={})).status == 404


def test_a_node_that_is_away_is_not_an_empty_one() -> None:
    run = sp.simulate(trace(PODS, nodes=2), until=200.0).runs[0]
    cells = run.heat.percent["cpu"].copy()
    cells[:, 0], cells[:, 1] = 50, AWAY
    heat = replace(run.heat, percent={"cpu": cells})
    run = replace(run, measures=replace(run.measures, heat=heat))

    told = map_view(run, Ask(("0",), {"at": "75"}))
    rows = node_table(run, Ask(("0",), {"sort": "cpu"}))["rows"]

    assert (told["flags"], told["there"], told["mean"]) == ([0, 8], 1, 50)
    assert rows == [{"name": "node-1", "cpu": None}, {"name": "node-0", "cpu": 50}]


@pytest.mark.parametrize(
    ("file", "content"), [("summary.json", b"{}"), ("summary.json", b"[]"), ("heat.npz", b"x")]
)
def test_results_that_are_broken_are_refused_in_one_line(
    tmp_path: Path, file: str, content: bytes
) -> None:
    sp.simulate(trace(PODS, nodes=2), until=200.0).write(tmp_path)
    (path,) = tmp_path.glob(f"runs/*/*/{file}")
    path.write_bytes(content)

    told = CliRunner().invoke(ui, [str(tmp_path), "--port", "0"])

    assert isinstance(told.exception, InputError)
    assert told.exception.where == str(path)


def test_one_thing_is_shown_at_a_time() -> None:
    told = CliRunner().invoke(ui, ["results", "--demo"])

    assert isinstance(told.exception, InputError)
    assert "one thing" in str(told.exception)
