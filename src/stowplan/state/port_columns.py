"""Host ports in use, as columns: for every port that is taken anywhere, the nodes where it is.

Part of the node table; most clusters use a handful of host ports, so there are few columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.state.pod_info import ANY_IP, HostPort

Mask = NDArray[np.bool_]

_NONE: frozenset[HostPort] = frozenset()


class PortColumns:
    __slots__ = ("_masks", "of_rows")

    def __init__(self) -> None:
        self._masks: dict[tuple[str, int], dict[str, Mask]] = {}
        """(protocol, port) -> ip -> rows"""
        self.of_rows: dict[int, frozenset[HostPort]] = {}

    def fork(self) -> PortColumns:
        fork = PortColumns()
        fork._masks = {
            port: {ip: mask.copy() for ip, mask in by_ip.items()}
            for port, by_ip in self._masks.items()
        }
        fork.of_rows = self.of_rows.copy()
        return fork

    def used(self, ip: str, protocol: str, port: int, size: int) -> Mask | None:
        """Rows where this host port is taken; None when no node uses it at all."""
        by_ip = self._masks.get((protocol, port))
        if not by_ip:
            return None
        if ip == ANY_IP:
            clashing = [*by_ip.values()]
        else:
            clashing = [by_ip[used] for used in (ip, ANY_IP) if used in by_ip]
        if not clashing:
            return None
        taken = np.zeros(size, np.bool_)
        for mask in clashing:
            taken |= mask[:size]
        return taken

    def of_row(self, row: int) -> frozenset[HostPort]:
        return self.of_rows.get(row, _NONE)

    def write(self, row: int, ports: frozenset[HostPort], capacity: int) -> None:
        before = self.of_row(row)
        if ports == before:
            return
        for ip, protocol, port in before - ports:
            self._clear(ip, (protocol, port), row)
        for ip, protocol, port in ports - before:
            by_ip = self._masks.setdefault((protocol, port), {})
            if ip not in by_ip:
                by_ip[ip] = np.zeros(capacity, np.bool_)
            by_ip[ip][row] = True
        if ports:
            self.of_rows[row] = ports
        else:
            self.of_rows.pop(row, None)

    def _clear(self, ip: str, port: tuple[str, int], row: int) -> None:
        by_ip = self._masks[port]
        by_ip[ip][row] = False
        if not by_ip[ip].any():
            del by_ip[ip]
            if not by_ip:
                del self._masks[port]

    def grow(self, capacity: int) -> None:
        for by_ip in self._masks.values():
            for ip, mask in by_ip.items():
                grown = np.zeros(capacity, np.bool_)
                grown[: len(mask)] = mask
                by_ip[ip] = grown

    def clear(self) -> None:
        self._masks.clear()
        self.of_rows.clear()
