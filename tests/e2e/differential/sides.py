"""One sequence of requests, sent to both servers; what they agree on is counted."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.differential.comparing import body_of, difference
from tests.e2e.differential.grammar import Call, Grammar
from tests.e2e.harness.api import Api

_MARK = re.compile(r"@(uid|version|continue)(?::([^@]*))?@")
_NO_FINALIZERS = {"metadata": {"finalizers": None, "ownerReferences": None}}


@dataclass(frozen=True)
class Answer:
    code: int
    body: Any


class Marks:
    """What one server said last of every object, for requests that name it."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}
        self._version = "1"
        self._continue = ""
        self._lock = threading.Lock()

    def filled(self, call: Call) -> tuple[list[tuple[str, str]], str | None]:
        """Query and body, with this server's own uids and versions."""
        query = [(key, self._marked(value)) for key, value in call.query]
        return query, None if call.body is None else self._marked(call.body)

    def answer(self, call: Call, code: int, text: str) -> Answer:
        watch = call.sort == "watch"
        if code < 300 and not watch:
            self._remember(text)
        return Answer(code, body_of(text, watch=watch and code == 200))

    def _remember(self, text: str) -> None:
        try:
            data = json.loads(text)
        except ValueError:
            return
        metadata = data.get("metadata") if isinstance(data, dict) else None
        if not isinstance(metadata, dict):
            return
        with self._lock:
            if "items" in data:
                self._version = metadata.get("resourceVersion", self._version)
                self._continue = metadata.get("continue", self._continue)
            elif metadata.get("name"):
                self._seen[f"{data.get('kind')}/{metadata['name']}"] = metadata

    def _marked(self, text: str) -> str:
        return _MARK.sub(self._value, text)

    def _value(self, mark: re.Match[str]) -> str:
        what, path = mark[1], mark[2]
        if what == "continue":
            return self._continue
        if path == "list":
            return self._version
        *_, plural, name = path.split("/")
        for key, metadata in self._seen.items():
            kind, _, known = key.partition("/")
            if known == name and kind.lower().rstrip("s") in plural:
                return str(metadata.get("uid" if what == "uid" else "resourceVersion", "0"))
        return "0"


class Side:
    """One server."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.marks = Marks()

    def send(self, call: Call) -> Answer:
        query, body = self.marks.filled(call)
        code, text = self.api.send_text(
            call.method, call.path, body, query=query, content_type=call.content_type
        )
        return self.marks.answer(call, code, text)

    def remove(self, path: str) -> None:
        """Whatever holds it, the object goes."""
        self.api.send("PATCH", path, _NO_FINALIZERS, content_type="application/merge-patch+json")
        query = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}
        self.api.send("DELETE", path, query=query)


@dataclass
class Tally:
    asked: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    """Of these, how many got the same code."""
    bodies: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    """Writes that only the embedded server takes."""

    def share(self, counted: Counter[str]) -> float:
        return counted.total() / max(1, self.asked.total())

    def add(self, call: Call, ours: Answer, theirs: Answer) -> bool:
        """Count one request; whether both have the same objects after it."""
        self.asked[call.sort] += 1
        shown = f"{call.method} {call.path}?{'&'.join('='.join(it) for it in call.query)}"
        same_code = ours.code == theirs.code
        self.codes[call.sort] += same_code
        found = difference(ours.body, theirs.body)
        if same_code and not found:
            self.bodies[call.sort] += 1
            return True
        if call.method != "GET" and ours.code < 300 <= theirs.code:
            self.accepted.append(f"[{call.sort}] {shown} {call.body}: {theirs.body}")
        text = f"[{call.sort}] {shown} ours {ours.code}, theirs {theirs.code}\n    {call.body}"
        self.differing.append("\n    ".join([text, *found[:8]]))
        return False

    def table(self) -> str:
        lines = [f"{'class':20} {'asked':>6} {'codes':>7} {'bodies':>7}"]
        for sort, asked in sorted(self.asked.items()):
            codes, bodies = self.codes[sort] / asked, self.bodies[sort] / asked
            lines.append(f"{sort:20} {asked:6} {codes:7.1%} {bodies:7.1%}")
        total = self.asked.total()
        codes, bodies = self.share(self.codes), self.share(self.bodies)
        return "\n".join([*lines, f"{'all':20} {total:6} {codes:7.1%} {bodies:7.1%}"])


def run(ours: Api, theirs: Api, *, seed: int, requests: int, devices: bool = False) -> Tally:
    """Ask both the same, in namespaces and of objects that nobody else uses."""
    namespace = f"differential-{seed}"
    # Every other namespace lets its claims have admin access.
    labels = {"resource.kubernetes.io/admin-access": "true"} if devices and seed % 2 else {}
    tally = Tally()
    sides = (Side(ours), Side(theirs))
    for side in sides:
        name = {"metadata": {"name": namespace, "labels": labels}}
        side.api.send("POST", "/api/v1/namespaces", {**name, "kind": "Namespace"})
    grammar = Grammar(seed, namespace, devices=devices)
    touched: set[str] = set()
    with ThreadPoolExecutor(32) as pool:
        try:
            for calls in grammar.calls(requests):
                touched |= {call.subject for call in calls if call.subject}
                _ask(pool, sides, calls, tally)
        finally:
            for side in sides:
                tidy(side, grammar, touched)
    return tally


def tidy(side: Side, grammar: Grammar, touched: set[str]) -> None:
    """Take everything away: others use these clusters too."""
    for path in grammar.cluster_wide():
        query = {"labelSelector": f"run={grammar.namespace}"}
        side.api.send("DELETE", path, query=query)
    for path in sorted(touched):
        if f"/namespaces/{grammar.namespace}/" not in path:
            side.remove(path)
    side.api.send("DELETE", f"/api/v1/namespaces/{grammar.namespace}")


def _ask(
    pool: ThreadPoolExecutor, sides: tuple[Side, Side], calls: Iterable[Call], tally: Tally
) -> None:
    asked = [(call, [pool.submit(side.send, call) for side in sides]) for call in calls]
    for call, answers in asked:
        ours, theirs = (answer.result() for answer in answers)
        if not tally.add(call, ours, theirs) and call.subject and call.method != "GET":
            # What one of them did differently must not count again.
            for side in sides:
                side.remove(call.subject)
