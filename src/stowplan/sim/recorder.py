"""Writes down what a live cluster shows (`sim.recording`): a follower, as `answers.shadow` is.

Changes that scheduling does not see, such as heartbeats, are left out.  A recording that is there
already is gone on with: what is known from it is compared with what the cluster has now.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stowplan.cluster.port import ListOptions
from stowplan.errors import InputError
from stowplan.objects.changes import Change, Deleted, Updated
from stowplan.objects.kinds import POD, PRIORITY_CLASS, RUNTIME_CLASS
from stowplan.runtime.driver import WATCHED
from stowplan.sim.recording import VERSION, created_s, key_of, lines, whole_members
from stowplan.world.anonymise import anonymise
from stowplan.world.snapshot import plain

Data = dict[str, Any]

FLUSH_S = 2.0
"""How much a process that is killed loses at most."""

STEP_S = 1e-6
"""How far apart two lines are at least."""

RECORDED = (
    *((kind, options) for kind, options in WATCHED if kind is not POD),
    (PRIORITY_CLASS, ListOptions()),
    (RUNTIME_CLASS, ListOptions()),
    # Those that have ended too: how a pod ends is part of the record.
    (POD, ListOptions()),
)

_encode = msgspec.json.Encoder(order="deterministic").encode
_Key = tuple[str, str, str]


class Recorder:
    """Appends to a file; raises if it is something else than a recording."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._known: dict[_Key, bytes] = {}
        self._identities: dict[_Key, Data] = {}
        self._listed: set[_Key] | None = set()
        """What the first lists have shown; None once they are all in."""
        self._first: list[tuple[float, Data]] = []
        self._waiting: list[bytes] = []
        self._flushed_s = -math.inf
        self._last_s = self._go_on()
        self._line_s = self._last_s or -math.inf
        """When the last line was written."""
        self.count = 0
        """Lines written."""

    def _go_on(self) -> float | None:
        """Take up what there is; when it ended, or None for a new file."""
        if not self._path.exists() or not self._path.stat().st_size:
            return None
        last_s = 0.0
        for line in lines(self._path):
            last_s = float(line["t"])
            if "put" in line:
                self._note(line["put"])
            elif "del" in line:
                self._forget(key_of(line["del"]))
        os.truncate(self._path, whole_members(self._path))
        return last_s

    # -- following --------------------------------------------------------------------------

    def take(self, changes: Sequence[Change], now_s: float) -> None:
        for change in changes:
            thing = plain(change.new if isinstance(change, Updated) else change.object)
            _without_noise(thing)
            if self._listed is not None:
                if not isinstance(change, Deleted):
                    self._listed.add(key_of(thing))
                    self._first.append((now_s, thing))
            elif isinstance(change, Deleted):
                self._write_gone(key_of(thing), now_s)
            else:
                self._write(thing, now_s)

    def synced(self) -> None:
        """Write what there is, and what has gone since the file ended."""
        assert self._listed is not None
        now_s = max((time_s for time_s, _ in self._first), default=self._last_s or 0.0)
        if self._last_s is None:
            self._line({"stowplan": "recording", "version": VERSION}, now_s)
        else:
            self._line({"gap": round(max(0.0, now_s - self._last_s), 3)}, now_s)
        for key in [*self._known.keys() - self._listed]:
            self._write_gone(key, now_s)
        # Pods that wait, wait in the order in which they were created.
        for _, thing in sorted(self._first, key=lambda it: created_s(it[1])):
            self._write(thing, now_s)
        if self._last_s is None:
            self._line({"listed": True}, now_s)
        self._listed, self._first = None, []
        self.flush(now_s)

    def tick(self, now_s: float) -> None:
        if now_s - self._flushed_s >= FLUSH_S:
            self.flush(now_s)

    def flush(self, now_s: float) -> None:
        """Write what waits as one member."""
        self._flushed_s = now_s
        if not self._waiting:
            return
        member = gzip.compress(b"".join(self._waiting), compresslevel=6, mtime=0)
        try:
            with self._path.open("ab") as file:
                file.write(member)
        except OSError as error:
            raise InputError(error.strerror or str(error), where=str(self._path)) from None
        self.count += len(self._waiting)
        self._waiting = []

    def _write(self, thing: Data, now_s: float) -> None:
        if self._note(thing):
            self._line({"put": thing}, now_s)

    def _write_gone(self, key: _Key, now_s: float) -> None:
        identity = self._identities.get(key)
        if identity is not None:
            self._forget(key)
            self._line({"del": identity}, now_s)

    def _line(self, line: Data, now_s: float) -> None:
        """After the first lists a line is a moment: what is told together is told in an order."""
        at_s = round(now_s, 4)
        if self._listed is None:
            at_s = max(at_s, round(self._line_s + STEP_S, 6))
        self._line_s = at_s
        self._waiting.append(_encode({"t": at_s, **line}) + b"\n")

    def _note(self, thing: Data) -> bool:
        """True if it is news."""
        key, content = key_of(thing), _encode(thing)
        if self._known.get(key) == content:
            return False
        self._known[key] = content
        names = ("name", "namespace", "uid")
        meta = {name: it for name, it in thing["metadata"].items() if name in names}
        self._identities[key] = {
            "apiVersion": thing.get("apiVersion"),
            "kind": thing.get("kind"),
            "metadata": meta,
        }
        return True

    def _forget(self, key: _Key) -> None:
        self._known.pop(key, None)
        self._identities.pop(key, None)


def _without_noise(thing: Data) -> None:
    """Leave out what changes without meaning anything to scheduling."""
    for name in ("resourceVersion", "generation"):
        thing["metadata"].pop(name, None)
    status = thing.get("status")
    if isinstance(status, dict):
        status.pop("observedGeneration", None)
        if status.get("conditions") is not None:
            status["conditions"] = [
                {"type": it.get("type", ""), "status": it.get("status", "")}
                for it in status["conditions"]
            ]


def rewrite(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    since_s: float = 0.0,
    until_s: float = math.inf,
    anonymised: bool = False,
) -> int:
    """Copy a recording, cut to a span of seconds since its beginning, perhaps without names.

    Returns how many lines the copy has.
    """
    path = Path(target)
    if path.exists():
        raise InputError("there is such a file already", where=str(path))
    found = _cut(lines(Path(source)), since_s, until_s)
    if anonymised:
        things = [line.get("put", line.get("del")) for line in found]
        made = iter(anonymise([it for it in things if it is not None]).objects)
        found = [
            {name: next(made) if name in ("put", "del") else it for name, it in line.items()}
            for line in found
        ]
    path.write_bytes(gzip.compress(b"".join(_encode(it) + b"\n" for it in found), mtime=0))
    return len(found)


def _cut(recorded: Iterable[Data], since_s: float, until_s: float) -> list[Data]:
    """What there was at the beginning of the span, and what happened in it."""
    state: dict[_Key, Data] = {}
    kept: list[Data] = []
    zero_s, is_listed = math.nan, False
    for line in recorded:
        time_s = float(line["t"])
        zero_s = time_s if math.isnan(zero_s) else zero_s
        if time_s - zero_s > until_s:
            break
        if is_listed and time_s - zero_s >= since_s:
            kept.append(line)
        elif "put" in line:
            state[key_of(line["put"])] = line["put"]
        elif "del" in line:
            state.pop(key_of(line["del"]), None)
        is_listed = is_listed or "listed" in line
    begin_s = 0.0 if math.isnan(zero_s) else zero_s + since_s
    head = {"t": begin_s, "stowplan": "recording", "version": VERSION}
    puts = [{"t": begin_s, "put": thing} for thing in state.values()]
    return [head, *puts, {"t": begin_s, "listed": True}, *kept]
