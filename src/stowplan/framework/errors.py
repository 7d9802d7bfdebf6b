"""A plugin failed: not "does not fit", but an error of its own.  It ends that pod's attempt."""

from __future__ import annotations

import traceback
from pathlib import Path

from stowplan.framework.status import Code, Status

_OURS = str(Path(__file__).parents[1])
"""The folder of this package."""


class PluginFailed(Exception):
    """Carries the sentence kube-scheduler would report, with the plugin's name in it."""

    def __init__(self, plugin: str, message: str, point: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.point = point
        """The extension point where it happened, as upstream names it."""

    @property
    def status(self) -> Status:
        return Status(Code.ERROR, (str(self),), self.plugin)


def filter_failed(plugin: str, cause: object) -> PluginFailed:
    return PluginFailed(plugin, f'running "{plugin}" filter plugin: {cause}', "Filter")


def point_failed(plugin: str, point: str, cause: object) -> PluginFailed:
    """
    >>> str(point_failed("X", "PreFilter", "boom"))
    'running PreFilter plugin "X": boom'
    """
    return PluginFailed(plugin, f'running {point} plugin "{plugin}": {cause}', point)


def score_failed(plugin: str, cause: object, *, normalizing: bool = False) -> PluginFailed:
    what = "Normalize on Score" if normalizing else "Score"
    message = f'running {what} plugins: plugin "{plugin}" failed with: {cause}'
    return PluginFailed(plugin, message, "Score")


def extension_failed(plugin: str, operation: str, cause: object) -> PluginFailed:
    """`operation` is AddPod or RemovePod: PreFilter's state could not be kept true."""
    message = f'running {operation} on PreFilter plugin "{plugin}": {cause}'
    return PluginFailed(plugin, message, "PreFilter")


def describe(cause: object) -> str:
    """
    >>> describe(KeyError("x")), describe(ValueError()), describe("what a status said")
    ("KeyError: 'x'", 'ValueError', 'what a status said')
    """
    if not isinstance(cause, BaseException):
        return str(cause)
    told = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    place = place_of(cause)
    return f"{told} ({place})" if place else told


def place_of(cause: BaseException) -> str:
    """File and line of a user's plugin where it happened; "" if it happened in ours.

    Of the plugin's own file the innermost line: what libraries did in its name is in the traceback.
    """
    frames = traceback.extract_tb(cause.__traceback__)
    file = next((it.filename for it in frames if not it.filename.startswith(_OURS)), "")
    lines = [it.lineno for it in frames if it.filename == file]
    return f"{file}:{lines[-1]}" if lines else ""
