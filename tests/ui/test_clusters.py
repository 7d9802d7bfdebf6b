"""The page on clusters that others run: at the secure port of `stowplan run`, and beside."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.conftest import STOWPLAN, WAIT_MS, OpenPage, Server
from tests.ui.test_live import create

pytestmark = [pytest.mark.ui, pytest.mark.timeout(240)]

TOKEN = "a-token-for-the-browser"
CLUSTER = re.compile(r"a cluster.*, at (\S+)")
SECURE = re.compile(r'"?Serving securely"? address="?([^" ]+)')


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Up:
    """`stowplan up`, which lets in who has the token, and can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        tokens = folder / "tokens"
        tokens.write_text(TOKEN)
        self.kubeconfig = str(folder / "kubeconfig")
        self.server = Server(
            STOWPLAN, "up", "--nodes", "5", "--port", str(free_port()), "--data",
            str(folder / "data"), "--token-file", str(tokens), "--write-kubeconfig",
            self.kubeconfig, *options, says=CLUSTER,
        )  # fmt: skip

    def create(self, name: str, cpu: str = "100m") -> None:
        context: Any = ssl._create_unverified_context()
        create(self.server.url, name, cpu, token=TOKEN, context=context)


def test_the_page_of_run_is_opened_by_a_token_once_and_by_a_cookie_then(
    open_page: OpenPage, tmp_path: Path
) -> None:
    up = Up(tmp_path, "--no-scheduler")
    run = Server(
        STOWPLAN, "run", "--kubeconfig", up.kubeconfig, "--bind-address", "127.0.0.1",
        "--secure-port", str(free_port()), "--leader-elect=false", says=SECURE,
    )  # fmt: skip
    try:
        for number in range(8):
            up.create(f"web-{number}")
        up.create("too-big", "500")
        root = f"https://{run.url}/ui/"
        page = open_page(f"{root}?key={TOKEN}")
        assert page.url.startswith(root)
        assert TOKEN not in page.url
        expect(page.locator("header .badge")).to_have_text("Live")
        expect(page.locator(".summary")).to_contain_text("8 pods placed")
        cookies = page.context.cookies()
        assert [(each["httpOnly"], each["secure"]) for each in cookies] == [(True, True)]
        assert TOKEN not in str(cookies)

        page.goto(root)
        expect(page.locator("canvas")).to_be_visible()
        for address, sign in (
            ("queue", "#causes-title"),
            ("pods", "table"),
            ("pods/default/too-big", ".fixes li"),
            ("pods/default/web-0", ".decision table"),
            ("nodes/node-1", ".meter"),
            ("what-if", ".sliders"),
            ("time", ".charts canvas"),
            ("events", "table"),
        ):
            page.goto(f"{root}#/{address}")
            page.locator(sign).first.wait_for()
            expect(page.locator(".loading")).to_have_count(0)
            expect(page.locator(".bad[role=alert]")).to_have_count(0)
        up.create("later")
        expect(page.locator(".summary")).to_contain_text("9 pods placed")
        page.close()
    finally:
        run.stop()
        up.server.stop()


def test_a_watched_cluster_that_is_lost_is_said_to_be_and_comes_back(
    open_page: OpenPage, tmp_path: Path
) -> None:
    up = Up(tmp_path)
    beside = Server(STOWPLAN, "ui", "--kubeconfig", up.kubeconfig, "--port", "0")
    try:
        page = open_page(beside.url)
        badge = page.locator("header .badge")
        expect(badge).to_have_text("Live")
        up.create("before")
        expect(page.locator(".summary")).to_contain_text("1 pods placed")

        up.server.stop()
        expect(badge).to_contain_text("Not live since")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.locator(".summary")).to_contain_text("5 nodes")
        up.server.start()
        up.create("after")

        # Who watches tries again at longer and longer intervals.
        expect(badge).to_have_text("Live", timeout=WAIT_MS)
        expect(page.locator(".summary")).to_contain_text("2 pods placed")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.close()
    finally:
        beside.stop()
        up.server.stop()
