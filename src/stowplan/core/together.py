"""Members of a gang are bound together: none before enough of them are ready for it.

Permit may keep members waiting, PreBind writes claims and volumes, and either may fail for one
member while others are done.  Without this, those would be bound, and the gang would hold fewer
nodes than it needs.  `core.groups` makes a `Together` for a gang of which some member has something
to wait for; members without wait at Permit meanwhile, the others where PreBind ends
(`core.binding`).  Members that are decided on meanwhile wait with them, but nobody waits for those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stowplan.core.waiting import WaitingPods
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Code, Status

GANG_PLUGIN = "GangScheduling"
WAITS_TOGETHER = "GangScheduling/PreBind"
"""What members wait for at Permit."""
WAIT_S = 15 * 60.0
TOO_FEW = "too few pods of the gang could be prepared for binding"

Resume = Callable[[Status | None], None]


class Together:
    def __init__(
        self, waiting: WaitingPods, spare_count: Callable[[], int], unready: set[str]
    ) -> None:
        """`unready` are the uids of those who are waited for; `spare_count`: how many more than
        the gang needs have a node now, or are on their way to one."""
        self._waiting = waiting
        self._spare_count = spare_count
        self._unready = unready
        self._late: set[str] = set()
        """Members that were decided on later and are not ready: waited for only if needed."""
        self._at_permit: dict[str, None] = {}
        self._arrived: dict[str, Resume] = {}
        self.is_over = False
        self._is_starting = True
        """Not all members that were decided on have been sent on their way yet."""
        self._refusal: Status | None = None
        """Why those are not bound that come when it is over."""

    def wait_at_permit(self, uid: str) -> dict[str, Wait]:
        """For a member that has nothing else to wait for."""
        self._at_permit[uid] = None
        return {WAITS_TOGETHER: Wait(WAIT_S, "waiting for PreBind of other pods of the gang")}

    def join(self, unready: set[str]) -> None:
        """More members have been decided on; these of them are not ready."""
        self._late |= unready
        self._is_starting = True

    def started(self) -> None:
        """All members that were decided on are on their way."""
        self._is_starting = False
        self._look()

    def arrive(self, uid: str) -> Callable[[Resume], None]:
        """A member has been through PreBind: how it is told to go on, or why not."""
        return partial(self._arrive, uid)

    def _arrive(self, uid: str, resume: Resume) -> None:
        self._unready.discard(uid)
        self._late.discard(uid)
        if self.is_over:
            resume(self._refusal)
            return
        self._arrived[uid] = resume
        self._look()

    def lost(self, uid: str) -> None:
        """A member's binding failed, and it is counted on its node no more."""
        self._unready.discard(uid)
        self._late.discard(uid)
        self._at_permit.pop(uid, None)
        self._arrived.pop(uid, None)
        self._look()

    def _look(self) -> None:
        if self.is_over or self._is_starting:
            return
        spare_count = self._spare_count()
        is_enough = spare_count >= 0
        if is_enough and (self._unready or spare_count < len(self._late)):
            return
        if is_enough and any(self._waiting.get(uid) is None for uid in self._at_permit):
            return  # It has been turned away, and will be heard of in a moment.
        self.is_over = True
        arrived, at_permit = self._arrived, self._at_permit
        self._arrived, self._at_permit = {}, {}
        if not is_enough:
            self._refusal = Status(Code.UNSCHEDULABLE, (TOO_FEW,), GANG_PLUGIN)
        for resume in arrived.values():
            resume(self._refusal)
        for uid in at_permit:
            if is_enough:
                self._waiting.allow(uid, WAITS_TOGETHER)
            else:
                self._waiting.reject(uid, GANG_PLUGIN, TOO_FEW)
