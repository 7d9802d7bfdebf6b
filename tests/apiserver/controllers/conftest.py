"""`world`: a cluster at work."""

from tests.apiserver.controllers.world import world

__all__ = ["world"]
