"""Results of simulations: in memory, and as a folder.

    FOLDER/summary.json            every run's summary, and how configurations compare
    FOLDER/report.html             the same to look at
    FOLDER/timing.json             how long it took: the only file that differs from run to run
    FOLDER/runs/NAME/seed-N/       summary.json, series, pods (Parquet, or CSV), heat.npz

A run's folder appears when it is complete, so what is there can be relied on.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from stowplan.errors import InputError
from stowplan.sim.comparing import compare_configs
from stowplan.sim.measures import Columns, Heat, Measures

_HEAD = {"config", "seed", "fingerprint", "summary"}
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=-]{0,120}")


@dataclass(frozen=True, slots=True)
class Run:
    """One configuration with one seed."""

    config: str
    seed: int
    fingerprint: str
    measures: Measures
    timing: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, Any]:
        return self.measures.summary

    @property
    def series(self) -> Columns:
        """Columns by name; the first is `time_s`."""
        return self.measures.series

    @property
    def pods(self) -> Columns:
        return self.measures.pods

    @property
    def heat(self) -> Heat:
        return self.measures.heat


@dataclass(frozen=True, slots=True)
class Result:
    """Runs, ordered by configuration and seed."""

    runs: tuple[Run, ...]
    wanted: int
    """How many were asked for; fewer are there when it was interrupted."""

    @property
    def configs(self) -> list[str]:
        return list(dict.fromkeys(run.config for run in self.runs))

    @property
    def is_complete(self) -> bool:
        return len(self.runs) == self.wanted

    def summary(self) -> dict[str, Any]:
        """Plain data: every run's summary, and A against B paired by seed."""
        return {
            "wanted": self.wanted,
            "runs": [{"config": run.config, "seed": run.seed, **run.summary} for run in self.runs],
            "comparison": compare_configs([(r.config, r.seed, r.summary) for r in self.runs]),
        }

    def write(self, folder: str | os.PathLike[str], first: str = "") -> None:
        """`first` is HTML that the report begins with."""
        from stowplan.sim.report import report_html

        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        for run in self.runs:
            write_run(run, home)
        _write_text(home / "summary.json", to_json(self.summary()))
        _write_text(home / "report.html", report_html(self, first))
        timing = [{"config": run.config, "seed": run.seed, **run.timing} for run in self.runs]
        _write_text(home / "timing.json", to_json({"runs": timing}))


def to_json(data: Any) -> str:
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def run_folder(home: Path, config: str, seed: int) -> Path:
    """Names of configurations are the user's: those that are no plain word get one."""
    plain = config if _PLAIN.fullmatch(config) else f"x-{sha256(config.encode()).hexdigest()[:16]}"
    return home / "runs" / plain / f"seed-{seed}"


def write_run(run: Run, home: Path) -> None:
    final = run_folder(home, run.config, run.seed)
    known = final / "summary.json"
    if known.exists() and _read_json(known).get("fingerprint") == run.fingerprint:
        return
    final.parent.mkdir(parents=True, exist_ok=True)
    beside = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    _write_columns(run.series, beside / "series")
    _write_columns(run.pods, beside / "pods")
    heat = run.heat
    names = np.array("\0".join(heat.node_names).encode())
    columns = {f"percent.{name}": cells for name, cells in heat.percent.items()}
    np.savez(beside / "heat.npz", times_s=heat.times_s, node_names=names,
                        **columns)  # type: ignore[arg-type]  # fmt: skip
    head = {"config": run.config, "seed": run.seed, "fingerprint": run.fingerprint}
    _write_text(beside / "summary.json", to_json({**head, "summary": run.summary}))
    _write_text(beside / "timing.json", to_json(dict(run.timing)))
    shutil.rmtree(final, ignore_errors=True)
    beside.rename(final)


def read_result(folder: str | os.PathLike[str]) -> Result:
    """What `Result.write` left there; also what an interrupted simulation did."""
    home = Path(folder)
    found = sorted(home.glob("runs/*/seed-*/summary.json"))
    if not found:
        raise InputError("has no results of a simulation", where=str(home))
    runs = sorted((read_run(path.parent) for path in found), key=lambda run: run.seed)
    summary = _read_json(home / "summary.json") if (home / "summary.json").exists() else {}
    order = list(dict.fromkeys(one["config"] for one in summary.get("runs", ())))
    order += sorted({run.config for run in runs} - set(order))
    runs.sort(key=lambda run: order.index(run.config))
    return Result(tuple(runs), int(summary.get("wanted", len(runs))))


def read_run(folder: Path) -> Run:
    head = _read_json(folder / "summary.json")
    if not isinstance(head, dict) or _HEAD - head.keys():
        raise InputError("is not the summary of a run", where=str(folder / "summary.json"))
    try:
        with np.load(folder / "heat.npz", allow_pickle=False) as data:
            percent = {
                name.removeprefix("percent."): data[name]
                for name in data.files
                if name.startswith("percent.")
            }
            names = bytes(data["node_names"].tobytes()).rstrip(b"\0").decode()
            heat = Heat(data["times_s"], tuple(names.split("\0")) if names else (), percent)
        shape = len(heat.times_s), len(heat.node_names)
        if any(cells.shape != shape for cells in percent.values()):
            raise ValueError("the times, the nodes and what is known of them do not match")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"is not readable: {error}", where=str(folder / "heat.npz")) from None
    measures = Measures(
        head["summary"], _read_columns(folder / "series"), _read_columns(folder / "pods"), heat
    )
    timing = folder / "timing.json"
    return Run(
        head["config"],
        head["seed"],
        head["fingerprint"],
        measures,
        _read_json(timing) if timing.exists() else {},
    )


def finished(home: Path, config: str, seed: int, fingerprint: str) -> bool:
    path = run_folder(home, config, seed) / "summary.json"
    return path.exists() and _read_json(path).get("fingerprint") == fingerprint


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"is not readable: {error}", where=str(path)) from None


def _write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _write_columns(columns: Columns, path: Path) -> None:
    """As Parquet where pyarrow is installed, else as CSV."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        path.with_suffix(".csv").write_text(text.getvalue(), encoding="utf-8")
        return
    table = pyarrow.table({name: pyarrow.array(cells) for name, cells in columns.items()})
    pyarrow.parquet.write_table(table, path.with_suffix(".parquet"), compression="zstd")


_TEXT = frozenset({"name", "state", "node"})


def _read_columns(path: Path) -> Columns:
    parquet = path.with_suffix(".parquet")
    if parquet.exists():
        try:
            import pyarrow.parquet
        except ImportError:
            hint = "`pip install stowplan[data]`"
            raise InputError("needs pyarrow to be read", where=str(parquet), hint=hint) from None
        table = pyarrow.parquet.read_table(parquet)
        return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    try:
        with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            names, *rows = csv.reader(file)
    except (OSError, ValueError) as error:
        raise InputError(f"is not readable: {error}", where=str(path)) from None
    cells = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {
        name: np.array(column, object) if name in _TEXT else _numbers(column)
        for name, column in zip(names, cells, strict=True)
    }


def _numbers(column: Any) -> Any:
    values = np.array(column, np.float64)
    whole = all("." not in cell and cell != "nan" for cell in column)
    return values.astype(np.int64) if whole else values
