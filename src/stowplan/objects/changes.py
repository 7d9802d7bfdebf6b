"""What happens to objects, as whoever follows them hears it: it came, it changed, it went.

Informers make them; the scheduler's machine takes them as they are.
"""

from __future__ import annotations

from msgspec import Struct

from stowplan.objects.base import KubeObject


class Added(Struct, frozen=True, gc=False):
    """An informer saw an object for the first time."""

    object: KubeObject


class Updated(Struct, frozen=True, gc=False):
    old: KubeObject
    new: KubeObject


class Deleted(Struct, frozen=True, gc=False):
    """An object is gone.  `object` may be an old state of it, when the watch missed the end."""

    object: KubeObject


Change = Added | Updated | Deleted
