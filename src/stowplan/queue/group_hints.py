"""Queueing hints for entries that are groups: what helps one member, helps the group.

Used by `GroupedQueue` in place of plain `Hints`; single pods are asked about as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from stowplan.framework.events import ANYTHING, ClusterEvent, Hint
from stowplan.queue.hints import UNASKED, Hints, Matched, Move, Worth
from stowplan.queue.queued_pod import QueuedGroup, QueuedPod
from stowplan.queue.unschedulable import GroupKey


class GroupHints(Hints):
    __slots__ = ()

    def worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Worth:
        if isinstance(queued, QueuedGroup):
            return self._group_worth(queued, event, old, new)
        return super().worth(queued, event, old, new)

    def names_of(self, queued: QueuedPod, pods: GroupKey) -> Collection[str]:
        # Members come and go, so a group hears of everything.
        return (ANYTHING,) if isinstance(queued, QueuedGroup) else super().names_of(queued, pods)

    def moves(
        self, pods: list[QueuedPod], heard: Matched, event: ClusterEvent, old: Any, new: Any
    ) -> list[Move]:
        alone = [queued for queued in pods if not isinstance(queued, QueuedGroup)]
        moves = super().moves(alone, heard, event, old, new) if alone else []
        for queued in pods:
            if isinstance(queued, QueuedGroup):
                worth = self._group_worth(queued, event, old, new)
                if worth is not Worth.SKIP:
                    moves.append((worth, [queued]))
        return moves

    def group_event_helps(
        self, entry: QueuedGroup, event: ClusterEvent, old: Any, new: Any
    ) -> bool:
        """Whether an event about the group itself may help it."""
        hints = self._maps.get(entry.profile)
        if hints is None:
            return False
        pod = next(iter(entry.members.values())).info.pod
        for entry_hint in hints.by_group:
            if not entry_hint.event.matches(event):
                continue
            if entry_hint.hint is None or entry_hint.hint(pod, old, new) is Hint.QUEUE:
                return True
        return False

    def _group_worth(self, entry: QueuedGroup, event: ClusterEvent, old: Any, new: Any) -> Worth:
        """The best that can be said for a member that was turned down."""
        if not entry.rejectors or event.is_wildcard:
            return Worth.AFTER_BACKOFF
        best = Worth.SKIP
        for replicas, matched in self._asked(entry, event):
            best = max(best, self._ask(replicas, matched.hints, event, old, new))
            if best is Worth.IMMEDIATE or (best and not entry.pending_plugins):
                break
        return best

    def _asked(
        self, entry: QueuedGroup, event: ClusterEvent
    ) -> Iterator[tuple[list[QueuedPod], Matched]]:
        """Members that get the same answer, together, and what to ask about them."""
        alike: dict[Any, list[QueuedPod]] = {}
        own = entry.rejectors
        for member in entry.members.values():
            if member.rejectors:
                alike.setdefault((member.rejectors, member.info.kind), []).append(member)
        for rejectors, _ in alike:
            own -= rejectors
        if own:
            # Of the group itself, or of members elsewhere: any of them will do to ask about.
            alike[own, None] = [next(iter(entry.members.values()))]
        for (rejectors, _), members in alike.items():
            matched = self._to_ask(members[0].profile, rejectors, event)
            if matched is UNASKED or not matched.hints:
                continue
            if matched.by_kind:
                yield members, matched
            else:
                yield from (([member], matched) for member in members)
