"""All that a plugin's author needs, in one import: the contract as `framework` defines it, and the
objects that hints and binders speak of.
"""

from __future__ import annotations

from stowplan import framework
from stowplan.framework import *  # noqa: F403
from stowplan.objects.api import Bind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod

__all__ = [*framework.__all__, "Bind", "Node", "Pod"]
