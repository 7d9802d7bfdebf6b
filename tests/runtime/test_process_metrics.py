"""What the process takes of the machine, read from a /proc of our own making."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stowplan.runtime.exposition import Family
from stowplan.runtime.metric_readings import read_process
from stowplan.runtime.metric_table import SPECS

PROCESS = [spec for spec in SPECS if spec.name.startswith("process_")]
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NETSTAT = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 1234 5678\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    own = tmp_path / "self"
    (own / "fd").mkdir(parents=True)
    for number in range(5):
        (own / "fd" / str(number)).touch()
    # The name may have spaces and brackets; the 22nd field of all is when it started.
    fields = [*["0"] * 19, str(50 * TICKS), "4096", "3"]
    (own / "stat").write_text(f"7 (a) (b c) {' '.join(fields)} 0 0\n")
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")
    (own / "net").mkdir()
    (own / "net" / "netstat").write_text(NETSTAT)
    return tmp_path


def read(proc: Path) -> dict[str, float]:
    families = {spec.name: Family(spec) for spec in PROCESS}
    read_process(families, proc)
    return {name: family.values[()] for name, family in families.items() if family.values}


def test_everything_is_read(proc: Path) -> None:
    found = read(proc)

    assert found.keys() == {spec.name for spec in PROCESS}
    assert found["process_start_time_seconds"] == 1_700_000_050
    assert found["process_virtual_memory_bytes"] == 4096
    assert found["process_resident_memory_bytes"] == 3 * PAGE
    assert found["process_open_fds"] == 5
    assert found["process_network_receive_bytes_total"] == 1234
    assert found["process_network_transmit_bytes_total"] == 5678
    assert found["process_virtual_memory_max_bytes"] > 0


@pytest.mark.parametrize("netstat", [None, "", "IpExt: InOctets\nIpExt: 1\n"])
def test_what_a_system_does_not_tell_is_left_out(proc: Path, netstat: str | None) -> None:
    path = proc / "self" / "net" / "netstat"
    if netstat is None:
        path.unlink()
    else:
        path.write_text(netstat)

    missing = {spec.name for spec in PROCESS} - read(proc).keys()

    assert missing == {
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
    }


def test_without_proc_the_processor_and_the_limits_are_known(tmp_path: Path) -> None:
    assert read(tmp_path).keys() == {
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_virtual_memory_max_bytes",
    }
