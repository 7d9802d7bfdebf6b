"""QueuedPod: a pod waiting to be scheduled, and what its earlier attempts came to.

`QueuedGroup` is the same for pods that are scheduled together.

Mirrors `QueuedPodInfo` of kube-scheduler's `framework/types.go`.  The queue makes one when a pod
arrives and the same object travels with the pod through every attempt until it is bound: `pop`
hands it out, the failure handler writes who rejected the pod, and
`add_unschedulable_if_not_present` takes it back.
"""

from __future__ import annotations

from copy import copy

from msgspec import Struct, field
from msgspec.structs import replace

from stowplan.framework.status import Status
from stowplan.state.pod_info import PodInfo, PodKind

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedPod(Struct, eq=False):
    """One is made for every pod: as a Struct that takes no bytecode."""

    info: PodInfo
    timestamp_s: float
    """When it came, or came back from a failed attempt; moves between queues leave it."""
    attempts: int = 0
    initial_attempt_s: float | None = None
    """When it was first ready to be scheduled: time spent behind a gate does not count."""
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    backoff_expiration_s: float | None = None
    """Worked out once per failed attempt; None until then."""
    unschedulable_plugins: frozenset[str] = NO_PLUGINS
    pending_plugins: frozenset[str] = NO_PLUGINS
    """Plugins that wait for one certain event; with it the pod is tried again at once."""
    gating_plugin: str = ""
    gating_status: Status | None = None
    """What the gating plugin said."""
    was_flushed: bool = False
    flush_s: float = 0.0
    waiting_turn: int = 0
    """Its turn among the unschedulable pods, 0 while it is elsewhere; their business."""

    def __repr__(self) -> str:
        return f"QueuedPod({self.info.key}, attempts={self.attempts})"

    @property
    def profile(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        if self.pending_plugins:
            return self.unschedulable_plugins | self.pending_plugins
        return self.unschedulable_plugins

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def waiting_since_s(self) -> float:
        """When it last had a chance: its failed attempt, or its last flush."""
        return max(self.timestamp_s, self.flush_s)

    def set_rejectors(
        self, unschedulable: frozenset[str] = NO_PLUGINS, pending: frozenset[str] = NO_PLUGINS
    ) -> None:
        """Say who turned the pod down in the attempt that just failed; nobody means an error.

        What earlier attempts and gates left behind is forgotten.
        """
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.gating_plugin = ""
        self.gating_status = None


class QueuedGroup(QueuedPod, eq=False):
    """Pods that wait to be scheduled together: one entry of the queue, with a history of its own.

    `info` stands for all of them in the queue's order: it is like the pod that would be first, but
    has the entry's key, the group's own priority if there is one, and no profile, because nobody
    decides on it.  Its rejectors are those of all members.  Each member is a QueuedPod with its own
    history, for its own metrics.
    """

    group: str = ""
    """`namespace/name` of the group."""
    members: dict[str, QueuedPod] = field(default_factory=dict)
    """By `namespace/name` of the pod."""
    leader: PodKind | None = None
    """Of the pod that would be first."""

    def __repr__(self) -> str:
        return f"QueuedGroup({self.group}, {len(self.members)} members)"

    def __copy__(self) -> QueuedGroup:
        members = {key: copy(queued) for key, queued in self.members.items()}
        return replace(self, members=members)

    @property
    def profile(self) -> str:
        first = next(iter(self.members.values()), None)
        return "" if first is None else first.profile

    def in_order(self) -> list[QueuedPod]:
        """As they are decided on: the higher priority first, then who was ready first."""
        return sorted(self.members.values(), key=member_order)


def member_order(queued: QueuedPod) -> tuple[int, float]:
    ready_s = queued.initial_attempt_s
    return -queued.info.priority, queued.timestamp_s if ready_s is None else ready_s


def entry_key(group: str) -> str:
    """The key of a group's entry: in its namespace, and the name of no pod.

    >>> entry_key("lab/train")
    'lab//train'
    """
    namespace, _, name = group.partition("/")
    return f"{namespace}//{name}"


def stand_in(leader: PodInfo, group: str, priority: int | None) -> PodInfo:
    """What `QueuedGroup.info` is while this member is the first; `priority` is the group's own."""
    like = leader if priority is None else with_priority(leader, priority)
    spec = replace(like.pod.spec, scheduler_name="")
    info = PodInfo(replace(like.pod, spec=spec), like.kind)
    info.key = info.uid = entry_key(group)
    return info


def with_priority(info: PodInfo, priority: int) -> PodInfo:
    """The pod as if this were its priority."""
    if info.priority == priority:
        return info
    return PodInfo(replace(info.pod, spec=replace(info.pod.spec, priority=priority)))
