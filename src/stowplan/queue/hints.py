"""Queueing hints: is a cluster event worth another try for a pod that was turned down?

Mirrors `buildQueueingHintMap` of kube-scheduler's `scheduler.go` and `isPodWorthRequeuing` of
`backend/queue/scheduling_queue.go`.  `HintMap` is what the plugins of one profile registered,
`Hints` answers for all profiles.  Which registrations match an event is worked out once per
event: registrations never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any

from msgspec import Struct

from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintFunction,
    Resource,
)
from stowplan.framework.plugin import points_of
from stowplan.framework.timing import NoRecorder, Recorder
from stowplan.objects.pod import Pod
from stowplan.queue.metrics import HINT_ERROR, HINT_QUEUE, HINT_SKIP, HintKey, QueueMetrics
from stowplan.queue.queued_pod import QueuedPod
from stowplan.queue.unschedulable import GroupKey
from stowplan.state.pod_info import PodInfo, PodKind

EXTENDER = "Extender"
"""Stands in for all extenders where plugins are named."""

OnPluginError = Callable[[str, str, PodInfo, Exception], None]
"""(plugin, extension point, pod, what it raised): for the log."""

_DEFAULT_RESOURCES = (
    Resource.POD,
    Resource.NODE,
    Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.CSI_NODE,
    Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY,
    Resource.STORAGE_CLASS,
    Resource.RESOURCE_CLAIM,
    Resource.DEVICE_CLASS,
)
DEFAULT_REGISTRATIONS = tuple(
    EventRegistration(ClusterEvent(resource, Action.ALL)) for resource in _DEFAULT_RESOURCES
)
"""What a plugin that does not say hears of: nearly everything."""

_REJECTING_POINTS = frozenset({"preEnqueue", "preFilter", "filter", "reserve", "permit"})
_NODE_TAINT = EventRegistration(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))

_kind = attrgetter("info.kind")
_uid = attrgetter("info.uid")

MEMO_MAX = 1024
"""Events for which answers are remembered.  Real clusters know some dozens."""


class Worth(IntEnum):
    """Whether to try a pod again; the larger one wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATE = 2


Move = tuple[Worth, list[QueuedPod]]
"""Pods that are to be tried again, and how."""


@dataclass(frozen=True, slots=True)
class PluginHint:
    plugin: str
    event: ClusterEvent
    hint: HintFunction | None
    by_kind: bool
    """See `EventRegistration`."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The registrations of one profile that cover an event, in the order they were made."""

    hints: tuple[PluginHint, ...]
    plugins: frozenset[str]


class _Opinion(Struct, frozen=True):
    """What came of asking the hints for one pod."""

    worth: Worth
    asked: Sequence[tuple[HintKey, float]] = ()
    """Each hint that was asked, and how long it took."""
    is_shared: bool = True
    """Whether it would be the same for every replica of the pod."""


class HintMap:
    """What the plugins of one profile want to hear of."""

    __slots__ = ("_hints", "_matched", "_of_plugins")

    def __init__(self, hints: Iterable[PluginHint] = ()) -> None:
        self._hints = tuple(hints)
        self._matched: dict[ClusterEvent, Matched] = {}
        self._of_plugins: dict[tuple[frozenset[str], ClusterEvent], tuple[PluginHint, ...]] = {}

    def __iter__(self) -> Iterator[PluginHint]:
        return iter(self._hints)

    def matching(self, event: ClusterEvent) -> Matched:
        matched = self._matched.get(event)
        if matched is None:
            hints = tuple(hint for hint in self._hints if hint.event.matches(event))
            matched = Matched(hints, frozenset(hint.plugin for hint in hints))
            _remember(self._matched, event, matched)
        return matched

    def of_plugins(self, plugins: frozenset[str], event: ClusterEvent) -> tuple[PluginHint, ...]:
        """The registrations of these plugins that cover the event, in the order they were made."""
        found = self._of_plugins.get((plugins, event))
        if found is None:
            found = tuple(hint for hint in self.matching(event).hints if hint.plugin in plugins)
            _remember(self._of_plugins, (plugins, event), found)
        return found


def build_hint_map(plugins: Iterable[Any], *, has_extenders: bool = False) -> HintMap:
    """Ask a profile's plugins, each once, what events could help the pods they turn down.

    A plugin that does not say gets the default list if it can turn pods down at all; one that
    says "none" is only overruled by wildcard events.
    """
    hints: list[PluginHint] = []
    named = {plugin.name: plugin for plugin in plugins}
    for name, plugin in named.items():
        hints += [_plugin_hint(name, entry) for entry in _registrations(plugin)]
    if has_extenders:
        hints += [_plugin_hint(EXTENDER, entry) for entry in DEFAULT_REGISTRATIONS]
    return HintMap(hints)


def _plugin_hint(plugin: str, entry: EventRegistration) -> PluginHint:
    # Without a hint every answer is yes.
    return PluginHint(plugin, entry.event, entry.hint, entry.by_kind or entry.hint is None)


def _registrations(plugin: Any) -> tuple[EventRegistration, ...]:
    if not hasattr(plugin, "events_to_register"):
        rejects = _REJECTING_POINTS & points_of(type(plugin))
        return DEFAULT_REGISTRATIONS if rejects else ()
    entries: tuple[EventRegistration, ...] = tuple(plugin.events_to_register())
    actions = [entry.event.action for entry in entries if entry.event.resource == Resource.NODE]
    hears_of_new_nodes = any(action & Action.ADD for action in actions)
    if hears_of_new_nodes and not any(action & Action.UPDATE_NODE_TAINT for action in actions):
        # A node often becomes usable by losing a taint some time after it was added.
        return (*entries, _NODE_TAINT)
    return entries


class Hints:
    """The decision, for the pods of every profile."""

    __slots__ = (
        "_interest",
        "_is_timed",
        "_maps",
        "_metrics",
        "_now",
        "_on_error",
        "_opens",
        "_worthy",
    )

    def __init__(
        self,
        maps: Mapping[str, HintMap],
        metrics: QueueMetrics,
        *,
        recorder: Recorder | None = None,
        on_error: OnPluginError | None = None,
    ) -> None:
        self._maps = dict(maps)
        self._metrics = metrics
        self._is_timed = recorder is not None
        self._now = (recorder or NoRecorder()).now
        self._on_error = on_error
        self._interest: dict[ClusterEvent, bool] = {}
        self._opens: dict[tuple[str, ClusterEvent], bool] = {}
        self._worthy: dict[tuple[GroupKey, ClusterEvent], bool] = {}

    def interested(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile wants to hear of the event."""
        known = self._interest.get(event)
        if known is None:
            known = event.is_wildcard or any(
                hints.matching(event).hints for hints in self._maps.values()
            )
            _remember(self._interest, event, known)
        return known

    def opens_gate(self, gating_plugin: str, event: ClusterEvent) -> bool:
        """Whether the event may make a gating plugin change its mind.

        Registrations of that plugin count whatever profile they come from, as upstream's do.
        """
        known = self._opens.get((gating_plugin, event))
        if known is None:
            known = event.is_wildcard or any(
                gating_plugin in hints.matching(event).plugins for hints in self._maps.values()
            )
            _remember(self._opens, (gating_plugin, event), known)
        return known

    def may_be_worth(self, pods: GroupKey, event: ClusterEvent) -> bool:
        """False if `worth` would skip every pod of that description: nobody need ask them."""
        known = self._worthy.get((pods, event))
        if known is None:
            known = self._may_be_worth(pods, event)
            _remember(self._worthy, (pods, event), known)
        return known

    def _may_be_worth(self, pods: GroupKey, event: ClusterEvent) -> bool:
        if event.is_wildcard:
            return True
        profile, rejectors, _, gating_plugin = pods
        if gating_plugin and not self.opens_gate(gating_plugin, event):
            return False
        hints = self._maps.get(profile)
        return (
            not rejectors
            or hints is None
            or not rejectors.isdisjoint(hints.matching(event).plugins)
        )

    def worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Worth:
        opinion = self._opinion(queued, event, old, new)
        self._count(opinion, 1)
        return opinion.worth

    def moves(self, pods: list[QueuedPod], event: ClusterEvent, old: Any, new: Any) -> list[Move]:
        """Those of the pods, which the same plugins turned down, that `worth` does not skip.

        Replicas share an answer where the hints allow it.
        """
        moves: list[Move] = []
        for replicas in _by_kind(pods, _uid_of(old if new is None else new)):
            opinion = self._opinion(replicas[0], event, old, new)
            if opinion.is_shared:
                self._count(opinion, len(replicas))
                moves.append((opinion.worth, replicas))
            else:
                self._count(opinion, 1)
                moves.append((opinion.worth, replicas[:1]))
                moves += [(self.worth(pod, event, old, new), [pod]) for pod in replicas[1:]]
        return [move for move in moves if move[0]]

    def _opinion(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> _Opinion:
        rejectors, pending = queued.rejectors, queued.pending_plugins
        if not rejectors:
            return _Opinion(Worth.AFTER_BACKOFF)
        if event.is_wildcard:
            return _Opinion(_wildcard_worth(queued, new), is_shared=new is None)
        hints = self._maps.get(queued.profile)
        if hints is None:
            return _Opinion(Worth.AFTER_BACKOFF)
        worth = Worth.SKIP
        is_shared = True
        asked: list[tuple[HintKey, float]] = []
        for entry in hints.of_plugins(rejectors, event):
            plugin = entry.plugin
            start_s = self._now()
            result = self._ask(entry, queued.info, old, new)
            asked.append(((plugin, event.label, result), self._now() - start_s))
            is_shared = is_shared and entry.by_kind and result is not HINT_ERROR
            if result is HINT_SKIP:
                continue
            worth = Worth.IMMEDIATE if plugin in pending else Worth.AFTER_BACKOFF
            if worth is Worth.IMMEDIATE or not pending:
                break
        return _Opinion(worth, asked, is_shared)

    def _ask(self, entry: PluginHint, info: PodInfo, old: Any, new: Any) -> str:
        if entry.hint is None:
            return HINT_QUEUE
        try:
            return HINT_SKIP if entry.hint(info.pod, old, new) == Hint.SKIP else HINT_QUEUE
        except Exception as failure:
            # Trying once too often is better than forgetting the pod.
            if self._on_error is not None:
                self._on_error(entry.plugin, "QueueingHint", info, failure)
            return HINT_ERROR

    def _count(self, opinion: _Opinion, pod_count: int) -> None:
        """As if each of the pods had been asked: upstream does ask them."""
        for key, seconds in opinion.asked:
            self._metrics.hint_executions[key] += pod_count
            if self._is_timed:
                self._metrics.hint_durations[key].observe(seconds / pod_count, pod_count)


def _wildcard_worth(queued: QueuedPod, new: Any) -> Worth:
    """A wildcard event is for everybody, or with a pod for that pod alone."""
    if new is None or (isinstance(new, Pod) and new.metadata.uid == queued.info.uid):
        return Worth.AFTER_BACKOFF
    return Worth.SKIP


def _uid_of(changed: Any) -> str:
    return changed.metadata.uid if isinstance(changed, Pod) else ""


def _by_kind(pods: list[QueuedPod], subject: str) -> list[list[QueuedPod]]:
    """The pods sorted out by kind; the one that an event is about stands alone."""
    if len(set(map(_kind, pods))) <= 1 and subject not in map(_uid, pods):
        return [pods] if pods else []
    sorted_out: dict[PodKind | str, list[QueuedPod]] = {}
    for queued in pods:
        info = queued.info
        key = subject if info.uid == subject else info.kind
        sorted_out.setdefault(key, []).append(queued)
    return list(sorted_out.values())


def _remember(memo: dict[Any, Any], key: Any, answer: Any) -> None:
    if len(memo) >= MEMO_MAX:
        memo.clear()
    memo[key] = answer
