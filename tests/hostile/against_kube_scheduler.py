"""Beside hostile pods: how long others wait, with Stowplan and with kube-scheduler.

    python -m tests.hostile.against_kube_scheduler [--rounds 2] [--only TEXT] [--schedulers ...]

One API server; for each attack, and each scheduler in turn, a clean cluster of 60 nodes:

- at once: the scheduler runs, the hostile pods are created, and right after them 60 plain pods of
  another namespace.  The time is that from the last create until all 60 have their nodes;
- later: 60 more, two seconds after that;
- at start: all of them were there before the scheduler started.  From the start of the process.

The best of all rounds counts.  Others may wait three times as long as with kube-scheduler, or 100
ms; at the start, longer than without hostile pods by three times as much, or half a second.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.side_by_side import start
from tests.e2e.build_control_plane import find_or_build
from tests.e2e.harness.api import Api, Refused, in_parallel
from tests.e2e.harness.cluster import ADMIN, STOWPLAN, RealCluster
from tests.e2e.harness.objects import COLLECTIONS, pod
from tests.e2e.harness.processes import Process
from tests.hostile.attacks import ATTACKS, HOSTILE, Attack

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
OTHERS = "others"
COUNT = 60
WAIT_MAX_S = 20.0
LATER_S = 2.0
MOMENTS = ("at once", "later", "at start")
TIMES_MAX = 3.0
FREE_MS = {"at once": 100.0, "later": 100.0, "at start": 500.0}
NOTHING = "no hostile pods"


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


class Others:
    """60 plain pods at a time, and when each of them got its node, as a third party sees it."""

    def __init__(self, cluster: RealCluster, api: Api) -> None:
        self._cluster = cluster
        self._api = api
        self._numbers = count()
        self._bound_at_s: dict[str, float] = {}
        self._changed = threading.Condition()

    def create(self) -> list[str]:
        names = [f"other-{next(self._numbers)}" for _ in range(COUNT)]
        in_parallel(self._create, names)
        return names

    def _create(self, name: str) -> None:
        made = pod(name, cpu="10m", labels={"app": "x"})
        made["metadata"]["namespace"] = OTHERS
        self._api.post(_pods(OTHERS), made)

    def ms_until_bound(self, names: list[str], since_s: float) -> float:
        """Infinite if it takes too long."""
        with self._changed:
            all_bound = self._changed.wait_for(
                lambda: all(name in self._bound_at_s for name in names), WAIT_MAX_S
            )
            if not all_bound:
                return float("inf")
            return max(0.0, 1e3 * (max(self._bound_at_s[name] for name in names) - since_s))

    @contextmanager
    def watched(self) -> Iterator[None]:
        version = self._api.get(_pods(OTHERS), limit="1")["metadata"]["resourceVersion"]
        url = urlsplit(self._cluster.url)
        tls = ssl.create_default_context(cadata=self._cluster.ca)
        connection = http.client.HTTPSConnection(str(url.hostname), url.port, context=tls)
        path = f"{_pods(OTHERS)}?watch=1&resourceVersion={version}"
        token = self._cluster.tokens[ADMIN]
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        events = connection.getresponse()
        reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        reader.start()
        try:
            yield
        finally:
            assert connection.sock is not None
            connection.sock.shutdown(2)
            reader.join()

    def _read(self, events: http.client.HTTPResponse) -> None:
        try:
            for line in events:
                seen = json.loads(line)["object"]
                if seen["spec"].get("nodeName"):
                    with self._changed:
                        self._bound_at_s.setdefault(seen["metadata"]["name"], time.monotonic())
                        self._changed.notify_all()
        except (OSError, ValueError, http.client.HTTPException):
            pass


@dataclass
class Stage:
    """The API server, and a clean cluster on it for each measurement."""

    cluster: RealCluster
    folder: Path
    api: Api = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.api = self.cluster.api()
        for name in (HOSTILE, OTHERS):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.api.post("/api/v1/namespaces", body)

    def measure(self, attack: Attack, command: list[Path | str]) -> dict[str, float]:
        found = {}
        self._prepare(attack)
        others = Others(self.cluster, self.api)
        with others.watched():
            with self._running(command), self._storm(attack):
                others.ms_until_bound(others.create(), 0.0)
                self._create_hostile(attack)
                names = others.create()
                found["at once"] = others.ms_until_bound(names, time.monotonic())
                time.sleep(LATER_S)
                names = others.create()
                found["later"] = others.ms_until_bound(names, time.monotonic())
            self._prepare(attack)
            self._create_hostile(attack)
            names = others.create()
            started_s = time.monotonic()
            with self._running(command):
                found["at start"] = others.ms_until_bound(names, started_s)
        return found

    @contextmanager
    def _running(self, command: list[Path | str]) -> Iterator[None]:
        folder = self.folder / f"scheduler-{next(self._numbers)}"
        folder.mkdir()
        scheduler: Process = start(self.cluster, command, folder)
        try:
            yield
        finally:
            scheduler.stop()

    def _prepare(self, attack: Attack) -> None:
        for namespace in (HOSTILE, OTHERS):
            self.api.delete(_pods(namespace), gracePeriodSeconds="0")
            events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            self.api.delete(events)
        self.api.delete(COLLECTIONS["Node"])
        for it in self.api.items(COLLECTIONS["PriorityClass"]):
            if not it["metadata"]["name"].startswith("system-"):
                self.api.delete(f"{COLLECTIONS['PriorityClass']}/{it['metadata']['name']}")
        in_parallel(lambda it: self.api.post(COLLECTIONS["Node"], it), attack.nodes())
        in_parallel(lambda it: self.api.post(*it), attack.objects())

    def _create_hostile(self, attack: Attack) -> None:
        in_parallel(self._create_one, attack.pods())

    def _create_one(self, body: dict[str, Any]) -> None:
        try:
            self.api.post(_pods(HOSTILE), body)
        except Refused as refusal:
            # The whole of it would be a thousand problems.
            raise Refused(refusal.code, refusal.reason, str(refusal)[:500]) from None

    @contextmanager
    def _storm(self, attack: Attack) -> Iterator[None]:
        """Patches one after the other, for as long as it lasts."""
        patched = attack.patched
        if patched is None:
            yield
            return
        over = threading.Event()
        storm = threading.Thread(target=self._patch, args=(patched, over))
        storm.start()
        try:
            yield
        finally:
            over.set()
            storm.join()

    def _patch(self, patched: Callable[[int], dict[str, Any]], over: threading.Event) -> None:
        for number in count():
            if over.wait(0.001):
                return
            path = f"{_pods(HOSTILE)}/hostile-0"
            self.api.send(
                "PATCH", path, patched(number), content_type="application/merge-patch+json"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", action="append", help="attacks with this text in their names")
    arguments = parser.parse_args()
    attacks = {
        name: attack
        for name, attack in ATTACKS.items()
        if name == NOTHING or any(text in name for text in arguments.only or [""])
    }
    # So that no process is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    programs = find_or_build(os.environ, PROGRAMS)
    commands: dict[str, list[Path | str]] = {
        "kube-scheduler": [programs / "kube-scheduler"],
        "stowplan": [STOWPLAN, "run"],
    }
    with tempfile.TemporaryDirectory() as folder:
        cluster = RealCluster(Path(folder) / "cluster", programs)
        try:
            cluster.start()
            short = compare(Stage(cluster, Path(folder)), attacks, commands, arguments.rounds)
        finally:
            cluster.stop()
    print(f"{len(short)} of {len(attacks)} attacks make others wait too long: {', '.join(short)}")
    sys.exit(1 if short else 0)


Figures = dict[str, dict[str, float]]
"""Milliseconds, by scheduler and moment."""


def compare(
    stage: Stage, attacks: dict[str, Attack], commands: dict[str, list[Path | str]], rounds: int
) -> list[str]:
    """Prints a table; the attacks beside which others wait too long."""
    print("| beside | " + " | ".join(f"{it}: kube-scheduler, Stowplan" for it in MOMENTS) + " | |")
    print("|---|" + "--:|" * len(MOMENTS) + "---|")
    plain: Figures = {}
    short = []
    for name, attack in attacks.items():
        best: Figures = {it: dict.fromkeys(MOMENTS, float("inf")) for it in commands}
        # In turn, so that a busy minute meets both.
        for _ in range(rounds):
            for scheduler, command in commands.items():
                for moment, ms in stage.measure(attack, command).items():
                    best[scheduler][moment] = min(best[scheduler][moment], ms)
        plain = plain or best
        late = [it for it in MOMENTS if too_long(it, best, plain)]
        if late:
            short.append(name)
        cells = [f"{best['kube-scheduler'][it]:.0f}, {best['stowplan'][it]:.0f}" for it in MOMENTS]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(late) or 'good'} |", flush=True)
    return short


def too_long(moment: str, figures: Figures, plain: Figures) -> bool:
    """At the start, what counts is what the hostile pods add."""
    ours, theirs = figures["stowplan"][moment], figures["kube-scheduler"][moment]
    if moment == "at start":
        ours -= plain["stowplan"][moment]
        theirs -= plain["kube-scheduler"][moment]
    return ours > max(TIMES_MAX * theirs, FREE_MS[moment])


if __name__ == "__main__":
    main()
