"""Queueing hints: is a cluster event worth another try for a pod that was turned down?

Mirrors `buildQueueingHintMap` of kube-scheduler's `scheduler.go` and `isPodWorthRequeuing` of
`backend/queue/scheduling_queue.go`.  `HintMap` is what the plugins of one profile registered,
`Hints` answers for all profiles.  Which registrations match an event is worked out once per
event: registrations never change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any

from msgspec import Struct

from stowplan.framework.events import (
    Action,
    ClusterEvent,
    Concerned,
    EventRegistration,
    Hint,
    HintFunction,
    Resource,
)
from stowplan.framework.plugin import points_of
from stowplan.framework.timing import NoRecorder, Recorder
from stowplan.objects.pod import Pod
from stowplan.queue.metrics import HINT_ERROR, HINT_QUEUE, HINT_SKIP, QueueMetrics
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
    """See `EventRegistration`, here and in the next ones."""
    concerned: Concerned | None = None
    by_group: bool = False


class Matched(Struct, frozen=True):
    """Registrations of one profile that cover an event, in the order they were made."""

    hints: tuple[PluginHint, ...]
    plugins: frozenset[str]
    by_kind: bool
    """Whether replicas get the same answer from each of them."""
    by_name: PluginHint | None = None
    """The only one there is, if it says by name which pods an event concerns."""

    def names(self, gating_plugin: str, old: Any, new: Any) -> Iterable[str] | None:
        """The names of those whom a change may concern; None: anybody, for all that is known."""
        hint = self.by_name
        if hint is None or hint.concerned is None:
            return None
        if hint.plugin != gating_plugin and hint.concerned.concerns_all(old, new):
            return None
        return hint.concerned.of_change(old, new)


UNASKED = Matched((), frozenset(), True)
"""No hint is asked: the event alone is enough to tell."""


class HintMap:
    """What the plugins of one profile want to hear of."""

    __slots__ = ("_hints", "_matched", "_of_plugins", "by_group", "by_name")

    def __init__(self, hints: Iterable[PluginHint] = ()) -> None:
        hints = tuple(hints)
        self._hints = tuple(hint for hint in hints if not hint.by_group)
        self.by_group = tuple(hint for hint in hints if hint.by_group)
        """Asked about one group, and not of each pod that waits."""
        self.by_name = {hint.plugin: hint.concerned for hint in hints if hint.concerned is not None}
        """Plugins whose pods are asked about by name."""
        self._matched: dict[ClusterEvent, Matched] = {}
        self._of_plugins: dict[tuple[frozenset[str], ClusterEvent], Matched] = {}

    def __iter__(self) -> Iterator[PluginHint]:
        return iter((*self._hints, *self.by_group))

    def matching(self, event: ClusterEvent) -> Matched:
        matched = self._matched.get(event)
        if matched is None:
            matched = _matched(hint for hint in self._hints if hint.event.matches(event))
            _remember(self._matched, event, matched)
        return matched

    def of_plugins(self, plugins: frozenset[str], event: ClusterEvent) -> Matched:
        """Those of these plugins alone."""
        found = self._of_plugins.get((plugins, event))
        if found is None:
            found = _matched(hint for hint in self.matching(event).hints if hint.plugin in plugins)
            _remember(self._of_plugins, (plugins, event), found)
        return found


@dataclass(frozen=True, slots=True)
class ProfileQueueing:
    """What the queue needs to know of a profile."""

    pre_enqueue: Sequence[Any] = ()
    """Its PreEnqueue plugins, in the order they run."""
    hints: HintMap = field(default_factory=HintMap)
    """`build_hint_map` of all its plugins."""


def _matched(found: Iterable[PluginHint]) -> Matched:
    hints = tuple(found)
    plugins = frozenset(hint.plugin for hint in hints)
    by_name = hints[0] if len(hints) == 1 and hints[0].concerned is not None else None
    return Matched(hints, plugins, all(hint.by_kind for hint in hints), by_name)


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
    by_kind = entry.by_kind or entry.hint is None
    return PluginHint(plugin, entry.event, entry.hint, by_kind, entry.concerned, entry.by_group)


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
        "_heard",
        "_interest",
        "_maps",
        "_metrics",
        "_now",
        "_on_error",
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
        self._now = (recorder or NoRecorder()).now
        self._on_error = on_error
        self._interest: dict[ClusterEvent, bool] = {}
        self._heard: dict[tuple[GroupKey, ClusterEvent], Matched | None] = {}

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
        return event.is_wildcard or any(
            gating_plugin in hints.matching(event).plugins for hints in self._maps.values()
        )

    def heard(self, pods: GroupKey, event: ClusterEvent) -> Matched | None:
        """What to ask for pods of that description; None if `worth` would skip every one."""
        try:
            return self._heard[pods, event]
        except KeyError:
            heard = self._hear(pods, event)
            _remember(self._heard, (pods, event), heard)
            return heard

    def _hear(self, pods: GroupKey, event: ClusterEvent) -> Matched | None:
        if pods.gating_plugin and not self.opens_gate(pods.gating_plugin, event):
            return None
        matched = self._to_ask(pods.profile, pods.rejectors, event)
        return matched if matched.hints or matched is UNASKED else None

    def worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Worth:
        matched = self._to_ask(queued.profile, queued.rejectors, event)
        if matched is UNASKED:
            return _unasked_worth(queued, event, new)
        return self._ask([queued], matched.hints, event, old, new)

    def moves(
        self, pods: list[QueuedPod], heard: Matched, event: ClusterEvent, old: Any, new: Any
    ) -> list[Move]:
        """Those of the pods, of one description, that `worth` does not skip.

        Replicas share an answer where the hints allow it.
        """
        if heard is UNASKED:
            worthy = [queued for queued in pods if _unasked_worth(queued, event, new)]
            return [(Worth.AFTER_BACKOFF, worthy)] if worthy else []
        if heard.by_kind:
            asked = _by_kind(pods, _uid_of(old if new is None else new))
        else:
            asked = [[queued] for queued in pods]
        moves: list[Move] = []
        for replicas in asked:
            worth = self._ask(replicas, heard.hints, event, old, new)
            if worth is not Worth.SKIP:
                moves.append((worth, replicas))
        return moves

    def names_of(self, queued: QueuedPod, pods: GroupKey) -> Collection[str]:
        """By which an event may concern the pod, if one of its rejectors goes by names."""
        hints = self._maps.get(pods.profile)
        if hints is None or pods.rejectors.isdisjoint(hints.by_name):
            return ()
        pod, by_name = queued.info.pod, hints.by_name
        asked = pods.rejectors & by_name.keys()
        return {name for plugin in asked for name in by_name[plugin].of_pod(pod)}

    def skipped(self, heard: Matched, event: ClusterEvent, count: int) -> None:
        """Pods that the only hint was not asked about, because the event does not concern them."""
        if count and heard.by_name is not None:
            key = heard.by_name.plugin, event.label, HINT_SKIP
            self._metrics.hint_durations[key].observe(0.0, count)

    def _to_ask(self, profile: str, rejectors: frozenset[str], event: ClusterEvent) -> Matched:
        hints = self._maps.get(profile)
        if not rejectors or hints is None or event.is_wildcard:
            return UNASKED
        return hints.of_plugins(rejectors, event)

    def _ask(
        self,
        replicas: list[QueuedPod],
        hints: tuple[PluginHint, ...],
        event: ClusterEvent,
        old: Any,
        new: Any,
    ) -> Worth:
        """Put the hints to one pod and count as if each had been asked: upstream does ask them."""
        queued, count = replicas[0], len(replicas)
        pod, pending = queued.info.pod, queued.pending_plugins
        durations, label, now = self._metrics.hint_durations, event.label, self._now
        worth = Worth.SKIP
        end_s = now()
        for entry in hints:
            plugin, hint, result = entry.plugin, entry.hint, HINT_QUEUE
            try:
                if hint is not None and hint(pod, old, new) == Hint.SKIP:
                    result = HINT_SKIP
            except Exception as failure:
                # Trying once too often is better than forgetting the pod.
                result = HINT_ERROR
                self._tell(plugin, replicas, failure)
            start_s, end_s = end_s, now()
            durations[plugin, label, result].observe((end_s - start_s) / count, count)
            if result is not HINT_SKIP:
                worth = Worth.IMMEDIATE if plugin in pending else Worth.AFTER_BACKOFF
                if worth is Worth.IMMEDIATE or not pending:
                    break
        return worth

    def _tell(self, plugin: str, replicas: list[QueuedPod], failure: Exception) -> None:
        if self._on_error is not None:
            for queued in replicas:
                self._on_error(plugin, "QueueingHint", queued.info, failure)


def _unasked_worth(queued: QueuedPod, event: ClusterEvent, new: Any) -> Worth:
    if event.is_wildcard and queued.rejectors:
        return _wildcard_worth(queued, new)
    return Worth.AFTER_BACKOFF


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
