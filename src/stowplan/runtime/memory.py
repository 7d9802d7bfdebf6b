"""Memory and the garbage collector: the one place that tunes it.

Nearly everything a scheduler holds stays (pods, nodes, decisions), and nearly nothing it makes is
cyclic: reference counts free it.  Left alone, Python's collector walks all that stays again and
again, in pauses that grow with the cluster.  So it runs rarely, and what is there once the
cluster is loaded is put out of its reach.  `stowplan run`, `up` and `bench` call both functions.
Structs that are made for every pod and hold plain data alone, so that they cannot be part of a
cycle, are never shown to it (`gc=False`).
"""

from __future__ import annotations

import gc

YOUNG_MAX = 50_000
"""Container objects made, and not freed, before the collector looks at them."""
MIDDLE_MAX = 20
OLD_MAX = 50
"""So many passes over the young (the middle) before one over the middle (the old) generation."""


def tune_collector() -> None:
    """Call once, when the process starts: loading the program makes nothing to collect either."""
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLD_MAX)


def settle_memory() -> None:
    """Call when what will stay has been loaded: after the first lists, before the work begins.

    Nothing is collected first: that takes a second in a large cluster, and finds a few hundred
    objects."""
    gc.freeze()
