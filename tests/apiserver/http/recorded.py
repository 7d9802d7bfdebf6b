"""Requests whose answers were recorded from kube-apiserver, and how they are replayed.

`python -m tests.apiserver.http.recorded --seeds 8` records anew: it asks a real kube-apiserver and
our server what `tests/e2e/differential` makes from each seed, and keeps, in order, every request.
The answer is kept with it where both agree; where they do not, the request is only there because
later ones build on it, and its object is taken away, as it was then.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from yarl import URL

from tests.apiserver.http.serving import Served, serve
from tests.e2e.build_control_plane import find
from tests.e2e.differential.comparing import difference
from tests.e2e.differential.grammar import Call, Grammar
from tests.e2e.differential.sides import Answer, Marks, Side, tidy
from tests.e2e.harness.cluster import RealCluster

RECORDED = Path(__file__).with_name("recorded.jsonl.gz")

NO_OWNERS = {"metadata": {"finalizers": None, "ownerReferences": None}}
AT_ONCE = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}

Step = dict[str, Any]


class Replay:
    """Our server, asked one request after the other."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._marks = Marks()

    async def send(self, call: Call) -> Answer:
        query, body = self._marks.filled(call)
        code, text = await self._send(call.method, call.path, query, body, call.content_type)
        return self._marks.answer(call, code, text)

    async def make_namespace(self, name: str) -> None:
        body = json.dumps({"kind": "Namespace", "metadata": {"name": name}})
        await self._send("POST", "/api/v1/namespaces", [], body, "application/json")

    async def remove(self, path: str) -> None:
        merge = "application/merge-patch+json"
        await self._send("PATCH", path, [], json.dumps(NO_OWNERS), merge)
        await self._send("DELETE", path, [*AT_ONCE.items()], None, "application/json")

    async def _send(
        self, method: str, path: str, query: list[tuple[str, str]], body: str | None, type_: str
    ) -> tuple[int, str]:
        target = f"{path}?{urlencode(query)}" if query else path
        url = URL(self._served.server.url + target, encoded=True)
        headers = {"Content-Type": type_, "Accept": "application/json"}
        data = None if body is None else body.encode()
        session = self._served.session
        async with session.request(method, url, data=data, headers=headers) as response:
            return response.status, (await response.read()).decode()


def recordings() -> Iterator[tuple[int, list[Step]]]:
    """Each seed's steps."""
    with gzip.open(RECORDED, "rt") as lines:
        for line in lines:
            recording = json.loads(line)
            yield recording["seed"], recording["steps"]


def call_of(step: Step) -> Call:
    fields = dict(step["call"])
    fields["query"] = tuple((key, value) for key, value in fields.get("query", ()))
    return Call(**fields)


async def _record(theirs: Side, seed: int, requests: int) -> list[Step]:
    served = await serve()
    ours = Replay(served)
    grammar = Grammar(seed, f"recorded-{seed}")
    await ours.make_namespace(grammar.namespace)
    name = {"metadata": {"name": grammar.namespace}, "kind": "Namespace"}
    await asyncio.to_thread(theirs.api.send, "POST", "/api/v1/namespaces", name)
    # Watches end by the clock, and have tests of their own.
    asked = [call for calls in grammar.calls(requests) for call in calls if call.sort != "watch"]
    steps = [await _ask_both(ours, theirs, call) for call in asked]
    await served.close()
    touched = {step["call"].get("subject", "") for step in steps} - {""}
    await asyncio.to_thread(tidy, theirs, grammar, touched)
    return steps


async def _ask_both(ours: Replay, theirs: Side, call: Call) -> Step:
    their_answer, our_answer = await asyncio.to_thread(theirs.send, call), await ours.send(call)
    plain = {key: value for key, value in asdict(call).items() if value not in ("", (), None)}
    agreed = their_answer.code == our_answer.code and not difference(
        our_answer.body, their_answer.body
    )
    if agreed:
        return {"call": plain, "code": their_answer.code, "body": their_answer.body}
    if call.subject and call.method != "GET":
        await ours.remove(call.subject)
        await asyncio.to_thread(theirs.remove, call.subject)
    return {"call": plain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1001)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = RealCluster(Path(folder) / "theirs", find(os.environ))
        try:
            cluster.start()
            with gzip.open(RECORDED, "wt") as out:
                for seed in range(options.first, options.first + options.seeds):
                    steps = asyncio.run(_record(Side(cluster.api()), seed, options.requests))
                    agreed = sum("code" in step for step in steps)
                    print(f"seed {seed}: {agreed} of {len(steps)} agree", flush=True)
                    out.write(json.dumps({"seed": seed, "steps": steps}) + "\n")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
