"""Runs pytest in forks of a process that has imported the slow libraries, but not Stowplan."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

PRELOADED = ("pytest", "numpy", "msgspec", "yaml", "aiohttp.web", "hypothesis.stateful", "click")
POLL_S = 0.01


def preload() -> None:
    for name in PRELOADED:
        __import__(name)


def run_in_fork(
    work: Callable[[], int], seconds_max: float, output: str = os.devnull
) -> int | None:
    """The exit code of `work`, or None if it had to be stopped."""
    # Else each child looks through all that its parent knows, over and over.
    gc.freeze()
    child = os.fork()
    if child == 0:
        _become_quiet(output)
        code = 70
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    deadline = time.monotonic() + seconds_max
    code: int | None = None
    while code is None and time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(POLL_S)
    # What the tests started goes with them.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def _become_quiet(output: str) -> None:
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
