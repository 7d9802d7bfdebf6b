"""The page of `stowplan run`: who may see it, what it shows, and what it costs unasked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stowplan.cli import _run_page
from stowplan.cli._run_page import RunPage
from stowplan.cluster.tls import client_context
from stowplan.runtime.certs import self_signed
from stowplan.runtime.live import Looking
from stowplan.runtime.page_port import COOKIE, RIGHT
from stowplan.runtime.server import SecureServer
from stowplan.runtime.surface import ServingOptions
from tests.builders import node, pod
from tests.core.harness import START_S
from tests.runtime.surfaces import ADMIN, VIEWER, Served


class Browser:
    def __init__(self, session: aiohttp.ClientSession, root: str, page: RunPage) -> None:
        self.session, self.root, self.page = session, root, page

    async def ask(self, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
        url = self.root + path
        async with self.session.request(method, url, allow_redirects=False, **options) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith(("{", "[")) else text


@asynccontextmanager
async def serving(served: Served, options: ServingOptions | None = None) -> AsyncIterator[Browser]:
    surface = served.surface
    looking = Looking(
        served.driver,
        served.clock,
        surface.bottlenecks,
        surface.on_scheduler,
        "https://live",
        surface.log,
    )
    surface.page = page = RunPage(looking)
    options = options or ServingOptions(bind_address="127.0.0.1", port=0)
    server = SecureServer(options, surface)
    await server.start()
    served.store.put(pod("huge", cpu="64"))
    served.run(1)
    connector = aiohttp.TCPConnector(ssl=client_context(insecure=True))
    jar = aiohttp.CookieJar(unsafe=True)
    try:
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
            yield Browser(session, f"https://127.0.0.1:{server.port}", page)
    finally:
        await server.stop()


def pods() -> Served:
    return Served(node("n1", cpu="4"), pod("web", cpu="1"))


async def test_it_is_behind_the_same_authorisation_as_debug() -> None:
    served = pods()
    async with serving(served) as browser:
        assert (await browser.ask("/ui/"))[0] == 403
        assert (await browser.ask("/ui/api/map"))[0] == 403
        assert (await browser.ask("/ui/?key=wrong"))[0] == 401
        viewer = {"Authorization": f"Bearer {VIEWER}"}
        assert (await browser.ask("/ui/api/map", headers=viewer))[0] == 403
        assert browser.page._page is None

        served.reviews.allowed = lambda user, verb, path: (verb, path) == ("get", RIGHT)
        served.clock.now_s += 60
        assert (await browser.ask("/ui/api/map", headers=viewer))[0] == 200


async def test_a_token_is_handed_over_once_and_kept_where_no_script_reads_it() -> None:
    served = pods()
    async with serving(served) as browser:
        url = f"{browser.root}/ui/?key={ADMIN}"
        async with browser.session.get(url, allow_redirects=False) as entered:
            cookie = entered.headers["Set-Cookie"]
            assert (entered.status, entered.headers["Location"]) == (303, "/ui/")
        assert cookie.startswith(COOKIE)
        assert ADMIN not in cookie
        for word in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/ui/"):
            assert word in cookie
        assert (await browser.ask("/ui/"))[0] == 200
        assert (await browser.ask("/ui/api/map"))[1]["names"] == ["n1"]
        evil = {"Origin": "https://evil.example"}
        assert (await browser.ask("/ui/api/worlds", "POST", json={}, headers=evil))[0] == 403

        # Revoked: the cookie is worth what the token is worth.
        served.reviews.users.clear()
        served.clock.now_s += 3600
        assert (await browser.ask("/ui/api/map"))[0] == 401


async def test_it_is_known_by_the_names_of_its_certificates_alone(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    pair = self_signed(["scheduler.example", "10.9.8.7"], START_S)
    cert.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    options = ServingOptions(
        bind_address="0.0.0.0",
        port=0,
        cert_file=str(cert),
        key_file=str(key),
        sni_cert_keys=(f"{cert},{key}:*.other.example",),
    )
    token = {"Authorization": f"Bearer {ADMIN}"}
    async with serving(pods(), options) as browser:
        for host in ("127.0.0.1:1", "scheduler.example", "10.9.8.7:10259", "a.other.example"):
            assert (await browser.ask("/ui/api/map", headers={**token, "Host": host}))[0] == 200
        for host in ("evil.example", "b.a.other.example", "10.9.8.8"):
            for path in ("/ui/api/map", f"/ui/?key={ADMIN}"):
                status, told = await browser.ask(path, headers={**token, "Host": host})
                assert status == 403
                assert "--tls-sni-cert-key" in told["message"]
        assert (await browser.ask("/healthz", headers={"Host": "evil.example"}))[0] == 200


async def test_it_shows_what_runs_and_changes_forks_alone() -> None:
    served = pods()
    async with serving(served) as browser:
        await browser.ask(f"/ui/?key={ADMIN}")
        about = (await browser.ask("/ui/api/"))[1]
        huge = (await browser.ask("/ui/api/pods/default/huge"))[1]
        table = (await browser.ask("/ui/api/pods/default/huge/attempts/0"))[1]
        why = (await browser.ask("/ui/api/pods/default/huge/why"))[1]
        times = (await browser.ask("/ui/api/time"))[1]["times"]
        world = (await browser.ask("/ui/api/worlds", "POST", json={}))[1]
        change = {"verb": "fix", "pod": "default/huge", "title": why["fixes"][0]["title"]}
        path = f"/ui/api/worlds/{world['id']}/changes"
        changed = (await browser.ask(path, "POST", json=change))[1]
        debug = (
            await browser.ask(
                "/debug/decisions/default/huge?output=json",
                headers={"Authorization": f"Bearer {ADMIN}"},
            )
        )[1]

    assert (about["kind"], about["nodes"], about["running"]) == ("live", 1, 1)
    assert about["lanes"]["unschedulable"] == 1
    assert huge["place"] == "unschedulable"
    assert table["byPlugin"] == {"NodeResourcesFit": 1}
    assert why["causes"][0]["plugin"] == "NodeResourcesFit"
    assert {"Filter", "scheduling cycle"} <= {phase["name"] for phase in times["phases"]}
    assert (changed["pendingBefore"], changed["pendingAfter"]) == (1, 0)
    assert [each["node"] for each in debug["rejected"]] == ["n1"]
    assert served.machine.pods["default/huge"].node_name == ""


async def test_a_pod_that_came_just_now_is_explained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.web.sources.COPY_REST", 1e6)
    served = pods()
    async with serving(served) as browser:
        await browser.ask(f"/ui/?key={ADMIN}")
        assert (await browser.ask("/ui/api/pods/default/huge/why"))[0] == 200
        served.store.put(pod("later", cpu="64"))
        served.run(1)
        status, why = await browser.ask("/ui/api/pods/default/later/why")
        assert (status, why["causes"][0]["plugin"]) == (200, "NodeResourcesFit")
        assert (await browser.ask("/ui/api/pods/default/nobody/why"))[0] == 404


async def test_nothing_of_it_is_there_before_and_after_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = pods()
    before = list(served.attempts._observers)
    async with serving(served) as browser:
        assert served.attempts._observers == before
        await browser.ask(f"/ui/?key={ADMIN}")
        await browser.ask("/ui/api/map")
        assert len(served.attempts._observers) == len(before) + 1
        monkeypatch.setattr(_run_page, "IDLE_S", 0.0)
        await browser.ask("/ui/api/map")
        while browser.page._page is not None:
            await browser.ask("/healthz")
        assert served.attempts._observers == before
        assert served.driver.on_effect is None
        assert (await browser.ask("/ui/api/map"))[0] == 200
