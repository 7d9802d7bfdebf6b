"""The format of our own: one file, tables in Parquet, put together in a zip.

    trace.json          format, version, name, start, and how many rows there are
    pods.parquet        a row per pod: template, times, outcome, and where known name and node
    nodes.parquet       a row per node: name, template, when it joins and leaves
    templates.parquet   a row per template: of what (`pod`, `node`), and the manifest as JSON
    changes.parquet     a row per change: time, verb, and the manifest as JSON
    remarks.parquet     what the reader of the source found wrong

The zip does not compress, Parquet does.  So a file cannot pretend to be small: what it claims is
compared with limits before anything of that size is made.  `docs/traces.md` describes all columns.
The same trace gives the same bytes, with the same version of pyarrow.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError, StowplanError
from stowplan.sim.trace import Change, Manifest, Remark, Trace, Verb

FORMAT = "stowplan-trace"
VERSION = 1
SUFFIX = ".stowtrace"

ROWS_MAX = 100_000_000
NAME_LENGTH_MAX = 253
MANIFEST_LENGTH_MAX = 1 << 21
"""Above what an API server takes."""
TEXT_BYTES_MAX = 1 << 30
"""All texts of one column together."""
HEAD_BYTES_MAX = 1 << 16

_DATE = (1980, 1, 1, 0, 0, 0)
_HINT = "`stowplan trace convert` writes such files"
_MISSING = "pip install 'stowplan[data]'"
_POD_NUMBERS: dict[str, type[np.generic]] = {
    "template": np.int32,
    "arrival_s": np.float64,
    "run_s": np.float64,
    "end_s": np.float64,
    "outcome": np.uint8,
}
_NODE_NUMBERS: dict[str, type[np.generic]] = {
    "template": np.int32,
    "joins_s": np.float64,
    "leaves_s": np.float64,
}


class Head(msgspec.Struct, frozen=True):
    """What a file says about itself; read without looking at the tables."""

    format: str
    version: int
    name: str
    start_s: float
    pods: int
    nodes: int


def pyarrow() -> Any:
    """pyarrow with its Parquet part; an extra, so it may be missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "pyarrow is not installed, which reads and writes traces", hint=_MISSING
        ) from None
    return pyarrow


# -- writing --------------------------------------------------------------------------------


def write(trace: Trace, path: Path) -> None:
    arrow = pyarrow()
    head = Head(FORMAT, VERSION, trace.name, trace.start_s, trace.pod_count, trace.node_count)
    templates = [("pod", m) for m in trace.pod_templates] + [
        ("node", m) for m in trace.node_templates
    ]
    tables = {
        "pods": _pods(trace, arrow),
        "nodes": arrow.table({
            "name": arrow.array(trace.node_names, arrow.string()),
            "template": trace.node_template,
            "joins_s": trace.node_joins_s,
            "leaves_s": trace.node_leaves_s,
        }),
        "templates": arrow.table({
            "of": arrow.array([of for of, _ in templates], arrow.string()),
            "manifest": _texts(arrow, [manifest for _, manifest in templates]),
        }),
        "changes": arrow.table({
            "time_s": np.array([change.time_s for change in trace.changes], np.float64),
            "verb": arrow.array([change.verb for change in trace.changes], arrow.string()),
            "object": _texts(arrow, [change.object for change in trace.changes]),
        }),
        "remarks": arrow.table({
            "text": arrow.array([remark.text for remark in trace.remarks], arrow.string()),
            "count": np.array([remark.count for remark in trace.remarks], np.int64),
            "examples": _texts(arrow, [remark.examples for remark in trace.remarks]),
        }),
    }  # fmt: skip
    part = path.with_name(f"{path.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("trace.json", _DATE), msgspec.json.encode(head))
        for name, table in tables.items():
            info = zipfile.ZipInfo(f"{name}.parquet", _DATE)
            archive.writestr(info, _parquet(arrow, table))
    part.replace(path)


def _pods(trace: Trace, arrow: Any) -> Any:
    columns = {name: getattr(trace, f"pod_{name}") for name in _POD_NUMBERS}
    if trace.pod_names is not None:
        columns["name"] = arrow.array(trace.pod_names, arrow.string())
    if trace.pod_node is not None:
        columns["node"] = trace.pod_node
    return arrow.table(columns)


def _texts(arrow: Any, values: Sequence[Any]) -> Any:
    encode = msgspec.json.Encoder(order="deterministic").encode
    return arrow.array([encode(value).decode() for value in values], arrow.string())


def _parquet(arrow: Any, table: Any) -> bytes:
    buffer = io.BytesIO()
    floats = [field.name for field in table.schema if field.type == arrow.float64()]
    arrow.parquet.write_table(
        table.replace_schema_metadata(None),
        buffer,
        compression="zstd",
        use_dictionary=[field.name for field in table.schema if field.name not in floats],
        use_byte_stream_split=floats,
        write_statistics=False,
        store_schema=False,
    )
    return buffer.getvalue()


# -- reading --------------------------------------------------------------------------------


def is_ours(start: bytes) -> bool:
    """Whether a file that starts so may be a trace in this format."""
    return start.startswith(b"PK\x03\x04") and b"trace.json" in start[:64]


def read_head(path: Path) -> Head:
    """Name and counts, without reading the tables."""
    with _opened(path) as archive:
        return _head(archive)


def read(path: Path) -> Trace:
    arrow = pyarrow()
    try:
        with _opened(path) as archive:
            return _trace(arrow, archive)
    except StowplanError as error:
        raise InputError(
            error.problem, where=f"{path}: {error.where}".rstrip(": "), hint=error.hint
        ) from None
    except (arrow.ArrowException, OSError, MemoryError, zipfile.BadZipFile) as error:
        raise _broken(str(error), str(path)) from None


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _broken(str(error), str(path)) from None


def _broken(problem: str, where: str) -> InputError:
    first = (problem or "out of memory").strip().split("\n")[0]
    return InputError(f"the file is damaged or no trace: {first}", where=where, hint=_HINT)


def _head(archive: zipfile.ZipFile) -> Head:
    try:
        head = msgspec.json.decode(_member(archive, "trace.json", HEAD_BYTES_MAX), type=Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(str(error), "trace.json") from None
    if head.format != FORMAT:
        raise InputError(f"the format is {head.format!r}, not {FORMAT!r}", where="trace.json")
    if head.version != VERSION:
        raise InputError(
            f"version {head.version} of the format; this Stowplan reads version {VERSION}",
            where="trace.json",
            hint="a newer Stowplan may read it",
        )
    return head


def _member(archive: zipfile.ZipFile, name: str, bytes_max: int) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise _broken(f"there is no {name}", "") from None
    # What is stored is as large as it says, so no file is larger inside than outside.
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise _broken(f"{name} is compressed or encrypted", "")
    if info.file_size > bytes_max:
        raise _broken(f"{name} has {info.file_size:,} bytes, more than {bytes_max:,}", "")
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
        raise _broken(str(error) or f"{name} is cut off", name) from None


def _trace(arrow: Any, archive: zipfile.ZipFile) -> Trace:
    head = _head(archive)
    pods = _Table(arrow, archive, "pods", head.pods)
    nodes = _Table(arrow, archive, "nodes", head.nodes)
    templates = _Table(arrow, archive, "templates")
    kinds = templates.texts("of", NAME_LENGTH_MAX)
    manifests = list(zip(kinds, templates.manifests("manifest"), strict=True))
    return Trace(
        name=head.name,
        start_s=head.start_s,
        pod_templates=tuple(manifest for of, manifest in manifests if of == "pod"),
        **{f"pod_{name}": pods.numbers(name, kind) for name, kind in _POD_NUMBERS.items()},
        pod_names=tuple(pods.texts("name", NAME_LENGTH_MAX)) if "name" in pods else None,
        pod_node=pods.numbers("node", np.int32) if "node" in pods else None,
        node_templates=tuple(manifest for of, manifest in manifests if of == "node"),
        node_names=tuple(nodes.texts("name", NAME_LENGTH_MAX)),
        **{f"node_{name}": nodes.numbers(name, kind) for name, kind in _NODE_NUMBERS.items()},
        changes=_changes(_Table(arrow, archive, "changes")),
        remarks=_remarks(_Table(arrow, archive, "remarks")),
    )


def _changes(table: _Table) -> tuple[Change, ...]:
    times = table.numbers("time_s", np.float64).tolist()
    rows = zip(times, table.texts("verb", 16), table.manifests("object"), strict=True)
    return tuple(Change(time_s, cast(Verb, verb), manifest) for time_s, verb, manifest in rows)


def _remarks(table: _Table) -> tuple[Remark, ...]:
    texts, counts = table.texts("text", MANIFEST_LENGTH_MAX), table.numbers("count", np.int64)
    examples = table.decoded("examples", tuple[str, ...])
    return tuple(map(Remark, texts, counts.tolist(), examples))


class _Table:
    """One Parquet table; a column is read when it is asked for."""

    def __init__(
        self, arrow: Any, archive: zipfile.ZipFile, name: str, rows: int | None = None
    ) -> None:
        self._arrow = arrow
        self._where = f"{name}.parquet"
        data = _member(archive, self._where, TEXT_BYTES_MAX)
        metadata = arrow.parquet.read_metadata(arrow.BufferReader(data))
        self._rows = int(metadata.num_rows)
        if not 0 <= self._rows <= ROWS_MAX or rows not in (None, self._rows):
            said = "" if rows is None else f", trace.json says {rows:,}"
            raise _broken(f"{self._rows:,} rows{said}; at most {ROWS_MAX:,}", self._where)
        columns = [metadata.schema.column(n) for n in range(metadata.num_columns)]
        self._names = [column.name for column in columns]
        if any(column.path != column.name for column in columns):
            raise _broken("columns of lists", self._where)
        texts = [column.name for column in columns if column.physical_type == "BYTE_ARRAY"]
        self._file = arrow.parquet.ParquetFile(
            arrow.BufferReader(data), metadata=metadata, read_dictionary=texts
        )

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def numbers(self, name: str, dtype: type[np.generic]) -> NDArray[Any]:
        column = self._column(name)
        wanted = self._arrow.from_numpy_dtype(dtype)
        if column.type != wanted:
            raise _broken(f"{name} is {column.type}, not {wanted}", self._where)
        array: NDArray[Any] = column.to_numpy()
        return array.astype(dtype, copy=False)

    def texts(self, name: str, length_max: int) -> list[str]:
        """Each distinct text is looked at before it is repeated as often as its rows say."""
        column = self._column(name)
        if not self._arrow.types.is_dictionary(column.type):
            raise _broken(f"{name} is {column.type}, not text", self._where)
        texts: list[str] = []
        size = 0
        for chunk in column.chunks:
            words = [str(word) for word in chunk.dictionary.to_pylist()]
            longest = max(map(len, words), default=0)
            if longest > length_max:
                raise _broken(f"{name} has a text of {longest:,} characters", self._where)
            positions = chunk.indices.to_numpy(zero_copy_only=False)
            lengths = np.array([len(word) for word in words] or [0], np.int64)
            size += int(lengths[positions].sum())
            if size > TEXT_BYTES_MAX:
                raise _broken(f"{name} has more than {TEXT_BYTES_MAX:,} characters", self._where)
            texts += [words[position] for position in positions.tolist()]
        return texts

    def manifests(self, name: str) -> list[Manifest]:
        found = self.decoded(name, dict[str, Any])
        if not all(isinstance(data.get("metadata") or {}, dict) for data in found):
            raise _broken(f"{name} has metadata that is no object", self._where)
        return list(found)

    def decoded(self, name: str, kind: Any) -> list[Any]:
        decoder = msgspec.json.Decoder(kind)
        try:
            return [decoder.decode(text) for text in self.texts(name, MANIFEST_LENGTH_MAX)]
        except (msgspec.DecodeError, RecursionError) as error:
            raise _broken(f"{name}: {error}", self._where) from None

    def _column(self, name: str) -> Any:
        if name not in self:
            raise _broken(f"there is no column {name}", self._where)
        column = self._file.read(columns=[name], use_threads=False).column(0)
        if column.null_count or len(column) != self._rows:
            raise _broken(f"{name} has empty cells", self._where)
        return column
