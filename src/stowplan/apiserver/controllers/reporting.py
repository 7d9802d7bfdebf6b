"""What controllers tell people: events on the objects they look after."""

from __future__ import annotations

from stowplan.apiserver.controllers.shared import Shared
from stowplan.cluster.port import Answer, Done, ignore_all
from stowplan.errors import ApiError
from stowplan.objects.api import Create
from stowplan.objects.base import KubeObject, ObjectMeta, ObjectReference
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT
from stowplan.objects.times import format_micro_time

NOTES_PER_SYNC_MAX = 10
"""Of pods made or deleted at one look; nobody reads more."""


class Reporter:
    def __init__(self, shared: Shared, controller: str) -> None:
        self._cluster = shared.cluster
        self._clock = shared.clock
        self._controller = controller
        self._counts: dict[str, int] = shared.memory["events"]

    def report(self, about: KubeObject, reason: str, note: str, *, warning: bool = False) -> None:
        now_s = self._clock.now()
        serial = self._counts[self._controller] = self._counts.get(self._controller, 0) + 1
        namespace = about.namespace or "default"
        event = Event(
            metadata=ObjectMeta(
                name=f"{about.name}.{int(now_s * 1e9) + serial:x}", namespace=namespace
            ),
            event_time=format_micro_time(now_s),
            reporting_controller=self._controller,
            reporting_instance=f"{self._controller}-stowplan",
            action=reason,
            reason=reason,
            regarding=ObjectReference(
                api_version=about.api_version,
                kind=about.kind,
                namespace=about.namespace,
                name=about.name,
                uid=about.uid,
                resource_version=about.metadata.resource_version,
            ),
            note=note,
            type="Warning" if warning else "Normal",
        )
        self._cluster.call([Create(EVENT, namespace, event)], ignore_all)

    def creation(self, owner: KubeObject, number: int) -> Done | None:
        """Tells how it went with the pod of this number, counted from 0, of those just made."""
        if number >= NOTES_PER_SYNC_MAX:
            return None

        def tell(answer: Answer) -> None:
            if isinstance(answer, ApiError):
                note = f"Error creating: {answer.message}"
                self.report(owner, "FailedCreate", note, warning=True)
            elif answer is not None:
                self.report(owner, "SuccessfulCreate", f"Created pod: {answer.name}")

        return tell
