"""Every view in a real browser: what it shows, by keyboard and mouse, for everyone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import ROOT, OpenPage, Server
from tests.ui.serving import HOSTILE_NAME

pytestmark = [pytest.mark.ui, pytest.mark.timeout(240)]

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
IMAGES = ROOT / "docs" / "images"
WAITING = "default/huge-00000"

VIEWS = {
    "map": ("#/map", "canvas"),
    "queue": ("#/queue", "#causes-title"),
    "pod": (f"#/pods/{WAITING}", ".fixes li"),
    "placed": ("#/pods/default/urgent-00003", ".decision table"),
    "pods": ("#/pods", "table"),
    "node": ("#/nodes/gpu-0003", ".meter"),
    "what-if": ("#/what-if", ".sliders"),
    "time": ("#/time", ".charts"),
    "events": ("#/events", "table"),
}
SHOWN_ALWAYS = ("map", "pod", "queue")
"""Kept as pictures in docs/images, in every width and colour; the others once."""
NOT_SHOWN = ("what-if",)
"""What if is shown with a fork in it."""


def violations(page: Page) -> list[str]:
    """What axe-core finds, run in a world of its own: the page's policy lets no script in."""
    page.evaluate(AXE.read_text() + "; undefined")
    found: Any = page.evaluate(
        "async () => (await axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', "
        "'wcag21aa', 'wcag22aa', 'best-practice']})).violations.map("
        "v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html).join(' | ')}`)"
    )
    return list(found)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "light"), (1440, "dark"), (375, "light"), (375, "dark")]
)
def test_every_view_is_whole_clean_and_accessible(
    open_page: OpenPage, demo: Server, width: int, scheme: str
) -> None:
    page = open_page(demo.url, width=width, scheme=scheme)
    for name, (address, sign) in VIEWS.items():
        page.goto(demo.url + address)
        page.locator(sign).first.wait_for()
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator(".loading")).to_have_count(0, timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert violations(page) == [], (name, width, scheme)
        once = (width, scheme) == (1440, "light") and name not in NOT_SHOWN
        if name in SHOWN_ALWAYS or once:
            page.screenshot(path=IMAGES / f"page-{name}-{width}-{scheme}.png")


def test_a_new_user_learns_why_a_pod_waits_and_tries_a_fix_in_a_fork(
    open_page: OpenPage, demo: Server
) -> None:
    page = open_page(demo.url)
    page.keyboard.press("/")
    page.keyboard.type("huge-00000")
    page.get_by_role("option", name="default/huge-00000").wait_for()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text(f"Pod {WAITING}")
    expect(page.get_by_text("wants 64 cpu; the most free on one node is 16")).to_be_visible()
    page.get_by_role("button", name="Try it in a fork: add a node like node-0012").click()

    expect(page.get_by_text("You are looking at Fork")).to_be_visible()
    expect(page.get_by_role("heading", name="Fits now")).to_be_visible()
    expect(page.locator(".moves").get_by_text("node-0012-new-1")).to_be_visible()
    expect(page.locator(".big")).to_contain_text("29")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=IMAGES / "page-what-if-1440-light.png")
    expect(page.get_by_label("Manifests", exact=True)).to_contain_text("node-0012-new-1")
    page.get_by_role("button", name="Back to the cluster").click()
    page.goto(f"{demo.url}#/pods/{WAITING}")
    expect(page.locator(".facts")).to_contain_text("Pending")
    page.goto(f"{demo.url}#/what-if")
    page.get_by_role("button", name="Fork 1").click()
    page.get_by_role("button", name="Delete this fork").click()
    expect(page.get_by_text("You are looking at Fork")).to_have_count(0)


def test_a_dropped_file_is_applied_and_a_manifest_is_checked_while_typing(
    open_page: OpenPage, demo: Server
) -> None:
    page = open_page(f"{demo.url}#/what-if")
    editor = page.get_by_label("YAML or JSON")
    editor.fill("apiVersion: v1\nkind: Pod\nmetadata: {name: typed}\nspec: {containers: 7}")
    expect(page.locator("#checked")).to_contain_text("containers")
    expect(page.get_by_role("button", name="Apply to the fork")).to_be_disabled()
    editor.fill("")
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "dropped"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    dropped = page.evaluate_handle(
        "text => { const data = new DataTransfer();"
        "data.items.add(new File([text], 'pod.json', {type: 'application/json'})); return data; }",
        json.dumps(manifest),
    )
    page.dispatch_event(".what-if", "drop", {"dataTransfer": dropped})

    expect(page.locator(".changes")).to_contain_text("apply Pod default/dropped")
    expect(page.locator(".moves")).to_contain_text("default/dropped")
    page.get_by_label("NodeResourcesFit").fill("9")
    page.get_by_role("button", name="Weigh so in the fork").click()
    expect(page.locator(".changes")).to_contain_text("weigh NodeResourcesFit 9")
    page.get_by_role("button", name="Delete this fork").click()


def test_the_map_is_read_by_keyboard_and_a_node_opened(open_page: OpenPage, demo: Server) -> None:
    page = open_page(demo.url)
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[aria-live=polite].hidden")).to_contain_text("% of cpu")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_contain_text("Node gpu-")
    expect(page.get_by_role("heading", name="Who was turned away")).to_be_visible()
    expect(page.get_by_role("link", name=WAITING)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()


def test_a_decision_of_hundreds_of_rows_is_sorted_filtered_and_asked_about(
    open_page: OpenPage, demo: Server
) -> None:
    page = open_page(f"{demo.url}#/pods/{WAITING}")
    page.locator(".decision button.sort").first.click()
    page.get_by_label("Show only").fill("NodeUnschedulable")
    expect(page.locator(".decision tbody tr")).to_have_count(3)
    page.locator("#other").fill("gpu-0000")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#why-not-title >> xpath=../..")).to_contain_text("TaintToleration")


def test_texts_of_the_cluster_are_never_markup(open_page: OpenPage) -> None:
    server = Server(sys.executable, "-m", "tests.ui.serving", "hostile", "0")
    try:
        page = open_page(f"{server.url}#/pods/default/hurt")
        page.locator("#manifest-title").locator("xpath=..").get_by_role("button").click()
        expect(page.locator(".code")).to_contain_text("<script>window.hurt=1</script>")
        expect(page.locator(".source-name")).to_contain_text("<img src=x")
        name = quote(HOSTILE_NAME, safe="")
        for address in ("map", "queue", f"pods/default/{name}", f"nodes/{name}", "pods", "what-if",
                        "time", "events"):  # fmt: skip
            page.goto(f"{server.url}#/{address}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.locator(".loading")).to_have_count(0)
            assert page.evaluate("window.hurt") is None, address
            assert page.locator("img").count() == 1, address
        page.goto(f"{server.url}#/nodes/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Node {HOSTILE_NAME}")
        expect(page.locator(".labels")).to_contain_text("<script>window.hurt=1</script>")
        page.close()
    finally:
        server.stop()
