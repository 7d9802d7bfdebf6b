"""Beside another scheduler: what would ours have decided, at the moment that one did?

`Shadow` takes what a live cluster shows, puts it in the order in which it happened, and asks a
`world.judging.Judge` about every pod just before it takes in that the pod has a node.  Nothing is
written anywhere.  `answers.differing` says why a decision differs, `answers.tally` counts.

The order.  Kinds are watched apart, so changes wait for `LAG_S` and are sorted by resource version.
Bindings are sent beside each other and may overtake: of those that wait together, a pod that came
to the queue first was decided first, unless an attempt at it had failed.  A scheduler that writes
claims or a nomination before it binds has decided when the first of these is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from stowplan.answers.differing import Followed, explain
from stowplan.answers.tally import Decided, Outcome, Tally
from stowplan.core.profiles import Registry
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Change, Deleted, Updated
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.plugins import IN_TREE
from stowplan.world.judging import Judge, Verdict, without_unknown
from stowplan.world.setup import Config, load_with_gates, make_setup

LAG_S = 1.0
"""How long a change waits for those that happened before it and come later."""

RECENT_MAX = 64
"""Changes that are remembered, to see whether another scheduler had not heard of them yet."""

_SELECTED_NODE = "volume.kubernetes.io/selected-node"

_Entry = tuple[int, int, float, Change]
"""Resource version, number, when it came."""


class Shadow:
    def __init__(
        self,
        judge: Judge,
        *,
        percentage: int = 0,
        lacking: Sequence[str] = (),
        on_decided: Callable[[Decided], None] | None = None,
    ) -> None:
        """`percentage` of nodes that the other scheduler scores (0: by their number), `lacking`:
        what it has and we do not."""
        self.tally = Tally()
        self._judge = judge
        self._percentage = percentage
        self._lacking = tuple(lacking)
        self._on_decided = on_decided
        self._waiting: list[_Entry] = []
        self._bindings: list[tuple[int, int, _Entry]] = []
        """Those among `_waiting` that bind a pod at its first attempt, by the queue's order."""
        self._in_order: set[int] = set()
        """The numbers of those."""
        self._came: dict[str, int] = {}
        """Pending pods by uid: the version with which they came to the queue."""
        self._early: dict[str, Verdict] = {}
        """Judged before the binding was seen, by uid."""
        self._ahead: dict[str, int] = {}
        """Pods by uid whose binding was taken in ahead of its turn: its version."""
        self._recent: deque[Followed] = deque(maxlen=RECENT_MAX)
        self._version = self._number = 0
        self._is_synced = False

    # -- in ---------------------------------------------------------------------------------

    def take(self, changes: Sequence[Change], now_s: float) -> None:
        """What the cluster shows; before `synced`, how it was when we came."""
        if not self._is_synced:
            for change in changes:
                self._note(_version(_object(change)), change)
            self._judge.take(changes, now_s)
            return
        for change in changes:
            self._number += 1
            # One without a version of its own, or an old one, has its place where it came.
            version = max(_version(_object(change)), self._version)
            entry = (version, self._number, now_s, change)
            heappush(self._waiting, entry)
            self._note(version, change)
            bound = _bound(change)
            if bound is not None and bound.uid in self._came and not _has_failed(change):
                key = -(bound.spec.priority or 0), self._came[bound.uid]
                heappush(self._bindings, (*key, entry))
                self._in_order.add(self._number)

    def synced(self) -> None:
        """From here on, what comes is what happens."""
        self._is_synced = True

    def tick(self, now_s: float) -> None:
        """Decide on what has waited long enough."""
        self._run(now_s - LAG_S)

    def finish(self) -> None:
        """Decide on everything that has come."""
        self._run(float("inf"))

    def _note(self, version: int, change: Change) -> None:
        """When pods came to the queue."""
        thing = _object(change)
        if not isinstance(thing, Pod):
            return
        if isinstance(change, Deleted):
            self._came.pop(thing.uid, None)
        elif not thing.spec.node_name and not thing.spec.scheduling_gates:
            self._came.setdefault(thing.uid, version)

    # -- in their order -----------------------------------------------------------------------

    def _run(self, until_s: float) -> None:
        waiting = self._waiting
        while waiting and waiting[0][2] <= until_s:
            entry = heappop(waiting)
            self._version = max(self._version, entry[0])
            if _bound(entry[3]) is not None:
                for earlier in self._decided_before(entry):
                    self._happened(earlier, ahead=True)
            self._happened(entry)

    def _decided_before(self, entry: _Entry) -> Iterator[_Entry]:
        """Bindings that wait, of pods that were first in the queue."""
        while entry[1] in self._in_order:
            *_, first = heappop(self._bindings)
            self._in_order.remove(first[1])
            if first is not entry:
                self._ahead[_object(first[3]).uid] = first[0]
                yield first

    def _happened(self, entry: _Entry, *, ahead: bool = False) -> None:
        version, _, now_s, change = entry
        thing = _object(change)
        if not ahead and thing.uid in self._ahead and not isinstance(change, Deleted):
            if version <= self._ahead[thing.uid]:
                # Its binding was taken in already; this came before that, or is that.
                return
            del self._ahead[thing.uid]
        bound = _bound(change)
        if bound is not None:
            self._decide(change, bound, now_s)
        else:
            self._look_for_traces(change)
        self._judge.take((change,), now_s)
        self._recent.append(Followed(change, now_s))
        if isinstance(change, Deleted):
            self._early.pop(thing.uid, None)
            self._ahead.pop(thing.uid, None)

    # -- decisions ----------------------------------------------------------------------------

    def _look_for_traces(self, change: Change) -> None:
        """A scheduler writes claims before it binds: then it has decided."""
        if not isinstance(change, Updated):
            return
        old, new = change.old, change.new
        if isinstance(new, Pod):
            nominated = new.status.nominated_node_name
            if nominated and not _nominated(old) and not _has_failed(change):
                self._decide_early([new], old)
        elif isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim):
            if old.status.allocation is None and new.status.allocation is not None:
                uids = {it.uid for it in new.status.reserved_for or ()}
                self._decide_early([it for it in self._judge.pending() if it.uid in uids])
        elif isinstance(new, PersistentVolumeClaim) and _annotation(new) and not _annotation(old):
            self._decide_early([it for it in self._judge.pending() if _uses(it, new)])

    def _decide_early(self, pods: Sequence[Pod], before: KubeObject | None = None) -> None:
        for pod in pods:
            if pod.uid not in self._early and self._judge.decides(pod):
                was = before if isinstance(before, Pod) else pod
                self._early[pod.uid] = self._judge.judge(was)

    def _decide(self, change: Change, bound: Pod, now_s: float) -> None:
        self._came.pop(bound.uid, None)
        if not isinstance(change, Updated) or not isinstance(change.old, Pod):
            return
        if not self._judge.decides(bound):
            self.tally.others += 1
            return
        node = bound.spec.node_name
        early = self._early.pop(bound.uid, None)
        verdict = early if early is not None else self._judge.judge(change.old, node)
        if node in verdict.best:
            outcome = Outcome.SAME if verdict.picked == node else Outcome.EQUAL
            decided = Decided(now_s, bound.key, node, outcome, verdict)
        else:
            reason = explain(
                self._judge,
                change.old,
                node,
                verdict,
                recent=() if early is not None else tuple(self._recent),
                coming=[Followed(it[3], it[2]) for it in sorted(self._waiting)[:RECENT_MAX]],
                percentage=self._percentage,
                lacking=self._lacking,
            )
            decided = Decided(now_s, bound.key, node, Outcome.DIFFERENT, verdict, reason)
        self.tally.add(decided)
        if self._on_decided is not None:
            self._on_decided(decided)


def _object(change: Change) -> KubeObject:
    return change.new if isinstance(change, Updated) else change.object


def _version(thing: KubeObject) -> int:
    version = thing.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def _bound(change: Change) -> Pod | None:
    """The pod that gets its node with this change."""
    if not isinstance(change, Updated):
        return None
    old, new = change.old, change.new
    if isinstance(new, Pod) and isinstance(old, Pod):
        return new if new.spec.node_name and not old.spec.node_name else None
    return None


def _has_failed(change: Change) -> bool:
    """Whether an attempt at the pod found no node; a binding sets the condition to True."""
    things = (change.old, change.new) if isinstance(change, Updated) else (change.object,)
    return any(
        condition.type == "PodScheduled" and condition.status == "False"
        for thing in things
        if isinstance(thing, Pod)
        for condition in thing.status.conditions or ()
    )


def _nominated(thing: KubeObject) -> str:
    return thing.status.nominated_node_name if isinstance(thing, Pod) else ""


def _annotation(thing: KubeObject) -> str:
    return (thing.metadata.annotations or {}).get(_SELECTED_NODE, "")


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    if pod.namespace != claim.namespace:
        return False
    for volume in pod.spec.volumes or ():
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == claim.name:
            return True
        if volume.ephemeral is not None and claim.name == f"{pod.name}-{volume.name}":
            return True
    return False


def make_shadow(
    config: Config = None,
    *,
    feature_gates: Mapping[str, bool] | None = None,
    seed: int = 0,
    registry: Registry = IN_TREE,
    on_decided: Callable[[Decided], None] | None = None,
) -> tuple[Shadow, tuple[str, ...]]:
    """One for a cluster whose scheduler has this configuration, and what of it is not here:
    plugins and extenders."""
    loaded = load_with_gates(config, feature_gates)
    known, lacking = without_unknown(loaded, registry)
    setup = make_setup(known, {"seed": seed, "detail": False}, registry=registry)
    lacking += tuple(f"extender {url}" for url in setup.extenders)
    made = Shadow(
        Judge(setup),
        percentage=loaded.percentage_of_nodes_to_score,
        lacking=lacking,
        on_decided=on_decided,
    )
    return made, lacking


__all__ = ["LAG_S", "Shadow", "make_shadow"]
