"""A simulation is played: the slider, the map, the lines, two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import stowplan as sp
from tests.sim.making import trace
from tests.ui.conftest import STOWPLAN, OpenPage, Server
from tests.ui.test_views import IMAGES, violations

pytestmark = [pytest.mark.ui, pytest.mark.timeout(240)]

PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ]
        }
    ],
}
DAY_S = 86400.0
NODES, PODS = 60, 600


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("simulation") / "results"
    random = np.random.default_rng(1)
    pods = [
        (float(begin), float(life), 0)
        for begin, life in zip(
            random.uniform(0, 2 * DAY_S, PODS), random.uniform(3600, DAY_S, PODS), strict=True
        )
    ]
    sp.simulate(
        trace(pods, nodes=NODES),
        config={"default": None, "packed": PACKED},
        until=3 * DAY_S,
        failures="mean=3d,repair=12h",
    ).write(Path(folder))
    server = Server(STOWPLAN, "ui", str(folder), "--port", "0")
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "light"), (1440, "dark"), (375, "light"), (375, "dark")]
)
def test_both_runs_are_seen_whole_clean_and_accessible(
    open_page: OpenPage, results: Server, width: int, scheme: str
) -> None:
    page = open_page(f"{results.url}#/map?a=0&b=1&at={DAY_S:.0f}", width=width, scheme=scheme)
    for view, sign in (
        ("map", ".map canvas"),
        ("nodes/node-3", ".chart canvas"),
        ("time", "#figures-title"),
    ):
        page.goto(f"{results.url}#/{view}")
        page.locator(sign).first.wait_for()
        expect(page.locator(".loading")).to_have_count(0)
        expect(page.locator("canvas").nth(1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert violations(page) == [], (view, width, scheme)
        if view == "map" and (width, scheme) == (1440, "light"):
            page.screenshot(path=IMAGES / f"page-simulation-{width}-{scheme}.png")


def test_the_slider_moves_every_picture_by_keyboard_and_plays(
    open_page: OpenPage, results: Server
) -> None:
    page = open_page(results.url)
    expect(page.locator("nav.views a")).to_have_text(["Map", "Time"])
    slider = page.get_by_label("Moment of the run")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".hint")).to_contain_text("0% of cpu")
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".player output")).to_contain_text("03:18 h")
    page.get_by_label("Beside it").select_option(label="packed, seed 1")
    expect(page.locator(".map canvas")).to_have_count(2)
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".player output")).not_to_contain_text("03:18 h")
    page.get_by_role("button", name="Pause").click()
    page.locator(".map canvas").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-0")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="How full: packed, seed 1 (%)")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Difference")).to_be_visible()
