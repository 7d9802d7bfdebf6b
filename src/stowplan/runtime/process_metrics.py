"""What this process takes of the machine, under the names that Prometheus' clients share.

Read from /proc when asked; where there is none, only the time of the processor is known.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from stowplan.runtime.exposition import Family

_PROC = Path("/proc")
_NO_LIMIT = 2**64 - 1
"""As Prometheus' Go library shows that there is none."""


def read_process(families: Mapping[str, Family], proc: Path = _PROC) -> None:
    times = os.times()
    families["process_cpu_seconds_total"].set(value=times.user + times.system)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    families["process_max_fds"].set(value=limit)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    families["process_virtual_memory_max_bytes"].set(
        value=_NO_LIMIT if memory == resource.RLIM_INFINITY else memory
    )
    for reader in (_of_process, _of_network):
        try:
            found = reader(proc)
        except (OSError, ValueError, LookupError):
            continue
        for name, value in found.items():
            families[name].set(value=value)


def _of_process(proc: Path) -> dict[str, float]:
    # The command's name, in parentheses, may contain anything: what follows it is counted.
    fields = (proc / "self" / "stat").read_text().rpartition(")")[2].split()
    started_ticks, virtual_bytes, resident_pages = (int(field) for field in fields[19:22])
    boot = next(
        line.split()[1] for line in (proc / "stat").read_text().splitlines() if line[:6] == "btime "
    )
    started_s = int(boot) + started_ticks / os.sysconf("SC_CLK_TCK")
    return {
        "process_start_time_seconds": started_s,
        "process_virtual_memory_bytes": virtual_bytes,
        "process_resident_memory_bytes": resident_pages * os.sysconf("SC_PAGE_SIZE"),
        "process_open_fds": len(os.listdir(proc / "self" / "fd")),
    }


def _of_network(proc: Path) -> dict[str, float]:
    """Of our network namespace, as everywhere: a line of names, and one of numbers below it."""
    lines = (proc / "self" / "net" / "netstat").read_text().splitlines()
    names, numbers = (line.split() for line in lines if line.startswith("IpExt:"))
    found = dict(zip(names, numbers, strict=True))
    return {
        "process_network_receive_bytes_total": int(found["InOctets"]),
        "process_network_transmit_bytes_total": int(found["OutOctets"]),
    }
