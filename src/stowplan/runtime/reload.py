"""A new configuration for a running scheduler: on SIGHUP, or when its file changes.

The files of --plugin-path are read again with it, so that changed plugins take effect as well.

A valid one takes effect between two cycles (`core.building`); an invalid one is refused with
its error, and the old one goes on.  What the process is built on (its connection, its lease)
cannot change while it runs: those parts stay as they were, and the log says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from stowplan.cluster.reflector import CallLater
from stowplan.config import SchedulerConfig
from stowplan.core.profiles import Registry
from stowplan.errors import ConfigError, InputError
from stowplan.runtime.log import Log

LOOK_EVERY_S = 2.0

_FIXED = ("client_connection", "leader_election", "delay_cache_until_active")
"""Only a restart changes these."""

_Signature = tuple[int, int, int] | None


class Reloader:
    def __init__(
        self,
        load: Callable[[], tuple[SchedulerConfig, Registry]],
        apply: Callable[[SchedulerConfig, Registry], None],
        current: SchedulerConfig,
        log: Log,
    ) -> None:
        """`apply` raises ConfigError if the configuration cannot be used with these plugins."""
        self._load = load
        self._apply = apply
        self._current = current
        self._log = log
        self.counts = {"accepted": 0, "refused": 0}
        """Reloads by outcome."""

    def reload(self) -> None:
        try:
            config, registry = self._load()
            kept = {name: getattr(self._current, name) for name in _FIXED}
            changed = [name for name in _FIXED if getattr(config, name) != kept[name]]
            config = replace(config, **kept)
            self._apply(config, registry)
        except (ConfigError, InputError) as error:
            self.counts["refused"] += 1
            self._log.error("The new configuration is refused; the old one goes on", error)
            return
        if changed:
            self._log.warning("Some of the new configuration needs a restart", fields=changed)
        self._current = config
        self.counts["accepted"] += 1
        self._log.info(0, "Configuration reloaded")


class FileWatch:
    """Calls `changed` after the file has become another one; it may be gone for a while.

    Looked at now and then: a mounted ConfigMap is replaced by moving links, which notifications
    of the file itself do not tell.
    """

    def __init__(self, path: str, changed: Callable[[], None], call_later: CallLater) -> None:
        self._path = Path(path)
        self._changed = changed
        self._call_later = call_later
        self._seen = self._signature()
        call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        signature = self._signature()
        if signature is not None and signature != self._seen:
            self._seen = signature
            self._changed()
        self._call_later(LOOK_EVERY_S, self._look)

    def _signature(self) -> _Signature:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)
