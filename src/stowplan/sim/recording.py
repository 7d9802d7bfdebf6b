"""A recording of a live cluster: what was there, and every change with its time.

Lines of JSON, compressed in members: each is whole, so whoever is killed loses the last seconds
and no more, and writing goes on at the end of the last whole one.  A line has a time `t` and one of

    stowplan   "recording": the first line, with its `version`
    put        an object as it is from now on
    del        an object that is gone: kind, names, uid
    listed     what came before is what there was when somebody began to look
    gap        so many seconds nobody looked

`sim.recorder` writes it from a cluster, `read_recording` makes a trace of it.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from stowplan.errors import InputError
from stowplan.objects.times import TimeError, parse_time
from stowplan.sim.audit import is_sound, pod_template_of
from stowplan.sim.building import TraceBuilder, nameless
from stowplan.sim.trace import Outcome, Trace

Data = dict[str, Any]

VERSION = 1
LINE_BYTES_MAX = 16 << 20
_CHUNK_BYTES = 1 << 20
_ENDS = {"Succeeded": Outcome.SUCCEEDED, "Failed": Outcome.FAILED}
_MADE_BY_SCHEDULING = frozenset({"PersistentVolumeClaim", "ResourceClaim"})
"""Of these, what changes later is mostly a scheduler's doing, which the replay does itself."""
_MAKE_PODS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Their pods are recorded themselves, and would be made a second time."""

_VOLUME_SOURCES = frozenset(
    {"csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile", "cinder",
     "portworxVolume", "vsphereVolume", "rbd", "iscsi", "local", "hostPath", "nfs"}
)  # fmt: skip

_decode = msgspec.json.Decoder(Data).decode


def is_recording(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        start = file.read(4096)
    try:
        text = zlib.decompressobj(wbits=31).decompress(start, 4096)
        return _decode(text.split(b"\n", 1)[0]).get("stowplan") == "recording"
    except (zlib.error, msgspec.DecodeError, msgspec.ValidationError):
        return False


def whole_members(path: Path) -> int:
    """How many bytes of the file are whole members; what is behind them was cut off."""
    end = position = 0
    unzip = zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            position += len(chunk)
            while chunk:
                try:
                    unzip.decompress(chunk)
                except zlib.error:
                    return end
                chunk = unzip.unused_data if unzip.eof else b""
                if unzip.eof:
                    end = position - len(chunk)
                    unzip = zlib.decompressobj(wbits=31)
    return end


def lines(path: Path) -> Iterator[Data]:
    """Every line of the whole members."""
    end = whole_members(path)
    if not end or not is_recording(path):
        raise InputError(
            "no recording", where=str(path), hint="`stowplan record` writes such files"
        )
    with path.open("rb") as raw, gzip.GzipFile(fileobj=cast(Any, _Part(raw, end))) as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX + 1):
            number += 1
            try:
                if len(line) > LINE_BYTES_MAX:
                    raise msgspec.DecodeError("the line is too long")
                yield _checked(_decode(line))
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise InputError(str(error), where=f"{path}:{number}") from None


def _checked(line: Data) -> Data:
    if not isinstance(line.get("t"), int | float):
        raise msgspec.ValidationError("a line without a time `t`")
    thing = line.get("put", line.get("del"))
    if thing is not None and not isinstance((thing or {}).get("metadata"), dict):
        raise msgspec.ValidationError("an object without metadata")
    if line.get("stowplan") == "recording" and line.get("version") != VERSION:
        raise msgspec.ValidationError(f"version {line.get('version')!r} is not {VERSION}")
    return line


class _Part:
    """The first bytes of a file."""

    def __init__(self, file: Any, end: int) -> None:
        self._file, self._left = file, end

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data: bytes = self._file.read(wanted)
        self._left -= len(data)
        return data


def key_of(thing: Data) -> tuple[str, str, str]:
    meta = thing["metadata"]
    return str(thing.get("kind")), str(meta.get("namespace") or ""), str(meta.get("name"))


def read_recording(path: Path) -> Trace:
    """Pods that had a node when recording began stay there, as changes of the trace; all others
    are its pods, for a scheduler to place."""
    reader = _Reader()
    for line in lines(path):
        reader.take(line)
    return reader.trace(path.name.split(".")[0])


class _Reader:
    def __init__(self) -> None:
        self._builder = TraceBuilder()
        self._state: dict[tuple[str, str, str], Data] = {}
        self._came_s: dict[tuple[str, str, str], float] = {}
        self._began_s: dict[tuple[str, str, str], float] = {}
        self._joined: dict[tuple[str, str, str], Data] = {}
        """Nodes as they were when they joined; what changes later are changes."""
        self._fixed: set[tuple[str, str, str]] = set()
        """Pods that had their node at the beginning."""
        self._ended: set[tuple[str, str, str]] = set()
        self._is_listed = False
        self._first_s = math.nan
        self._node_numbers: dict[str, int] = {}

    def take(self, line: Data) -> None:
        time_s = float(line["t"])
        if math.isnan(self._first_s):
            self._first_s = time_s
        if "put" in line:
            self._put(line["put"], time_s)
        elif "del" in line:
            self._gone(line["del"], time_s)
        elif "listed" in line:
            self._is_listed = True
        elif "gap" in line:
            self._builder.dirt.add(
                "times when nobody recorded: what happened then is dated to their end",
                f"{float(line['gap']):.0f} s",
            )

    def trace(self, name: str) -> Trace:
        for key in [*self._state]:
            kind = key[0]
            if kind == "Pod" and key not in self._fixed and key not in self._ended:
                self._add_pod(key, math.nan, Outcome.DELETED)
            elif kind == "Node":
                self._add_node(key, math.inf)
        zero_s = 0.0 if math.isnan(self._first_s) else self._first_s
        return self._builder.build(name, zero_s=zero_s, start_s=zero_s)

    def _put(self, thing: Data, time_s: float) -> None:
        key = key_of(thing)
        kind, before = key[0], self._state.get(key)
        if not is_sound(thing):
            self._builder.dirt.add("objects that make no sense: left out", "/".join(key))
            return
        if before is not None and _uid(before) != _uid(thing):
            self._gone(before, time_s)
            before = None
        self._state[key] = thing
        if before is None:
            self._came_s[key] = time_s if self._is_listed else self._listed_s(thing, time_s)
        if kind == "Pod":
            self._pod(key, before, thing, time_s)
        elif kind == "Node":
            if before is None:
                self._joined[key] = thing
            elif _told(before) != _told(thing):
                self._builder.add_change(time_s, "apply", _node(thing, self._numbered(key[2])))
        elif kind in _MAKE_PODS:
            if before is None:
                self._builder.dirt.add(
                    "workloads: left out, their pods are recorded", "/".join(key)
                )
        elif not _is_built_in(thing) and (before is None or kind not in _MADE_BY_SCHEDULING):
            made = _stored(thing)
            if self._is_listed and kind in _MADE_BY_SCHEDULING:
                made.pop("status", None)
            self._builder.add_change(time_s, "apply", made)

    def _listed_s(self, thing: Data, time_s: float) -> float:
        """What was there comes at the beginning, in the order in which it was created."""
        return time_s if thing.get("kind") == "Pod" else -math.inf

    def _pod(
        self, key: tuple[str, str, str], before: Data | None, pod: Data, time_s: float
    ) -> None:
        node, phase = _node_of(pod), (pod.get("status") or {}).get("phase")
        if before is None and node and not self._is_listed:
            if phase in _ENDS:
                self._ended.add(key)
                return
            self._fixed.add(key)
            self._builder.add_change(time_s, "apply", _stored(pod))
            return
        if node and key not in self._began_s:
            self._began_s[key] = time_s
        if phase in _ENDS and key not in self._ended:
            self._ends(key, time_s, _ENDS[phase])

    def _ends(self, key: tuple[str, str, str], time_s: float, outcome: Outcome) -> None:
        self._ended.add(key)
        if key in self._fixed:
            pod = self._state[key]
            self._builder.add_change(time_s, "delete", _identity(pod))
        else:
            self._add_pod(key, time_s, outcome)

    def _gone(self, thing: Data, time_s: float) -> None:
        key = key_of(thing)
        kind = key[0]
        if key not in self._state:
            return
        if kind == "Pod":
            if key not in self._ended:
                self._ends(key, time_s, Outcome.DELETED)
            self._fixed.discard(key)
            self._ended.discard(key)
            self._began_s.pop(key, None)
        elif kind == "Node":
            self._add_node(key, time_s)
        elif kind not in _MAKE_PODS and not _is_built_in(self._state[key]):
            self._builder.add_change(time_s, "delete", _identity(self._state[key]))
        del self._state[key], self._came_s[key]

    def _add_pod(self, key: tuple[str, str, str], end_s: float, outcome: Outcome) -> None:
        pod = self._state[key]
        self._builder.add_pod(
            self._builder.pod_template(pod_template_of(pod)),
            name=key[2],
            arrival_s=self._came_s[key],
            start_s=self._began_s.get(key, math.nan),
            end_s=end_s,
            outcome=outcome,
            node=self._numbered(_node_of(pod)) if _node_of(pod) else "",
            where="/".join(key),
            reuses_names=True,
        )

    def _add_node(self, key: tuple[str, str, str], leaves_s: float) -> None:
        name = key[2]
        node = _node(self._joined.pop(key), name)
        self._builder.add_node(
            self._builder.node_template(nameless(node)),
            name=self._numbered(name),
            joins_s=self._came_s[key],
            leaves_s=leaves_s,
        )
        if math.isfinite(leaves_s):
            self._node_numbers[name] = self._node_numbers.get(name, 1) + 1

    def _numbered(self, name: str) -> str:
        """A node that comes back under its name is another one."""
        number = self._node_numbers.get(name, 1)
        return name if number == 1 else f"{name}-{number}"


def created_s(thing: Data) -> float:
    try:
        return parse_time(str(thing["metadata"].get("creationTimestamp")))
    except TimeError:
        return math.inf


def _uid(thing: Data) -> str:
    return str(thing["metadata"].get("uid") or "")


def _node_of(pod: Data) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _told(node: Data) -> Data:
    return {key: node.get(key) for key in ("spec", "status")} | {
        "labels": node["metadata"].get("labels")
    }


def _node(node: Data, name: str) -> Data:
    meta = {
        key: node["metadata"][key] for key in ("labels", "annotations") if key in node["metadata"]
    }
    return {**node, "metadata": {**meta, "name": name}}


def _stored(thing: Data) -> Data:
    """As somebody would apply it: a recording has what scheduling reads, an API server wants more.
    What a volume is made of and the port of a service do not matter here, but have to be there."""
    left_out = ("uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences")
    meta = {key: it for key, it in thing["metadata"].items() if key not in left_out}
    spec = dict(thing.get("spec") or {})
    if thing.get("kind") == "Service":
        spec.setdefault("ports", [{"port": 1}])
    elif thing.get("kind") == "PersistentVolume" and not spec.keys() & _VOLUME_SOURCES:
        spec["hostPath"] = {"path": "/"}
    return {**thing, "metadata": meta, **({"spec": spec} if spec else {})}


def _is_built_in(thing: Data) -> bool:
    """What every API server has, or nobody schedules by."""
    kind, name = thing.get("kind"), str(thing["metadata"].get("name"))
    if kind == "PriorityClass":
        return name.startswith("system-")
    return kind == "Service" and not (thing.get("spec") or {}).get("selector")


def _identity(thing: Data) -> Data:
    meta = {key: it for key, it in thing["metadata"].items() if key in ("name", "namespace")}
    return {"apiVersion": thing.get("apiVersion"), "kind": thing.get("kind"), "metadata": meta}
