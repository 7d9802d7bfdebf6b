"""What moves: pods placed while somebody watches, a lost connection, five thousand nodes."""

from __future__ import annotations

import json
import statistics
import sys
import time
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui import serving
from tests.ui.conftest import STOWPLAN, OpenPage, Server

pytestmark = [pytest.mark.ui, pytest.mark.timeout(240)]

FIRST_PICTURE_MS = 2000
FRAME_MS = 50
PER_SECOND = 0.97 * serving.PER_SECOND
"""The page says how many there are a few times a second."""
WATCH_S = 10
ROUNDS_MAX = 4
SHARE_MIN = 0.8
"""Of a processor, which a server that is too slow would use up."""


def create(api: str, name: str, cpu: str = "100m", token: str = "", context: Any = None) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        },
    }
    request = urllib.request.Request(
        f"{api}/api/v1/namespaces/default/pods",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    urllib.request.urlopen(request, context=context).close()


def wait_until(page: Page, condition: str) -> None:
    """As `wait_for_function`, which the page's policy does not let in."""
    for _ in range(300):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(200)
    raise AssertionError(condition)


def placed(page: Page) -> int:
    text = page.locator(".summary li").nth(1).inner_text()
    return int("".join(filter(str.isdigit, text)))


def test_pods_are_seen_as_they_are_placed_and_the_connection_comes_back(
    open_page: OpenPage,
) -> None:
    server = Server(STOWPLAN, "up", "--port", "0", "--nodes", "20")
    try:
        api = server.url.partition("/ui/")[0]
        # A cut connection is a complaint of the browser's own.
        page = open_page(server.url, quiet=False)
        expect(page.locator("header .badge")).to_have_text("Live")
        for number in range(30):
            create(api, f"web-{number}")
        expect(page.locator(".summary")).to_contain_text("30 pods placed")
        create(api, "too-big", "500")
        expect(page.locator(".summary")).to_contain_text("1 waiting")
        page.goto(f"{server.url}#/pods/default/too-big")
        expect(page.locator(".fixes li").first).to_be_visible()
        page.goto(f"{server.url}#/time")
        expect(page.locator(".charts canvas").first).to_be_visible()
        page.goto(f"{server.url}#/events")
        expect(page.get_by_text("FailedScheduling").first).to_be_visible()

        server.stop()
        expect(page.locator("header .badge")).to_contain_text("lost")
        port = api.rpartition(":")[2]
        server.command = (STOWPLAN, "up", "--port", port, "--nodes", "7")
        server.start()
        expect(page.locator("header .badge")).to_have_text("Live")
        expect(page.locator(".summary")).to_contain_text("7 nodes")
    finally:
        server.stop()


WATCH_FRAMES = """() => {
  window.gaps = [];
  let last = performance.now();
  const next = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""
"""How long the browser takes from one frame to the next, whatever it does meanwhile."""


def test_five_thousand_nodes_stay_smooth_while_pods_are_placed(
    open_page: OpenPage,
) -> None:
    server = Server(sys.executable, "-m", "tests.ui.serving", "busy", "0")
    page = open_page(server.url)
    try:
        wait_until(page, "stowplanMap.firstPictureMs > 0")
        first = page.evaluate("stowplanMap.firstPictureMs")
        wait_until(page, "stowplanMap.painted > 9000")
        page.evaluate(WATCH_FRAMES)
        for _ in range(ROUNDS_MAX):
            worked_s = server.cpu_s()
            rate, frames, gaps = watched(page)
            worked_s = server.cpu_s() - worked_s
            print(
                f"first picture {first:.0f} ms; {rate:.0f} pods a second placed; "
                f"pictures: median {statistics.median(frames):.1f} ms, most {max(frames):.1f} ms; "
                f"frames: median {statistics.median(gaps):.1f} ms, "
                f"95 % below {share_95(gaps):.1f} ms, most {max(gaps):.1f} ms; "
                f"the server had {worked_s / WATCH_S:.2f} of a processor"
            )
            if rate >= PER_SECOND and max(share_95(gaps), share_95(frames)) < FRAME_MS:
                break
        assert share_95(frames) < FRAME_MS
        assert share_95(gaps) < FRAME_MS
        if rate < PER_SECOND and worked_s < SHARE_MIN * WATCH_S:
            pytest.skip(f"this machine is busy with other things: {rate:.0f} pods a second")
        assert rate >= PER_SECOND
        assert first < FIRST_PICTURE_MS
    finally:
        # Before its server, which it would miss.
        page.close()
        server.stop()


def watched(page: Page) -> tuple[float, list[float], list[float]]:
    """Pods placed a second, and how long pictures and frames took."""
    page.evaluate("() => { stowplanMap.frames.length = 0; window.gaps.length = 0; }")
    begun, before = time.perf_counter(), placed(page)
    page.wait_for_timeout(1000 * WATCH_S)
    count, seconds = placed(page) - before, time.perf_counter() - begun
    return count / seconds, page.evaluate("stowplanMap.frames"), page.evaluate("window.gaps")


def share_95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
