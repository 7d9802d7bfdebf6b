"""A cluster of manifests and dumps: objects as plain data in, complete objects out.

Three steps, a module each: `input_objects` decodes and checks, `controllers` adds the pods that
workloads still lack, `admission` fills in what an API server would.  `world.dump` puts the objects
into a cluster, where they are scheduled.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects.base import KubeObject
from stowplan.objects.manifests import Manifest
from stowplan.offline.admission import admit
from stowplan.offline.controllers import with_missing
from stowplan.offline.input_objects import decode_all

__all__ = ["build_cluster"]


def build_cluster(manifests: Iterable[Manifest]) -> list[KubeObject]:
    """The objects of a cluster in which all this has been applied."""
    return admit(with_missing(decode_all(manifests)))
