"""What a cluster showed is written down, survives a kill, and becomes a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import InputError
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.manifests import decode
from stowplan.sim.files import read_trace
from stowplan.sim.recorder import Recorder, rewrite
from stowplan.sim.recording import is_recording, lines
from stowplan.sim.trace import Outcome

Data = dict[str, Any]


def _thing(data: Data) -> Any:
    return decode(data, "test")


def _node(name: str, **spec: Any) -> Any:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return _thing(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": spec,
            "status": {"allocatable": room, "capacity": room},
        }
    )


def _pod(name: str, node: str = "", phase: str = "Pending", version: int = 1) -> Any:
    return _thing(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": f"uid-{name}",
                "resourceVersion": str(version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                **({"nodeName": node} if node else {}),
            },
            "status": {"phase": phase},
        }
    )


def _record(path: Path, first: list[Any], later: list[tuple[float, Change]], at: float) -> None:
    recorder = Recorder(path)
    recorder.take([Added(it) for it in first], at)
    recorder.synced()
    for time_s, change in later:
        recorder.take([change], time_s)
        recorder.tick(time_s)
    recorder.flush(0.0)


def _story(path: Path) -> None:
    later: list[tuple[float, Change]] = [
        (110.0, Added(_pod("web"))),
        (111.0, Updated(_pod("web"), _pod("web", "n1", version=2))),
        (112.0, Updated(_pod("web", "n1", version=2), _pod("web", "n1", version=3))),
        (120.0, Updated(_node("n1"), _node("n1", unschedulable=True))),
        (131.0, Updated(_pod("web", "n1"), _pod("web", "n1", "Succeeded"))),
        (140.0, Deleted(_pod("old", "n1", "Running"))),
    ]
    _record(path, [_node("n1"), _pod("old", "n1", "Running"), _pod("waits")], later, 100.0)


def test_a_recording_becomes_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "day.recording"
    _story(path)

    trace = read_trace(path)

    assert trace.pod_names == ("waits", "web")
    assert trace.pod_arrival_s.tolist() == [0.0, 10.0]
    assert trace.pod_run_s[1] == 20.0
    assert trace.pod_end_s[1] == 31.0
    assert trace.pod_outcome[1] == Outcome.SUCCEEDED
    assert trace.node_names == ("n1",)
    assert trace.pod_node is not None
    assert trace.pod_node.tolist() == [-1, 0]
    assert not trace.node(0)["spec"].get("unschedulable"), "it is cordoned later"
    told = [(it.time_s, it.verb, it.object["kind"]) for it in trace.changes]
    assert told == [
        (0.0, "apply", "Pod"),
        (20.0, "apply", "Node"),
        (40.0, "delete", "Pod"),
    ], "who had a node stays there until it goes"


def test_what_is_told_at_one_moment_is_replayed_in_its_order(tmp_path: Path) -> None:
    """A recorder that is late is told several changes at once: whoever came before another was
    deleted did not have its room."""
    recorder = Recorder(tmp_path / "late")
    recorder.take([Added(_node("n1")), Added(_pod("first"))], 100.0)
    recorder.synced()
    told = [Added(_pod("second")), Deleted(_pod("first")), Added(_pod("third"))]
    recorder.take(told, 110.0)
    recorder.take([Added(_pod("fourth"))], 110.0)
    recorder.flush(0.0)

    trace = read_trace(tmp_path / "late")
    came_s = {trace.pod_name(n): trace.pod_arrival_s[n] for n in range(trace.pod_count)}
    gone_s = {trace.pod_name(n): trace.pod_end_s[n] for n in range(trace.pod_count)}
    assert came_s["second"] < gone_s["first"] < came_s["third"] < came_s["fourth"]
    assert came_s["fourth"] - came_s["second"] < 0.001


def test_what_scheduling_does_not_see_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "day.recording"
    _story(path)
    puts = [it["put"]["metadata"]["name"] for it in lines(path) if "put" in it]
    assert puts.count("web") == 3, "came, bound, ended; version 3 says nothing new"


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_whoever_is_killed_while_writing_loses_the_last_member_only(
    tmp_path: Path, cut: int
) -> None:
    path = tmp_path / "day.recording"
    _story(path)
    whole = [*lines(path)]
    raw = path.read_bytes()
    path.write_bytes(raw[:-cut])
    left = [*lines(path)]
    assert left == whole[: len(left)]
    assert len(whole) - 2 <= len(left) < len(whole)

    _record(path, [_node("n1"), _pod("waits", "n1", "Running")], [], 200.0)

    told = [*lines(path)]
    assert told[: len(left)] == left
    [gap] = [it for it in told if "gap" in it]
    assert gap["gap"] >= 60.0
    gone = {it["del"]["metadata"]["name"] for it in told[len(left) :] if "del" in it}
    assert gone == {"old", "web"}, "what went while nobody looked"
    assert [it["t"] for it in told] == sorted(it["t"] for it in told)
    assert any("nobody recorded" in remark.text for remark in read_trace(path).remarks)


def test_a_copy_is_cut_and_has_no_names(tmp_path: Path) -> None:
    path, copy = tmp_path / "day.recording", tmp_path / "part.recording"
    _story(path)
    rewrite(path, copy, since_s=15.0, until_s=35.0, anonymised=True)

    trace = read_trace(copy)
    text = "".join(map(str, lines(copy)))
    assert not any(name in text for name in ("web", "waits", "shop", "n1", "old"))
    assert trace.pod_count == 1, "one had no node yet"
    told = [(it.time_s, it.verb) for it in trace.changes]
    assert told == [(0.0, "apply"), (0.0, "apply"), (5.0, "apply"), (16.0, "delete")]
    with pytest.raises(InputError, match="already"):
        rewrite(path, copy)


def test_nothing_else_is_taken_for_a_recording(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("no recording")
    assert not is_recording(other)
    with pytest.raises(InputError, match="no recording"):
        Recorder(other)
    assert other.read_text() == "no recording"
