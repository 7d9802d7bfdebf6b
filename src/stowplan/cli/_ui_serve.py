"""`stowplan ui` at work: the source, a server for the page alone, and the end by Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import ssl
import webbrowser
from collections import deque
from pathlib import Path
from typing import Any

from aiohttp import web

from stowplan.answers.shadow import make_shadow
from stowplan.answers.tally import Decided
from stowplan.cli._asking import read_cluster
from stowplan.cli._demo_run import run
from stowplan.cli._output import note, say, some_of
from stowplan.cli._up_tls import key_pair, server_context, server_names
from stowplan.clock import RealClock
from stowplan.config import load_config, parse_feature_gates
from stowplan.errors import InputError
from stowplan.objects.names import is_loopback
from stowplan.runtime.plugins_path import load_registry
from stowplan.sim.results import read_result
from stowplan.web import Beside, ClusterSource, Guard, Page, Replay, Still
from stowplan.world import beside as world_beside
from stowplan.world.following import Source
from stowplan.world.judging import without_unknown
from stowplan.world.setup import make_setup

KEEP_ALIVE_S = 90.0
STOP_MAX_S = 2.0

DEMO = "The cluster of `stowplan demo`, in virtual time."
DUMP = "What is pending in the input was decided here; nothing runs."
BESIDE = (
    "The cluster as it is; its own scheduler decides, and it is never written to. "
    "What Stowplan says of it is a second opinion."
)
OPINIONS_MAX = 2000
"""Decisions of the other scheduler that are remembered."""


Shown = ClusterSource | Replay


def source_of(*, demo: bool = False, result: str | None = None, **options: Any) -> Shown:
    """`options` are those of every command that asks (`cli._asking`)."""
    kubeconfig, context = options["kubeconfig"], options["context"]
    others = [demo, bool(options["filenames"]), kubeconfig is not None or context is not None]
    if sum((*others, result is not None)) > 1:
        raise InputError("shows one thing", hint="RESULT, -f, --kubeconfig or --demo")
    if result is not None:
        return Replay(read_result(result), Path(result).resolve().name)
    if demo:
        return Still(run().cluster, "the demo", DEMO)
    if kubeconfig is None and context is None:
        files = options["filenames"]
        dump = Still(read_cluster(**options, timed=True), some_of(files), DUMP)
        dump.asked = tuple(word for name in files for word in ("-f", name))
        return dump
    return _beside(**options)


def _beside(
    filenames: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugin_paths: tuple[str, ...],
    seed: int,
    feature_gates: tuple[str, ...],
) -> Beside:
    """A live cluster, beside its own scheduler, whose configuration this should be."""
    registry = load_registry(plugin_paths)
    loaded, lacking = without_unknown(
        load_config(config, gates=parse_feature_gates(feature_gates)), registry
    )
    for name in lacking:
        note(f"not here: {name}", hint="decisions may differ because of it")
    opinions: deque[Decided] = deque(maxlen=OPINIONS_MAX)
    shadow, _ = make_shadow(loaded, seed=seed, registry=registry, on_decided=opinions.append)
    setup = make_setup(loaded, {"seed": seed}, registry=registry)
    follow = world_beside.Beside(Source(kubeconfig or "", context or ""), setup, shadow.take)
    name = context or kubeconfig or "the current context"
    beside = Beside(follow, shadow, opinions, name=name, note=BESIDE)
    named = {"--kubeconfig": kubeconfig, "--context": context}
    given = ((option, value) for option, value in named.items() if value)
    beside.asked = tuple(word for words in given for word in words)
    return beside


async def serve(
    source: Shown, host: str, port: int, *, more_names: tuple[str, ...] = (), opens: bool = False
) -> None:
    """Until a signal asks for the end."""
    clock = RealClock()
    local = is_loopback(host)
    names = [*more_names] if local else server_names(host, more_names)
    page = Page(source, Guard(needs_key=not local, names=names), now=clock.now)
    pair = None if local else key_pair(host, None, clock.now(), more_names)
    context = None if pair is None else server_context(pair)
    server = web.Server(_only(page), access_log=None, keepalive_timeout=KEEP_ALIVE_S)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=STOP_MAX_S)
    await runner.setup()
    try:
        address = await _listen(runner, host, port, context)
        await page.start()
        show_address(f"{address}/ui/{page.address_suffix}", opens=opens)
        say("Ctrl-C ends it.")
        await _asked_to_stop()
    finally:
        await page.close()
        await runner.cleanup()


def _only(page: Page) -> Any:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/":
            return web.Response(status=303, headers={"Location": "/ui/"})
        if page.is_at(request.path):
            return await page.handle(request)
        return web.Response(status=404, text="the page is at /ui/\n")

    return handle


async def _listen(
    runner: web.ServerRunner, host: str, port: int, context: ssl.SSLContext | None
) -> str:
    site = web.TCPSite(runner, host, port, ssl_context=context)
    try:
        await site.start()
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another port with --port; 0 takes any free one",
        ) from None
    shown = {"0.0.0.0": LOCAL, "::": "::1"}.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    scheme = "http" if context is None else "https"
    return f"{scheme}://{shown}:{int(runner.addresses[0][1])}"


LOCAL = "127.0.0.1"


def show_address(address: str, *, opens: bool) -> None:
    say(f"the page is at {address}")
    if opens and not webbrowser.open(address):
        note("no browser could be opened", hint="open the address yourself")


async def _asked_to_stop() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()
