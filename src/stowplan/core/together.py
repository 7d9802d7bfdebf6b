"""Members of a gang are bound together: none before enough of them have been through PreBind.

PreBind writes claims and volumes, and may fail for one member while others are done.  Without this,
those would be bound, and the gang would hold fewer nodes than it needs.  `core.groups` makes a
`Together` for a gang of which some member has work at PreBind; members without such work wait at
Permit meanwhile, the others where PreBind ends (`core.binding`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stowplan.core.waiting import WaitingPods
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Code, Status

GANG_PLUGIN = "GangScheduling"
NAME = "GangScheduling/PreBind"
"""What members wait for at Permit."""
WAIT_S = 15 * 60.0
TOO_FEW = "too few pods of the gang could be prepared for binding"

Resume = Callable[[Status | None], None]


class Together:
    def __init__(self, waiting: WaitingPods, needed_count: int, pre_binding: set[str]) -> None:
        """`pre_binding` are the uids of those that have work at PreBind; `needed_count`: how many
        of the members that are bound now the gang needs."""
        self._waiting = waiting
        self._needed_count = needed_count
        self._pre_binding = pre_binding
        self._at_permit: dict[str, None] = {}
        self._arrived: dict[str, Resume] = {}
        self._is_over = False
        self._refusal: Status | None = None
        """Why those are not bound that come when it is over."""

    def wait_at_permit(self, uid: str) -> dict[str, Wait]:
        """For a member without work at PreBind."""
        self._at_permit[uid] = None
        return {NAME: Wait(WAIT_S, "waiting for PreBind of other pods of the gang")}

    def arrive(self, uid: str) -> Callable[[Resume], None]:
        """A member has been through PreBind: how it is told to go on, or why not."""
        return partial(self._arrive, uid)

    def _arrive(self, uid: str, resume: Resume) -> None:
        self._pre_binding.discard(uid)
        if self._is_over:
            resume(self._refusal)
            return
        self._arrived[uid] = resume
        self._look()

    def lost(self, uid: str) -> None:
        """A member's binding failed."""
        self._pre_binding.discard(uid)
        self._at_permit.pop(uid, None)
        self._arrived.pop(uid, None)
        self._look()

    def _look(self) -> None:
        left = len(self._pre_binding) + len(self._at_permit) + len(self._arrived)
        if self._is_over or (self._pre_binding and left >= self._needed_count):
            return
        self._is_over = True
        arrived, at_permit = self._arrived, self._at_permit
        self._arrived, self._at_permit = {}, {}
        is_enough = left >= self._needed_count
        if not is_enough:
            self._refusal = Status(Code.UNSCHEDULABLE, (TOO_FEW,), GANG_PLUGIN)
        for resume in arrived.values():
            resume(self._refusal)
        for uid in at_permit:
            if is_enough:
                self._waiting.allow(uid, NAME)
            else:
                self._waiting.reject(uid, GANG_PLUGIN, TOO_FEW)
