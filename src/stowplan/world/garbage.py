"""While much is made that lives on, looking for garbage only costs: it is put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_count = 0
"""Who wants it put off now: clusters are forked on more than one thread, and the last turns on
again what the first turned off."""
_was_enabled = False


@contextmanager
def garbage_stays() -> Iterator[None]:
    global _count, _was_enabled
    with _lock:
        if not _count:
            _was_enabled = gc.isenabled()
            gc.disable()
        _count += 1
    try:
        yield
    finally:
        with _lock:
            _count -= 1
            if not _count and _was_enabled:
                gc.enable()
