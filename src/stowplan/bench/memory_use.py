"""How much memory this process has used at most, since it was last asked to forget."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Start again from what is used now, where the system can (Linux)."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return


def peak_rss_mib() -> float:
    found = _status_kib("VmHWM:")
    if found is None:
        # Kilobytes on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = peak / 1024 if sys.platform == "darwin" else peak
    return round(found / 1024, 1)


def rss_mib() -> float:
    found = _status_kib("VmRSS:")
    return peak_rss_mib() if found is None else round(found / 1024, 1)


def _status_kib(name: str) -> float | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), None)
