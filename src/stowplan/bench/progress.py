"""A sign of life on stderr: a bar that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time

WIDTH = 28
LIVE_S = 0.1
LINES_S = 5.0


class Progress:
    def __init__(self, name: str, *, live: bool | None = None) -> None:
        """`live`: whether a line can be overwritten; None: on any terminal."""
        self._name = name
        self._live = sys.stderr.isatty() if live is None else live
        self._next_s = 0.0 if self._live else time.monotonic() + LINES_S
        self._length = 0

    def show(self, text: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (LIVE_S if self._live else LINES_S)
        told = f"{text}: {done:,}/{total:,} pods" if total else text
        if self._live:
            bar = "█" * round(WIDTH * min(1.0, done / total)) if total else ""
            line = f"{self._name} [{bar:<{WIDTH}}] {told}"
            # A line that wraps could not be overwritten.
            line = line[: shutil.get_terminal_size().columns - 1]
            print(f"\r{line:<{self._length}}", end="", file=sys.stderr, flush=True)
            self._length = len(line)
        else:
            print(f"{self._name}: {told}", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._length:
            print("\r" + " " * self._length + "\r", end="", file=sys.stderr, flush=True)
            self._length = 0
