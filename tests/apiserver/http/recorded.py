"""Requests whose answers were recorded from kube-apiserver, and how they are replayed.

`python -m tests.apiserver.http.recorded --seeds 8` records anew: it asks a real kube-apiserver and
our server what `tests/e2e/differential` makes from each seed, and keeps, in order, every request.
The answer is kept with it where both agree, and its code where they only refuse it in other words;
where they do not agree, the request is only there because later ones build on it.  Whatever they
differ in, the object is taken away, then and when it is replayed.  With `--values` it asks for
every value that is tried of every field, once.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from yarl import URL

from tests.apiserver.http.serving import Served, serve
from tests.e2e.build_control_plane import find
from tests.e2e.differential.comparing import difference
from tests.e2e.differential.grammar import Call, Grammar
from tests.e2e.differential.sides import Answer, Marks, Side, tidy
from tests.e2e.harness.cluster import RealCluster

RECORDED = Path(__file__).with_name("recorded.jsonl.gz")
VALUES = Path(__file__).with_name("recorded_values.jsonl.gz")

NO_OWNERS = {"metadata": {"finalizers": None, "ownerReferences": None}}
AT_ONCE = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}

DIFFERENCES: list[TextIO] = []
"""Where they are told, if anywhere."""

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


def recordings(path: Path = RECORDED) -> Iterator[tuple[str, list[Step]]]:
    """Each seed's steps, or those about the values of a kind."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            recording = json.loads(line)
            yield str(recording["seed"]), recording["steps"]


def call_of(step: Step) -> Call:
    fields = dict(step["call"])
    fields["query"] = tuple((key, value) for key, value in fields.get("query", ()))
    return Call(**fields)


def namespace_of(name: str) -> str:
    return f"recorded-{name.replace('.', '-')}"


async def _record(theirs: Side, name: str, grammar: Grammar, calls: Iterable[Call]) -> list[Step]:
    served = await serve()
    ours = Replay(served)
    await ours.make_namespace(grammar.namespace)
    space = {"metadata": {"name": grammar.namespace}, "kind": "Namespace"}
    await asyncio.to_thread(theirs.api.send, "POST", "/api/v1/namespaces", space)
    # Watches end by the clock, and have tests of their own.
    steps = [await _ask_both(ours, theirs, call) for call in calls if call.sort != "watch"]
    await served.close()
    touched = {step["call"].get("subject", "") for step in steps} - {""}
    await asyncio.to_thread(tidy, theirs, grammar, touched)
    agreed = sum("body" in step for step in steps)
    print(f"{name}: {agreed} of {len(steps)} agree", flush=True)
    return steps


def _by_seed(options: argparse.Namespace) -> Iterator[tuple[str, Grammar, Iterable[Call]]]:
    for seed in range(options.first, options.first + options.seeds):
        grammar = Grammar(seed, namespace_of(str(seed)))
        yield str(seed), grammar, chain.from_iterable(grammar.calls(options.requests))


def _by_value() -> Iterator[tuple[str, Grammar, Iterable[Call]]]:
    for devices in (False, True):
        names = [name for name, _ in Grammar(0, "", devices=devices).every_value()]
        for place, name in enumerate(names):
            if devices or "resource.k8s.io" not in name:
                grammar = Grammar(0, namespace_of(name), devices=devices)
                yield name, grammar, [*grammar.every_value()][place][1]


async def _ask_both(ours: Replay, theirs: Side, call: Call) -> Step:
    their_answer, our_answer = await asyncio.to_thread(theirs.send, call), await ours.send(call)
    plain = {key: value for key, value in asdict(call).items() if value not in ("", (), None)}
    found = difference(our_answer.body, their_answer.body)
    if not found:
        return {"call": plain, "code": their_answer.code, "body": their_answer.body}
    if call.subject and call.method != "GET":
        await ours.remove(call.subject)
        await asyncio.to_thread(theirs.remove, call.subject)
    if DIFFERENCES:
        codes = f"ours {our_answer.code}, theirs {their_answer.code}"
        print(
            call.method, call.path, call.body, codes, *found[:6], sep="\n    ", file=DIFFERENCES[0]
        )
    if their_answer.code == our_answer.code >= 400:
        # Both refuse it, in other words.
        return {"call": plain, "code": their_answer.code}
    return {"call": plain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1001)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--values", action="store_true", help="every value that is tried")
    parser.add_argument("--show", type=argparse.FileType("w"), help="write differences here")
    options = parser.parse_args()
    if options.show:
        DIFFERENCES.append(options.show)
    with tempfile.TemporaryDirectory() as folder:
        cluster = RealCluster(Path(folder) / "theirs", find(os.environ))
        try:
            cluster.start()
            with gzip.open(VALUES if options.values else RECORDED, "wt") as out:
                for name, grammar, calls in _by_value() if options.values else _by_seed(options):
                    steps = asyncio.run(_record(Side(cluster.api()), name, grammar, calls))
                    out.write(json.dumps({"seed": name, "steps": steps}) + "\n")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
