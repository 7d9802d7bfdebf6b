"""The format of our own: what goes in comes out, and a hostile file is one clear line."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.errors import InputError
from stowplan.sim.files import read_trace, write_trace
from stowplan.sim.format import read_head
from stowplan.sim.trace import Trace
from tests.sim.traces import steady, traces

anything = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@anything
@given(traces())
def test_any_trace_is_read_as_it_was_written_and_always_with_the_same_bytes(
    tmp_path: Path, trace: Trace
) -> None:
    path, again = tmp_path / "a.stowtrace", tmp_path / "b.stowtrace"

    write_trace(trace, path)
    read = read_trace(path)
    write_trace(read, again)

    assert read == trace
    assert path.read_bytes() == again.read_bytes()


def test_the_head_says_how_much_there_is(tmp_path: Path) -> None:
    write_trace(steady(), tmp_path / "a.stowtrace")

    head = read_head(tmp_path / "a.stowtrace")

    assert (head.name, head.pods, head.nodes) == ("steady", 100, 10)


@pytest.mark.slow
@anything
@given(st.data())
def test_a_damaged_file_is_one_line(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.stowtrace"
    write_trace(steady(), path)
    whole = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(4, len(whole) - 1))]
    else:
        whole[data.draw(st.integers(4, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)

    problem = "nothing: the bit was of a date or a flag"
    try:
        assert read_trace(path).pod_count == 100
    except InputError as error:
        problem = f"{error.where}: {error.problem}"
    assert "\n" not in problem
    assert problem.startswith((str(path), "nothing"))


def rewritten(tmp_path: Path, **members: Any) -> Path:
    """A good file with some of its members replaced: tables, or the head's fields."""
    path = tmp_path / "a.stowtrace"
    write_trace(steady(), path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    head = msgspec.json.decode(content["trace.json"]) | members.pop("head", {})
    content["trace.json"] = msgspec.json.encode(head)
    for name, table in members.items():
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        content[f"{name}.parquet"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def pods(count: int, **columns: Any) -> pa.Table:
    zeros = pa.array([0.0] * count)
    table: dict[str, Any] = {
        "template": pa.array([0] * count, pa.int32()),
        "arrival_s": zeros,
        "run_s": zeros,
        "end_s": zeros,
        "outcome": pa.array([0] * count, pa.uint8()),
    }
    return pa.table(table | columns)


ONE = {"pods": 1}
CLAIMS = {
    "version": ({"head": {"version": 2}}, "version 2 of the format; .* version 1"),
    "format": ({"head": {"format": "x"}}, "the format is 'x'"),
    "count": ({"head": {"pods": 10**12}}, "100 rows, trace.json says"),
    "columns": ({"pods": pa.table({"x": [1]}), "head": ONE}, "no column template"),
    "type": ({"pods": pods(1, run_s=pa.array(["1"])), "head": ONE}, "run_s is"),
    "null": ({"pods": pods(1, run_s=pa.array([None], pa.float64())), "head": ONE}, "empty cells"),
    "range": ({"pods": pods(1, run_s=pa.array([-1.0])), "head": ONE}, "must not be negative"),
    "name": ({"pods": pods(1, name=pa.array(["x" * 300])), "head": ONE}, "a text of 300"),
    "list": ({"pods": pods(1, name=pa.array([["a"]])), "head": ONE}, "columns of lists"),
    "deep": (
        {"templates": pa.table({"of": ["pod"], "manifest": ["[" * 100_000]})},
        "manifest: ",
    ),
    "metadata": (
        {"templates": pa.table({"of": ["pod"], "manifest": ['{"metadata": 1}']})},
        "metadata that is no object",
    ),
    "verb": (
        {"changes": pa.table({"time_s": [0.0], "verb": ["eat"], "object": ["{}"]})},
        "'eat' is no verb",
    ),
}


@pytest.mark.parametrize(("members", "problem"), CLAIMS.values(), ids=CLAIMS)
def test_what_a_file_claims_is_checked(tmp_path: Path, members: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_trace(rewritten(tmp_path, **members))


def test_texts_that_multiply_are_counted_before_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stowplan.sim.format.TEXT_BYTES_MAX", 100_000)
    path = rewritten(
        tmp_path, pods=pods(1000, name=pa.array(["x" * 200] * 1000)), head={"pods": 1000}
    )

    with pytest.raises(InputError, match="name has more than 100,000 characters"):
        read_trace(path)


def test_a_zip_that_is_larger_inside_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.stowtrace"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", b" " * 10_000_000)

    with pytest.raises(InputError, match=r"trace\.json is compressed"):
        read_trace(path)


def test_without_pyarrow_the_way_to_install_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(InputError, match="pyarrow is not installed") as caught:
        write_trace(steady(), tmp_path / "a.stowtrace")
    assert caught.value.hint == "pip install 'stowplan[data]'"


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x1f\x8b\x08\x00broken", b"PK\x05\x06" + b"\0" * 18]
)
def test_a_file_of_another_sort_is_told_apart(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "what.ever"
    path.write_bytes(content)

    with pytest.raises(InputError, match="no trace in a format that is known"):
        read_trace(path)
