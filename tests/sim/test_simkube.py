"""SimKube's traces: owners with replicas or recorded lifetimes, and bare pods."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.errors import InputError
from stowplan.sim.files import read_trace
from stowplan.sim.trace import Outcome

POD_SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}


def owner(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": POD_SPEC}
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": template} | spec,
    }


def write(tmp_path: Path, events: list[dict[str, Any]], **fields: Any) -> Path:
    path = tmp_path / "cluster.sktrace"
    config = {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePath": "/spec/template"}}}
    data = {"version": 3, "config": config, "events": events, "index": {}} | fields
    path.write_bytes(msgspec.msgpack.encode(data))
    return path


def event(ts: int, *applied: Any, deleted: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"ts": ts, "applied_objs": list(applied), "deleted_objs": list(deleted)}


def test_an_owner_has_as_many_pods_as_replicas(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        [
            event(100, owner("Deployment", "web", replicas=2)),
            event(160, owner("Deployment", "web", replicas=3)),
            event(200, owner("Deployment", "web", replicas=1)),
            event(300, deleted=(owner("Deployment", "web"),)),
        ],
    )

    trace = read_trace(path)

    assert trace.start_s == 100.0
    assert trace.pod_arrival_s.tolist() == [0.0, 0.0, 60.0]
    assert sorted(trace.pod_run_s.tolist()) == [40.0, 100.0, 200.0]
    assert set(trace.pod_outcome.tolist()) == {Outcome.DELETED}
    assert trace.pod(0)["metadata"]["namespace"] == "shop"
    assert trace.pod(0)["metadata"]["labels"] == {"app": "web"}
    assert trace.node_count == 0


@pytest.mark.parametrize("version", [2, 3])
def test_recorded_lifetimes_are_the_pods(tmp_path: Path, version: int) -> None:
    events = [event(100, owner("Job", "train"))]
    if version == 3:
        lives = [{"lifecycle": {"Finished": [110, 150]}}, {"lifecycle": {"Running": 120}}]
        fields: dict[str, Any] = {"index": {"apps/v1.Job": {"shop/train": {100: lives}}}}
    else:
        old = [{"start_ts": 110, "end_ts": 150}, {"start_ts": 120}]
        fields = {"version": 2, "pod_lifecycles": {("apps/v1.Job", "shop/train"): {77: old}}}

    trace = read_trace(write(tmp_path, events, **fields))

    assert trace.pod_arrival_s.tolist() == [10.0, 20.0]
    assert trace.pod_run_s.tolist() == [40.0, math.inf]
    assert trace.pod_outcome[0] == Outcome.SUCCEEDED


def test_bare_pods_other_objects_and_dirt(tmp_path: Path) -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    events: list[Any] = [
        event(
            1, bare | {"spec": POD_SPEC}, service, {"kind": "Strange", "metadata": {"name": "x"}}
        ),
        event(9, {"no": "kind"}, deleted=(bare,)),
        {"ts": "soon"},
    ]

    trace = read_trace(write(tmp_path, events))

    assert (trace.pod_names, trace.pod_run_s.tolist()) == (("p",), [8.0])
    assert [change.object["kind"] for change in trace.changes] == ["Service"]
    assert [remark.count for remark in trace.remarks] == [1, 1, 1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (msgspec.msgpack.encode({"version": 1}), "version 1 of SimKube's format"),
        (msgspec.msgpack.encode({"version": 3}), "there are no events"),
        (b"\x81\xa7version", "no MessagePack of SimKube"),
        (b"\x91" * 100_000, "no MessagePack of SimKube"),
        (b"\xdd\xff\xff\xff\xff", "no MessagePack of SimKube"),
    ],
    ids=["version", "empty", "cut-off", "deep", "absurd-count"],
)
def test_hostile_files_are_one_line(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "a.sktrace"
    path.write_bytes(content)

    with pytest.raises(InputError, match=problem):
        read_trace(path)
