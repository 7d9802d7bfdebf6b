"""A fork in two steps: what it is made of is taken, which does not take long; then it is made,
wherever that may take its time.

A cluster in this process is forked at once.  One that is only watched (`watching`) has no store to
fork: another one is filled with its objects, and its scheduler begins as a new one would.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.world.dump import filled
from stowplan.world.engine import Engine


def forking(engine: Engine) -> Callable[[], Engine]:
    watched = engine.watched
    if watched is None:
        made = engine.fork()
        return lambda: made
    objects, setup = watched.objects(), engine.setup
    return lambda: filled(setup, objects)
