"""/flagz and /statusz: what this process was started with, and what it is.

Text for people, or JSON in the shape of `config.k8s.io/v1beta1`.  Called by `runtime.endpoints`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from stowplan._version import KUBERNETES_VERSION, __version__
from stowplan.clock import Clock
from stowplan.objects.times import format_time
from stowplan.runtime.debug_pages import Page

COMPONENT = "kube-scheduler"
_PYTHON = sys.version.split()[0]
_MINOR = KUBERNETES_VERSION.rpartition(".")[0]


def flagz(flags: Mapping[str, str]) -> Page:
    lines = [f"{COMPONENT} flagz\n\n", *(f"{name}={flags[name]}\n" for name in sorted(flags))]
    return Page(lines, [_object("Flagz", {"flags": dict(sorted(flags.items()))})])


class Statusz:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.now()

    def page(self, paths: Sequence[str]) -> Page:
        up_s = int(self._clock.now() - self._started_s)
        started = format_time(self._started_s)
        minutes, seconds = divmod(up_s, 60)
        hours, minutes = divmod(minutes, 60)
        lines = [
            f"{COMPONENT} statusz\n\n",
            f"Started: {started}\n",
            f"Up: {hours} hr {minutes:02} min {seconds:02} sec\n",
            f"Stowplan version: {__version__}\n",
            f"Python version: {_PYTHON}\n",
            f"Binary version: {KUBERNETES_VERSION}\n",
            f"Emulation version: {_MINOR}\n",
            f"Paths: {' '.join(paths)}\n",
        ]
        data = {
            "startTime": started,
            "uptimeSeconds": up_s,
            "goVersion": "",
            "binaryVersion": KUBERNETES_VERSION,
            "emulationVersion": _MINOR,
            "paths": list(paths),
        }
        return Page(lines, [_object("Statusz", data)])


def _object(kind: str, data: Mapping[str, object]) -> str:
    head = {"kind": kind, "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": COMPONENT}}
    return msgspec.json.encode({**head, **data}).decode()
