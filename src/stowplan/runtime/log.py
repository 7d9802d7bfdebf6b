"""The log: one line per fact, a fixed message and fields, as kube-scheduler writes it.

Text (`I1115 10:30:00.000000 17 live.py:42] "Attempting to schedule pod" pod="default/a"`) or
JSON (`--logging-format=json`).  A line of level n is written when `-v` is n or more, or when
`--vmodule` says so for the file it comes from; errors and warnings always are.  What other
libraries tell Python's `logging` comes out in the same form.

Nothing is formatted for a line that is not written: ask `enabled` first where it matters.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from types import FrameType
from typing import Any, TextIO

from stowplan.clock import Clock
from stowplan.errors import InputError, StowplanError
from stowplan.objects.times import format_micro_time
from stowplan.printable import printable, printable_json

TEXT, JSON = "text", "json"
LATEST_MAX = 1000


@dataclass(slots=True)
class Verbosity:
    """How much is written: a level for all, and others for files that match a pattern."""

    level: int = 0
    by_file: tuple[tuple[str, int], ...] = ()
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, module: str) -> int:
        """`module` is a file's name without its ending, `live`."""
        if not self.by_file:
            return self.level
        found = self._known.get(module)
        if found is None:
            matches = (level for pattern, level in self.by_file if fnmatchcase(module, pattern))
            found = self._known[module] = next(matches, -1)
        return self.level if found < 0 else found

    @classmethod
    def parse(cls, level: int, vmodule: str = "") -> Verbosity:
        """
        >>> Verbosity.parse(1, "live=4,sch*=2").of("live")
        4
        """
        patterns = []
        for setting in filter(None, vmodule.split(",")):
            pattern, equals, number = setting.partition("=")
            if not equals or not number.isdecimal():
                raise InputError(
                    f"{setting!r} is not of the form pattern=N", where="--vmodule", hint="live=4"
                )
            patterns.append((pattern, int(number)))
        return cls(level, tuple(patterns))


@dataclass(frozen=True, slots=True)
class Line:
    severity: str
    """I, W, E or F."""
    at_s: float
    caller: str
    message: str
    fields: dict[str, Any]
    level: int = 0
    trace: str = ""


class Log:
    def __init__(
        self,
        clock: Clock,
        *,
        verbosity: Verbosity | None = None,
        format_: str = TEXT,
        stream: TextIO | None = None,
    ) -> None:
        self.verbosity = verbosity or Verbosity()
        self._clock = clock
        self._form: Callable[[Line], str] = as_json if format_ == JSON else as_text
        self._stream = stream
        self._latest: deque[Line] | None = None

    def keep(self) -> Sequence[Line]:
        """The latest lines from now on, for somebody who looks at them elsewhere."""
        if self._latest is None:
            self._latest = deque(maxlen=LATEST_MAX)
        return self._latest

    def forget(self) -> None:
        """Nobody looks any more."""
        self._latest = None

    def enabled(self, level: int, module: str = "") -> bool:
        return level <= self.verbosity.of(module)

    def info(self, level: int, message: str, /, **fields: Any) -> None:
        frame = _calling()
        if level <= self.verbosity.of(_module(frame)):
            self._write(Line("I", self._clock.now(), _caller(frame), message, fields, level))

    def warning(self, message: str, /, **fields: Any) -> None:
        self._write(Line("W", self._clock.now(), _caller(_calling()), message, fields))

    def error(self, message: str, /, error: object = None, **fields: Any) -> None:
        """With the traceback of an exception that is no plain answer to somebody's mistake."""
        fields = fields if error is None else {"err": str(error), **fields}
        trace = ""
        if isinstance(error, BaseException) and not isinstance(error, StowplanError | OSError):
            trace = "".join(traceback.format_exception(error))
        line = Line("E", self._clock.now(), _caller(_calling()), message, fields, 0, trace)
        self._write(line)

    def foreign(self, severity: str, caller: str, message: str, trace: str = "") -> None:
        """A line of another library."""
        self._write(Line(severity, self._clock.now(), caller, message, {}, trace=trace))

    def _write(self, line: Line) -> None:
        if self._latest is not None:
            self._latest.append(line)
        stream = self._stream or sys.stderr
        # A full disk, or whoever read our lines has gone: what we are here for goes on.
        with suppress(OSError):
            # One write for a line: what others print does not come in between.
            stream.write(self._form(line) + "\n")
            stream.flush()


def as_text(line: Line) -> str:
    when = format_micro_time(line.at_s)
    month_day, time = when[5:7] + when[8:10], when[11:26]
    head = f"{line.severity}{month_day} {time} {os.getpid():>7} {line.caller}]"
    fields = "".join(f" {name}={_text_value(value)}" for name, value in line.fields.items())
    trace = "\n\t" + _indented(line.trace) if line.trace else ""
    return f"{printable(head)} {_dumped(line.message)}{fields}{trace}"


def as_json(line: Line) -> str:
    data: dict[str, Any] = {"ts": round(line.at_s * 1000, 3), "caller": line.caller}
    data["msg"] = line.message
    if line.severity == "I":
        data["v"] = line.level
    elif line.severity == "W":
        data["severity"] = "warning"
    data |= {name: _json_value(value) for name, value in line.fields.items()}
    if line.trace:
        data["stacktrace"] = line.trace
    return _dumped(data)


def _dumped(data: Any) -> str:
    return printable_json(json.dumps(data, ensure_ascii=False, default=str))


class Block(str):
    """Text of our own in several lines, such as a report."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KObj:
    """An object named in a line: `"default/a"` in text, its parts in JSON."""

    namespace: str
    name: str

    @classmethod
    def of(cls, key: str) -> KObj:
        namespace, _, name = key.rpartition("/")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _text_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple | dict):
        return _dumped(value)
    if isinstance(value, Block) and "\n" in value:
        # As klog: a block of its own, easier to read than one long escaped line.
        return "<\n\t" + _indented(value) + "\n >"
    return _dumped(str(value))


def _indented(text: str) -> str:
    """Lines that cannot be taken for ones of the log."""
    return "\n\t".join(map(printable, text.rstrip().split("\n")))


def _json_value(value: Any) -> Any:
    if isinstance(value, KObj):
        parts = {"name": value.name, "namespace": value.namespace}
        return {key: part for key, part in parts.items() if part}
    return value


def _calling() -> FrameType:
    """The frame of whoever called the method that asks."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    assert frame.f_back.f_back is not None
    return frame.f_back.f_back


def _module(frame: FrameType) -> str:
    return PurePath(frame.f_code.co_filename).stem


def _caller(frame: FrameType) -> str:
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"


class Bridge(logging.Handler):
    """Python's own logging, in our form: warnings and errors always, the rest at -v 4."""

    _SEVERITIES = ((logging.ERROR, "E"), (logging.WARNING, "W"))

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        severity = next((name for least, name in self._SEVERITIES if record.levelno >= least), "I")
        if severity == "I" and not self._log.enabled(4, record.module):
            return
        trace = ""
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
        caller = f"{record.filename}:{record.lineno}"
        self._log.foreign(severity, caller, record.getMessage(), trace)

    def install(self) -> None:
        root = logging.getLogger()
        root.handlers[:] = [self]
        root.setLevel(logging.INFO)
