"""What became of a binding whose answer was lost: the pod keeps its place until that is known.

A connection that broke says nothing about the request that was on it.  kube-scheduler takes it for
a failure and gives the place away; if the binding did arrive, the node has one pod too many until
its kubelet refuses one.  Here the API server is asked first.

`core.binding` calls it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from stowplan.errors import ApiError, Conflict, NotFound
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Bind, Get
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod

FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 5.0
TRIES_MAX = 3
"""Binds that a server which answers other questions fails: then it is a failure."""


def is_unsure(answer: object) -> bool:
    """Whether this may have happened all the same: nobody answered, or the server broke down."""
    return isinstance(answer, ApiError) and answer.code >= 500


def settle(bind: Bind, answer: ApiError) -> Generator[Any, Any, ApiError | None]:
    """None if the pod is bound where it should be; otherwise why not."""
    pause_s = FIRST_PAUSE_S
    tries = 1
    while True:
        yield Sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
        found = yield Get(POD, bind.namespace, bind.name)
        if isinstance(found, NotFound):
            return found
        if isinstance(found, ApiError):
            # Nothing can be scheduled elsewhere either.  A server that has just started knows
            # nobody's rights for a moment, and a busy one sends everybody away.
            continue
        assert isinstance(found, Pod)
        if found.metadata.uid != bind.uid:
            return NotFound(f'pods "{bind.name}" not found')
        if found.spec.node_name:
            return None if found.spec.node_name == bind.node else answer
        if tries == TRIES_MAX:
            return answer
        tries += 1
        # The first one may still be on its way.  Whichever comes second is refused.
        again = yield bind
        if again is None:
            return None
        if not (is_unsure(again) or isinstance(again, Conflict)):
            assert isinstance(again, ApiError)
            return again
