"""Which reader reads a file, found by what is in it; and writing the format of our own.

A reader is told by content where content can tell (our format, SimKube's, an audit log), and
otherwise by name: CSV needs a mapping (`mapping.py`), one that is shipped or one of the user's.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Mapping
from pathlib import Path

from stowplan.errors import InputError
from stowplan.sim import format as our_format
from stowplan.sim.trace import Trace

SHIPPED_FOLDER = Path(__file__).parent / "traces"
SHIPPED = tuple(sorted(path.stem for path in SHIPPED_FOLDER.glob(f"*{our_format.SUFFIX}")))

_START_BYTES = 4096
_RECORDING = "stowplan.sim.recording"


def read_trace(
    path: str | Path,
    mapping: str | Path | None = None,
    tables: Mapping[str, str | Path] | None = None,
) -> Trace:
    """The trace in a file or, of CSV tables, in a folder; or one that is shipped: `openb`.

    `mapping` says how to read CSV: a name of those that are shipped (`openb`, `borg-2019`,
    `azure-2020`, `alibaba-gpu-2020`) or a YAML file.  `tables` names the files of `pods` and
    `nodes` where the mapping's patterns would find others.
    """
    shipped = SHIPPED_FOLDER / f"{path}{our_format.SUFFIX}"
    if str(path) in SHIPPED and not Path(path).exists() and mapping is None:
        return our_format.read(shipped)
    path = Path(path)
    if not path.exists():
        hint = f"a file, a folder, or one that is shipped: {', '.join(SHIPPED)}"
        raise InputError("no such trace", where=str(path), hint=hint)
    if mapping is not None:
        from stowplan.sim.csv_tables import read_csv_trace

        return read_csv_trace(path, mapping, {k: Path(v) for k, v in (tables or {}).items()})
    if path.is_dir():
        recording = _recording(path)
        if recording is not None:
            return recording
        raise InputError(
            "a folder of tables needs a mapping", where=str(path), hint=_mapping_hint()
        )
    return _read_file(path)


def write_trace(trace: Trace, path: str | Path) -> None:
    """The same trace gives the same bytes."""
    our_format.write(trace, Path(path))


def _read_file(path: Path) -> Trace:
    with path.open("rb") as file:
        start = file.read(_START_BYTES)
    if our_format.is_ours(start):
        return our_format.read(path)
    recording = _recording(path)
    if recording is not None:
        return recording
    start = _unzipped(start)
    if start.lstrip()[:1] == b"{" or ".log" in path.suffixes:
        from stowplan.sim.audit import read_audit_log

        return read_audit_log(path)
    if path.name.endswith((".csv", ".csv.gz")):
        raise InputError("a CSV table needs a mapping", where=str(path), hint=_mapping_hint())
    if path.suffix in (".sktrace", ".msgpack") or (start[:1] and 0x80 <= start[0] <= 0x8F):
        from stowplan.sim.simkube import read_sktrace

        return read_sktrace(path)
    raise InputError(
        "no trace in a format that is known",
        where=str(path),
        hint=f"there are: {our_format.SUFFIX}, CSV with a mapping, audit logs of Kubernetes "
        "(JSON lines), SimKube's .sktrace, recordings",
    )


def _recording(path: Path) -> Trace | None:
    """What `stowplan record` wrote; None where the file is something else."""
    try:
        recording = importlib.import_module(_RECORDING)
    except ModuleNotFoundError as error:
        if error.name != _RECORDING:
            raise
        return None
    if not recording.is_recording(path):
        return None
    trace = recording.read_recording(path)
    assert isinstance(trace, Trace)
    return trace


def _unzipped(start: bytes) -> bytes:
    if not start.startswith(b"\x1f\x8b"):
        return start
    try:
        return zlib.decompressobj(wbits=31).decompress(start, _START_BYTES)
    except zlib.error:
        return b""


def _mapping_hint() -> str:
    from stowplan.sim.mapping import SHIPPED

    return f"give --mapping FILE, or one of those that are shipped: {', '.join(SHIPPED)}"
