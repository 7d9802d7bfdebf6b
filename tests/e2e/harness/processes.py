"""Real processes and waiting for them: each has a log file, and a failure shows its last lines."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

POLL_S = 0.05
TAIL_LINES = 20
GRACE_S = 15.0

Value = TypeVar("Value")


class Process:
    """A command under way, with everything it prints in one file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._running = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                # A ctrl-C is for pytest, which then stops its processes one by one.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        return self._running.poll()

    def signal(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    def kill(self) -> None:
        """As if the power had gone: nothing can be tidied up."""
        self._running.kill()
        self._running.wait(GRACE_S)

    def wait(self, timeout_s: float = GRACE_S) -> int:
        try:
            return self._running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end within {timeout_s:.0f} s\n{self.tail()}")

    def stop(self) -> None:
        """Politely, then not; for teardowns, whatever the test has left."""
        if self.exit_code is None:
            self._running.terminate()
            try:
                self._running.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        state = "running" if self.exit_code is None else f"ended with {self.exit_code}"
        # Ours are the questions that it answers with "not ready yet".
        said = [it for it in self.text().splitlines() if "readyz check failed" not in it]
        lines = said[-TAIL_LINES:]
        return "\n".join([f"--- {self.name} ({state}), last lines of {self.log.name}:", *lines])


def eventually(
    what: str,
    check: Callable[[], Value],
    *,
    timeout_s: float = 20.0,
    poll_s: float = POLL_S,
    watching: Iterable[Process] = (),
    must_live: Process | None = None,
) -> Value:
    """The first true value of `check`; fails with the last one and the logs' ends.

    `must_live` is a process without which waiting on is pointless.
    """
    __tracebackhide__ = True
    shown = [*watching, *([must_live] if must_live is not None else [])]
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = check()
        if value:
            return value
        if must_live is not None and must_live.exit_code is not None:
            why = f"{must_live.name} ended before this came true: {what}"
        elif time.monotonic() > deadline_s:
            why = f"not within {timeout_s:.0f} s: {what} (last seen: {value!r})"
        else:
            time.sleep(poll_s)
            continue
        pytest.fail("\n".join([why, *(process.tail() for process in shown)]))


def free_port() -> int:
    """A port nobody listens on now.  It may be taken in the meantime; a start then fails loudly."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
