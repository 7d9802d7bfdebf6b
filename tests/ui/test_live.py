"""What moves: pods placed while somebody watches, a lost connection, five thousand nodes."""

from __future__ import annotations

import json
import statistics
import sys
import urllib.request

import pytest
from playwright.sync_api import expect

from tests.ui.conftest import STOWPLAN, OpenPage, Server

pytestmark = [pytest.mark.ui, pytest.mark.timeout(240)]

FIRST_PICTURE_MS = 2000
FRAME_MS = 50


def create(api: str, name: str, cpu: str = "100m") -> None:
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
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()


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


def test_five_thousand_nodes_stay_smooth_while_a_thousand_pods_a_second_are_placed(
    open_page: OpenPage,
) -> None:
    server = Server(sys.executable, "-m", "tests.ui.serving", "busy", "0")
    try:
        page = open_page(server.url)
        page.wait_for_function("window.stowplanMap.firstPictureMs > 0")
        first = page.evaluate("window.stowplanMap.firstPictureMs")
        page.wait_for_function("window.stowplanMap.painted > 9000")
        page.evaluate("window.stowplanMap.frames.length = 0")
        page.wait_for_function("window.stowplanMap.frames.length >= 40")
        frames = page.evaluate("window.stowplanMap.frames")

        print(
            f"first picture {first:.0f} ms; "
            f"frames: median {statistics.median(frames):.1f} ms, most {max(frames):.1f} ms"
        )
        assert first < FIRST_PICTURE_MS
        assert statistics.quantiles(frames, n=20)[-1] < FRAME_MS
    finally:
        server.stop()
