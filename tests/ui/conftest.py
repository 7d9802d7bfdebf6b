"""A browser, and pages to look at, each served by a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
STOWPLAN = str(Path(sys.executable).parent / "stowplan")
WAIT_MS = 60_000
"""The machine may be busy with other things."""

ADDRESS = re.compile(r"the page is at (\S+)")


class Server:
    """A process that prints where it is, mostly where its page is."""

    def __init__(self, *command: str, says: re.Pattern[str] = ADDRESS) -> None:
        self.command = command
        self.says = says
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = self.says.search(line)
            if found:
                self.url = found[1]
                return
        raise AssertionError(f"{self.command} did not say where it is")

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "`make ui` installs chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def demo() -> Iterator[Server]:
    server = Server(STOWPLAN, "ui", "--demo", "--port", "0")
    yield server
    server.stop()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address in a fresh context; at the end the console must have been clean."""
    contexts, complaints = [], []

    def open_it(url: str, *, width: int = 1440, scheme: str = "light", quiet: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
            # Certificates that servers make for themselves.
            ignore_https_errors=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        if quiet:
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
        outside = []
        page.on("request", lambda asked: outside.append(asked.url))
        page.goto(url)
        page.wait_for_selector(".summary")
        origin = url.partition("/ui/")[0]
        assert all(each.startswith((origin, "blob:", "data:")) for each in outside), outside
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []
