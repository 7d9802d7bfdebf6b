"""Plugins of the simulated profile: one that makes pods wait, one that raises, two that watch.

They are classes made per process (`bound`), since a profile makes its plugins by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from stowplan.framework.events import Action, EventRegistration, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PreFlight, Wait
from stowplan.framework.status import SKIP, Status
from stowplan.state.pod_info import PodInfo

SLOW = "slow"
"""Label of pods that wait at Permit."""

PERMIT_TIMEOUT_S = 20.0

# Nobody else listens to annotations: waking these pods wakes no others.
_WOKEN_BY = (on(Resource.NODE, Action.UPDATE_NODE_ANNOTATION),)


class Mishap(Exception):
    """What a broken plugin raises."""


class SimulatedPlugin:
    name = ""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.handle = handle

    def events_to_register(self) -> Sequence[EventRegistration]:
        return _WOKEN_BY


def bound(plugin: type[SimulatedPlugin], **members: Any) -> type[SimulatedPlugin]:
    """The plugin class of one process."""
    return type(plugin.__name__, (plugin,), members)


class Pilot(SimulatedPlugin):
    """Makes slow pods wait until the world lets them go, turns them away, or time is up."""

    name = "Pilot"
    _on_wait: ClassVar[Callable[[Handle, PodInfo], None]]

    def permit(self, cycle: Any, pod: PodInfo, node: str) -> Status | Wait | None:
        if SLOW not in pod.kind.labels:
            return None
        type(self)._on_wait(self.handle, pod)
        return Wait(PERMIT_TIMEOUT_S, "the pilot is not on board")


class Gremlin(SimulatedPlugin):
    """Raises now and then, wherever it can."""

    name = "Gremlin"
    _mishap: ClassVar[Callable[[str], bool]]

    def _maybe(self, point: str) -> None:
        if type(self)._mishap(point):
            raise Mishap(point)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self._maybe("PreEnqueue")
        return None

    def pre_filter(self, cycle: Any, pod: PodInfo) -> Status | None:
        self._maybe("PreFilter")
        return None

    def filter_node(self, cycle: Any, pod: PodInfo, node: Any) -> Status | None:
        self._maybe("Filter")
        return None

    def score_node(self, cycle: Any, pod: PodInfo, node: Any) -> int:
        self._maybe("Score")
        return 0

    def reserve(self, cycle: Any, pod: PodInfo, node: str) -> Status | None:
        self._maybe("Reserve")
        return None

    def unreserve(self, cycle: Any, pod: PodInfo, node: str) -> None:
        self._maybe("Unreserve")

    def permit(self, cycle: Any, pod: PodInfo, node: str) -> Status | None:
        self._maybe("Permit")
        return None

    def pre_bind_pre_flight(self, cycle: Any, pod: PodInfo, node: str) -> PreFlight | Status:
        self._maybe("PreBindPreFlight")
        return PreFlight() if pod.uid[-1] in "02468" else SKIP

    def pre_bind(self, cycle: Any, pod: PodInfo, node: str) -> Status | None:
        self._maybe("PreBind")
        return None

    def post_bind(self, cycle: Any, pod: PodInfo, node: str) -> None:
        self._maybe("PostBind")


class Purser(SimulatedPlugin):
    """Keeps the list of what is reserved: Reserve puts a pod on it, Unreserve takes it off."""

    name = "Purser"
    _reserved: ClassVar[dict[str, str]]

    def reserve(self, cycle: Any, pod: PodInfo, node: str) -> Status | None:
        self._reserved[pod.uid] = node
        return None

    def unreserve(self, cycle: Any, pod: PodInfo, node: str) -> None:
        self._reserved.pop(pod.uid, None)

    def post_bind(self, cycle: Any, pod: PodInfo, node: str) -> None:
        self._reserved.pop(pod.uid, None)


class Lookout(SimulatedPlugin):
    """Looks at the snapshot the moment a decision begins: it must agree with the cache."""

    name = "Lookout"
    _look: ClassVar[Callable[[], None]]

    def pre_filter(self, cycle: Any, pod: PodInfo) -> Status | None:
        type(self)._look()
        return SKIP
