"""A plugin failed: not "does not fit", but an error of its own.  It ends that pod's attempt."""

from __future__ import annotations

from stowplan.framework.status import Code, Status


class PluginFailed(Exception):
    """Carries the sentence kube-scheduler would report, with the plugin's name in it."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin

    @property
    def status(self) -> Status:
        return Status(Code.ERROR, (str(self),), self.plugin)


def filter_failed(plugin: str, cause: object) -> PluginFailed:
    return PluginFailed(plugin, f'running "{plugin}" filter plugin: {cause}')


def point_failed(plugin: str, point: str, cause: object) -> PluginFailed:
    """
    >>> str(point_failed("X", "PreFilter", "boom"))
    'running PreFilter plugin "X": boom'
    """
    return PluginFailed(plugin, f'running {point} plugin "{plugin}": {cause}')
