"""All that a plugin's author needs, in one import: the contract, as `framework` defines it."""

from __future__ import annotations

from stowplan import framework
from stowplan.framework import *  # noqa: F403

__all__ = framework.__all__
